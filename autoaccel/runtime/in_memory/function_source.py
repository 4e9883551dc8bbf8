"""The text of a method, found by its bytecode: files may have changed since they were imported, or been rewritten."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Iterator
from typing import Any

from .mutation_guard import Unsupported


def definition(function: Any) -> ast.FunctionDef:
    """The `def` that a plain function was compiled from."""
    if not isinstance(function, types.FunctionType) or function.__closure__ or hasattr(function, "__wrapped__"):
        raise Unsupported("its __getitem__ is not a plain method")
    filename, name = function.__code__.co_filename, function.__name__
    found = _definitions(filename, "".join(linecache.getlines(filename, function.__globals__)), name)
    for code, node in found:
        if _alike(code, function.__code__):
            return node
    raise Unsupported("its __getitem__ has no text to read")


@functools.lru_cache(maxsize=16)
def _definitions(filename: str, text: str, name: str) -> tuple[tuple[types.CodeType, ast.FunctionDef], ...]:
    """The undecorated functions of a name in a file, as compiled (which depends on the file's imports) and as read."""
    try:
        tree = ast.parse(text, filename)
        codes = all_codes(compile(tree, filename, "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return ()
    nodes = {
        node.lineno: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == name and not node.decorator_list
    }
    return tuple((code, nodes[code.co_firstlineno]) for code in codes if code.co_firstlineno in nodes)


def all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and those of functions, classes and comprehensions within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from all_codes(each)


def _alike(one: types.CodeType, other: types.CodeType) -> bool:
    names = ("co_name", "co_code", "co_names", "co_varnames", "co_cellvars", "co_freevars", "co_argcount")
    return (
        all(getattr(one, name) == getattr(other, name) for name in (*names, "co_kwonlyargcount"))
        and len(one.co_consts) == len(other.co_consts)
        and all(map(_same_constant, one.co_consts, other.co_consts))
    )


def _same_constant(one: Any, other: Any) -> bool:
    if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):  # a comprehension
        return _alike(one, other)
    return repr(one) == repr(other)  # 1 == 1.0 == True, but they are not the same
