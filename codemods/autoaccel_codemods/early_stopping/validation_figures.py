"""By what an epoch is judged: a number that each one computes from data that it does not train on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.syntax_index import walk_scope
from autoaccel.pytorch.gradients import backward_calls
from autoaccel.pytorch.step_effects import Effect, call_effects, effects
from autoaccel_codemods.captured_step.problems import DeclinedError

_SMALL: Final = frozenset(
    "loss losses error err mse rmse mae mape nll bce ce ppl perplexity wer cer fid logloss".split()
)
_LARGE: Final = frozenset(
    """acc accuracy acc1 top1 f1 auc auroc auprc iou miou dice precision recall psnr ssim bleu rouge r2 map
    correct""".split()
)
_VALIDATION: Final = frozenset("val valid validation validate validating dev eval evaluation heldout holdout".split())
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+")
_NONE: Final = "no validation figure: "


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that each epoch binds to `name`. `statement` is the part of the loop's body that evaluates."""

    name: str
    larger: bool
    statement: ast.stmt


@dataclass(frozen=True, slots=True)
class _Bound:
    """A name that every epoch binds to a result of the evaluation in `statement`; `words` say what it is of."""

    name: str
    target: ast.Name
    statement: ast.stmt
    words: frozenset[str]


def figure(script: Script, loop: ast.For, direction: str | None) -> Figure:
    """The figure by which a loop is stopped; one whose name says another direction than is asked for is none. Raises
    `DeclinedError`."""
    evaluating = [each for each in loop.body if _evaluates(script, each) and not _is_trained_on(script, loop, each)]
    if not evaluating and (some := next((each for each in loop.body if _evaluates(script, each, always=False)), None)):
        raise DeclinedError(f"{_NONE}what line {some.lineno} evaluates is not computed in every epoch")
    if not evaluating:
        raise DeclinedError(_NONE + "nothing in it evaluates the model beside training")
    found = {each.name: each for statement in evaluating for each in _bound(script, loop, statement)}
    if not found:
        line = evaluating[0].lineno
        raise DeclinedError(_NONE + f"the evaluation in line {line} leaves no number that has a name in every epoch")
    judging = [each for each in found.values() if _is_validation(each.words)]
    if not judging:
        names = " and ".join(f"`{name}`" for name in found)
        if any("test" in each.words for each in found.values()):
            raise DeclinedError(f"{_NONE}{names} would choose the epoch by the test set")
        raise DeclinedError(f"{_NONE}nothing calls the data of {names} a validation")
    told = [(each, larger) for each in judging if (larger := _is_larger(each.name, direction)) is not None]
    if not told:
        names = " and ".join(f"`{each.name}`" for each in judging)
        raise DeclinedError(f"{_direction(direction)}{names} (--set direction=min or max)")
    losses = [(each, larger) for each, larger in told if "loss" in _words(each.name)]
    chosen = losses if len(losses) == 1 else told
    if len(chosen) > 1:
        names = " and ".join(f"`{each.name}`" for each, _ in chosen)
        raise DeclinedError(f"several figures may judge an epoch: {names}")
    ((bound, larger),) = chosen
    for later in loop.body[loop.body.index(bound.statement) + 1 :]:
        if Effect.STEP in effects(script, later):
            raise DeclinedError(f"it trains after the validation, in line {later.lineno}")
    if not _is_number(script, loop, bound):
        raise DeclinedError(f"nothing shows that `{bound.name}` is a number")
    return Figure(bound.name, larger, bound.statement)


def _direction(asked: str | None) -> str:
    return "nothing says whether small or large is better of " if asked is None else f"not to be {asked}imal: "


def _evaluates(script: Script, statement: ast.stmt, *, always: bool = True) -> bool:
    """Whether a statement runs a model, in every epoch, and trains none."""
    if always == isinstance(statement, ast.If | ast.Try | ast.While | ast.Match):
        return False
    found = effects(script, statement)
    return Effect.FORWARD in found and not (Effect.BACKWARD | Effect.STEP | Effect.DOUBLE) & found


