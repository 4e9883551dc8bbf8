"""Things that real loops do besides training, each of which any loop may do as well."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.routing import kept, routed


@dataclass(slots=True)
class Additions:
    """Lines by their place in the loop of an epoch."""

    start: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    loss: list[str] = field(default_factory=list)
    backward: list[str] = field(default_factory=list)
    stepped: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)


def add(builder: Builder, to: Additions, targets: str) -> None:
    """All of them, if the program has them. In their places `x`, `y`, `out` and `loss` are known."""
    for key in ("1", "2"):
        leave(builder, to, key)
        whole_numbers(builder, to, key, targets)
        create(builder, to, key)
        arrays(builder, to, key)
    _evaluated(builder, to)
    _consistency(builder, to)
    _teacher(builder, to)
    _accumulate(builder, to)
    _looked_at(builder, to)
    _gradients(builder, to)


def leave(builder: Builder, to: Additions, key: str) -> None:
    """Numbers leave for NumPy or Python."""
    what = builder.pick(
        f"leaving.{key}", "nothing", "out", "out[:, 0]", "(out[:, 1] - out[:, 0])", "torch.softmax(out, 1)", "out.max(1)[0]", "out.mean(0)",
        "loss", "out.norm(dim=1)", "(out.sigmoid() * 2)", "torch.stack([out, out])", "F.relu(out)", "(out @ out.t())", "torch.exp(out)",
        "out.float()", "torch.cat([out, x.flatten(1).float()], 1)", "out.detach()", "out.clone().view(-1)", "out[0]", "(out > 0)", "out.exp().sum(1, keepdim=True)",
    )  # fmt: skip
    if what == "nothing":
        return
    how = builder.pick(
        f"exit.{key}",
        ".detach().cpu().numpy()",
        ".data.numpy()",
        ".cpu().data.numpy()",
        ".detach().numpy()",
        ".detach().cpu().tolist()",
        "array",
        ".detach().cpu().numpy().copy()",
        "later",
        "helper",
    )
    sink = builder.pick(f"sink.{key}", "list", "print", "dictionary", "sum", "keep", "helper", "format")
    value = f"np.asarray({what}.detach())" if how == "array" else f"{what}{how}"
    names = f"left_{key}"
    if how == "later":
        place = kept(builder, f"later_{key}")
        to.loss.append(place.store(f"{what}.detach()"))
        to.end.append(f"print([float(np.asarray(each.cpu().numpy()).sum()) for each in {place.load}][-2:])")
        return
    if how == "helper":
        builder.program.define("to_numpy", "def to_numpy(tensor):\n    return tensor.detach().cpu().numpy()")
        value = f"{routed(builder, 'to_numpy', 'to_numpy', ('tensor',))}({what})"
    match sink:
        case "print":
            to.loss.append(f"print(np.asarray({value}).dtype, float(np.asarray({value}).sum()))")
        case "dictionary":
            to.start.append(f"{names} = {{}}")
            to.loss += [f'{names}["last"] = {value}']
            to.end.append(f'print(float(np.sum({names}["last"])))')
        case "sum":
            to.start.append(f"{names} = [0.0]")
            to.loss.append(f"{names}[0] += float(np.sum({value}))")
            to.end.append(f"print({names})")
        case "keep":
            place = kept(builder, f"numbers_{key}")
            to.loss.append(place.store(value))
            to.end.append(f"print([float(np.sum(each)) for each in {place.load}][-2:])")
        case "helper":
            builder.program.define(
                "summary",
                "def summary(array):\n    array = np.asarray(array)\n    return array.shape, float(array.sum())",
            )
            to.loss.append(f"print({routed(builder, 'summary', 'summary', ('array',))}({value}))")
        case "format":
            to.loss.append(f'print("{{}}".format(np.sum({value})))')
        case _:
            to.start.append(f"{names} = []")
            to.loss.append(f"{names}.append({value})")
            to.end.append(f"print(len({names}), float(np.sum([np.sum(each) for each in {names}])))")


def whole_numbers(builder: Builder, to: Additions, key: str, targets: str) -> None:
    """Indices and counts."""
    what = builder.pick(
        f"index.{key}",
        "nothing",
        "out.argmax(1)",
        "out.max(1)[1]",
        "torch.max(out, 1)[1]",
        "out.topk(1)[1][:, 0]",
        "out.sort(1)[1][:, 0]",
        "torch.argmax(out.softmax(1), dim=1)",
        "torch.multinomial(out.detach().float().softmax(1).nan_to_num(1.0), 1)[:, 0]",
        "(out > 0).sum(1).clamp(max=2)",
        "unpacked",
        "out.round().long().clamp(0, 2)[:, 0]",
        "tags of helper",
    )
    if what == "nothing":
        return
    name = f"picked_{key}"
    if what == "unpacked":
        to.loss.append(f"_, {name} = torch.max(out.data, 1)")
    elif what == "tags of helper":
        builder.program.define("decide", "def decide(out):\n    return out.sum(), out.max(1)[1]")
        to.loss.append(f"score, {name} = {routed(builder, 'decide', 'decide', ('out',))}(out)")
    else:
        to.loss.append(f"{name} = {what}")
    use = builder.pick(
        f"indexed.{key}",
        "count",
        "table",
        "names",
        "bincount",
        "one hot",
        "embedding",
        "list",
        "confusion",
        "numpy index",
        "range",
        "slices",
    )
    match use:
        case "table":
            to.start.append(f"table_{key} = np.zeros(9)")
            to.loss.append(f"table_{key}[{name}.cpu().numpy()] += 1")
            to.end.append(f"print(table_{key})")
        case "names":
            to.loss.append(f'print([["a", "b", "c"][index] for index in {name}.tolist()])')
        case "bincount":
            to.loss.append(f"print(np.bincount({name}.cpu().numpy(), minlength=3))")
        case "one hot":
            to.loss.append(f"print(F.one_hot({name}, 3).sum(0).tolist())")
        case "embedding":
            to.loss.append(f"print(torch.eye(3)[{name}.cpu()].sum(0).tolist())")
        case "list":
            to.start.append(f"list_{key} = []")
            to.loss.append(f"list_{key}.extend({name}.cpu().numpy())")
            to.end.append(f"print(list_{key}, sum([10, 20, 30][index] for index in list_{key}))")
        case "confusion":
            to.start.append(f"confusion_{key} = torch.zeros(3, 3)")
            to.loss += [f"for guess in {name}.view(-1):", f"    confusion_{key}[guess.long(), guess] += 1"]
            to.end.append(f"print(confusion_{key}.tolist())")
        case "numpy index":
            to.loss.append(f"print(np.arange(3)[{name}.detach().cpu().numpy()].tolist())")
        case "range":
            to.loss.append(f"print([index for index in range({name}[0])])")
        case "slices":
            to.loss.append(f"print([1, 2, 3, 4][: {name}[0].item() + 1])")
        case _ if targets == "class":
            to.start.append(f"hits_{key} = [0, 0]")
            to.loss += [f"hits_{key}[0] += ({name} == y).sum().item()", f"hits_{key}[1] += y.size(0)"]
            to.end.append(f"print(hits_{key})")
        case _:
            to.loss.append(f"print({name}.sum().item())")


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


def _evaluated(builder: Builder, to: Additions) -> None:
    """An evaluation amid training, whose result may reach a loss."""
    where = builder.pick("probe", "nothing", "forward", "stepped", "end", "moved", "start")
    if where == "nothing":
        return
    how = builder.pick("probe how", "function", "inline", "no train", "method on", "wrapped")
    call = "$model(x)"
    form = builder.vector_of("output")
    value = {"tensor": "{}", "tuple": "{}[0]", "dictionary": '{}["out"]', "list": "{}[1]", "indices": "{}[0]"}[form]
    if where in ("end", "start"):
        call = "$model(make_arrays()[0])"
    argument = call[7:-1]
    lines: list[str]
    if how in ("function", "wrapped"):
        code = f"def probe(model, x):\n    model.eval()\n    found = {value.format('model(x)')}\n    model.train()\n    return found"
        if how == "wrapped":
            code = f"def probe(model, x):\n    model.eval()\n    try:\n        return {value.format('model(x)')}\n    finally:\n        model.train()"
        builder.program.define("probe", code, "helpers")
        lines = [f"probed = {routed(builder, 'probe', 'probe', ('model', 'x'))}($model, {argument})"]
    else:
        lines = ["$model.eval()", f"probed = {value.format(call)}"]
        if how != "no train":
            lines.append("$model.train()")
    place = getattr(to, where)
    place += lines
    uses = builder.pick("probe use", "print", "loss", "detached", "kept", "own backward", "kept detached", "next epoch")
    later = to.loss if where in ("forward", "moved", "start") else place
    match uses:
        case "loss" if where in ("forward", "moved"):
            later.append("loss = loss + 0.1 * probed.pow(2).mean()")
        case "detached" if where in ("forward", "moved"):
            later.append("loss = loss + 0.1 * (out - probed.detach()).pow(2).mean()")
        case "kept" if where in ("forward", "moved"):
            store = kept(builder, "probes")
            place.append(store.store("probed"))
            later.append(f"loss = loss + 0.1 * {store.load}[-1].pow(2).mean()")
        case "kept detached":
            store = kept(builder, "probes")
            place.append(store.store("probed.detach()"))
            to.end.append(f"print(float(sum(each.sum() for each in {store.load})))")
        case "own backward" if where in ("stepped", "end", "start"):
            place += ["$optimizer.zero_grad()", "probed.pow(2).mean().backward()", "$optimizer.step()"]
        case "next epoch" if where in ("end", "stepped"):
            store = kept(builder, "probes")
            place.append(store.store("probed"))
            place += [
                f"extra = {store.load}[-1].pow(2).mean()",
                "$optimizer.zero_grad()",
                "extra.backward()",
                "$optimizer.step()",
            ]
        case _:
            place.append("print(float(probed.sum()), probed.shape)")


def _consistency(builder: Builder, to: Additions) -> None:
    """Outputs of earlier steps are part of later losses."""
    match builder.pick("memory", "nothing", "previous", "features", "average", "hook", "penalty"):
        case "previous":
            store = kept(builder, "earlier")
            to.loss.append(f"if {store.load}:\n    loss = loss + 0.1 * (out.mean() - {store.load}[-1]).pow(2)")
            to.loss.append(store.store("out.mean().detach()"))
        case "features" if builder.vector_of("remember features") == "yes":
            to.loss.append('loss = loss + 0.01 * getattr($model, "module", $model).features.pow(2).mean()')
        case "average":
            to.start.append("average = [torch.zeros(()).to($device)]")
            to.loss += [
                "average[0] = 0.9 * average[0] + 0.1 * out.detach().mean()",
                "loss = loss + (out.mean() - average[0]).pow(2)",
            ]
            to.end.append("print(float(average[0]))")
        case "hook":
            store = kept(builder, "hooked")
            builder.setup["hook"] = (
                f"def on_forward(module, given, result):\n    {store.store('result')}\n\n\ngetattr($model, 'module', $model).head.register_forward_hook(on_forward)"
            )
            to.loss.append(f"loss = loss + 0.01 * {store.load}[-1].pow(2).mean()")
        case "penalty":
            builder.program.define(
                "penalty",
                "def penalty(model):\n    total = torch.zeros(1)\n    for parameter in model.parameters():\n        total = total + parameter.norm()\n    return total.sum()",
            )
            to.loss.append(f"loss = loss + 0.001 * {routed(builder, 'penalty', 'penalty', ('model',))}($model)")
        case _:
            pass


def _teacher(builder: Builder, to: Additions) -> None:
    """A second network that is learned from, or that follows."""
    sort = builder.pick("teacher", "nothing", "frozen", "detached", "no grad", "mean", "learned", "input gradient")
    if sort == "nothing":
        return
    form = builder.vector_of("output")
    value = {"tensor": "{}", "tuple": "{}[0]", "dictionary": '{}["out"]', "list": "{}[1]", "indices": "{}[0]"}[
        form
    ].format("$teacher(x)")
    builder.setup["teacher"] = "copy.deepcopy($model)"
    if sort in ("frozen", "mean"):
        builder.setup["teacher ready"] = (
            "$teacher.eval()\nfor parameter in $teacher.parameters():\n    parameter.requires_grad_(False)"
        )
    elif builder.has("teacher in eval"):
        builder.setup["teacher ready"] = "$teacher.eval()"
    if builder.has("asked for by a function"):
        builder.program.define(
            "ask", f"def ask(teacher, x):\n    teacher.eval()\n    return {value.replace('$', '')}", "engine"
        )
        value = f"{routed(builder, 'ask', 'ask', ('teacher', 'x'))}($teacher, x)"
    detach = ".detach()" if sort == "detached" else ""
    lines = [f"wanted = {value}{detach}"]
    if sort == "no grad":
        lines = ["with torch.no_grad():", f"    wanted = {value}"]
    to.forward += lines
    if sort == "learned":
        builder.setup["optimizer"] = "optim.SGD([*$model.parameters(), *$teacher.parameters()], lr=0.1)"
    to.loss.append("loss = loss + 0.5 * F.mse_loss(out, wanted)")
    if sort == "mean":
        to.stepped += [
            "for ours, theirs in zip($teacher.parameters(), $model.parameters()):",
            "    ours.data.mul_(0.9).add_(theirs.data, alpha=0.1)",
        ]


def _accumulate(builder: Builder, to: Additions) -> None:
    """Running figures."""
    figures = ("print", "none", "item", "tensor", "list", "keep", "meter", "detached", "sum", "window", "scaled")
    match builder.pick("running figures", *figures):
        case "none":
            pass
        case "item":
            to.start.append("running = [0.0]")
            to.stepped.append("running[0] += loss.item()")
            to.end.append("print(running[0])")
        case "sum":
            to.start.append("running, updates = 0, 0")
            to.stepped += ["running += loss.item()", "updates += 1"]
            to.end += ["print(running / max(updates, 1), f'{running:.3f}')", "figures = [running, round(running, 3)]"]
            to.end += ["running /= max(updates, 1)", "print(figures, type(figures[0]), running)"]
        case "window":
            to.start.append("running, updates = 0.0, 0")
            to.stepped += ["running += loss.detach().item()", "running += 1", "updates += 1", "if updates % 2 == 0:"]
            to.stepped += ["    print('%d %s' % (updates, running), running > 1)", "    running = 0.0"]
            to.end.append("print([running], -running, type(running))")
        case "scaled":
            to.start.append("running, ones = 0.0, 0")
            to.stepped += ["running += loss.item() * len(x)", "ones += (loss > 1).item()", "loss.data.zero_()"]
            to.end += ["best = running if ones else None", "print(running, ones, best, {'ones': ones})"]
        case "tensor":
            to.start.append("running = [0]")
            to.stepped.append("running[0] = running[0] + loss.detach()")
            to.end.append("print(float(running[0]))")
        case "detached":
            to.start.append("running = []")
            to.stepped.append("running.append(loss.detach())")
            to.end.append("print(torch.stack(running).mean().item())")
        case "list":
            to.start.append("running = []")
            to.stepped.append("running.append(loss.item())")
            to.end.append("print(sum(running) / len(running), np.mean(running))")
        case "keep":
            store = kept(builder, "losses")
            to.stepped.append(store.store("loss.item()"))
            to.end.append(f"print(sum({store.load}))")
        case "meter":
            builder.program.define(
                "Meter",
                "class Meter:\n    def __init__(self):\n        self.total, self.count = 0.0, 0\n\n    def update(self, value, count=1):\n        self.total += value * count\n        self.count += count",
            )
            to.start.append("meter = Meter()")
            to.stepped.append("meter.update(loss.item(), x.size(0))")
            to.end.append("print(meter.total / max(meter.count, 1))")
        case _:
            to.stepped.append("print(loss.item())")


def _looked_at(builder: Builder, to: Additions) -> None:
    """Data that the loop changes."""
    sampler = builder.features.vector.get("sampler")
    dataset = builder.features.vector.get("dataset")
    if sampler == "updated":  # not by digits of the loss: lower precision would draw other samples
        update = builder.pick("sampler update", "step", "epoch", "helper", "alias")
        if update == "epoch":
            to.end.append("$loader.sampler.update(1, 0.5)")
        elif update == "helper":
            builder.program.define(
                "reweigh", "def reweigh(sampler, loss):\n    sampler.update(3 + int(loss > 0), float(loss))"
            )
            to.stepped.append(
                f"{routed(builder, 'reweigh', 'reweigh', ('sampler', 'loss'))}($loader.sampler, loss.item())"
            )
        else:
            to.stepped.append("$loader.sampler.update(3 + int(loss.item() > 0), loss.item())")
    if dataset == "mutable":
        if builder.pick("dataset update", "step", "epoch") == "step":
            to.stepped.append("$loader.dataset.scale *= 0.9")
        else:
            to.end.append("$loader.dataset.scale *= 0.9")
    if dataset == "shared list":
        to.end.append("print(len(SEEN), SEEN[-3:])")
    if dataset == "counting":
        to.end.append("print($loader.dataset.count)")


def _gradients(builder: Builder, to: Additions) -> None:
    """Code that sees gradients on their way."""
    where = builder.pick("gradient hook", "nothing", "tensor", "parameters", "module", "function", "watcher")
    if where == "nothing":
        return
    define = builder.program.define
    look = {
        "norm": "print(round(float(gradient.norm()), 2))",
        "numpy": "print(gradient.detach().cpu().numpy().shape)",
        "clamp": "return gradient.clamp(-0.1, 0.1)",
        "dtype": "print(gradient.dtype)",
        "kept": "GRADIENTS.append(gradient.clone())",
    }
    how = builder.pick("gradient seen", *look)
    if how == "kept":
        define("GRADIENTS", "GRADIENTS = []", "data")
        to.end.append("print(float(sum(each.sum() for each in GRADIENTS)))")
    define("look_at", f"def look_at(gradient):\n    {look[how]}")
    called = routed(builder, "look_at", "look_at", ("gradient",))
    match where:
        case "tensor":
            to.loss.append(f"if out.requires_grad:\n    out.register_hook({called})")
        case "parameters":
            builder.setup["gradient hook"] = (
                f"for parameter in $model.parameters():\n    if parameter.requires_grad:\n        parameter.register_hook({called})"
            )
        case "module":
            define("look_back", f"def look_back(module, given, result):\n    {called}(result[0])")
            builder.setup["gradient hook"] = (
                'getattr($model, "module", $model).head.register_full_backward_hook(look_back)'
            )
        case "function":
            code = f"""
class Watched(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        seen = {called}(gradient)
        return gradient if seen is None else seen
"""
            define("Watched", code, "model")
            to.forward.append("out = Watched.apply(out)")
        case _:
            code = f"def watch(model):\n    for parameter in list(model.parameters())[-1:]:\n        parameter.register_hook({called})"
            define("watch", code, "engine")
            builder.setup["gradient hook"] = f"{routed(builder, 'watch', 'watch', ('model',))}($model)"
