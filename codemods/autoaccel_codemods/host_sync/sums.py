"""Sums of values that `.item()` or `float()` reads: what a name begins with, and everything that is added to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.library_values import RUNNING_TOTALS
from autoaccel.pytorch.integers import at_most, integral

_WITHOUT_ITEM = frozenset({"AttributeError", "TypeError", "Exception", "BaseException"})
_GREAT = 2**31
_NO_TENSORS = (Kind.NUMBER, Kind.ARRAY, Kind.STRING, Kind.BOOL, Kind.MAPPING, Kind.SEQUENCE)


@dataclass(frozen=True, slots=True)
class Addition:
    """`total += value`, whose one `item`, `tensor.item()` or `float(tensor)`, is the value or a part of it."""

    statement: ast.AugAssign
    value: ast.expr
    item: ast.Call
    tensor: ast.expr


@dataclass(frozen=True, slots=True)
class Start:
    """The number that a sum begins with. `shared` binds it to other names as well: `correct = total = 0`."""

    value: ast.Constant
    shared: ast.Assign | None


@dataclass(frozen=True, slots=True)
class Sum:
    """A name of one scope: all that it may be, until it is bound to something else."""

    name: str
    definitions: tuple[Definition, ...]
    starts: tuple[Start, ...]
    additions: tuple[Addition, ...]


def candidates(script: Script) -> Iterator[tuple[ast.AugAssign, Sum | str]]:
    """The sums of loops by their first addition, or why they are none that can be kept on the device."""
    known: set[ast.AST] = set()
    for statement in script.find(ast.AugAssign):
        if statement in known or not isinstance(statement.op, ast.Add) or not script.loops(statement):
            continue
        if not any(True for _ in item_calls(script, statement.value)):
            continue
        outcome: Sum | str
        if isinstance(statement.target, ast.Name):
            outcome = _sum(script, statement.target)
        else:
            outcome = f"`{script.source(statement.target)}` is no variable, and may be read anywhere"
        if isinstance(outcome, Sum):
            known.update(each.statement for each in outcome.additions)
        yield statement, outcome


def item_calls(script: Script, node: ast.AST) -> Iterator[ast.Call]:
    """Calls of `.item()` on what may be a tensor, and of `float()` on a loss."""
    for call in script.within(node, ast.Call):
        owner = read(call)
        if owner is None or any(value.name in RUNNING_TOTALS for value in script.values(owner)):
            continue
        known = (
            script.kind(owner) not in _NO_TENSORS if isinstance(call.func, ast.Attribute) else _is_loss(script, call)
        )
        if known:
            yield call


def read(call: ast.Call) -> ast.expr | None:
    """What `.item()` or `float()` reads."""
    match call:
        case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
            return owner
        case ast.Call(func=ast.Name(id="float"), args=[owner], keywords=[]):
            return owner
        case _:
            return None


def _is_loss(script: Script, call: ast.Call) -> bool:
    """Whether Python's own `float` is given what goes backward in the same function: it is no whole number."""
    owner = call.args[0]
    if not isinstance(owner, ast.Name) or script.definitions(call.func):  # type: ignore[arg-type]
        return False
    for backward in script.syntax_index.calls_named("backward"):
        match backward.func:
            case ast.Attribute(value=ast.Name(id=name)) | ast.Attribute(value=ast.Call(args=[ast.Name(id=name)])):
                if name == owner.id and script.function(backward) is script.function(call):
                    return True
    return False


def noted(script: Script) -> Iterator[ast.Call]:
    """Where a loop that trains reads a value to put it into a list, or an object that keeps an average:
    `losses.append(loss.item())`, `losses.update(loss.item(), x.size(0))`."""
    for call in script.syntax_index.calls_named("append", "update"):
        match call:
            case ast.Call(func=ast.Attribute(), args=[value, *_], keywords=[]) if script.loops(call):
                loop = script.loops(call)[0]
                trains = any(each.attr == "backward" for each in script.within(loop, ast.Attribute))
                if trains and any(True for _ in item_calls(script, value)):
                    yield call


def _sum(script: Script, target: ast.Name) -> Sum | str:
    pending = list(script.definitions(target))
    starts: dict[Start, None] = {}
    additions: list[Addition] = []
    for definition in pending:
        if definition.how == "global" or isinstance(definition.scope.node, ast.ClassDef):
            return f"`{target.id}` is a name that other functions see"
        node = definition.node
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            addition = _addition(script, node)
            if isinstance(addition, str):
                return addition
            additions.extend([addition] if addition is not None else [])
            pending.extend(script.reaching_definitions.before_addition(node.target))
        elif (start := _start(definition)) is not None:
            starts[start] = None
        else:
            line = getattr(node, "lineno", target.lineno)
            return f"`{target.id}` may be something else that is not a sum, from line {line}"
        for other in script.additions(definition):
            if isinstance(statement := script.parent(other), ast.AugAssign) and isinstance(statement.op, ast.Add):
                pending.extend(script.definitions(other))
        pending[:] = dict.fromkeys(pending)
    if not starts:
        return f"`{target.id}` begins out of sight"
    additions.sort(key=lambda each: (each.statement.lineno, each.statement.col_offset))
    return Sum(target.id, tuple(pending), tuple(starts), tuple(additions))


