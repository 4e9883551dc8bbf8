"""What holds a graph that something was given to keep: the names and attributes under which that is known."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import NamedTuple

from autoaccel.analysis.attributes import stored_as
from autoaccel.analysis.callables import called_name, lambdas_of
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import Definition, ElementPath
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.graph_operations import COPYING_METHODS
from autoaccel.library_models.in_place_operations import gives_new_memory
from autoaccel.library_models.tensor_views import VIEW_METHODS
from autoaccel.pytorch.container_insertions import insertions
from autoaccel.pytorch.graph_states import UNFOLLOWED, CallStack, GraphNeeded, calls_in, push_call
from autoaccel.pytorch.object_references import connected_files, possible_classes

TENSORS = frozenset({Kind.TENSOR, Kind.PARAMETER, Kind.BATCH})
_PLAIN = frozenset({Kind.DEVICE, Kind.DTYPE, Kind.NUMBER, Kind.BOOL, Kind.STRING})
"""What holds nothing."""
_COMPUTING = frozenset({"torch", "numpy"})
"""Libraries whose functions keep none of the objects that they are given, and return none but for views."""
_LOOKING_UP = frozenset(f"builtins.{name}" for name in "getattr vars globals super locals map eval".split())
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
        self._seen: set[tuple[ast.AST, bool, tuple[ast.AST, ...]]] = set()

    def of(self, script: Script, owner: ast.expr, call_stack: CallStack, *, element: bool = False) -> Iterator[Holder]:
        """The names and attributes under which an object is known that now holds what carries a graph, and those of
        what it came out of, or was put into the place of.

        One of a project class holds it out of sight: its method is inherited, or called by an operator. `element`:
        it is not the owner itself that holds it, but something that lies in there."""
        if isinstance(owner, ast.Name | ast.Attribute) and any(each.cls is not None for each in script.values(owner)):
            raise GraphNeeded(UNFOLLOWED)
        if not self._is_new(owner, call_stack, element):
            return
        match owner:
            case ast.Name():
                definitions = script.definitions(owner)
                if not definitions:  # it came by a star
                    raise GraphNeeded(UNFOLLOWED)
                for each in definitions:
                    yield from self.of_binding(script, each, owner, call_stack, element=element)
                if element:
                    yield from self._put_in(script, owner.id)
            case ast.Attribute(attr=name) if name in STORES:
                raise GraphNeeded(UNFOLLOWED)
            case ast.Attribute():
                if is_of_module(script, owner):
                    raise GraphNeeded(UNFOLLOWED)
                yield from self._of_attribute(script, owner, element=element)
            case ast.Subscript(value=value):
                yield from self.of(script, value, call_stack, element=True)
            case ast.Starred(value=value) | ast.Await(value=value):
                yield from self.of(script, value, call_stack, element=element)
            case ast.Call():
                yield from self._of_result(script, owner, call_stack, element=element)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
                if element:  # `for log in (self.train, self.test)`
                    yield from self._of_all(script, parts, call_stack)
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
                if element:
                    yield from self.of(script, part, call_stack)
            case ast.BinOp(left=left, right=right):
                if element:
                    yield from self._of_all(script, [left, right], call_stack, element=True)
            case ast.Constant() | ast.JoinedStr() | ast.Compare() | ast.UnaryOp() | ast.Lambda():
                return
            case _:
                raise GraphNeeded(UNFOLLOWED)

    def _of_all(
        self, script: Script, owners: list[ast.expr], call_stack: CallStack, *, element: bool = False
    ) -> Iterator[Holder]:
        for each in owners:
            yield from self.of(script, each, call_stack, element=element)

    def _of_attribute(self, script: Script, owner: ast.Attribute, *, element: bool) -> Iterator[Holder]:
        """An attribute, and under which names its object was known when it was stored: `self.log = log`."""
        classes = possible_classes(script, owner.value)
        yield HoldingAttribute(script, classes, owner.attr, _may_hold(script, owner))
        for file in connected_files(script):
            for stored in stored_as(file, owner.attr):
                of = None if stored.receiver is None else possible_classes(file, stored.receiver)
                if classes is not None and of is not None and classes.isdisjoint(of):
                    continue
                if stored.value is None:
                    raise GraphNeeded(UNFOLLOWED)
                if stored.how != "add":
                    part, rest = _part(stored.value, stored.path)
                    yield from self.of(file, part, (), element=element or rest or stored.how == "for")
            for scope in file.reaching_definitions.scopes.values():
                if isinstance(scope.node, ast.ClassDef):
                    for each in scope.definitions.get(owner.attr, ()):
                        yield from self._of_value(file, each, (), element=element)
            for keyword in file.find(ast.keyword):  # `Settings(log=log).log`
                call = file.parent(keyword)
                if keyword.arg == owner.attr and isinstance(call, ast.Call) and not file.callees(call):
                    yield from self.of(file, keyword.value, (), element=element)
        if element:
            yield from self._put_in(script, owner.attr)

    def _put_in(self, script: Script, name: str) -> Iterator[Holder]:
        """What is put into containers of a name, wherever that is."""
        for file in connected_files(script):
            for into, attribute, given in insertions(file):
                if attribute is None and last_name(into) == name:
                    yield from self.of(file, given, ())

    def of_binding(
        self,
        script: Script,
        definition: Definition,
        owner: ast.expr,
        call_stack: CallStack,
        *,
        element: bool = False,
    ) -> Iterator[Holder]:
        """The same for an object that a name is bound to, which `owner` reads."""
        yield HoldingName(script, definition, _may_hold(script, owner), call_stack)
        match definition.how:
            case "aug" if isinstance(definition.node, ast.AugAssign) and isinstance(definition.node.target, ast.Name):
                # What an addition in place was made to is the object still; what was added is none of it.
                if self._is_new(definition.node.target, call_stack, element):
                    for each in script.reaching_definitions.before_addition(definition.node.target):
                        yield from self.of_binding(script, each, owner, call_stack, element=element)
            case "param" if (
                script.values(owner).kinds <= TENSORS and call_stack and call_stack[-1][2] is definition.scope.node
            ):
                yield from self._of_argument(script, definition, call_stack)
            case "param" if isinstance(definition.scope.node, ast.FunctionDef) and not call_stack:
                yield from self._of_arguments(script, definition, definition.scope.node, element=element)
            case "param" | "import" | "except" | "match" | "del":
                raise GraphNeeded(UNFOLLOWED)
            case _:
                yield from self._of_value(script, definition, call_stack, element=element)

    def _of_value(
        self, script: Script, definition: Definition, call_stack: CallStack, *, element: bool
    ) -> Iterator[Holder]:
        if definition.how in ("assign", "walrus", "global", "with", "for", "aug") and definition.value is not None:
            part, rest = _part(definition.value, definition.path)
            yield from self.of(script, part, call_stack, element=element or rest or definition.how == "for")

    def _of_arguments(
        self, script: Script, parameter: Definition, function: ast.FunctionDef, *, element: bool
    ) -> Iterator[Holder]:
        """What all callers hand a function."""
        for caller, call in script.callers(function).all():
            given = caller.argument(call, function, parameter.name, script)
            if given is None:
                raise GraphNeeded(UNFOLLOWED)
            yield from self.of(caller, given, (), element=element)

    def _of_argument(self, script: Script, parameter: Definition, call_stack: CallStack) -> Iterator[Holder]:
        """What a function was handed, by the call that control came from."""
        caller, call, function = call_stack[-1]
        given = caller.argument(call, function, parameter.name, script)
        if given is None:
            raise GraphNeeded(UNFOLLOWED)
        yield from self.of(caller, given, call_stack[:-1])

    def _is_new(self, owner: ast.AST, call_stack: CallStack, element: bool) -> bool:
        key = owner, element, calls_in(call_stack)
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _of_result(self, script: Script, call: ast.Call, call_stack: CallStack, *, element: bool) -> Iterator[Holder]:
        """What a call returns: an object of its own, or a part of what it was called on or with."""
        callees, values = script.callees(call), script.values(call.func)
        if values.kinds == {Kind.MODULE} and all(each.cls is None for each in values):  # a library's keeps nothing
            if not all(gives_new_memory(each.name or "") for each in values):
                yield from self._of_all(script, given_values(call), call_stack)
            return
        for other, function in callees:
            inner = push_call(call_stack, (script, call, function))
            for leave in other.in_scope(function, ast.Return):
                if leave.value is not None:
                    yield from self.of(other, leave.value, inner, element=element)
        lambdas = lambdas_of(script, call.func)
        for other, made in lambdas:
            if isinstance(made, ast.Lambda):
                yield from self.of(other, made.body, call_stack, element=element)
        name = None if script.is_project_name(call.func) else called_name(script, call.func)
        if name is not None and name.startswith("torch.") and name.rpartition(".")[2] in VIEW_METHODS:
            yield from self._of_all(script, call.args[:1], call_stack, element=element)
        if callees or lambdas or (name is not None and name.partition(".")[0] in _COMPUTING):
            return
        if name in _LOOKING_UP:
            raise GraphNeeded(UNFOLLOWED)
        if name is not None or values.kinds == {Kind.CLASS}:
            given = [each for each in given_values(call) if not _is_builtin(script, each)]  # `defaultdict(list)`
            yield from self._of_all(script, given, call_stack)
            yield from self._of_all(script, given, call_stack, element=True)
        elif isinstance(call.func, ast.Attribute):
            owner = call.func.value
            if call.func.attr not in COPYING_METHODS | {"detach"}:  # what is written to it brings no graph back
                given = [each for each in given_values(call) if not _is_plain(script, each)]  # `x.to(device)`
                yield from self._of_all(script, [owner], call_stack)
                yield from self._of_all(script, [owner, *given], call_stack, element=True)
            elif element:
                yield from self.of(script, owner, call_stack, element=True)  # `d.copy()` has the elements of `d`


def _is_plain(script: Script, given: ast.expr) -> bool:
    kinds = script.values(given).kinds
    return bool(kinds) and kinds <= _PLAIN


def _is_builtin(script: Script, given: ast.expr) -> bool:
    return isinstance(given, ast.Name) and hasattr(builtins, given.id) and not script.definitions(given)


def _part(value: ast.expr, path: ElementPath) -> tuple[ast.expr, bool]:
    """The expression at a place in a value, and whether it is something within that."""
    for step in path:
        if not isinstance(value, ast.Tuple | ast.List) or not isinstance(step, int) or step >= len(value.elts):
            return value, True
        if any(isinstance(each, ast.Starred) for each in value.elts[: step + 1]):
            return value, True
        value = value.elts[step]
    return value, False


def _may_hold(script: Script, owner: ast.expr) -> bool:
    """Whether an object may be something else than a tensor, and hold the graph in a part of it."""
    kinds = script.values(owner).kinds
    return not kinds or not kinds <= TENSORS


def is_of_module(script: Script, expression: ast.expr) -> bool:
    """Whether an object belongs to a module, and may be read there and wherever that is imported."""
    return script.qualname(expression) is not None
