"""Decorators that keep what they decorate, so that others may call it: `@register("small")`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.dataflow.call_arguments import given_values

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_BUILTIN = frozenset({"staticmethod", "classmethod", "property"})
_OF_PROPERTIES = frozenset({"setter", "getter", "deleter"})
_PLAIN = sys.stdlib_module_names | {"torch", "numpy", "numba", "pytest", "typing_extensions", "jaxtyping", "typeguard"}
_WRAPPING = frozenset({"functools.wraps", "functools.update_wrapper"})


def keeping(script: Script, made: ast.AST) -> ast.expr | None:
    """The decorator of a function or class that may hand it to others; None where there is none."""
    return next((each for each in getattr(made, "decorator_list", ()) if _keeps(script, each)), None)


def _keeps(script: Script, decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(function, ast.Name) and function.id in _BUILTIN and not script.definitions(function):
        return False
    if isinstance(function, ast.Attribute) and function.attr in _OF_PROPERTIES:
        return False
    qualified = script.qualname(function)
    if qualified is not None and not script.is_project_name(function):
        return qualified.partition(".")[0] not in _PLAIN
    return any(
        value.script is None
        or not isinstance(value.node, _FUNCTIONS)
        or not _passes_on(value.script, value.node, made=isinstance(decorator, ast.Call))
        for value in script.inference.possible(function)
    )


def _passes_on(script: Script, decorator: _FUNCTIONS, *, made: bool) -> bool:
    """Whether a decorator of the project (`made` by the call of one) gives what it is handed back, or a function that
    calls it with its own arguments."""
    inner = [each for each in decorator.body if isinstance(each, _FUNCTIONS)]
    taking = inner if made else [decorator]
    if not taking:
        return False
    for function in taking:
        names = {each.arg for each in (*function.args.posonlyargs, *function.args.args)}
        reads = (each for each in script.within(function, ast.Name) if each.id in names)
        if not all(_is_harmless(script, each) for each in reads if isinstance(each.ctx, ast.Load)):
            return False
    return True


def _is_harmless(script: Script, read: ast.Name) -> bool:
    around = script.parent(read)
    match around:
        case ast.Return() | ast.Attribute(ctx=ast.Load()):
            return True
        case ast.Call(func=function) if function is read:
            return set(_given(around)) <= _parameters(script, around)
        case ast.Call(func=function):
            return script.qualname(function) in _WRAPPING
        case _:
            return False


def _given(call: ast.Call) -> Iterator[str | None]:
    """The names that a call hands on; None for what is none."""
    for each in given_values(call):
        inner = each.value if isinstance(each, ast.Starred) else each
        yield inner.id if isinstance(inner, ast.Name) else None


def _parameters(script: Script, call: ast.Call) -> set[str | None]:
    function = script.function(call)
    if not isinstance(function, _FUNCTIONS):
        return set()
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {each.arg for each in named if each is not None}
