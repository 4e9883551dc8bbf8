"""Training steps: the backwards, optimizer steps and forwards that belong together.

A training step is one component: everything that is connected through the call graph, a class, a scope or an optimizer.
Facts alone: why AA301 leaves one as it is, its package says (`step_problems`, `blockers`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.pytorch.gradients import backward_or_step_calls, is_backward, is_optimizer_step
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.step_effects import Effect, call_effects, calls_in, effects

ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """`loss.backward()`, or `torch.autograd.backward(loss)`; `scaled` when it goes through a gradient scaler."""

    call: ast.Call
    loss: ast.expr
    statement: ast.stmt
    scope: ScopeNode
    scaled: bool


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerStep:
    """`optimizer.step()`.

    `optimizer` is what to call the optimizer (or several) where no loop variable is bound: the receiver, or the
    container that a loop takes it from, or None. `unit` is the statement that steps: its own, or
    `for o in optimizers: o.step()` as a whole; `each` then is the header of that loop.
    """

    call: ast.Call
    receiver: ast.expr
    optimizer: ast.expr | None
    statement: ast.stmt
    unit: ast.stmt
    scope: ScopeNode
    each: tuple[ast.expr, ast.expr] | None = None


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """One component; `converted` says that it uses the runtime already. Without slots, for what is cached."""

    script: Script
    backwards: tuple[Backward, ...]
    optimizer_steps: tuple[OptimizerStep, ...]
    scopes: tuple[ScopeNode, ...]
    crossings: dict[ScopeNode, str]
    converted: bool

    @property
    def zero_grads(self) -> tuple[ast.Call, ...]:
        return tuple(
            call for call in self._calls() if isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"
        )

    @cached_property
    def forwards(self) -> tuple[ast.Call, ...]:
        return tuple(call for call in self._calls() if Effect.FORWARD in call_effects(self.script, call))

    def _calls(self) -> Iterator[ast.Call]:
        return (call for scope in self.scopes for call in calls_in(self.script, scope))


@once
def training_scopes(script: Script) -> tuple[ScopeNode, ...]:
    """The functions of a file that hold a part of a training step."""
    calls = (
        call for call in backward_or_step_calls(script) if is_backward(script, call) or is_optimizer_step(script, call)
    )
    return tuple(dict.fromkeys(scope_of(script, call) for call in calls))


@once
def training_steps(script: Script) -> tuple[TrainingStep, ...]:
    """Every training step of a file, in source order of its first site."""
    calls = backward_or_step_calls(script)
    backwards = [_backward(script, call) for call in calls if is_backward(script, call)]
    steps = [_step(script, call) for call in calls if is_optimizer_step(script, call)]
    groups = _Groups()
    for scope in (*(each.scope for each in backwards), *(each.scope for each in steps)):
        groups.add(scope)
    if not groups.members:
        return ()
    crossings = _connect(script, groups, steps)
    found = []
    for scopes in groups.components():
        mine = [each for each in backwards if each.scope in scopes]
        stepping = [each for each in steps if each.scope in scopes]
        found.append(_component(script, scopes, mine, stepping, crossings))
    return tuple(sorted(found, key=_position))


def _position(step: TrainingStep) -> int:
    calls = [*(each.call for each in step.backwards), *(each.call for each in step.optimizer_steps)]
    return min(call.lineno for call in calls)


def scope_of(script: Script, node: ast.AST) -> ScopeNode:
    """The function, or else the module, that a place belongs to."""
    return script.function(node) or script.tree


def _backward(script: Script, call: ast.Call) -> Backward:
    loss: ast.expr = call
    if script.qualname(call.func) is not None:
        named = [keyword.value for keyword in call.keywords if keyword.arg == "tensors"]
        loss = call.args[0] if call.args else named[0] if named else call
    elif isinstance(call.func, ast.Attribute):
        loss = call.func.value
    return Backward(call, loss, script.statement(call), scope_of(script, call), scaled(script, loss))


def scaled(script: Script, loss: ast.expr) -> bool:
    """`scaler.scale(loss)`."""
    match loss:
        case ast.Call(func=ast.Attribute(value=owner, attr="scale")):
            return script.kind(owner) is Kind.SCALER or "scaler" in script.source(owner).lower()
        case _:
            return False


def _step(script: Script, call: ast.Call) -> OptimizerStep:
    assert isinstance(call.func, ast.Attribute)
    statement = script.statement(call)
    receiver = call.func.value
    if script.kind(receiver) is Kind.SCALER and call.args:
        receiver = call.args[0]
    scope = scope_of(script, call)
    common, binding = common_name(script, receiver), _loop_binding(script, receiver, scope)
    if binding is None:
        return OptimizerStep(call, receiver, common, statement, statement, scope)
    loop = binding.node
    assert isinstance(loop, ast.For | ast.comprehension)
    each = loop.target, loop.iter
    if isinstance(loop, ast.comprehension):
        return OptimizerStep(call, receiver, common, statement, statement, scope, each)
    if script.loops(call)[:1] == [loop] and not Effect.BACKWARD & effects(script, loop):
        return OptimizerStep(call, receiver, common, statement, loop, scope, each)
    return OptimizerStep(call, receiver, common, statement, statement, scope)


def common_name(script: Script, receiver: ast.expr) -> ast.expr | None:
    """What to call an optimizer where no loop variable is bound: the container that a loop takes it from."""
    binding = _loop_binding(script, receiver, scope_of(script, receiver))
    if binding is None:
        return receiver
    assert isinstance(binding.node, ast.For | ast.comprehension)
    if isinstance(receiver, ast.Subscript):
        return receiver.value
    return container(binding.node.target, binding.node.iter, binding.name)


def _loop_binding(script: Script, receiver: ast.expr, scope: ScopeNode) -> Definition | None:
    """The binding by a loop of the same function that a receiver such as `opt` or `optimizers[i]` depends on."""
    for part in breadth_first(receiver):
        if isinstance(part, ast.Name):
            for definition in script.definitions(part):
                if definition.how == "for" and definition.scope.node is scope:
                    return definition
    return None


def container(target: ast.expr, iterated: ast.expr, name: str) -> ast.expr | None:
    """Where a loop takes a variable from: `opts` in `for i, opt in enumerate(opts)`, `for m, opt in zip(ms, opts)`."""
    match target, iterated:
        case _, ast.Call(func=ast.Name(id="list" | "tuple" | "reversed"), args=[inner]):
            return container(target, inner, name)
        case ast.Name(), ast.Call(func=ast.Attribute(value=mapping, attr="values"), args=[]):
            return mapping
        case ast.Tuple(elts=[_, ast.Name(id=found)]), ast.Call(
            func=ast.Attribute(value=mapping, attr="items"), args=[]
        ):
            return mapping if found == name else None
        case ast.Tuple(elts=[_, part]), ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
            return container(part, inner, name)
        case ast.Tuple(elts=elements), ast.Call(func=ast.Name(id="zip"), args=arguments) if len(elements) == len(
            arguments
        ):
            for element, argument in zip(elements, arguments, strict=True):
                if isinstance(element, ast.Name) and element.id == name:
                    return container(element, argument, name)
            return None
        case ast.Name(id=found), ast.Name() | ast.Attribute() | ast.Subscript() | ast.List() | ast.Tuple():
            return iterated if found == name else None
        case _:
            return None


# -- what belongs together


class _Groups:
    """Union-find over the functions that hold sites."""

    def __init__(self) -> None:
        self.members: dict[ScopeNode, ScopeNode] = {}

    def add(self, scope: ScopeNode) -> None:
        self.members.setdefault(scope, scope)

    def root(self, scope: ScopeNode) -> ScopeNode:
        while self.members[scope] is not scope:
            scope = self.members[scope]
        return scope

    def join(self, first: ScopeNode, second: ScopeNode) -> None:
        if first in self.members and second in self.members:
            self.members[self.root(first)] = self.root(second)

    def components(self) -> Iterable[frozenset[ScopeNode]]:
        found: dict[ScopeNode, set[ScopeNode]] = {}
        for scope in self.members:
            found.setdefault(self.root(scope), set()).add(scope)
        return [frozenset(scopes) for scopes in found.values()]


def _connect(script: Script, groups: _Groups, steps: list[OptimizerStep]) -> dict[ScopeNode, str]:
    """Join what belongs together; returns the scopes that another file calls to do a part, with that file's name."""
    crossings: dict[ScopeNode, str] = {}
    scopes = list(groups.members)
    by_class: dict[ast.AST, ScopeNode] = {}
    for scope in scopes:
        owner = script.parent(scope)
        if isinstance(owner, ast.ClassDef):
            groups.join(scope, by_class.setdefault(owner, scope))
        outer = script.function(scope) if scope is not script.tree else None
        if outer is not None and outer in groups.members:
            groups.join(scope, outer)
        for other, caller, call in _calling(script, scope):
            if other is not script:
                crossings[scope] = other.path.name if other.path is not None else "another file"
            elif not _is_apart(script, call, [each for each in steps if each.scope is scope]):
                groups.join(scope, caller)
    for step in steps:
        for part in (inner for argument in step.call.args for inner in breadth_first(argument)):
            if isinstance(part, ast.Name):
                for definition in script.definitions(part):
                    if isinstance(definition.node, ast.FunctionDef):
                        groups.join(step.scope, definition.node)
    by_optimizer: dict[ast.AST, ScopeNode] = {}
    for step in steps:
        for value in script.values(step.receiver):
            if value.kind is Kind.OPTIMIZER and isinstance(value.node, ast.Call):
                groups.join(step.scope, by_optimizer.setdefault(value.node, step.scope))
    return crossings


