"""Whether the runtime would ever capture a step: lifting one that stays as it is gains nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, union
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import Loop
from autoaccel.pytorch import backend_settings
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.training_steps import TrainingStep
from autoaccel_codemods.captured_step.problems import DeclinedError

_CAPTURED = frozenset({"torch.optim.SGD", "torch.optim.Adam", "torch.optim.AdamW"})
_REPLICATED = "torch.nn.parallel.DistributedDataParallel"
_RATES = "torch.optim.lr_scheduler."
_PADDING = frozenset({"torch.nn.utils.rnn.pad_sequence", "torch.nn.utils.rnn.pack_sequence"})
_CREATION = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "full"))
_HELD = frozenset({"lr", "momentum", "betas", "eps", "weight_decay"})
_STAYING = frozenset(f"{_RATES}{name}" for name in ("StepLR", "MultiStepLR", "ConstantLR", "ReduceLROnPlateau"))
"""Schedules that leave the learning rate as it is for many steps."""


def refuse_in_vain(script: Script, step: TrainingStep) -> None:
    """Raises `DeclinedError` where no graph would be captured, or none would last."""
    if not backend_settings.may_leave_the_cpu(script):
        raise DeclinedError("nothing in it leaves the CPU, where there is no launch to save")
    beside = (call for scope in step.scopes for call in script.in_scope(scope, ast.Call))
    joined = any(_is_joined(script, call, "torch.distributed.") for call in beside)
    if joined or any(_is_joined(script, call, _REPLICATED) for call in script.find(ast.Call)):
        raise DeclinedError("it trains in several processes, where no graph is captured")
    for update in step.optimizer_steps:
        if update.optimizer is not None:
            _refuse_optimizer(script, update.optimizer)
    backward = step.backwards[0].call
    for loop in script.loops(backward)[:1]:
        _refuse_schedule(script, loop.body)
        _refuse_shapes(script, loop)
    function = script.function(backward)
    if isinstance(function, ast.FunctionDef):
        _refuse_schedule(script, function.body)


def _is_joined(script: Script, call: ast.Call, name: str) -> bool:
    """Whether a call is one of these, and no condition stands around it."""
    named = (script.qualname(call.func) or "").startswith(name)
    return named and not any(isinstance(each, ast.If) for each in script.ancestors(call))


def _refuse_optimizer(script: Script, optimizer: ast.expr) -> None:
    values = script.values(optimizer)
    names = {value.name for value in values}
    if values.kinds == {Kind.OPTIMIZER} and names.isdisjoint(_CAPTURED) and all(map(_is_of_torch, names)):
        raise DeclinedError(f"`{min(map(str, names))}` is not captured: only SGD, Adam and AdamW are")


def _is_of_torch(name: str | None) -> bool:
    return name is not None and name.startswith("torch.optim.")


def _refuse_schedule(script: Script, body: Sequence[ast.stmt]) -> None:
    """A graph holds the learning rate that it was captured with."""
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="step"))):
                values = script.values(owner)
                if values.kinds == {Kind.SCHEDULER} and _STAYING.isdisjoint({value.name for value in values}):
                    changes = f"`{script.source(owner)}` changes the learning rate in every step"
                    raise DeclinedError(f"{changes}, in line {statement.lineno}, and a graph holds one")
            case _:
                pass


def refuse_settings(script: Script, step: Loop | ast.FunctionDef) -> None:
    """Raises `DeclinedError` where a loop, or the function that is called for each step, sets what a graph holds:
    `group["lr"] = rate`."""
    for other, code in reachable_code(script, step.body):
        for part in other.within(code, ast.Subscript):
            match part:
                case ast.Subscript(ctx=ast.Store(), value=group, slice=ast.Constant(value=str(name))) if name in _HELD:
                    if not _is_seldom(other, part) and not _is_own_dict(other, group):
                        where = "" if other is script or other.path is None else f" of {other.path.name}"
                        sets = f"line {part.lineno}{where} sets `{other.source(part)}` in every step"
                        raise DeclinedError(f"{sets}, and a graph holds one")


def _is_seldom(script: Script, node: ast.AST) -> bool:
    """Whether something is done in some steps alone: `if step % 100 == 0: …`, `if step in milestones: …`."""
    tests = (each.test for each in script.ancestors(node) if isinstance(each, ast.If))
    return any(_picks_steps(part) for test in tests for part in ast.walk(test))


def _picks_steps(test: ast.AST) -> bool:
    match test:
        case ast.BinOp(op=ast.Mod()):
            return True
        case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[right]):
            texts = (isinstance(each, ast.Constant) and isinstance(each.value, str) for each in (left, right))
            return not any(texts)
        case _:
            return False


def _is_own_dict(script: Script, owner: ast.expr) -> bool:
    """Whether something is a dict that the script writes down, as for a log."""
    values = script.values(owner)
    return values.kinds == {Kind.MAPPING} and all(isinstance(each.node, ast.Dict | ast.Call) for each in values)


def _refuse_shapes(script: Script, loop: Loop) -> None:
    """A graph is of one shape; batches that are padded to their longest sample have one of their own each."""
    for file, call in _collating(script, loop):
        if _pads(file, call):
            where = f" of {file.path.name}" if file is not script and file.path is not None else ""
            raise DeclinedError(
                f"line {call.lineno}{where} pads each batch to a length of its own, and a graph has one"
            )


def _collating(script: Script, loop: Loop) -> Iterator[tuple[Script, ast.Call]]:
    """The calls of the functions that make the loop's batches of samples."""
    loaders = [each.loader for each in loader_loops(script) if each.node is loop]
    for made in union(script.values(each) for each in loaders):
        collate = given_as(made.node, "collate_fn") if isinstance(made.node, ast.Call) else None
        if collate is not None and made.kind is Kind.LOADER and made.script is not None:
            for function in made.script.values(collate):
                if function.script is not None and function.node is not None:
                    for file, node in reachable_code(function.script, (function.node,)):
                        yield from ((file, call) for call in file.within(node, ast.Call))


def _pads(script: Script, call: ast.Call) -> bool:
    """Whether a call gives samples the length of the longest: `pad_sequence(samples)`, `zeros(len(rows), longest)`."""
    name = script.qualname(call.func) or ""
    if name in _PADDING:
        return True
    sizes = [part for each in call.args for part in ast.walk(each)] if name in _CREATION else []
    return any(_is_maximum(script, each) for each in sizes)


def _is_maximum(script: Script, size: ast.AST) -> bool:
    match size:
        case ast.Call(func=ast.Name(id="max") as name):
            return not script.definitions(name)
        case ast.Name():
            known = script.definitions(size)
            return bool(known) and all(
                each.how == "assign" and isinstance(each.value, ast.Call) and _is_maximum(script, each.value)
                for each in known
            )
        case _:
            return False
