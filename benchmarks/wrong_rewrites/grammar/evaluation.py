"""Passes that only evaluate, or seem to."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.wrong_rewrites.grammar import data, models
from benchmarks.wrong_rewrites.grammar.building import Builder
from benchmarks.wrong_rewrites.grammar.routing import routed
from benchmarks.wrong_rewrites.programs import indent


class _Flag(NamedTuple):
    """How a function is told whether it trains: its last parameters, what it does in each batch, and calls of both
    kinds."""

    parameters: str
    training: list[str]
    train: str
    evaluate: str


def _flag(builder: Builder) -> _Flag:
    form = builder.pick("evaluation flag", "optimizer", "train", "mode", "early", "name")
    parameters, test, train, evaluate = {
        "optimizer": ("optimizer=None", "optimizer is not None", "$optimizer", "None"),
        "train": ("optimizer, train=True", "train", "$optimizer", "$optimizer, train=False"),
        "mode": ("optimizer, mode", "mode == 'train'", "$optimizer, 'train'", "$optimizer, 'val'"),
        "early": ("optimizer, train=True", "train", "$optimizer", "$optimizer, False"),
        "name": ("optimizer=None", "bool(optimizer)", "$optimizer", ""),
    }[form]
    steps = ["optimizer.zero_grad()", "loss.backward()", "optimizer.step()"]
    loss = "loss = out.float().pow(2).mean()"
    training = [loss, f"if {test}:", indent("\n".join(steps))]
    if form == "early":
        training = [loss, "if not train:", indent("print(loss.item())\ncontinue"), *steps]
    return _Flag(parameters, training, train, evaluate)


def build(builder: Builder, inputs: str, targets: str, form: str) -> str:
    """The code at the end of each epoch."""
    pick = builder.pick
    home = pick("evaluation", "none", "inline", "function", "tail", "single", "phases", "meta", "flagged")
    if home == "none":
        return "pass"
    loop = data.loop(builder, "evaluation", inputs)
    metric = {
        "class": "(out.argmax(1) == y).sum().item()",
        "number": "((out - y) ** 2).mean().item()",
        "binary": "((out > 0.5) == (y > 0.5)).sum().item()",
    }[targets]
    sum_up = pick("evaluation sum", "metric", "outputs", "losses", "numpy", "both", "features")
    start, body, end, result = ["total = 0"], [f"total += {metric}"], ["print(total)"], "total"
    match sum_up:
        case "outputs":
            start, body, end, result = (
                ["outs = []"],
                ["outs.append(out)"],
                ["everything = torch.cat(outs)", "print(everything.shape, float(everything.sum()))"],
                "everything",
            )
        case "numpy":
            start, body, end, result = (
                ["outs = []"],
                ["outs.append(out.detach().cpu().numpy())"],
                ["everything = np.concatenate(outs)", "print(everything.dtype, everything.sum())"],
                "everything",
            )
        case "losses":
            start, body, end, result = (
                ["total = 0"],
                ["total += F.mse_loss(out.float(), torch.zeros_like(out)).item()"],
                ["print(total)"],
                "total",
            )
        case "both":
            start, body, end, result = (
                ["total, outs = 0, []"],
                [f"total += {metric}", "outs.append(out)"],
                ["print(total, len(outs))"],
                "(total, outs)",
            )
        case "features":
            start, body, end, result = (
                ["outs = []"],
                ["outs.append(out.mean())"],
                ["everything = torch.stack(outs).mean()", "print(float(everything))"],
                "everything",
            )
        case _:
            pass
    guard = pick("evaluation guard", "none", "no_grad", "set_grad", "inference")
    if home == "flagged" and guard != "none":
        home = "function"
    mode = [] if builder.has("evaluation without eval") else ["$model.eval()"]
    inside = [*loop.unpack, *loop.moves, *models.unpacked(form, "$model(x)"), *body, *loop.after]
    if home == "single":
        inside = ["x, y = make_arrays()", *loop.moves, *models.unpacked(form, "$model(x)"), *body]
        if loop.batch:
            inside = ["x, y = make_arrays()", *models.unpacked(form, "$model(x)"), *body]
        lines = [*start, *mode, *inside, *end]
    else:
        flag = _flag(builder) if home == "flagged" else None
        inside += [] if flag is None else flag.training
        lines = [*loop.before, *start, *mode, loop.header, indent("\n".join(inside)), *end]
    if guard == "no_grad":
        lines = [*lines[:0], "with torch.no_grad():", indent("\n".join(lines))]
    elif guard == "set_grad":
        lines = ["with torch.set_grad_enabled(False):", indent("\n".join(lines))]
    elif guard == "inference" and sum_up in ("metric", "losses", "numpy"):
        lines = ["with torch.inference_mode():", indent("\n".join(lines))]
    code = "\n".join(lines)
    if home == "flagged":
        returned = "\n".join([code, f"return {result}"])
        tokens = [word for word in ("device", "loader", "model") if f"${word}" in returned]
        parameters = ", ".join([*tokens, flag.parameters])
        builder.program.define(
            "run_epoch", f"def run_epoch({parameters}):\n{indent(returned.replace('$', ''))}", "engine"
        )
        given = "".join(f"${each}, " for each in tokens)
        lines = [f"trained = run_epoch({given}{flag.train})"] if builder.has("trains by the flag") else []
        if flag.parameters.endswith("mode") and builder.has("a loop over phases"):
            lines += ["for phase in ('val', 'train'):", indent(f"judged = run_epoch({given}$optimizer, phase)")]
        lines.append(f"judged = run_epoch({given}{flag.evaluate})")
        if sum_up in ("outputs", "features") and builder.has("learns from it"):
            lines += ["$optimizer.zero_grad()", "judged.pow(2).mean().backward()", "$optimizer.step()"]
        return "\n".join([*lines, "print(type(judged).__name__)", "$model.train()"])
    if home in ("function", "meta"):
        returned = "\n".join([code, f"return {result}"])
        tokens = sorted({word for word in ("model", "loader", "device") if f"${word}" in returned})
        builder.program.define(
            "evaluate", f"def evaluate({', '.join(tokens)}):\n{indent(returned.replace('$', ''))}", "engine"
        )
        call = f"{routed(builder, 'evaluate', 'evaluate', tuple(tokens))}({', '.join('$' + each for each in tokens)})"
        if home == "meta" and guard == "none" and sum_up in ("outputs", "features"):
            # what was evaluated is learned from
            return "\n".join(
                [
                    f"judged = {call}",
                    "$optimizer.zero_grad()",
                    "judged.pow(2).mean().backward()",
                    "$optimizer.step()",
                    "$model.train()",
                ]
            )
        use = pick("evaluation use", "print", "nothing", "best", "kept", "filed")
        if use == "best" and sum_up in ("metric", "losses"):
            return f"score = {call}\nif score > 1:\n    print(score)\n    best = copy.deepcopy($model.state_dict())"
        if use == "filed" and sum_up in ("metric", "losses", "features"):
            lines = [
                f"score, file = {call}, io.BytesIO()",
                "if score < 1e9:",
                "    torch.save({'score': score, 'model': $model.state_dict()}, file)",
                "print(float(score), file.tell() > 0)",
            ]
            return "\n".join(lines)
        if use == "nothing":
            return call
        return f"judged = {call}\nprint(type(judged).__name__)"
    return code
