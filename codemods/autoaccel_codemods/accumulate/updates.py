"""The statements of a loop's body that are the update: what clears gradients, clips them, and steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.training_steps import Backward, OptimizerStep, TrainingStep
from autoaccel_codemods.captured_step.problems import DeclinedError

# Schedules that know no number of steps after which they are through.
_ENDLESS: Final = frozenset(f"torch.optim.lr_scheduler.{name}" for name in ("StepLR", "MultiStepLR", "ExponentialLR"))
_CLIPPING: Final = re.compile(r"^clip_grads?_|^clip_grad(ient)?s?$")


@dataclass(frozen=True, slots=True)
class Update:
    """A training step in the body of `loop`. `clearing` comes before the backward pass, `runs` of siblings after it."""

    loop: ast.For
    backward: Backward
    step: OptimizerStep
    clearing: tuple[ast.stmt, ...]
    runs: tuple[Sequence[ast.stmt], ...]

    @property
    def statements(self) -> tuple[ast.stmt, ...]:
        return (*self.clearing, self.backward.statement, *(each for run in self.runs for each in run))


def find(script: Script, step: TrainingStep) -> Update:
    """The update of a training step. Raises `DeclinedError`."""
    if len(step.backwards) != 1 or len(step.optimizer_steps) != 1:
        raise DeclinedError("the step has several backward passes, or several optimizers")
    backward, update = step.backwards[0], step.optimizer_steps[0]
    loop = next(iter(script.loops(backward.call)), None)
    if loop is None or loop not in {each.node for each in loader_loops(script)}:
        raise DeclinedError("its backward pass does not stand in a loop over a loader")
    assert isinstance(loop, ast.For)
    if backward.statement not in loop.body or not isinstance(backward.statement, ast.Expr):
        raise DeclinedError("its backward pass does not stand in the body of the loop itself")
    if update.statement not in loop.body:
        around = [each for each in script.ancestors(update.statement) if isinstance(each, ast.If)]
        if any(script.inside(each, loop) for each in around):
            raise DeclinedError("it accumulates already: the optimizer steps under a condition")
        raise DeclinedError("the optimizer does not step beside the backward pass")
    alone = isinstance(update.statement, ast.Expr) and update.statement.value is update.call
    if not alone or update.each is not None:
        raise DeclinedError("what the optimizer's step gives is used")
    if update.call.keywords or (update.receiver not in update.call.args and update.call.args):
        raise DeclinedError("the optimizer is given a closure")
    if backward.call.keywords or any(each is not backward.loss for each in backward.call.args):
        raise DeclinedError("its backward pass has arguments")
    if loop.body.index(update.statement) < loop.body.index(backward.statement):
        raise DeclinedError("the optimizer steps before the backward pass")
    return _parted(script, loop, backward, update)


def _parted(script: Script, loop: ast.For, backward: Backward, update: OptimizerStep) -> Update:
    middle = loop.body.index(backward.statement)
    clearing = tuple(each for each in loop.body[:middle] if _method(each) == "zero_grad")
    runs: list[list[ast.stmt]] = []
    previous = None
    for each in loop.body[middle + 1 :]:
        if each is update.statement or _is_part(script, each):
            if previous is None:
                runs.append([])
            runs[-1].append(each)
            previous = each
        else:
            previous = None
    after = [each for run in runs for each in run]
    cleared_after = [each for each in after if _method(each) == "zero_grad"]
    if any(loop.body.index(each) < loop.body.index(update.statement) for each in cleared_after):
        raise DeclinedError("gradients are cleared between the backward pass and the step")
    if not clearing and not cleared_after:
        raise DeclinedError("the loop does not clear the gradients")
    return Update(loop, backward, update, clearing, tuple(runs))


def _is_part(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement belongs to the update. Raises `DeclinedError` of a schedule that would not end."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name)) as call):
            if name == "zero_grad" or _CLIPPING.search(name):
                return True
            if name in ("unscale_", "update") and script.kind(owner) is Kind.SCALER:
                return True
            if name == "step":
                _refuse_schedule(script, owner, call)
                return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return _CLIPPING.search(name) is not None
    return False


def _method(statement: ast.stmt) -> str:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
            return name
        case _:
            return ""


def _refuse_schedule(script: Script, schedule: ast.expr, call: ast.Call) -> None:
    text = f"`{script.source(schedule)}`, which line {call.lineno} steps in every batch,"
    values = script.values(schedule)
    if values.kind is not Kind.SCHEDULER or call.args or call.keywords:
        raise DeclinedError(f"{text} may be a schedule that counts batches")
    if not all(value.name in _ENDLESS for value in values):
        raise DeclinedError(f"{text} may be made for a number of steps, of which there would be fewer")
