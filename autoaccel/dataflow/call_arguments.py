"""What calls are given, and which parameter of a function an argument is passed for."""

from __future__ import annotations

import ast


def given_values(call: ast.Call) -> list[ast.expr]:
    """What a call is given, by position and by name."""
    return call.args + [each.value for each in call.keywords]


def unpacks(call: ast.Call) -> bool:
    """Whether a call is given what is not written there: `*args`, `**kwargs`."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords)


def given_as(call: ast.Call, name: str) -> ast.expr | None:
    """What a call is given by a name."""
    return next((each.value for each in call.keywords if each.arg == name), None)


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
    named = given_as(call, parameter)
    if named is not None:
        return named
    names = positional(function)[int(bound) :]
    if parameter not in names:
        return None
    index = names.index(parameter)
    if index >= len(call.args) or any(isinstance(each, ast.Starred) for each in call.args[: index + 1]):
        return None
    return call.args[index]


def fits(function: ast.FunctionDef, call: ast.Call, *, bound: bool) -> bool:
    """Whether a function can be called with as many arguments as a call gives, under the names that it gives."""
    arguments = function.args
    names = positional(function)[int(bound) :]
    given = {each.arg for each in call.keywords}
    if unpacks(call):
        return True
    if arguments.kwarg is None and not given <= {*names, *(each.arg for each in arguments.kwonlyargs)}:
        return False
    if arguments.vararg is None and len(call.args) > len(names):
        return False
    needed = names[len(call.args) : len(names) - len(arguments.defaults)]
    needed += [
        each.arg for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    return given.issuperset(needed)


def may_be_passed_for(
    function: ast.AST, call: ast.Call, argument: ast.AST, *, bound: bool
) -> tuple[list[str], list[str]]:
    """The parameters that an argument of a call (a keyword, or what stands by position) may be passed for, and those
    that may hold it among others: `*args`, `**kwargs`."""
    arguments: ast.arguments = function.args  # type: ignore[attr-defined]
    names = positional(function)[int(bound) :]
    named = [*names, *(each.arg for each in arguments.kwonlyargs)]
    match argument:
        case ast.keyword(arg=str() as name):
            found = [name] if name in named else []
        case ast.keyword() | ast.Starred():
            found = named
        case _:
            index = next(index for index, each in enumerate(call.args) if each is argument)
            after_star = any(isinstance(each, ast.Starred) for each in call.args[:index])
            found = names if after_star else names[index : index + 1]
    collecting = [each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return found, collecting if not found or isinstance(argument, ast.Starred) else []
