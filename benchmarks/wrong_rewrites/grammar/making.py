"""Tensors and arrays that a loop makes."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar.additions import Additions
from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.routing import kept, routed


def create(builder: Builder, to: Additions, key: str) -> None:
    """Tensors are made and moved."""
    what = builder.pick(
        f"made.{key}", "nothing", "torch.zeros(x.size(0), 1).to($device)", "torch.ones(len(x), 1).to($device)", "torch.full((x.size(0), 1), 0.5).to($device)",
        "torch.zeros(1, requires_grad=True).to($device)", "torch.arange(x.size(0)).to($device).float().unsqueeze(1)", "torch.randn(x.size(0), 1).to($device)",
        "torch.tensor([0.1, 0.2, 0.3]).to($device)", "torch.zeros(x.size(0), 1).to($device, torch.float64).float()", "torch.full((1,), 1 / 3).double().to($device).float()",
        "torch.ones_like(out).to($device)", "torch.eye(3).to($device)[0]", "Variable(torch.ones(x.size(0), 1)).to($device)", "torch.FloatTensor([0.5]).to($device)",
        "torch.zeros(x.size(0), 1).requires_grad_().to($device)", "torch.tensor(0.25).to(out.device)", "torch.zeros(1).to(out)", "torch.zeros(x.size(0), 1).type_as(out)",
        "torch.Tensor(np.full((1,), 0.5)).to($device)", "torch.linspace(0, 1, 3).to($device)", "torch.rand(x.size(0), 1).cuda() if torch.cuda.is_available() else torch.rand(x.size(0), 1)",
        "alias", "two statements", "in a list", "in a function", "default argument", "scatter", "in place",
    )  # fmt: skip
    name = f"made_{key}"
    match what:
        case "nothing":
            return
        case "alias":
            to.forward += [
                f"{name}_host = torch.zeros(x.size(0), 1)",
                f"{name} = {name}_host.to($device)",
                f"{name}_host += 1",
            ]
        case "two statements":
            to.forward += [f"{name} = torch.ones(x.size(0), 1)", f"{name} = {name}.to($device)"]
        case "in a list":
            to.forward.append(f"{name} = torch.cat([torch.full((1,), float(index)).to($device) for index in range(3)])")
        case "in a function":
            builder.program.define(
                "label", "def label(size, device, value=1.0):\n    return torch.full((size, 1), value).to(device)"
            )
            to.forward.append(f"{name} = {routed(builder, 'label', 'label', ('size', 'device'))}(x.size(0), $device)")
        case "default argument":
            builder.program.define(
                "offset",
                "def offset(size, start=torch.zeros(1).to(torch.device('cpu'))):\n    start += 0.1\n    return start.expand(size, 1).clone()",
            )
            to.forward.append(f"{name} = offset(x.size(0))")
        case "scatter":
            to.forward.append(
                f"{name} = torch.zeros(x.size(0), 3).to($device).scatter_(1, out.argmax(1, keepdim=True), 1.0)"
            )
        case "in place":
            to.forward += [
                f"{name} = torch.zeros(x.size(0), 3).to($device)",
                f"{name}.add_(1).mul_(2)",
                f"{name}[0] = 3",
            ]
        case _:
            to.forward.append(f"{name} = {what}")
    _into(builder, to, key, name, "made use")


def arrays(builder: Builder, to: Additions, key: str) -> None:
    """NumPy's arrays become tensors."""
    define = builder.program.define
    what = builder.pick(
        f"array.{key}",
        "nothing",
        "fresh",
        "named",
        "buffer",
        "function",
        "list of arrays",
        "list of rows",
        "loaded",
        "view",
        "mutated list",
        "object",
        "scalars",
        "double",
        "returned buffer",
        "kept array",
        "mixed rows",
        "whole rows",
    )
    name = f"array_{key}"
    match what:
        case "nothing":
            return
        case "fresh":
            to.forward.append(
                f"{name} = torch.tensor(np.stack([np.ones(3, dtype=np.float32), np.zeros(3, dtype=np.float32)])).mean(0)"
            )
        case "named":
            to.forward += [
                f"source_{key} = np.full((1, 3), 0.5, dtype=np.float32)",
                f"{name} = torch.tensor(source_{key})",
                f"source_{key} *= 2",
            ]
        case "buffer":
            to.start.append(f"source_{key} = np.zeros((1, 3), dtype=np.float32)")
            to.forward += [f"source_{key} += 0.5", f"{name} = torch.tensor(source_{key})"]
            place = kept(builder, f"arrays_{key}")
            to.forward.append(place.store(name))
            to.end.append(f"print(float({place.load}[0].sum()))")
        case "function":
            define("make_array", "def make_array(size):\n    return np.ones((1, size), dtype=np.float32) * 0.5")
            to.forward.append(f"{name} = torch.tensor({routed(builder, 'make_array', 'make_array', ('size',))}(3))")
        case "returned buffer":
            define(
                "shared_array",
                "SHARED_ARRAY = np.zeros((1, 3), dtype=np.float32)\n\n\ndef shared_array(step):\n    SHARED_ARRAY[:] += 0.25\n    return SHARED_ARRAY",
                "pinned",
            )
            place = kept(builder, f"arrays_{key}")
            to.forward += [
                f"{name} = torch.tensor({routed(builder, 'shared_array', 'shared_array', ('step',))}(1))",
                place.store(name),
            ]
            to.end.append(f"print(float({place.load}[0].sum()))")
        case "list of arrays":
            to.forward.append(
                f"{name} = torch.tensor([np.ones(3, dtype=np.float32) * index for index in range(2)]).mean(0)"
            )
        case "list of rows":
            to.forward += [
                f"rows_{key} = []",
                "for index in range(3):",
                f"    rows_{key}.append(np.full(3, index / 2))",
                f"{name} = torch.tensor(rows_{key}, dtype=torch.float32).mean(0)",
            ]
        case "mutated list":
            to.forward += [
                f"row_{key} = np.zeros(3, dtype=np.float32)",
                f"rows_{key} = [row_{key}, row_{key}]",
                f"{name} = torch.tensor(rows_{key})",
                f"row_{key} += 1",
                f"{name} = {name}.mean(0)",
            ]
        case "view":
            to.forward += [
                f"source_{key} = np.ones((2, 3), dtype=np.float32)",
                f"{name} = torch.tensor(source_{key}[0])",
                f"{name} += 1",
                f"print(source_{key}.sum())",
            ]
        case "object":
            to.forward.append(f"{name} = torch.tensor([[np.float64(0.1), 0.2, 0.3]]).float()")
        case "scalars":
            to.forward.append(f"{name} = torch.tensor([np.float32(index) for index in range(3)])")
        case "double":
            to.forward.append(f"{name} = torch.tensor(np.full((1, 3), 1 / 3)).float()")
        case "mixed rows":
            rows = "[np.full(3, 1 / 3), np.full(3, 1 / 3, dtype=np.float32)]"
            to.forward.append(f"{name} = torch.tensor({rows}).mean(0).float()")
        case "whole rows":
            to.forward.append(f"{name} = torch.tensor([np.arange(3), np.ones(3)]).double().mean(0).float()")
        case "kept array":
            to.start.append(f"source_{key} = np.ones((1, 3), dtype=np.float32)")
            to.forward += [
                f"{name} = torch.tensor(source_{key}.copy())",
                f"{name}.mul_(0.5)",
                f"source_{key} += float({name}.sum())",
            ]
        case _:
            to.forward.append(f"{name} = torch.tensor(np.array([[0.1, 0.2, 0.3]], dtype=np.float32))")
    _into(builder, to, key, name, "array use")


def _into(builder: Builder, to: Additions, key: str, name: str, dimension: str) -> None:
    """What becomes of a tensor that was made: printed, or part of the loss."""
    match builder.pick(f"{dimension}.{key}", "loss", "print", "out", "kept"):
        case "print":
            to.loss.append(f"print({name}.requires_grad, float({name}.sum()))")
        case "out":
            added = f"out + 0.1 * {name}.mean()"
            # A binary cross-entropy refuses what is no probability, in the original as well.
            likely = builder.features.vector.get("sigmoid") == "yes"
            to.forward.append(f"out = ({added}).clamp(0, 1)" if likely else f"out = {added}")
        case "kept":
            place = kept(builder, f"{dimension.split()[0]}_{key}")
            to.forward.append(place.store(name))
            to.loss.append(f"loss = loss + 0.01 * {place.load}[-1].float().mean()")
        case _:
            to.loss.append(f"loss = loss + 0.01 * (out.float() - {name}).pow(2).mean()")
