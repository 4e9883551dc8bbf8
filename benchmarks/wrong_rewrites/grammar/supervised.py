"""Training over a loader: classification, regression and their like."""

from __future__ import annotations

import re

from benchmarks.wrong_rewrites.grammar import data, evaluation, gadgets, models
from benchmarks.wrong_rewrites.grammar.additions import Additions
from benchmarks.wrong_rewrites.grammar.building import SHARED, Builder, assigned, read, read_first
from benchmarks.wrong_rewrites.grammar.objectives import loss_lines, write_optimizer
from benchmarks.wrong_rewrites.grammar.routing import kept, routed
from benchmarks.wrong_rewrites.programs import indent

EPOCHS = 2


def build(builder: Builder) -> None:
    """Put the program together."""
    pick = builder.pick
    inputs = pick("inputs", *data.INPUTS)
    targets = pick("targets", *data.TARGETS)
    builder.home = pick("home", "flat", "main", "function", "globals", "class")
    if pick("device", "device", "string", "default") == "string":
        builder.setup["device"] = '"cuda" if torch.cuda.is_available() else "cpu"'
    else:
        builder.setup["device"] = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    form = models.build(builder, inputs, 1 if targets == "binary" else 3)
    builder.setup["model"] = models.made(builder)
    _wrapped(builder)
    data.build(builder, inputs, targets)
    write_optimizer(builder)
    loop = data.loop(builder, "train", inputs)
    additions = Additions()
    gadgets.add(builder, additions, targets)

    call = routed_forward(builder)
    forward = [*additions.moved, *models.unpacked(form, call), *additions.forward]
    loss = [*loss_lines(builder, targets), *additions.loss]
    forward, loss, ending = _own_amp(builder, forward, loss, _step(builder, additions))
    phases = pick("phases", "no", "set_grad_enabled", "plain", "no_grad")
    if phases == "no":
        body = "\n".join(_extracted(builder, loop, forward, loss, ending) + loop.after)
        train = "\n".join([*loop.before, *additions.start, "$model.train()", loop.header, indent(body), *additions.end])
    else:
        train = "\n".join([*additions.start, _phases(phases, loop, forward, loss, ending), *additions.end])
    if pick("scheduler", "none", "epoch", "batch", "lambda") in ("epoch", "lambda"):
        train += "\n$scheduler.step()"
    evaluate = evaluation.build(builder, inputs, targets, form)
    _finish(builder, train, evaluate)


def _wrapped(builder: Builder) -> None:
    """What becomes of the network before it is trained."""
    wrapped = builder.pick(
        "model wrapped",
        "no",
        "data parallel",
        "half",
        "frozen",
        "new weights",
        "data parallel early",
        "new weights late",
    )
    match wrapped:
        case "data parallel":
            builder.setup["model"] = f"nn.DataParallel({builder.setup['model']})"
        case "data parallel early":
            builder.setup["model"] = "nn.DataParallel(Net()).to($device)"
        case "half":
            builder.program.define("HALF", "HALF = False")
            builder.setup["model ready"] = "if HALF:\n    $model.half()"
        case "frozen":
            builder.setup["model ready"] = (
                "for parameter in list($model.parameters())[:1]:\n    parameter.requires_grad = False"
            )
        case "new weights" | "new weights late":
            when = "model late" if "late" in wrapped else "model ready"
            builder.setup[when] = "$model.head.bias = nn.Parameter($model.head.bias.detach() * 0.5)"
        case _:
            pass


def _phases(phases: str, loop: data.Loop, forward: list[str], loss: list[str], ending: list[str]) -> str:
    """One loop for training and validation."""
    computed = "\n".join([*forward, *loss])
    if phases == "set_grad_enabled":
        computed = f'with torch.set_grad_enabled(phase == "train"):\n{indent(computed)}'
    elif phases == "no_grad":
        computed = f"if phase == 'val':\n    with torch.no_grad():\n{indent(computed, 2)}\nelse:\n{indent(computed)}"
    step = indent("\n".join(ending))
    body = "\n".join([*loop.unpack, *loop.moves, computed, f'if phase == "train":\n{step}', *loop.after])
    mode = 'if phase == "train":\n    $model.train()\nelse:\n    $model.eval()'
    inside = "\n".join([mode, *loop.before, loop.header, indent(body)])
    return f'for phase in ("train", "val"):\n{indent(inside)}'


