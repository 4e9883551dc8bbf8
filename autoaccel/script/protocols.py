"""Functions that run without being called by their name: properties, operators of objects, decorators and hooks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.script import lookups
from autoaccel.script.values import Kind

if TYPE_CHECKING:
    from autoaccel.script.script import Script

Function = tuple["Script", ast.FunctionDef | ast.Lambda]

ENTERING = (ast.Attribute, ast.Subscript, ast.For, ast.comprehension, ast.withitem, ast.BinOp, ast.FunctionDef)
"""The nodes by which `entered` finds something."""
_HOOKING = ("register_forward_hook", "register_module_forward_hook")
_CALLED = frozenset({"__init__", "__new__", "__call__", "__post_init__"})


def entered(script: Script, node: ast.AST) -> Iterator[tuple[Script, ast.FunctionDef]]:
    """The methods of project classes that reading a part of an object, iterating it, or a `with` runs."""
    match node:
        case ast.Attribute(value=owner, attr=name, ctx=ast.Load()):
            yield from (each for each in _methods(script, owner, (name,)) if is_property(each[1]))
        case ast.Subscript(value=owner, ctx=ast.Load()):
            yield from _methods(script, owner, ("__getitem__",))
        case ast.For(iter=owner) | ast.comprehension(iter=owner):
            yield from _methods(script, owner, ("__iter__", "__next__", "__getitem__"))
        case ast.withitem(context_expr=owner):
            yield from _methods(script, owner, ("__enter__", "__exit__"))
        case ast.BinOp(left=left, right=right):
            for owner in (left, right):
                yield from (each for each in _methods(script, owner, None) if is_protocol(each[1]))
        case ast.FunctionDef(decorator_list=decorators):
            for decorator in decorators:
                function = decorator.func if isinstance(decorator, ast.Call) else decorator
                for value in script.values(function):
                    if isinstance(value.node, ast.FunctionDef) and value.script is not None:
                        yield value.script, value.node


def _methods(
    script: Script, owner: ast.expr, names: tuple[str, ...] | None
) -> Iterator[tuple[Script, ast.FunctionDef]]:
    for value in script.values(owner):
        for ref in value.cls.script.project.lineage(value.cls) if value.cls is not None else ():
            for part in ref.node.body:
                if isinstance(part, ast.FunctionDef) and (names is None or part.name in names):
                    yield ref.script, part


def is_property(function: ast.FunctionDef) -> bool:
    """Whether reading an attribute runs a method."""
    return any("property" in ast.unparse(each) for each in function.decorator_list)


def properties(script: Script, read: ast.expr) -> list[tuple[Script, ast.FunctionDef]]:
    """The properties that a read of an attribute runs; their results are no functions."""
    if not isinstance(read, ast.Attribute):
        return []
    return [
        (value.script, value.node)
        for value in script.values(read)
        if value.script is not None and isinstance(value.node, ast.FunctionDef) and is_property(value.node)
    ]


def is_protocol(function: ast.FunctionDef) -> bool:
    """Whether Python itself calls a method: `__getitem__`, `__add__`."""
    return function.name.startswith("__") and function.name.endswith("__") and function.name not in _CALLED


def hooks(script: Script) -> Iterator[tuple[Script, ast.FunctionDef | ast.Lambda | ast.Call]]:
    """What is handed the results of modules, in every file around; the registration itself where it is not seen."""
    for other in script.project.related(script):
        for call in other.tree_index.calls_named(*_HOOKING):
            yield from hooked(other, call)
        for call in other.tree_index.calls_named("getattr"):
            if lookups.member_may_be(other, call, _HOOKING):
                yield other, call


def hooked(script: Script, call: ast.Call) -> Iterator[tuple[Script, ast.FunctionDef | ast.Lambda | ast.Call]]:
    """The functions that a call registers as forward hooks."""
    if not isinstance(call.func, ast.Attribute | ast.Name) or _name(call.func) not in _HOOKING:
        return
    handed = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "hook")]
    for each in handed:
        if isinstance(each, ast.Lambda):
            yield script, each
            continue
        values = script.values(each)
        for value in values:
            if value.kind is Kind.FUNCTION and isinstance(value.node, ast.FunctionDef | ast.Lambda):
                yield value.script or script, value.node
            else:
                yield script, call
        if not values:
            yield script, call


def _name(function: ast.Attribute | ast.Name) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id
