"""Functions that train as well as evaluate: a flag says which of both, `if train: loss.backward()`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.call_sites import arguments_for, may_be_left_out
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.library_models.python_names import METHOD_DECORATORS
from autoaccel.pytorch.batches import changed_in_place, root
from autoaccel.pytorch.evaluation_passes import EvaluationPass
from autoaccel.pytorch.forwards import forward_calls, records
from autoaccel.pytorch.gradients import asks_for_gradients, in_grad_mode, is_backward, is_optimizer_step, sets_grad_mode
from autoaccel.pytorch.graph_requirement import needs_graph

_WRITTEN = "what is computed in it may be written to where gradients are on"
_BINDING = (ast.Assign, ast.AnnAssign, ast.NamedExpr)
_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
_PLAIN = frozenset({Kind.BOOL, Kind.NONE, Kind.STRING, Kind.NUMBER})
"""What is as true at the end of a step as it was at its beginning."""


def is_phase(test: ast.expr) -> bool:
    """Whether a test is one of a name: `train`, `not evaluating`, `phase == "train"`, `optimizer is not None`."""
    match test:
        case ast.Name() | ast.UnaryOp(op=ast.Not(), operand=ast.Name()):
            return True
        case ast.Compare(left=ast.Name(), comparators=[ast.Constant()]):
            return True
        case _:
            return False


def flagged_evaluations(script: Script) -> Iterator[EvaluationPass]:
    """The statements that run a model in front of what trains it under a flag, in functions that somebody calls without
    it. What they compute records a graph only where the flag is up."""
    for function in script.find(ast.FunctionDef):
        guard = _guard(script, function)
        if guard is not None and _is_let_down(script, function, guard.test):
            yield from _before(script, function, guard)


def _guard(script: Script, function: ast.FunctionDef) -> ast.If | None:
    """The first statement `if train:` that goes backward, if the function does so nowhere else."""
    if any(not isinstance(each, ast.Name) or each.id not in METHOD_DECORATORS for each in function.decorator_list):
        return None
    calls = script.in_scope(function, ast.Call)
    sites = [call for call in calls if is_backward(script, call) or is_optimizer_step(script, call)]
    guards = [each for each in script.in_scope(function, ast.If) if not each.orelse and is_phase(each.test)]
    guards = [each for each in guards if any(_holds(script, each, site) for site in sites)]
    if not guards or len({ast.dump(each.test) for each in guards}) != 1:
        return None
    if not all(any(_holds(script, each, site) for each in guards) for site in sites):
        return None
    return guards[0] if _flag(script, function, guards[0].test) is not None else None


def _holds(script: Script, guard: ast.If, node: ast.AST) -> bool:
    return any(script.inside(node, each) for each in guard.body)


def _flag(script: Script, function: ast.FunctionDef, test: ast.expr) -> Definition | None:
    """The binding of the name that a test is of, if it is the same throughout a call: a parameter, or what a statement
    of the function's own block makes of one."""
    [name] = [each for each in ast.walk(test) if isinstance(each, ast.Name)]
    definitions = script.definitions(name)
    bound = script.reaching_definitions.scopes[function].definitions.get(name.id, ())
    if len(definitions) != 1 or len(bound) != 1 or definitions[0].scope.node is not function:
        return None
    told = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.IsNot)
    if not told and not script.values(name).kinds <= _PLAIN:
        return None
    flag = definitions[0]
    return flag if flag.how == "param" or (flag.how == "assign" and flag.node in function.body) else None


def _is_let_down(script: Script, function: ast.FunctionDef, test: ast.expr) -> bool:
    """Whether a known call surely lets the function only evaluate, and has not switched gradients off itself."""
    flag = _flag(script, function, test)
    if flag is not None and flag.how == "assign" and isinstance(test, ast.Name) and flag.whole is not None:
        if not is_phase(flag.whole):
            return False
        test, flag = flag.whole, _flag(script, function, flag.whole)
    if flag is None or flag.how != "param" or flag.path:
        return False
    given = list(arguments_for(script, function, flag.name))
    if any(_is_off(test, argument) and not in_grad_mode(other, argument) for other, argument in given):
        return True
    return flag.value is not None and _is_off(test, flag.value) and may_be_left_out(script, function, flag.name)