def _start(definition: Definition) -> Start | None:
    """The number that a plain assignment begins with: `total = 0`, `total, correct = 0.0, 0`, `total = correct = 0`."""
    node, value = definition.node, definition.value
    if not isinstance(node, ast.Assign):
        return None  # annotated: it would not be such a number
    shared = node if len(node.targets) > 1 else None
    if shared is not None and sum(_binds(target, definition.name) for target in node.targets) != 1:
        return None
    match value, definition.path:
        case ((ast.Tuple(elts=elements) | ast.List(elts=elements)), (int() as index,)):
            if any(isinstance(each, ast.Starred) for each in elements) or not 0 <= index < len(elements):
                return None
            value = elements[index]
        case _, (_, *_):
            return None
    if not isinstance(value, ast.Constant) or type(value.value) not in (int, float):
        return None
    return Start(value, shared)


def _binds(target: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target))


def _addition(script: Script, statement: ast.AugAssign) -> Addition | str | None:
    """What an addition puts on the device; None where it adds a plain number, and a text where it is neither."""
    value = statement.value
    if isinstance(value, ast.List | ast.Tuple):
        return f"`{script.source(statement.target)}` takes a number in every iteration: it is a list, not a sum"
    items = tuple(item_calls(script, value))
    if not items:
        return None if _is_number(script, value) else f"line {statement.lineno} adds what may not be a plain number"
    if len(items) > 1:
        return "several values are read for one addition"
    (item,) = items
    owner = read(item)
    assert owner is not None
    if any(map(_catches_it, script.ancestors(statement))):
        return f"`{script.source(item)}` may fail, and is waited for"
    if not _is_scaled(script, value, item):
        return f"`{script.source(value)}` may be computed otherwise on a device"
    tensor = _on_device(script, owner)
    return Addition(statement, value, item, tensor) if tensor is not None else "it is copied to the CPU first"


def _is_scaled(script: Script, value: ast.expr, item: ast.Call) -> bool:
    """Whether nothing but whole numbers is added to, taken from or multiplied with what is read."""
    match value:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            inner, other = (left, right) if script.inside(item, left) else (right, left)
            return integral(script, other) and _is_small(script, other) and _is_scaled(script, inner, item)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_scaled(script, operand, item)
        case _:
            return value is item


def _catches_it(block: ast.AST) -> bool:
    """Whether a block goes on where what is read has no `item`: None, a number."""
    for handler in block.handlers if isinstance(block, ast.Try) else ():
        names = (
            {last_name(each) for each in ast.walk(handler.type) if isinstance(each, ast.expr)}
            if handler.type
            else set()
        )
        if handler.type is None or not names.isdisjoint(_WITHOUT_ITEM):
            return True
    return False


def _is_small(script: Script, number: ast.expr) -> bool:
    """Whether no literal makes a whole number greater than the device's are."""
    literals = (each.value for each in ast.walk(number) if isinstance(each, ast.Constant))
    return all(isinstance(each, int) and each < _GREAT for each in literals) and (at_most(script, number) or 0) < _GREAT


def _on_device(script: Script, tensor: ast.expr) -> ast.expr | None:
    """What is read, before `.cpu()`; None where that may be something else than a tensor's."""
    match tensor:
        case ast.Call(func=ast.Attribute(value=owner, attr="cpu"), args=[], keywords=[]):
            return _on_device(script, owner) if script.kind(owner) in (Kind.TENSOR, Kind.BATCH) else None
        case (
            ast.Call(func=ast.Attribute(value=owner, attr="detach"), args=[], keywords=[])
            | ast.Attribute(value=owner, attr="data")
        ):
            inner = _on_device(script, owner)
            return tensor if inner is owner else inner
        case _:
            return tensor


def _is_number(script: Script, value: ast.expr) -> bool:
    """Whether a value surely is Python's int or float."""
    match value:
        case ast.Constant(value=constant):
            return type(constant) in (int, float)
        case ast.Call(func=ast.Name(id="float" | "int" | "len") as function):
            return not script.definitions(function)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            return _is_number(script, left) and _is_number(script, right)
        case _:
            return integral(script, value)
