"""What is stored in an attribute of a project class: by its own methods, by related classes, and from outside.

`trainer.model = Net()` in another file counts like `self.model = Net()` in the class. What an object of unknown class
is given under the same name may be given to an instance, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from autoaccel.analysis.classes import class_info, lineage
from autoaccel.analysis.namespaces import binds, bound_values, namespaces
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import STAR, ElementPath
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef

_OF_ANY_CLASS = (Kind.UNKNOWN, Kind.DATASET)  # `loader.dataset`


class Stored(NamedTuple):
    """A store to an attribute: the expression of whose parts `path` it takes; None where anything may be stored."""

    script: Script
    value: ast.expr | None
    path: ElementPath = ()
    how: str = "assign"
    """`assign`, `for` (an element of the value), `with`, `add` for `self.x += value`, or of any name: `computed` by
    `setattr`, or `namespace`."""
    receiver: ast.expr | None = None
    """What the attribute is of."""

    @property
    def of_class(self) -> bool | None:
        """Whether it is an attribute of a class, whose functions become methods, or of an instance; None where that is
        not known."""
        if self.receiver is None:
            return None
        method = _method(self.script, self.receiver)
        if method is not None:
            return any(last_name(each) == "classmethod" for each in method.decorator_list)
        kinds = self.script.inference.possible(self.receiver).kinds
        if kinds == {Kind.CLASS}:
            return True
        return None if kinds & {Kind.CLASS, Kind.UNKNOWN} else False


def stores(ref: ClassRef, name: str) -> Iterator[Stored]:
    """The stores that may reach `name` of an instance of a class, those of the class body aside."""
    try:
        files = ref.script.project.files_naming(ref.script, name, attribute=True).all()
    except Incomplete:
        yield Stored(ref.script, None)
        return
    for script in files:
        for stored in stored_as(script, name):
            if stored.receiver is None:
                continue
            if may_be_instance(script, stored.receiver, ref, unknown=stored.how not in ("computed", "namespace")):
                yield stored


def stored_as(script: Script, name: str) -> Iterator[Stored]:
    """The stores of a file to attributes of this name, whatever they are attributes of; and those to attributes
    whose names it computes. Without a receiver: to those of a module that is not known."""
    yield from _stored_targets(script, name)
    for given, stored in _stored_by_calls(script):
        if given is None or given == name:
            yield stored
    for namespace, owner in namespaces(script):
        yield from (Stored(script, value, receiver=owner) for value in bound_values(script, namespace, name))
        if binds(script, namespace, name):
            yield Stored(script, None, how="namespace", receiver=owner)


@once
def _stored_targets(script: Script, name: str) -> tuple[Stored, ...]:
    targets = script.syntax_index.stored(name)
    return tuple(_stored(script, each)._replace(receiver=each.value) for each in targets)


@once
def _stored_by_calls(script: Script) -> tuple[tuple[object, Stored], ...]:
    """What a file stores by `setattr` and `mock.patch`, with the names of the attributes, None where computed."""
    found: list[tuple[object, Stored]] = []
    for call in script.syntax_index.calls_named("setattr"):
        match call.args:
            case [receiver, ast.Constant(value=name), value]:
                found.append((name, Stored(script, value, receiver=receiver)))
            case [receiver, _, _]:
                found.append((None, Stored(script, None, how="computed", receiver=receiver)))
    for call in script.syntax_index.calls_named("__setattr__"):
        match call:
            case ast.Call(func=ast.Attribute(value=receiver), args=[ast.Constant(value=name), value]):
                found.append((name, Stored(script, value, receiver=receiver)))
            case ast.Call(args=[receiver, ast.Constant(value=name), value]):  # `object.__setattr__(…)`
                found.append((name, Stored(script, value, receiver=receiver)))
    for call in script.syntax_index.calls_named("object", "patch"):
        match call.args:
            case [receiver, ast.Constant(value=name), *new]:  # `mock.patch.object(…)`
                found.append((name, Stored(script, new[0] if new else None, receiver=receiver)))
        match call.args:
            case [ast.Constant(value=str() as dotted), *new]:
                found.append((dotted.rpartition(".")[2], Stored(script, new[0] if new else None)))
    return tuple(found)


def may_be_instance(script: Script, receiver: ast.expr, ref: ClassRef, *, unknown: bool = True) -> bool:
    """Whether an object may be an instance of a class; what is not known is one if `unknown` says so."""
    owner = own_class(script, receiver)
    if owner is not None:
        return _are_related(ref, script.class_ref(owner))
    return any(
        unknown and value.kind in _OF_ANY_CLASS if value.cls is None else _are_related(ref, value.cls)
        for value in script.inference.possible(receiver)
    )


def _are_related(first: ClassRef, second: ClassRef) -> bool:
    """Whether an object may be an instance of both: one class derives from the other."""
    return first.node is second.node or _derives(second, first) or _derives(first, second)


def _derives(ref: ClassRef, base: ClassRef) -> bool:
    return bool(class_info(ref).bases) and any(each.node is base.node for each in lineage(ref))


@once
def own_class(script: Script, receiver: ast.expr) -> ast.ClassDef | None:
    """The class of whose method `receiver` is the `self`, also in functions within the method."""
    method = _method(script, receiver)
    cls = script.parent(method) if method is not None else None
    return cls if isinstance(cls, ast.ClassDef) else None


def _method(script: Script, receiver: ast.expr) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The method of which `receiver` is the first parameter."""
    if not isinstance(receiver, ast.Name):
        return None
    definitions = script.definitions(receiver)
    if len(definitions) != 1 or definitions[0].how != "param":
        return None
    method = definitions[0].scope.node
    if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in method.decorator_list)
    own = isinstance(script.parent(method), ast.ClassDef) and method.args.args[:1] == [definitions[0].node]
    return method if own and not static else None


def _stored(script: Script, target: ast.Attribute) -> Stored:
    path: ElementPath = ()
    node: ast.AST = target
    while True:
        around = script.parent(node)
        match around:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                index = elements.index(node)  # type: ignore[arg-type]
                starred = any(isinstance(each, ast.Starred) for each in elements[:index])
                path = (STAR if starred else index, *path)
            case ast.Starred():
                path = (STAR, *path)
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return Stored(script, value, path)
            case ast.AugAssign(value=value):
                return Stored(script, value, path, "add")
            case ast.For(iter=value) | ast.AsyncFor(iter=value) | ast.comprehension(iter=value):
                return Stored(script, value, path, "for")
            case ast.withitem(context_expr=value):
                return Stored(script, value, path, "with")
            case _:
                return Stored(script, None)
        node = around


def may_be_stored(script: Script, attribute: str) -> bool:
    """Whether the project may store an attribute of this name, `args.cuda = False`, or not all of it is seen."""
    try:
        files = script.project.related(script)
    except Incomplete:
        return True
    names = (each.args[1] for file in files for each in file.syntax_index.calls_named("setattr") if len(each.args) > 1)
    named = any(not isinstance(each, ast.Constant) or each.value == attribute for each in names)
    return named or any(file.syntax_index.stored(attribute) for file in files)
