"""Which parameter of a function an argument of a call is passed for."""

from __future__ import annotations

import ast


def positional(function: ast.AST) -> list[str]:
    """The names of the parameters that can be given by position; none of what is no function."""
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments):
        return []
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args)]


def bind_argument(function: ast.AST, call: ast.Call, parameter: str, *, bound: bool) -> ast.expr | None:
    """The expression that a call passes for a parameter; None for defaults and for what `*` and `**` hide."""
    if not isinstance(getattr(function, "args", None), ast.arguments):
        return None
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    names = positional(function)[int(bound) :]
    if parameter not in names:
        return None
    index = names.index(parameter)
    if index >= len(call.args) or any(isinstance(each, ast.Starred) for each in call.args[: index + 1]):
        return None
    return call.args[index]