def _bound(script: Script, loop: ast.For, statement: ast.stmt) -> Iterator[_Bound]:
    """What an evaluation leaves: names that it binds, and those that are computed from these."""
    words = _words_of_data(script, statement)
    names: dict[str, ast.Name] = {}
    if isinstance(statement, ast.Assign):
        names = {each.id: each for target in statement.targets for each in _names(target)}
    elif isinstance(statement, ast.With):
        for each in statement.body:
            if isinstance(each, ast.Assign) and _evaluates(script, each):
                names.update({name.id: name for target in each.targets for name in _names(target)})
            elif isinstance(each, ast.For):
                names.update(_added(script, loop, each))
    elif isinstance(statement, ast.For):
        names = _added(script, loop, statement)
    for later in loop.body[loop.body.index(statement) + 1 :]:
        match later:
            case (
                ast.Assign(targets=[ast.Name() as target], value=value)
                | ast.AugAssign(target=ast.Name() as target, value=value)
            ):
                read = {each.id for each in script.within(value, ast.Name)}
                if isinstance(later, ast.AugAssign):
                    read.add(target.id)
                known = read & names.keys()
                names.pop(target.id, None)
                if known and not isinstance(value, ast.IfExp):
                    names[target.id] = target
                    for source in known - {target.id}:
                        if (larger := _is_larger(source, None)) is not None and larger is _is_larger(target.id, None):
                            del names[source]  # `average_loss = val_loss / n`
            case _:
                again = {each.id for each in walk_scope(later) if isinstance(each, ast.Name) and _stores(each)}
                names = {name: target for name, target in names.items() if name not in again}
    for name, target in names.items():
        yield _Bound(name, target, statement, _words(name) | words)


def _names(target: ast.expr) -> list[ast.Name]:
    match target:
        case ast.Name():
            return [target]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [each for each in elements if isinstance(each, ast.Name) and each.id != "_"]
        case _:
            return []


def _is_trained_on(script: Script, loop: ast.For, statement: ast.stmt) -> bool:
    """Whether a backward pass may follow from a forward pass: `output = model(x)` of a step over all data."""
    later = loop.body[loop.body.index(statement) + 1 :]
    return not isinstance(statement, ast.With | ast.For) and any(any(backward_calls(script, each)) for each in later)


def _added(script: Script, loop: ast.For, inner: ast.For) -> dict[str, ast.Name]:
    """The sums of a loop that begin anew in each epoch: `val_loss = 0` before it, and `val_loss += …` in it."""
    started = {each.id for before in loop.body for each in _started(before) if before.lineno < inner.lineno}
    return {
        each.target.id: each.target
        for each in script.in_scope(inner, ast.AugAssign)
        if isinstance(each.target, ast.Name) and each.target.id in started
    }


def _started(statement: ast.stmt) -> list[ast.Name]:
    match statement:
        case ast.Assign(targets=targets):
            return [name for target in targets for name in _names(target)]
        case ast.With(body=body):
            return [name for each in body for name in _started(each)]
        case _:
            return []


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store | ast.Del)


def _words_of_data(script: Script, statement: ast.stmt) -> frozenset[str]:
    """What the data of an evaluation are called: the arguments of its function, what its loop goes over; of functions
    that are called after a validation their names, too."""
    words: set[str] = set()
    for part in walk_scope(statement):
        match part:
            case ast.For(iter=iterated):
                words |= _words(script.source(iterated))
            case ast.Call(func=function) as call if Effect.FORWARD in call_effects(script, call):
                for given in given_values(call):
                    words |= _words(script.source(given))
                words |= _words(script.source(function)) & (_VALIDATION - {"eval", "evaluation"} | {"test", "train"})
    return frozenset(words)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


def _is_validation(words: frozenset[str]) -> bool:
    return bool(words & _VALIDATION) and not words & {"train", "training", "trn", "test", "tst"}


def _is_larger(name: str, direction: str | None) -> bool | None:
    """Whether larger figures are better, by the name; None where it does not say so, or not what is asked for."""
    words = _words(name)
    small, large = bool(words & _SMALL), bool(words & _LARGE)
    if small == large:
        return None if direction is None else direction == "max"
    return large if direction in (None, "max" if large else "min") else None


def _is_number(script: Script, loop: ast.For, bound: _Bound) -> bool:
    """Whether a figure surely is one number: a plain one, or a tensor that is shown or read as one."""
    names = (each for each in script.in_scope(loop, ast.Name) if each.id == bound.name)
    uses = [each for each in names if isinstance(each.ctx, ast.Load)]
    kinds = {script.kind(each) for each in (bound.target, *uses)}
    if kinds <= {Kind.NUMBER}:
        return True
    shown = any(
        isinstance(each, ast.FormattedValue) and each.format_spec is not None
        for use in uses
        if isinstance(each := script.parent(use), ast.FormattedValue)
    )
    return shown and kinds <= {Kind.NUMBER, Kind.TENSOR}