def _is_apart(script: Script, call: ast.Call, steps: list[OptimizerStep]) -> bool:
    """Whether a call comes to optimizers that are given closures, which train on their own, and stands in none of the
    loops in which the function around it does a part of a step."""
    given = ((each, argument) for each in steps for argument in (*each.call.args, *each.call.keywords))
    closures = {each for each, argument in given if argument is not each.receiver}
    around = calls_in(script, scope_of(script, call))
    sites = (each for each in around if is_backward(script, each) or is_optimizer_step(script, each))
    loops = {loop for each in sites for loop in script.loops(each)}
    return bool(steps) and len(closures) == len(steps) and loops.isdisjoint(script.loops(call))


def _calling(script: Script, scope: ScopeNode) -> Iterator[tuple[Script, ScopeNode, ast.Call]]:
    """The functions that call a scope, through any number of functions between, and themselves do a part of a step;
    and the calls in them."""
    pending: list[tuple[Script, ScopeNode]] = [(script, scope)]
    seen: set[ScopeNode] = {scope}
    while pending:
        at, function = pending.pop()
        if isinstance(function, ast.Module):
            continue
        for other, call in at.callers(function):
            caller = scope_of(other, call)
            if caller in seen:
                continue
            seen.add(caller)
            if holds_sites(other, caller):
                yield other, caller, call
            else:
                pending.append((other, caller))


