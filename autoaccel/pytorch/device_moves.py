"""Moves: what `.to(…)`, `.cuda(…)` and `.type_as(…)` ask for in any spelling, and how `device=` says the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.edits import Code
from autoaccel.pytorch.tensor_creation import Creation, comes_from_factory, creation

_PARAMETERS = {
    "to": ("device", "dtype", "non_blocking", "copy"),
    "cuda": ("device", "non_blocking", "memory_format"),
    "type_as": ("other",),
}
_PLACES = frozenset({Kind.DEVICE, Kind.NUMBER, Kind.STRING, Kind.NONE})


@dataclass(frozen=True, slots=True, eq=False)
class DeviceMove:
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
    """Whether a call may move what a factory has made, here or where its name is bound: told by names alone."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _PARAMETERS:
        return False
    receiver = function.value
    if comes_from_factory(script, receiver):
        return True
    definitions = script.definitions(receiver) if isinstance(receiver, ast.Name) else ()
    return any(each.value is not None and comes_from_factory(script, each.value) for each in definitions)


def device_move(script: Script, call: ast.Call) -> DeviceMove | None:
    """What a call moves and where to; None for calls that move nothing, `.to(torch.float16)` among them.

    Where the place is not known, the move has a `problem`.
    """
    function = call.func
    if (
        not isinstance(function, ast.Attribute)
        or function.attr not in _PARAMETERS
        or script.qualname(function) is not None
    ):
        return None
    receiver = function.value
    if unpacks(call):
        return DeviceMove(call, receiver, None, problem="the arguments of the move come as *args")
    given = dict(zip(_PARAMETERS[function.attr], call.args, strict=False))
    given |= {each.arg: each.value for each in call.keywords if each.arg is not None}
    if "memory_format" in given:
        return DeviceMove(call, receiver, None, problem="the move changes the memory format as well")
    if function.attr == "cuda":
        return _cuda(script, call, receiver, given.get("device"))
    target = given.pop("other", None) or given.get("device")
    if target is None:
        return None
    kinds = script.values(target).kinds
    if kinds == {Kind.DTYPE}:
        return None
    if function.attr == "type_as" or kinds <= {Kind.TENSOR, Kind.PARAMETER}:
        return _like(script, call, receiver, target, kinds)
    if not _is_place(script, target, kinds):
        return DeviceMove(call, receiver, None, problem=f"`{script.source(target)}` is not known to be a device")
    dtype = given.get("dtype")
    return DeviceMove(call, receiver, Code("{0}", (target,)), Code("{0}", (dtype,)) if dtype is not None else None)


def is_moved(script: Script, made: ast.expr) -> bool:
    """Whether a method of an expression moves it: `torch.tensor(data).to(device)`."""
    method = script.parent(made)
    call = script.parent(method) if isinstance(method, ast.Attribute) else None
    return isinstance(call, ast.Call) and call.func is method and device_move(script, call) is not None


def _is_place(script: Script, target: ast.expr, kinds: Set[Kind]) -> bool:
    """Numbers and strings are places too, to `.to`. A bare None may just as well be a dtype that was not chosen."""
    if kinds == {Kind.NONE}:
        return "dev" in script.source(target).lower()
    return kinds <= _PLACES or script.is_device(target)


def _like(script: Script, call: ast.Call, receiver: ast.expr, other: ast.expr, kinds: Set[Kind]) -> DeviceMove:
    if isinstance(other, ast.Attribute) and other.attr == "data":
        other = other.value
    plain = isinstance(other, ast.Name) or (isinstance(other, ast.Attribute) and isinstance(other.value, ast.Name))
    if not plain or not kinds <= {Kind.TENSOR, Kind.PARAMETER}:
        return DeviceMove(call, receiver, None, problem=f"`{script.source(other)}` is not known to be a tensor")
    return DeviceMove(call, receiver, Code("{0}.device", (other,)), Code("{0}.dtype", (other,)))