def _own_amp(
    builder: Builder, forward: list[str], loss: list[str], ending: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Mixed precision that the program has already, in an old spelling or in today's."""
    cuda = "enabled=torch.cuda.is_available()"
    old, new = f"torch.cuda.amp.GradScaler({cuda})", f'torch.amp.GradScaler("cuda", {cuda})'
    spellings = {
        "old": (f"torch.cuda.amp.autocast({cuda})", old),
        "old names": (f"autocast({cuda})", f"GradScaler({cuda})"),
        "switch": (f"torch.cuda.amp.autocast({cuda})", f"{new} if NEW else {old}"),
        "today": (f'torch.autocast("cuda", {cuda})', new),
        "only autocast": (f"torch.cuda.amp.autocast({cuda})", ""),
        "bfloat16": (f'torch.amp.autocast("cuda", dtype=torch.bfloat16, {cuda})', ""),
    }
    spelling = builder.pick("own amp", "no", *spellings)
    if spelling == "no":
        return forward, loss, ending
    region, scaler = spellings[spelling]
    if spelling == "old names":
        for name in ("autocast", "GradScaler"):
            builder.program.define(name, f"from torch.cuda.amp import {name}", "pinned")
    if spelling == "switch":
        builder.program.define("NEW", 'NEW = hasattr(torch.amp, "GradScaler")')
    inside = "\n".join([*forward, *loss])
    text = "\n".join(ending)
    if scaler and "loss.backward()" in text:
        builder.setup["scaler"] = scaler
        text = text.replace("loss.backward()", "$scaler.scale(loss).backward()")
        text = re.sub(
            r"^( *)\$optimizer\.step\(\)$", r"\1$scaler.step($optimizer)\n\1$scaler.update()", text, flags=re.MULTILINE
        )
    return [f"with {region}:\n{indent(inside)}"], [], [text]


def routed_forward(builder: Builder) -> str:
    """The call of the network."""
    match builder.pick("forward", "call", "helper", "helper eval", "forward method", "partial"):
        case "helper":
            builder.program.define("run_model", "def run_model(model, x):\n    return model(x)", "engine")
            return f"{routed(builder, 'run_model', 'run_model', ('model', 'x'))}($model, x)"
        case "helper eval":
            # a function that looks like evaluation and is used for a loss
            builder.program.define("predict", "def predict(model, x):\n    model.eval()\n    return model(x)", "engine")
            return f"{routed(builder, 'predict', 'predict', ('model', 'x'))}($model, x)"
        case "forward method":
            return "$model.forward(x)"
        case "partial":
            return "functools.partial($model)(x)"
        case _:
            return "$model(x)"


def _step(builder: Builder, additions: Additions) -> list[str]:
    """From the backward pass to the end of the step."""
    pick = builder.pick
    clip = {
        "none": [],
        "norm": ["nn.utils.clip_grad_norm_($model.parameters(), 0.5)"],
        "value": ["torch.nn.utils.clip_grad_value_($model.parameters(), 0.1)"],
        "by hand": [
            "for parameter in $model.parameters():",
            "    if parameter.grad is not None:",
            "        parameter.grad.data.clamp_(-0.1, 0.1)",
        ],
        "looked at": [
            "print(sum(float(parameter.grad.norm()) for parameter in $model.parameters() if parameter.grad is not None))"
        ],
    }[pick("clip", "none", "norm", "value", "by hand", "looked at")]
    style = pick(
        "step",
        "plain",
        "after",
        "model zero",
        "accumulate",
        "nan check",
        "retain",
        "none grad",
        "sum of losses",
        "epoch loss",
    )
    backward = ["loss.backward()"]
    step = ["$optimizer.step()"]
    if builder.vector_of("scheduler") == "batch":
        step.append("$scheduler.step()")
    match style:
        case "after":
            lines = [*backward, *additions.backward, *clip, *step, "$optimizer.zero_grad()"]
        case "model zero":
            lines = ["$model.zero_grad()", *backward, *additions.backward, *clip, *step]
        case "none grad":
            lines = ["$optimizer.zero_grad(set_to_none=True)", *backward, *additions.backward, *clip, *step]
        case "accumulate":
            additions.start.append("count = [0]")
            inner = "\n".join([*clip, *step, "$optimizer.zero_grad()"])
            lines = [
                "(loss / 2).backward()",
                *additions.backward,
                "count[0] += 1",
                "if count[0] % 2 == 0:",
                indent(inner),
            ]
        case "nan check":
            lines = [
                "if not torch.isnan(loss):",
                indent("\n".join(["$optimizer.zero_grad()", *backward, *additions.backward, *clip, *step])),
            ]
        case "retain":
            lines = [
                "$optimizer.zero_grad()",
                "loss.backward(retain_graph=True)",
                "(0.1 * out.pow(2).mean()).backward()",
                *additions.backward,
                *clip,
                *step,
            ]
        case "sum of losses":
            lines = [
                "$optimizer.zero_grad()",
                "losses = [loss, 0.1 * out.abs().mean()]",
                "sum(losses).backward()",
                *additions.backward,
                *clip,
                *step,
            ]
        case "epoch loss":
            place = kept(builder, "step_losses")
            lines = [place.store("loss")]
            additions.end += [
                f"whole = torch.stack({place.load}[-3:]).mean()",
                "$optimizer.zero_grad()",
                "whole.backward()",
                *clip,
                *step,
            ]
        case _:
            lines = ["$optimizer.zero_grad()", *backward, *additions.backward, *clip, *step]
    return [*lines, *additions.stepped]


def _extracted(builder: Builder, loop: data.Loop, forward: list[str], loss: list[str], ending: list[str]) -> list[str]:
    """The body of the loop, parts of which may live in functions of their own."""
    style = builder.pick("extract", "nothing", "loss", "step", "forward", "moves and loss", "all")
    head = "\n".join(loop.unpack)
    moves, before, rest = "\n".join(loop.moves), "\n".join([*forward, *loss]), "\n".join(ending)
    everything = "\n".join(each for each in (head, moves, before, rest) if each)
    scope = (
        assigned(everything)
        | {"running", "average", "count"}
        | {f"{name}_{key}" for name in ("left", "table", "list", "confusion", "hits", "source") for key in "12"}
        | {"meter", "batch", "x", "y", "index"}
    )

    def outputs(code: str, after: str) -> tuple[str, ...]:
        return tuple(sorted((assigned(code) & read_first(after)) - set(SHARED))) if after else ()

    lines = [head]
    match style:
        case "loss":
            lines += [
                moves,
                builder.extract("compute_loss", before, scope, outputs(before, rest) or ("loss",), "engine"),
                rest,
            ]
        case "forward":
            first = "\n".join(forward)
            after = "\n".join([*loss, *ending])
            lines += [moves, builder.extract("run_forward", first, scope, outputs(first, after), "engine"), after]
        case "moves and loss":
            both = "\n".join(each for each in (moves, before) if each)
            lines += [builder.extract("batch_loss", both, scope, outputs(both, rest) or ("loss",), "engine"), rest]
        case "step":
            whole = f"{before}\n{rest}"
            lines += [
                moves,
                builder.extract("train_step", whole, scope, ("loss",) if "loss" in read(rest) else (), "engine"),
            ]
        case "all":
            whole = "\n".join(each for each in (moves, before, rest) if each)
            lines += [builder.extract("train_batch", whole, scope, ("loss",) if "loss" in read(rest) else (), "engine")]
        case _:
            lines += [moves, before, rest]
    return [each for each in lines if each]


def _finish(builder: Builder, train: str, evaluate: str) -> None:
    """Setup, epochs, the end."""
    program = builder.program
    setup = [f"{name} = {builder.setup[name]}" for name in SHARED if name in builder.setup]
    at = next(index for index, each in enumerate(setup) if each.startswith("model = "))
    if builder.vector_of("model move") == "cuda":
        setup[at] += "\nif torch.cuda.is_available():\n    model.cuda()"
    if "model ready" in builder.setup:
        setup[at] += "\n" + builder.setup["model ready"]
    setup += [
        builder.setup[name]
        for name in ("model late", "teacher ready", "hook", "gradient hook")
        if name in builder.setup
    ]
    made = "\n".join(setup).replace("$", "")
    seed = "torch.manual_seed(0)"
    ending = "print(sum(float(parameter.detach().double().sum()) for parameter in model.parameters()))"
    epochs = f"for epoch in range({EPOCHS}):"
    plain_evaluate = builder.spelled(evaluate, inside=False)
    match builder.home:
        case "main":
            body = "\n".join([seed, made, epochs, indent("\n".join([builder.spelled(train), plain_evaluate])), ending])
            program.define("main", f"def main():\n{indent(body)}", "pinned")
            program.do("main()")
        case "function":
            call = builder.extract("train_epoch", train, frozenset(), (), "engine")
            program.do(
                "\n".join([seed, made, epochs, indent("\n".join([builder.spelled(call), plain_evaluate])), ending])
            )
        case "globals":
            builder.extract("train_epoch", train, frozenset(), (), "engine")
            program.do("\n".join([seed, made, epochs, indent(f"train_epoch()\n{plain_evaluate}"), ending]))
        case "class":
            names = [name for name in SHARED if name in builder.setup]
            keep = "\n".join(f"self.{name} = {name}" for name in names)
            inside = builder.spelled(evaluate) if "trainer." not in evaluate else evaluate
            methods = [
                f"def __init__(self, {', '.join(names)}):\n{indent(keep)}",
                *builder.methods,
                f"def train_epoch(self):\n{indent(builder.spelled(train))}",
                f"def fit(self):\n    {epochs}\n        self.train_epoch()\n{indent(inside, 2)}",
            ]
            code = "class Trainer:\n" + indent("\n\n".join(methods))
            program.define("Trainer", code, "engine")
            program.do("\n".join([seed, made, f"trainer = Trainer({', '.join(names)})", "trainer.fit()", ending]))
        case _:
            program.do(
                "\n".join([seed, made, epochs, indent("\n".join([builder.spelled(train), plain_evaluate])), ending])
            )