def holds_sites(script: Script, scope: ScopeNode) -> bool:
    """Whether a function's own body, callees aside, has a backward or an optimizer step."""
    return any(is_backward(script, call) or is_optimizer_step(script, call) for call in calls_in(script, scope))


# -- one component


def _component(
    script: Script,
    scopes: frozenset[ScopeNode],
    backwards: list[Backward],
    steps: list[OptimizerStep],
    crossings: dict[ScopeNode, str],
) -> TrainingStep:
    converted = any(each.scaled and _by_runtime(script, each) for each in backwards) or _has_region(script, scopes)
    return TrainingStep(script, tuple(backwards), tuple(steps), tuple(sorted(scopes, key=_place)), crossings, converted)


def _place(scope: ScopeNode) -> tuple[int, int]:
    """Line and column: lambdas may share a line."""
    return getattr(scope, "lineno", 0), getattr(scope, "col_offset", 0)


def _has_region(script: Script, scopes: frozenset[ScopeNode]) -> bool:
    """Whether a step, or a function that it calls, has a region of the runtime's autocast already."""
    regions = [statement for statement in script.find(ast.With) if opens_region(script, statement)]
    if not regions:
        return False
    inside = {script.function(statement) or script.tree for statement in regions}
    return bool(inside & scopes) or any(node in inside for _, node in reachable_code(script, scopes))


def opens_region(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement is a region of the runtime's autocast."""
    return isinstance(statement, ast.With) and any(
        isinstance(item.context_expr, ast.Call) and script.runtime_name(item.context_expr.func) == "autocast"
        for item in statement.items
    )


def _by_runtime(script: Script, backward: Backward) -> bool:
    match backward.loss:
        case ast.Call(func=ast.Attribute(value=owner)):
            return any(
                value.name is not None and value.name.endswith("runtime.grad_scaler") for value in script.values(owner)
            )
        case _:
            return False