def _is_off(test: ast.expr, given: ast.expr) -> bool:
    """Whether a test surely fails for a constant."""
    if not isinstance(given, ast.Constant):
        return False
    match test:
        case ast.Name():
            return not given.value
        case ast.UnaryOp():
            return bool(given.value)
        case ast.Compare(ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=value)]):
            return bool(given.value != value)
        case ast.Compare(ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=value)]):
            return bool(given.value == value)
        case _:
            return False


def _before(script: Script, function: ast.FunctionDef, guard: ast.If) -> Iterator[EvaluationPass]:
    """The statements of a guard's block from the first that runs a model to the last of which it reads something."""
    block = script.block(guard)
    above = block[: block.index(guard)]
    running = [each for each in above if any(True for _ in forward_calls(script, each))]
    if not running:
        return
    read = {each.id for each in script.in_scope(guard, ast.Name) if isinstance(each.ctx, ast.Load)}
    used = [each for each in above if read & _stored(script, each)]
    last = max((running[-1], *used), key=above.index)
    first = running[0]
    inner = above[above.index(first) : above.index(last) + 1]
    if any(asks_for_gradients(script, each) is not None for each in inner):
        return
    forwards = tuple(
        call for each in inner for call in forward_calls(script, each) if records(script, call, script.tree)
    )
    sets_mode = any(sets_grad_mode(script, call) for each in inner for call in script.in_scope(each, ast.Call))
    bound = {name for each in inner for name in _stored(script, each)}
    rebinds = any(isinstance(each, ast.Name) and each.id in bound for each in ast.walk(guard.test))
    leaves = any(isinstance(part, _LEAVING) for each in inner for part in script.in_scope(each, ast.AST))
    if forwards and not (sets_mode or rebinds or leaves):
        problem = _WRITTEN if _is_written_later(script, function, guard, inner) else None
        problem = problem or needs_graph(script, inner, forwards, trained_if=guard.test)
        yield EvaluationPass(first, forwards, problem, first=first, last=last, flag=_as_bool(script, guard.test))


def _is_written_later(script: Script, function: ast.FunctionDef, guard: ast.If, inner: list[ast.stmt]) -> bool:
    """Whether what is computed in some statements, or is made of it, may be changed in place once gradients are on
    again, which torch allows in no view that was made without them."""
    names = _made_of(script, function, {name for each in inner for name in _stored(script, each)})
    later = {part for part in script.in_scope(function, ast.AST) if not _is_in(script, part, (guard, *inner))}
    for owner, node in changed_in_place(script):
        changed = root(owner)
        if node in later and changed is not None and changed.id in names and not _adds_number(script, node):
            return True
    return any(
        _changes_argument(*callee)
        for call in later
        if isinstance(call, ast.Call)
        and any(
            isinstance(part, ast.Name) and part.id in names for each in given_values(call) for part in ast.walk(each)
        )
        for callee in script.callees(call)
    )


def _is_in(script: Script, node: ast.AST, statements: Iterable[ast.stmt]) -> bool:
    return any(script.inside(node, each) for each in statements)


def _made_of(script: Script, function: ast.FunctionDef, names: set[str]) -> set[str]:
    """Some variables of a function, and those that are made of them by any number of assignments."""
    bindings = [each for each in script.in_scope(function, ast.AST) if isinstance(each, _BINDING)]
    found, known = set(names), -1
    while len(found) > known:
        known = len(found)
        for each in bindings:
            read = {part.id for part in script.in_scope(each, ast.Name) if isinstance(part.ctx, ast.Load)}
            found |= _stored(script, each) if read & found else set()
    return found


def _adds_number(script: Script, node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign) and script.values(node.value).kinds <= _PLAIN


@once
def _changes_argument(script: Script, function: ast.AST) -> bool:
    """Whether a function changes something in place that it may have been given."""
    changed = (root(owner) for owner, node in changed_in_place(script) if script.function(node) is function)
    return any(each.how == "param" for name in changed if name is not None for each in script.definitions(name))


def _stored(script: Script, statement: ast.AST) -> set[str]:
    return {each.id for each in script.in_scope(statement, ast.Name) if isinstance(each.ctx, ast.Store)}


def _as_bool(script: Script, test: ast.expr) -> str:
    """A test as torch takes it, which wants True or False."""
    text = script.source(test)
    plain = not isinstance(test, ast.Name) or script.values(test).kinds == {Kind.BOOL}
    return text if plain else f"bool({text})"