def _cuda(script: Script, call: ast.Call, receiver: ast.expr, index: ast.expr | None) -> DeviceMove:
    """`.cuda(None)` is the current GPU but `device=None` the CPU: what may be None goes through `torch.device`."""
    quote = script.quote
    match index:
        case None | ast.Constant(value=None):
            return DeviceMove(call, receiver, Code(f"{quote}cuda{quote}"))
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return DeviceMove(call, receiver, Code(f"{quote}cuda:{number}{quote}"))
        case ast.Constant(value=str()):
            return DeviceMove(call, receiver, Code("{0}", (index,)))
    kinds = script.values(index).kinds
    if kinds and kinds <= {Kind.DEVICE, Kind.STRING}:
        return DeviceMove(call, receiver, Code("{0}", (index,)))
    if kinds == {Kind.NUMBER} and _surely_int(script, index):
        return DeviceMove(call, receiver, Code("{0}", (index,)))
    if Kind.NUMBER in kinds and kinds <= {Kind.NUMBER, Kind.NONE}:
        device, imports = script.spell("torch.device")
        if not imports:
            return DeviceMove(call, receiver, Code(f"{device}({quote}cuda{quote}, {{0}})", (index,)))
    return DeviceMove(
        call, receiver, None, problem=f"`{script.source(index)}` may be None, which means another device in a factory"
    )


def _surely_int(script: Script, index: ast.expr) -> bool:
    """Bound to numbers only, in sight: a parameter's default says nothing about what callers pass."""
    if not isinstance(index, ast.Name):
        return False
    definitions = script.definitions(index)
    return bool(definitions) and all(
        each.how in ("assign", "for")
        or (
            isinstance(each.node, ast.arg)
            and isinstance(each.node.annotation, ast.Name)
            and each.node.annotation.id == "int"
            and not (isinstance(each.value, ast.Constant) and each.value.value is None)  # `gpu: int = None`
        )
        for each in definitions
    )


@dataclass(frozen=True, slots=True, eq=False)
class MovedLater:
    """`h = torch.zeros(n)` and, further down, `h = h.to(device)`, which is `statement`."""

    creation: Creation
    statement: ast.stmt
    problem: str | None


def moved_later(script: Script, moved: DeviceMove) -> MovedLater | None:
    """The creation of a name that a statement of its own moves; None when the name is not one factory's result."""
    receiver = moved.receiver
    statement = script.statement(moved.call)
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if value is moved.call:
            pass
        case _:
            return None
    if not isinstance(receiver, ast.Name) or receiver.id != target:
        return None
    definitions = script.definitions(receiver)
    if len(definitions) != 1 or definitions[0].path or not isinstance(definitions[0].node, ast.Assign):
        return None
    definition = definitions[0]
    first = definitions[0].node
    made = creation(script, first.value)
    if made is None or len(first.targets) != 1:
        return None
    return MovedLater(made, statement, _obstacle(script, moved, definition, first, statement))


def _obstacle(
    script: Script, moved: DeviceMove, definition: Definition, first: ast.Assign, statement: ast.stmt
) -> str | None:
    siblings = script.block(statement)
    if first not in siblings:
        return "it is moved only under a condition or in another block"
    if len(script.uses(definition)) > 1:
        return "it is used on the host before it is moved"
    for between in siblings[siblings.index(first) + 1 : siblings.index(statement)]:
        if not _only_creates(script, between) or _binds(between, moved):
            return "other statements run before it is moved"
    if "#" in _rest_of_line(script, statement):
        return "the move carries a comment of its own"
    return None


def _rest_of_line(script: Script, statement: ast.stmt) -> str:
    # Not splitlines: form feeds and other exotic characters end no line for the parser.
    line = re.split(r"\r\n|\r|\n", script.text)[(statement.end_lineno or 1) - 1]
    return line.encode()[statement.end_col_offset :].decode()


def _only_creates(script: Script, statement: ast.stmt) -> bool:
    """`c0 = torch.zeros(n)`, `c0 = c0.to(device)`: nothing that could change what the device expression says."""
    match statement:
        case ast.Assign(value=ast.Call(func=function) as call):
            qualified = script.qualname(function) or ""
            return (
                qualified.startswith("torch.")
                or device_move(script, call) is not None
                or creation(script, call) is not None
            )
        case _:
            return False


def _binds(statement: ast.stmt, moved: DeviceMove) -> bool:
    """Whether a statement binds a name that the device expression reads."""
    holes = () if moved.device is None else moved.device.holes
    read = {part.id for hole in holes for part in breadth_first(hole) if isinstance(part, ast.Name)}
    return any(part.id in read for part in _stored(statement))


def _stored(statement: ast.stmt) -> Iterator[ast.Name]:
    for part in breadth_first(statement):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part
