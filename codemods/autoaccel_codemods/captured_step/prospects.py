"""Whether the runtime would ever capture a step: lifting one that stays as it is gains nothing."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import Loop, walk_scope
from autoaccel.pytorch import backend_settings
from autoaccel.pytorch.training_steps import TrainingStep
from autoaccel_codemods.captured_step.problems import DeclinedError

_CAPTURED = frozenset({"torch.optim.SGD", "torch.optim.Adam", "torch.optim.AdamW"})
_RATES = "torch.optim.lr_scheduler."
_STAYING = frozenset(f"{_RATES}{name}" for name in ("StepLR", "MultiStepLR", "ConstantLR", "ReduceLROnPlateau"))
"""Schedules that leave the learning rate as it is for many steps."""


def refuse_in_vain(script: Script, step: TrainingStep) -> None:
    """Raises `DeclinedError` where no graph would be captured, or none would last."""
    if not backend_settings.may_leave_the_cpu(script):
        raise DeclinedError("nothing in it leaves the CPU, where there is no launch to save")
    for scope in step.scopes:
        for call in walk_scope(scope):
            if not isinstance(call, ast.Call) or any(isinstance(each, ast.If) for each in script.ancestors(call)):
                continue
            if (script.qualname(call.func) or "").startswith("torch.distributed."):
                raise DeclinedError("it trains in several processes, where no graph is captured")
    for update in step.optimizer_steps:
        if update.optimizer is not None:
            _refuse_optimizer(script, update.optimizer)
    for loop in script.loops(step.backwards[0].call)[:1]:
        _refuse_schedule(script, loop)


def _refuse_optimizer(script: Script, optimizer: ast.expr) -> None:
    values = script.values(optimizer)
    names = {value.name for value in values}
    if values.kinds == {Kind.OPTIMIZER} and names.isdisjoint(_CAPTURED) and all(map(_is_of_torch, names)):
        raise DeclinedError(f"`{min(map(str, names))}` is not captured: only SGD, Adam and AdamW are")


def _is_of_torch(name: str | None) -> bool:
    return name is not None and name.startswith("torch.optim.")


def _refuse_schedule(script: Script, loop: Loop) -> None:
    """A graph holds the learning rate that it was captured with."""
    for statement in loop.body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="step"))):
                values = script.values(owner)
                if values.kinds == {Kind.SCHEDULER} and _STAYING.isdisjoint({value.name for value in values}):
                    changes = f"`{script.source(owner)}` changes the learning rate in every step"
                    raise DeclinedError(f"{changes}, in line {statement.lineno}, and a graph holds one")
            case _:
                pass
