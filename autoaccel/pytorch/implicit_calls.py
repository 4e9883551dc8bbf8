"""Functions that run without being called by their name: properties, operators of objects, decorators and hooks."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.classes import methods
from autoaccel.analysis.name_lookups import mentions
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import UNKNOWN, Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.query import once
from autoaccel.library_models.python_names import CONSTRUCTORS, CONTAINERS

IMPLICIT_CALLS = (
    *(ast.Attribute, ast.Subscript, ast.For, ast.comprehension, ast.withitem, ast.BinOp, ast.AugAssign),
    *(ast.Call, ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Assign, ast.FormattedValue),
    ast.FunctionDef,
)
"""The nodes by which `implicit_callees` finds something."""
_HOOKING = tuple(f"register_{each}_hook" for each in "forward module_forward forward_pre module_forward_pre".split())
_AROUND = frozenset({"enumerate", "zip", "iter", "pass"})  # iterators whose elements come from what they are made of
_CALLED = CONSTRUCTORS | {"__call__"}
_ITERATING = ("__iter__", "__next__", "__getitem__", "__reversed__")
_COMPARING = tuple(f"__{name}__" for name in "eq ne lt le gt ge contains iter getitem hash".split())
_KEY = ("__hash__", "__eq__", "__index__")
_TRUTH = ("__bool__", "__len__")
_TEXT = ("__str__", "__repr__", "__format__")
_BY_BUILTIN = {
    **dict.fromkeys((*CONTAINERS, *"sum min max any all map filter next".split()), _ITERATING),
    **dict.fromkeys(("str", "repr", "format", "print"), _TEXT),
    **dict.fromkeys(
        ("int", "float", "complex", "round", "abs"), ("__int__", "__float__", "__index__", "__round__", "__abs__")
    ),
    "len": ("__len__",),
    "bool": _TRUTH,
}
"""The methods by which builtins ask their arguments."""


def implicit_callees(script: Script, node: ast.AST) -> Iterator[tuple[Script, ast.FunctionDef]]:
    """The methods of project classes that reading a part of an object, iterating it, a builtin or a `with` runs.

    Of an object that is not known, these are the properties of that name."""
    match node:
        case ast.Attribute(value=owner, attr=name, ctx=ast.Load()):
            yield from (each for each in _methods(script, owner, (name,)) if is_property(each[1]))
            yield from _methods(script, owner, ("__getattr__", "__getattribute__"))
            if any(value.kind is Kind.UNKNOWN and value.cls is None for value in script.values(owner)):
                yield from (each for each in _all_properties(script) if each[1].name == name)
        case ast.Subscript(value=owner, slice=key, ctx=ast.Load()):
            yield from _methods(script, owner, ("__getitem__", "__missing__"))
            yield from _methods(script, key, _KEY)
        case ast.For(iter=owner) | ast.comprehension(iter=owner):
            yield from _methods(script, owner, _ITERATING)
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=owner):
            yield from _methods(script, owner, _ITERATING)
        case ast.Call(func=ast.Name(id=name) as builtin) if name in _BY_BUILTIN and not script.definitions(builtin):
            for argument in given_values(node):
                yield from _methods(script, argument, _BY_BUILTIN[name])
        case ast.If(test=owner) | ast.IfExp(test=owner) | ast.While(test=owner):
            yield from _methods(script, owner, _TRUTH)
        case ast.BoolOp(values=owners):
            for owner in owners:
                yield from _methods(script, owner, _TRUTH)
        case ast.UnaryOp(operand=owner):
            yield from (each for each in _methods(script, owner, ()) if is_protocol(each[1]))
        case ast.Compare(left=left, comparators=others):
            for owner in (left, *others):
                yield from _methods(script, owner, _COMPARING)
        case ast.FormattedValue(value=owner):
            yield from _methods(script, owner, _TEXT)
        case ast.withitem(context_expr=owner):
            yield from _methods(script, owner, ("__enter__", "__exit__"))
        case ast.BinOp(left=left, right=right) | ast.AugAssign(target=left, value=right):
            for owner in (left, right):
                yield from (each for each in _methods(script, owner, ()) if is_protocol(each[1]))
        case ast.FunctionDef(decorator_list=decorators):
            for decorator in decorators:
                function = decorator.func if isinstance(decorator, ast.Call) else decorator
                for value in script.values(function):
                    if isinstance(value.node, ast.FunctionDef) and value.script is not None:
                        yield value.script, value.node


def _methods(script: Script, owner: ast.expr, names: tuple[str, ...]) -> Iterator[tuple[Script, ast.FunctionDef]]:
    """Of what the owner may be; all of them where no names are given."""
    for value in iterated_values(script.values(owner)):
        yield from methods(value.cls, *names) if value.cls is not None else ()


def iterated_values(values: Iterable[Value]) -> Iterator[Value]:
    """What is iterated over through `enumerate`, `zip`, `tqdm`; other values as they are."""
    for value in values:
        if value.kind is Kind.ITERATOR and value.how in _AROUND:
            for _, inner in value.items:
                yield from iterated_values(inner)
        else:
            yield value


@once
def _all_properties(script: Script) -> tuple[tuple[Script, ast.FunctionDef], ...]:
    functions = ((other, each) for other in script.project.related(script) for each in other.find(ast.FunctionDef))
    return tuple((other, each) for other, each in functions if each.decorator_list and is_property(each))


def sets(script: Script, owner: ast.expr, name: str) -> bool:
    """Whether storing an attribute may run a method of a project class: `__setattr__`, or a property's setter."""
    owners = script.values(owner)
    for value in owners:
        if value.cls is not None and any(_is_setter(method, name) for _, method in methods(value.cls)):
            return True
    if not any(value.cls is None and value.kind is Kind.UNKNOWN for value in owners):
        return False
    return any(
        _is_setter(each, name) and each.name != "__setattr__"
        for other in script.project.related(script)
        for each in other.find(ast.FunctionDef)
    )


def _is_setter(method: ast.FunctionDef, name: str) -> bool:
    setters = (each for each in method.decorator_list if isinstance(each, ast.Attribute) and each.attr == "setter")
    return method.name == "__setattr__" or (method.name == name and any(setters))


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


def hooks(script: Script) -> Iterator[tuple[Script, ast.FunctionDef | ast.expr]]:
    """What is handed the inputs or results of modules, in every file around: functions and lambda expressions, or the
    method that registers something else."""
    for other in script.project.related(script):
        for method in mentions(other, _HOOKING):
            yield from _registered(other, method)


def _registered(script: Script, method: ast.expr) -> Iterator[tuple[Script, ast.FunctionDef | ast.expr]]:
    call = script.call_of(method)
    given: list[ast.expr] = []
    if call is not None:
        given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "hook")]
    values = [value for each in given if not isinstance(each, ast.Lambda) for value in script.values(each) or {UNKNOWN}]
    yield from ((script, each) for each in given if isinstance(each, ast.Lambda))
    functions = [value for value in values if value.kind is Kind.FUNCTION]
    for value in functions:
        if isinstance(value.node, ast.FunctionDef | ast.Lambda):
            yield value.script or script, value.node
    if not given or len(functions) < len(values):
        yield script, method
