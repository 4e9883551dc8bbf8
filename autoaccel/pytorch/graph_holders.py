"""What holds a graph that something was given to keep: the names and attributes under which that is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import Definition
from autoaccel.library_models.graph_operations import COPYING_METHODS
from autoaccel.library_models.in_place_operations import gives_new_memory
from autoaccel.pytorch.graph_states import UNFOLLOWED, CallStack, GraphNeeded, calls_in, push_call
from autoaccel.pytorch.object_references import possible_classes

TENSORS = frozenset({Kind.TENSOR, Kind.PARAMETER, Kind.BATCH})
STORES = frozenset({"__dict__", "_buffers", "_parameters", "_modules", "__slots__"})
"""Attributes that hold others, which are read by other names."""


class HoldingName(NamedTuple):
    """A binding whose value holds a graph, or has it (not `held`)."""

    script: Script
    definition: Definition
    held: bool
    call_stack: CallStack


class HoldingAttribute(NamedTuple):
    """The same for an attribute of objects of these classes; of any where these are None."""

    script: Script
    classes: frozenset[ast.ClassDef] | None
    name: str
    held: bool


Holder = HoldingName | HoldingAttribute


class GraphHolders:
    """Tells each holder once."""

    def __init__(self) -> None:
        self._seen: set[tuple[ast.AST, tuple[ast.AST, ...]]] = set()

    def of(self, script: Script, owner: ast.expr, call_stack: CallStack) -> Iterator[Holder]:
        """The names and attributes under which an object is known that now holds what carries a graph.

        One of a project class holds it out of sight: its method is inherited, or called by an operator."""
        if isinstance(owner, ast.Name | ast.Attribute) and any(each.cls is not None for each in script.values(owner)):
            raise GraphNeeded(UNFOLLOWED)
        if not self._is_new(owner, call_stack):
            return
        match owner:
            case ast.Name():
                definitions = script.definitions(owner)
                if not definitions:  # it came by a star
                    raise GraphNeeded(UNFOLLOWED)
                for each in definitions:
                    yield from self.of_binding(script, each, owner, call_stack)
            case ast.Attribute(attr=name) if name in STORES:
                raise GraphNeeded(UNFOLLOWED)
            case ast.Attribute():
                if is_of_module(script, owner):
                    raise GraphNeeded(UNFOLLOWED)
                classes = possible_classes(script, owner.value)
                yield HoldingAttribute(script, classes, owner.attr, _may_hold(script, owner))
            case ast.Subscript(value=value) | ast.Starred(value=value) | ast.Await(value=value):
                yield from self.of(script, value, call_stack)
            case ast.NamedExpr() | ast.IfExp() | ast.BoolOp():
                raise GraphNeeded(UNFOLLOWED)
            case ast.Call():
                yield from self._of_result(script, owner, call_stack)

    def of_binding(
        self, script: Script, definition: Definition, owner: ast.expr, call_stack: CallStack
    ) -> Iterator[Holder]:
        """The same for an object that a name is bound to, which `owner` reads."""
        yield HoldingName(script, definition, _may_hold(script, owner), call_stack)
        match definition.how:
            case "aug" if isinstance(definition.node, ast.AugAssign) and isinstance(definition.node.target, ast.Name):
                # What an addition in place was made to is the object still; what was added is none of it.
                if self._is_new(definition.node.target, call_stack):
                    for each in script.reaching_definitions.before_addition(definition.node.target):
                        yield from self.of_binding(script, each, owner, call_stack)
            case "assign" | "walrus" | "global" | "with" | "for" | "aug" if definition.value is not None:
                value: ast.expr = definition.value
                for step in definition.path:
                    if not isinstance(value, ast.Tuple | ast.List) or not isinstance(step, int):
                        break
                    if step >= len(value.elts):
                        break
                    value = value.elts[step]
                yield from self.of(script, value, call_stack)
            case "param" if (
                script.values(owner).kinds <= TENSORS and call_stack and call_stack[-1][2] is definition.scope.node
            ):
                yield from self._of_argument(script, definition, call_stack)
            case "param" | "import" | "except" | "match" | "del":
                raise GraphNeeded(UNFOLLOWED)

    def _of_argument(self, script: Script, parameter: Definition, call_stack: CallStack) -> Iterator[Holder]:
        """What a function was handed, by the call that control came from."""
        caller, call, function = call_stack[-1]
        given = caller.argument(call, function, parameter.name, script)
        if given is None:
            raise GraphNeeded(UNFOLLOWED)
        yield from self.of(caller, given, call_stack[:-1])

    def _is_new(self, owner: ast.AST, call_stack: CallStack) -> bool:
        key = owner, calls_in(call_stack)
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _of_result(self, script: Script, call: ast.Call, call_stack: CallStack) -> Iterator[Holder]:
        """What a call returns: an object of its own, or a part of what it was called on or with."""
        callees, values = script.callees(call), script.values(call.func)
        if values.kinds == {Kind.CLASS}:
            return
        if values.kinds == {Kind.MODULE} and all(each.cls is None for each in values):  # a library's keeps nothing
            if not all(gives_new_memory(each.name or "") for each in values):
                for given in given_values(call):
                    yield from self.of(script, given, call_stack)
            return
        for other, function in callees:
            inner = push_call(call_stack, (script, call, function))
            for leave in other.in_scope(function, ast.Return):
                if leave.value is not None:
                    yield from self.of(other, leave.value, inner)
        name = None if script.is_project_name(call.func) else called_name(script, call.func)
        if callees or (name is not None and not name.startswith("builtins.")):
            return
        if name in ("builtins.getattr", "builtins.vars", "builtins.globals", "builtins.super", "builtins.locals"):
            raise GraphNeeded(UNFOLLOWED)
        if name is None and isinstance(call.func, ast.Attribute):
            if call.func.attr not in COPYING_METHODS | {"detach"}:  # what is written to it brings no graph back
                yield from self.of(script, call.func.value, call_stack)
        elif name in ("builtins.next", "builtins.iter", "builtins.zip", "builtins.enumerate", "builtins.reversed"):
            for each in call.args:
                yield from self.of(script, each, call_stack)


def _may_hold(script: Script, owner: ast.expr) -> bool:
    """Whether an object may be something else than a tensor, and hold the graph in a part of it."""
    kinds = script.values(owner).kinds
    return not kinds or not kinds <= TENSORS


def is_of_module(script: Script, expression: ast.expr) -> bool:
    """Whether an object belongs to a module, and may be read there and wherever that is imported."""
    return script.qualname(expression) is not None
