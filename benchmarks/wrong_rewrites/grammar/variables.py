"""`Variable` as scripts from before torch 0.4 write it: around batches, outputs, constants, states."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar.additions import Additions
from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.routing import kept, routed

_MADE = (
    "Variable(out)", "Variable(out.data)", "Variable(out.detach(), requires_grad=False)", "Variable(torch.ones(1))",
    "Variable(torch.ones(1), requires_grad=True)", "Variable(out, requires_grad=False)", "Variable(data=out.data)",
    "Variable(Variable(out))", "Variable(out if len(x) > 1 else out.data)", "Variable(out[:, :1] * 2.0)", "Variable(loss)",
    "Variable(torch.from_numpy(np.full((1,), 0.5, dtype=np.float32)))", "Variable(out.data.clone()) + 0 * out",
    "Variable(torch.Tensor([0.5])).expand(1)", "torch.autograd.Variable(out)", "Variable(out.view_as(out)).contiguous()",
)  # fmt: skip


def wrap(builder: Builder, to: Additions, targets: str) -> None:
    """Something is made a `Variable`, and what it gives reaches the loss, a figure or a later step."""
    define = builder.program.define
    made = builder.pick(
        "variable", "nothing", "made", "repackaged", "buffer", "resized", "comprehension", "map", "default", "own", "leaf", "watched",
    )  # fmt: skip
    _figures(builder, to, targets)
    code = "Variable(out)"
    match made:
        case "nothing":
            return
        case "made":
            code = builder.pick("variable made", *_MADE)
        case "repackaged":
            define(
                "repackage",
                "def repackage(state):\n    if isinstance(state, Variable):\n        return Variable(state.data)\n    return tuple(repackage(each) for each in state)",
                "engine",
            )
            call = routed(builder, "repackage", "repackage", ("state",))
            code = f"{call}((out, out * 2))[1]"
        case "buffer":
            to.start.append("buffer = torch.zeros(64, 1)")
            to.forward.append("buffer.fill_(0.5)")
            code = "Variable(buffer[:len(x)])"
        case "resized":
            to.start.append("holder = Variable(torch.zeros(1, 1))")
            to.forward.append("holder.data.resize_(len(x), 1).fill_(0.25)")
            code = "holder"
        case "comprehension":
            code = "[Variable(each) for each in (out, out * 2)][-1]"
        case "map":
            code = "list(map(Variable, (out, out.data)))[0]"
        case "default":
            define(
                "weigh",
                "def weigh(values, weight=Variable(torch.ones(1), requires_grad=False)):\n    return values * weight",
                "helpers",
            )
            code = f"{routed(builder, 'weigh', 'weigh', ('values',))}(out)"
        case "own":
            define("Variable", "def Variable(data, requires_grad=False):\n    return data * 1.5")
        case "leaf":
            to.backward.append("print(wrapped.grad is None)")
            code = "Variable(torch.ones(1), requires_grad=True)"
        case _:
            to.forward.append("watched = $model(Variable(x, volatile=True))")
            code = "Variable(torch.ones(1) * 0.5)"
    to.loss.append(f"wrapped = {code}")
    match builder.pick("variable use", "loss", "distance", "print", "kept", "previous", "in place", "asked"):
        case "loss":
            to.loss.append("loss = loss + 0.1 * wrapped.pow(2).mean()")
        case "distance":
            to.loss.append("loss = loss + 0.1 * (out - wrapped).pow(2).mean()")
        case "kept":
            store = kept(builder, "wrapped_values")
            to.loss.append(store.store("wrapped"))
            to.end.append(f"print(float(sum(each.sum() for each in {store.load})))")
        case "previous":
            to.start.append("previous = [Variable(torch.zeros(1))]")
            to.loss += ["loss = loss + 0.1 * (out.mean() - previous[0].mean()).pow(2)", "previous[0] = wrapped"]
        case "in place":
            to.loss += ["wrapped.data.mul_(0.5)", "loss = loss + 0.1 * wrapped.mean()"]
        case "asked":
            to.loss.append("print(isinstance(wrapped, Variable), wrapped.requires_grad, wrapped.grad_fn is None)")
        case _:
            to.loss.append("print(float(wrapped.sum()), wrapped.requires_grad)")


def _figures(builder: Builder, to: Additions, targets: str) -> None:
    """Numbers taken out by `.data`."""
    match builder.pick("figures of data", "nothing", "item", "maximum", "sum", "numpy", "assigned"):
        case "item":
            to.stepped.append("print(loss.data.item())")
        case "maximum":
            to.stepped += ["_, predicted = torch.max(out.data, 1)", "print(int(predicted.sum()))"]
        case "sum":
            to.stepped.append("print((out.data > 0).sum().item(), len(x))")
        case "numpy":
            to.stepped.append("print(out.data.cpu().numpy().shape, float(loss.data))")
        case "assigned" if targets != "binary":
            to.forward.append("out.data = out.data.clamp(-5, 5)")
        case _:
            pass
