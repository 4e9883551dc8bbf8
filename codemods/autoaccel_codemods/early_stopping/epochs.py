"""Loops over epochs: which they are, and whether one may end sooner than it says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autoaccel.analysis.iteration_wrappers import wrapped_argument
from autoaccel.analysis.script import Script
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import walk_scope
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.pytorch.step_effects import Effect, effects
from autoaccel_codemods.captured_step.problems import DeclinedError

_EPOCH = re.compile(r"epoch|(^|_)ep(_|$)", re.IGNORECASE)
_EPOCHS = re.compile(r"epochs", re.IGNORECASE)
_OWN = re.compile(r"patience|early_?stop|stopper|best|no_?improve|not_?improved", re.IGNORECASE)
_PROCESSES = ("torch.distributed.", "torch.nn.parallel.DistributedDataParallel")
_RANGES = frozenset({"range", "trange"})


@once_all
def loops(script: Script) -> Iterator[ast.For]:
    """The innermost loops over a range that train, and that call what they count epochs or train by loops over
    loaders."""
    training = [loop.node for loop in loader_loops(script) if Effect.STEP in effects(script, loop.node)]
    ranges = (each for each in script.find(ast.For) if each not in training and _is_range(script, each.iter))
    found = [
        loop
        for loop in ranges
        if Effect.STEP in effects(script, loop)
        and (
            _EPOCH.search(script.source(loop.target))
            or _EPOCHS.search(script.source(loop.iter))
            or any(each in loop.body for each in training)
        )
    ]
    yield from (each for each in found if not any(script.inside(other, each) for other in found if other is not each))


def _is_range(script: Script, iterated: ast.expr) -> bool:
    match iterated:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _RANGES:
            return True
        case ast.Call() if (inner := wrapped_argument(script, iterated)) is not None:
            return _is_range(script, inner)
        case _:
            return False


def refuse_processes(script: Script) -> None:
    """Raises `DeclinedError` where processes of the script's own would have to come to the same decision."""
    for other in script.project.related(script):
        names = (name for _, name in (*other.qualified_names, *other.qualified_attributes))
        if any(name.startswith(_PROCESSES) for name in names):
            raise DeclinedError("it trains in several processes, which would have to stop together")


def refuse(script: Script, loop: ast.For) -> None:
    """Raises `DeclinedError` where a loop may not end sooner, or would not be the same before its last epoch."""
    if any(call for call in script.runtime_calls("early_stopping") if _calls_of(script, call, loop)):
        raise DeclinedError("it stops early already")
    if loop.orelse:
        raise DeclinedError("its `else` would be left out when it stops")
    bound = _bound_within(script, loop)
    for part in _own_parts(loop):
        match part:
            case ast.Continue() | ast.Return() | ast.Yield() | ast.YieldFrom():
                word = type(part).__name__.lower().removesuffix("from")
                raise DeclinedError(f"`{word}` in line {part.lineno} may pass by the end of an epoch")
            case ast.Break():
                _refuse_stopping(script, loop, part, bound)
    for part in walk_scope(loop):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) if _OWN.search(name):
                raise DeclinedError(f"it stops early or keeps its best epoch itself: `{name}` in line {part.lineno}")
    for definition in bound:
        for use in script.uses(definition):
            if not script.inside(use, loop):
                raise DeclinedError(f"`{definition.name}` is read in line {use.lineno}, as the last epoch leaves it")


def _own_parts(loop: ast.For) -> Iterator[ast.AST]:
    """What is in a loop, but for the `continue` and `break` of loops in it."""
    pending: list[tuple[ast.AST, bool]] = [(each, False) for each in loop.body]
    for part, inner in pending:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if not (inner and isinstance(part, ast.Continue | ast.Break)):
            yield part
        for child in ast.iter_child_nodes(part):
            own = isinstance(part, ast.For | ast.AsyncFor | ast.While) and child not in part.orelse
            pending.append((child, inner or own))


def _bound_within(script: Script, loop: ast.For) -> list[Definition]:
    scope = script.reaching_definitions.scopes[script.function(loop) or script.tree]
    outward = scope.global_names | scope.nonlocal_names
    for name in script.in_scope(loop, ast.Name):
        if name.id in outward and isinstance(name.ctx, ast.Store):
            raise DeclinedError(f"`{name.id}` is a name that other functions see")
    found = (each for definitions in scope.definitions.values() for each in definitions)
    return [each for each in found if each.node is loop or script.inside(each.node, loop)]


def _refuse_stopping(script: Script, loop: ast.For, stop: ast.Break, bound: list[Definition]) -> None:
    """A `break` may hang on options of the program: one on what the epochs have brought is early stopping already."""
    conditions = [
        each.test for each in script.ancestors(stop) if isinstance(each, ast.If) and script.inside(each, loop)
    ]
    used = {script.source(call.func).partition(".")[0] for call in script.within(loop, ast.Call)}
    for name in (part for test in conditions for part in script.within(test, ast.Name)):
        if name.id in used or any(each in bound for each in script.definitions(name)):
            raise DeclinedError(f"it stops by itself, in line {stop.lineno}")
    if not conditions:
        raise DeclinedError(f"it stops by itself, in line {stop.lineno}")


def _calls_of(script: Script, made: ast.Call, loop: ast.For) -> bool:
    """Whether a loop asks what a call has made."""
    calls = (each for each in script.within(loop, ast.Call) if isinstance(each.func, ast.Name))
    return any(made is each.value for call in calls for each in script.definitions(call.func))  # type: ignore[arg-type]
