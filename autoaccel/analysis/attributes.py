"""What is stored in an attribute of a project class: by its own methods, by related classes, and from outside.

`trainer.model = Net()` in another file counts like `self.model = Net()` in the class. What an object of unknown class
is given under the same name may be given to an instance, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.reaching_definitions import STAR, Path

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef


class Stored(NamedTuple):
    """A store to an attribute: the expression of whose parts `path` it takes; None where anything may be stored."""

    script: Script
    value: ast.expr | None
    path: Path = ()
    how: str = "assign"
    """`assign`, `for` (an element of the value), `with`, or `add` for `self.x += value`."""


def stores(ref: ClassRef, name: str) -> Iterator[Stored]:
    """The stores that may reach `name` of an instance of a class, those of the class body aside."""
    try:
        homes = ref.script.project.mentioning(ref.script, name)
    except Incomplete:
        yield Stored(ref.script, None)
        return
    for script in homes:
        for target in script.tree_index.stored(name):
            if _may_be_instance(script, target.value, ref):
                yield _stored(script, target)
        for call in script.tree_index.calls_named("setattr"):
            match call.args:
                case [receiver, ast.Constant(value=constant), value] if constant == name:
                    if _may_be_instance(script, receiver, ref):
                        yield Stored(script, value)
                case [receiver, ast.expr() as computed, _] if not isinstance(computed, ast.Constant):
                    if _is_instance(script, receiver, ref):
                        yield Stored(script, None)


def _may_be_instance(script: Script, receiver: ast.expr, ref: ClassRef) -> bool:
    owner = _method_class(script, receiver)
    if owner is not None:
        return owner is ref.node or _are_related(ref, script.class_ref(owner))
    return any(
        value.kind is Kind.UNKNOWN if value.cls is None else _are_related(ref, value.cls)
        for value in script.inference.possible(receiver)
    )


def _is_instance(script: Script, receiver: ast.expr, ref: ClassRef) -> bool:
    owner = _method_class(script, receiver)
    if owner is not None:
        return owner is ref.node or _are_related(ref, script.class_ref(owner))
    return any(value.cls is not None and _are_related(ref, value.cls) for value in script.inference.possible(receiver))


def _are_related(first: ClassRef, second: ClassRef) -> bool:
    """Whether an object may be an instance of both: one class derives from the other."""
    project = first.script.project
    return any(each.node is first.node for each in project.lineage(second)) or any(
        each.node is second.node for each in project.lineage(first)
    )


def _method_class(script: Script, receiver: ast.expr) -> ast.ClassDef | None:
    """The class of whose method `receiver` is the `self`, also in functions within the method."""
    if not isinstance(receiver, ast.Name):
        return None
    definitions = script.definitions(receiver)
    if len(definitions) != 1 or definitions[0].how != "param":
        return None
    method = definitions[0].scope.node
    cls = script.parent(method)
    if not isinstance(cls, ast.ClassDef) or not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in method.decorator_list)
    return cls if not static and method.args.args[:1] == [definitions[0].node] else None


def _stored(script: Script, target: ast.Attribute) -> Stored:
    path: Path = ()
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
