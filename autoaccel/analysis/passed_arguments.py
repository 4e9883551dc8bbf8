"""Arguments that a function hands on as it got them: `super().__init__(*args, **kwargs)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.dataflow.call_arguments import positional, unpacks

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_READING = frozenset("get items keys values copy".split())


def handed_on(
    script: Script,
    call: ast.Call,
    function: ast.AST,
    parameter: str,
    *,
    bound: bool,
    inner: frozenset[ast.AST] = frozenset(),
) -> list[tuple[Script, ast.expr]] | None:
    """What a call passes for a parameter by the `*args` and `**kwargs` of the function around it: the expressions that
    the callers of that one write, none where they leave it out. None where not all of them are known, or where the
    call unpacks something else."""
    outer = script.function(call)
    if not isinstance(outer, ast.FunctionDef) or outer in inner or not _hands_on(script, call, outer):
        return None
    callers = script.callers(outer)
    if callers.missing is not None:
        return None
    found: list[tuple[Script, ast.expr]] = []
    for other, caller in callers:
        place = _place(function, call, parameter, bound=bound)
        as_method = is_bound(script, outer, other, caller)
        given = _given(caller, outer, parameter, place, bound=as_method)
        if given is not None:
            found.append((other, given))
        elif unpacks(caller):
            further = handed_on(other, caller, outer, parameter, bound=as_method, inner=inner | {outer})
            if further is None or place is not None:
                return None
            found += further
    return found


def _hands_on(script: Script, call: ast.Call, outer: ast.FunctionDef) -> bool:
    """Whether all that a call unpacks is what the function around it is given beyond its parameters, unchanged."""
    arguments = outer.args
    names = {each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None}
    starred = [each.value for each in call.args if isinstance(each, ast.Starred)]
    unpacked = [*starred, *(each.value for each in call.keywords if each.arg is None)]
    if not all(isinstance(each, ast.Name) and each.id in names for each in unpacked) or len(starred) > 1:
        return False
    return all(_is_read(script, use) for use in script.within(outer, ast.Name) if use.id in names)


def _is_read(script: Script, use: ast.Name) -> bool:
    """Whether a use of `args` or `kwargs` leaves it as it is."""
    if not isinstance(use.ctx, ast.Load):
        return False
    match script.parent(use):
        case ast.Starred() | ast.keyword(arg=None) | ast.Compare():
            return True
        case ast.Subscript(ctx=ast.Load()):
            return True
        case ast.Attribute(attr=name):
            return name in _READING
        case _:
            return False


def _place(function: ast.AST, call: ast.Call, parameter: str, *, bound: bool) -> int | None:
    """Which element of `*args` a call passes for a parameter; None where none is."""
    names = positional(function)[int(bound) :]
    before = next((index for index, each in enumerate(call.args) if isinstance(each, ast.Starred)), None)
    if before is None or parameter not in names or names.index(parameter) < before:
        return None
    return names.index(parameter) - before


def _given(
    call: ast.Call, outer: ast.FunctionDef, parameter: str, place: int | None, *, bound: bool
) -> ast.expr | None:
    """What a call of the outer function writes for a parameter that this one hands on."""
    own = {each.arg for each in (*outer.args.args, *outer.args.kwonlyargs, *outer.args.posonlyargs)}
    if parameter not in own and outer.args.kwarg is not None:
        for each in call.keywords:
            if each.arg == parameter:
                return each.value
    if place is None:
        return None
    index = len(positional(outer)) - int(bound) + place
    if index >= len(call.args) or any(isinstance(each, ast.Starred) for each in call.args[: index + 1]):
        return None
    return call.args[index]
