"""Moves: what `.to(…)`, `.cuda(…)` and `.type_as(…)` ask for in any spelling, and how `device=` says the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from autoaccel.analysis.imported_names import imported_elsewhere
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.edits import Code
from autoaccel.pytorch.introspection import name_looked_up
from autoaccel.pytorch.tensor_creation import (
    FILLING_IN_PLACE,
    REBOUND,
    Creation,
    comes_from_factory,
    creation,
    is_plain_variable,
)

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
    return comes_from_factory(script, function.value, REBOUND)


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
    """`h = torch.zeros(n)` and, further down, `h = h.to(device)`. `idle` are the statements that do nothing where the
    tensor is made there: that one, and `h = Variable(h)`."""

    creation: Creation
    idle: tuple[ast.stmt, ...]
    problem: str | None


def moved_later(script: Script, moved: DeviceMove) -> MovedLater | None:
    """The creation of a name that a later statement moves, surely and once; None when the name is not one factory's
    result. A name that is bound anew on the way, `z = Variable(z)`, or filled, `z.normal_()`, is followed."""
    statement = script.statement(moved.call)
    if not isinstance(statement, ast.Assign | ast.Expr | ast.Return) or not _surely_runs(script, moved.call, statement):
        return None
    if isinstance(statement, ast.Assign) and statement.value is moved.call and not _binds_anew(statement, moved):
        return None
    links: list[Definition] = []
    filling: list[ast.stmt] = []

    def bound(name: ast.Name) -> tuple[ast.expr, list[ast.Call]] | None:
        definitions = script.definitions(name)
        if len(definitions) != 1 or definitions[0] in links or definitions[0].path:
            return None
        (definition,) = definitions
        if not isinstance(definition.node, ast.Assign) or len(definition.node.targets) != 1:
            return None
        if links and definition.name != links[0].name:
            return None
        links.append(definition)
        fills = [call for use in script.uses(definition) if (call := _filling(script, use)) is not None]
        filling.extend(script.statement(each) for each in fills)
        return definition.node.value, fills[::-1]

    made = creation(script, moved.receiver, bound)
    if made is None or not links:
        return None
    places = [each.node for each in links if isinstance(each.node, ast.stmt)]
    problem = _obstacle(script, moved, links, [statement, *places, *filling])
    if not (isinstance(statement, ast.Assign) and _binds_anew(statement, moved)):  # it stays what the name stands for
        problem = problem or _read_elsewhere(script, links[0])
    idle = [each for each in (statement, *places[:-1]) if _is_idle(script, each, moved)]
    if any("#" in _rest_of_line(script, each) for each in idle):
        problem = problem or "the move carries a comment of its own"
    return MovedLater(made, tuple(idle), problem)


def _surely_runs(script: Script, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether a call is made whenever its statement runs, and by then."""
    for each in script.ancestors(call):
        if each is statement:
            return True
        if isinstance(each, ast.IfExp | ast.BoolOp | ast.Compare | ast.Lambda | ast.comprehension):
            return False
        if isinstance(each, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return False
    return False


def _binds_anew(statement: ast.Assign, moved: DeviceMove) -> bool:
    """`h = h.to(device)`, `h = Variable(h).to(device)`."""
    match statement.targets:
        case [ast.Name(id=target)]:
            return any(isinstance(each, ast.Name) and each.id == target for each in breadth_first(moved.receiver))
        case _:
            return False


def _read_elsewhere(script: Script, definition: Definition) -> str | None:
    """Why a name may be read out of sight."""
    if isinstance(definition.scope.node, ast.ClassDef):
        return "other code may read it"
    is_public = definition.scope.parent is None
    try:
        if is_public and imported_elsewhere(script, definition.name):
            return "other files import it from here"
        return name_looked_up(script, definition.name, public=is_public)
    except Incomplete as incomplete:
        return str(incomplete)


def _filling(script: Script, use: ast.AST) -> ast.Call | None:
    """The call in `h.fill_(1)`, a statement of its own."""
    method = script.parent(use)
    call = script.parent(method) if isinstance(method, ast.Attribute) and method.attr in FILLING_IN_PLACE else None
    is_statement = isinstance(call, ast.Call) and call.func is method and isinstance(script.parent(call), ast.Expr)
    return call if isinstance(call, ast.Call) and is_statement else None


def _is_idle(script: Script, statement: ast.stmt, moved: DeviceMove) -> bool:
    """Whether a statement binds a name to what it stands for already, but for a move and `Variable`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            while isinstance(value, ast.Call) and (value is moved.call or is_plain_variable(script, value)):
                value = moved.receiver if value is moved.call else value.args[0]
            return isinstance(value, ast.Name) and value.id == target
        case _:
            return False


def _obstacle(script: Script, moved: DeviceMove, links: list[Definition], own: list[ast.stmt]) -> str | None:
    statement, siblings = own[0], script.block(own[0])
    if any(each not in siblings for each in own):
        return "it is moved only under a condition or in another block"
    if any(script.statement(use) not in own for each in links for use in script.uses(each)) or any(
        sum(_filling(script, use) is None for use in script.uses(each)) > 1 for each in links
    ):
        return "it is used on the host before it is moved"
    if max(map(siblings.index, own)) > siblings.index(statement) or any(map(script.additions, links)):
        return "it is changed on the host after it is moved"
    first = min(map(siblings.index, own))
    for between in siblings[first + 1 : siblings.index(statement)]:
        if (between not in own and not _only_creates(script, between)) or _binds(between, moved):
            return "other statements run before it is moved"
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
    """Whether a statement binds a name, or an attribute, that the device expression reads."""
    holes = () if moved.device is None else moved.device.holes
    read = {_called(part) for hole in holes for part in breadth_first(hole)} - {None}
    return any(isinstance(part, ast.Subscript) or _called(part) in read for part in _stored(statement))


def _called(part: ast.AST) -> str | None:
    return part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else None


def _stored(statement: ast.stmt) -> Iterator[ast.Name | ast.Attribute | ast.Subscript]:
    for part in breadth_first(statement):
        if isinstance(part, ast.Name | ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store):
            yield part
