"""Things that real loops do besides training, each of which any loop may do as well."""

from __future__ import annotations

from benchmarks.wrong_rewrites.grammar.additions import Additions
from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.leaving import into_buffers, leave, whole_numbers
from benchmarks.wrong_rewrites.grammar.making import arrays, create
from benchmarks.wrong_rewrites.grammar.routing import kept, routed
from benchmarks.wrong_rewrites.grammar.variables import wrap


def add(builder: Builder, to: Additions, targets: str) -> None:
    """All of them, if the program has them. In their places `x`, `y`, `out` and `loss` are known."""
    for key in ("1", "2"):
        leave(builder, to, key)
        whole_numbers(builder, to, key, targets)
        into_buffers(builder, to, key)
        create(builder, to, key)
        arrays(builder, to, key)
    _evaluated(builder, to)
    _consistency(builder, to)
    _teacher(builder, to)
    _accumulate(builder, to)
    _looked_at(builder, to)
    _gradients(builder, to)
    wrap(builder, to, targets)


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
        match builder.pick("dataset update", "step", "epoch", "part", "object", "names"):
            case "epoch":
                to.end.append("$loader.dataset.scale *= 0.9")
            case "part":
                builder.program.define(
                    "fade", "def fade(data):\n    options = data.options\n    options['scale'] *= 0.9"
                )
                to.stepped.append(f"{routed(builder, 'fade', 'fade', ('data',))}($loader.dataset)")
            case "object":
                to.stepped.append("object.__setattr__($loader.dataset, 'scale', $loader.dataset.scale * 0.9)")
            case "names":
                to.stepped.append("vars($loader.dataset).update(scale=$loader.dataset.scale * 0.9)")
            case _:
                to.stepped.append("$loader.dataset.scale *= 0.9")
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
