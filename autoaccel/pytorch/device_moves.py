"""Moves: what `.to(…)`, `.cuda(…)` and `.type_as(…)` ask for in any spelling, and how `device=` says the same."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.edits import Code
from autoaccel.pytorch.tensor_creation import comes_from_factory

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_PARAMETERS = {
    "to": ("device", "dtype", "non_blocking", "copy"),
    "cuda": ("device", "non_blocking", "memory_format"),
    "type_as": ("other",),
}
_PLACES = frozenset({Kind.DEVICE, Kind.NUMBER, Kind.STRING, Kind.NONE})


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A call that moves a tensor to a device.

    `device` is what a factory's `device=` needs to create there, `dtype` the type that the move converts to as well.
    `problem` says why no `device=` is known to mean the same; `device` is None then.
    """

    call: ast.Call
    receiver: ast.expr
    device: Code | None
    dtype: Code | None = None
    problem: str | None = None


def may_move_creation(script: Script, call: ast.Call) -> bool:
    """Whether a call may move what a factory has made: told by names alone."""
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _PARAMETERS
        and comes_from_factory(script, function.value)
    )


def move(script: Script, call: ast.Call) -> Move | None:
    """What a call moves and where to; None for calls that move nothing, `.to(torch.float16)` among them."""
    function = call.func
    if (
        not isinstance(function, ast.Attribute)
        or function.attr not in _PARAMETERS
        or script.qualname(function) is not None
    ):
        return None
    receiver = function.value
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return Move(call, receiver, None, problem="the arguments of the move come as *args")
    given = dict(zip(_PARAMETERS[function.attr], call.args, strict=False))
    given |= {each.arg: each.value for each in call.keywords if each.arg is not None}
    if "memory_format" in given:
        return Move(call, receiver, None, problem="the move changes the memory format as well")
    if function.attr == "cuda":
        return _cuda(script, call, receiver, given.get("device"))
    target = given.pop("other", None) or given.get("device")
    if target is None:
        return None
    kinds = {value.kind for value in script.values(target)}
    if kinds == {Kind.DTYPE}:
        return None
    if function.attr == "type_as" or kinds <= {Kind.TENSOR, Kind.PARAMETER}:
        return _like(script, call, receiver, target, kinds)
    if not _is_place(script, target, kinds):
        return Move(call, receiver, None, problem=f"`{script.source(target)}` is not known to be a device")
    dtype = given.get("dtype")
    return Move(call, receiver, Code("{0}", (target,)), Code("{0}", (dtype,)) if dtype is not None else None)


def _is_place(script: Script, target: ast.expr, kinds: set[Kind]) -> bool:
    """Numbers and strings are places too, to `.to`. A bare None may just as well be a dtype that was not chosen."""
    if kinds == {Kind.NONE}:
        return "dev" in script.source(target).lower()
    return kinds <= _PLACES or script.is_device(target)


def _like(script: Script, call: ast.Call, receiver: ast.expr, other: ast.expr, kinds: set[Kind]) -> Move:
    if isinstance(other, ast.Attribute) and other.attr == "data":
        other = other.value
    plain = isinstance(other, ast.Name) or (isinstance(other, ast.Attribute) and isinstance(other.value, ast.Name))
    if not plain or not kinds <= {Kind.TENSOR, Kind.PARAMETER}:
        return Move(call, receiver, None, problem=f"`{script.source(other)}` is not known to be a tensor")
    return Move(call, receiver, Code("{0}.device", (other,)), Code("{0}.dtype", (other,)))


def _cuda(script: Script, call: ast.Call, receiver: ast.expr, index: ast.expr | None) -> Move:
    """`.cuda(None)` is the current GPU but `device=None` the CPU: what may be None stays as it is."""
    quote = script.quote
    match index:
        case None | ast.Constant(value=None):
            return Move(call, receiver, Code(f"{quote}cuda{quote}"))
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return Move(call, receiver, Code(f"{quote}cuda:{number}{quote}"))
        case ast.Constant(value=str()):
            return Move(call, receiver, Code("{0}", (index,)))
    kinds = {value.kind for value in script.values(index)}
    if kinds and kinds <= {Kind.DEVICE, Kind.STRING}:
        return Move(call, receiver, Code("{0}", (index,)))
    return Move(
        call, receiver, None, problem=f"`{script.source(index)}` may be None, which means another device in a factory"
    )
