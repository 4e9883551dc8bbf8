"""Parts of values: what unpacking, subscripts and loops take out of containers and batches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import (
    ANY,
    NUMBER,
    STRING,
    Kind,
    Value,
    Values,
    any_item,
    any_part,
    item,
    made,
    union,
)
from autoaccel.dataflow.definitions import STAR, ElementPath

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


def part(values: Values, path: ElementPath) -> Values:
    """The part of a value that an unpacking target takes."""
    for step in path:
        values = union(_step(owner, step) for owner in values)
    return values


def _step(owner: Value, step: int | str) -> Values:
    match owner.kind:
        case Kind.BATCH:
            return Values({any_part(owner) if step == STAR else owner._replace(path=(*owner.path, step))})
        case Kind.SEQUENCE if step == STAR:
            return made(Kind.SEQUENCE, owner.node, owner.script, items=((None, any_item(owner)),))
        case Kind.SEQUENCE:
            return item(owner, step)
        case Kind.TENSOR:
            return made(Kind.TENSOR, owner.node, owner.script)
        case Kind.ARRAY:
            return made(Kind.ARRAY, owner.node, owner.script, how="view")
        case Kind.ITERATOR if owner.how == "map":
            return ANY if step == STAR else item(owner, step)
        case Kind.ITERATOR if owner.how not in ("pass", "iter"):  # those hold what they go over
            return any_item(owner) or ANY
        case _:
            return ANY


def subscript(values: Values, node: ast.Subscript, script: Script) -> Values:
    """What `values[…]` gives."""
    return union(_subscript(owner, step, node, script) for owner in values for step in _indices(node.slice))


def _indices(index: ast.expr) -> set[int | str | None]:
    """The places that an index may name, None for any: both of `batch["A" if forward else "B"]`."""
    return _indices(index.body) | _indices(index.orelse) if isinstance(index, ast.IfExp) else {_index(index)}


def _index(index: ast.expr) -> int | str | None:
    match index:
        case ast.Constant(value=int() | str() as step) if not isinstance(step, bool):
            return step
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as step)):
            return -step
        case _:
            return None


def _subscript(owner: Value, step: int | str | None, node: ast.Subscript, script: Script) -> Values:
    match owner.kind:
        case Kind.BATCH if step is not None:
            return Values({owner._replace(path=(*owner.path, step))})
        case Kind.BATCH:
            return Values({owner._replace(how=owner.how or "view")})
        case Kind.TENSOR | Kind.PARAMETER:
            return made(Kind.TENSOR, node, script)
        case Kind.ARRAY:
            return made(Kind.ARRAY, node, script, how="view")
        case Kind.SEQUENCE if isinstance(node.slice, ast.Slice):
            return made(Kind.SEQUENCE, node, script, items=((None, any_item(owner)),))
        case Kind.SEQUENCE | Kind.MAPPING:
            return item(owner, step)
        case Kind.MODULE:
            return made(Kind.MODULE, node, script)
        case Kind.STRING:
            return Values({STRING})
        case Kind.UNKNOWN if owner.how == "read" and isinstance(step, str):
            return made(Kind.UNKNOWN, name=owner.name, how="read part")
        case _:
            return ANY


def element(values: Values, site: ast.AST, script: Script) -> Values:
    """What a `for` over these values yields; batches are named after the loop (`site`) that gets them.

    A loop over None ends the program: where it may be None, its body sees what the other values yield.
    """
    owners = [owner for owner in values.unordered() if owner.kind is not Kind.NONE]
    return union(_element(owner, site, script) for owner in owners or values.unordered())


def _element(owner: Value, site: ast.AST, script: Script) -> Values:
    match owner.kind:
        case Kind.LOADER:
            return made(Kind.BATCH, site, script)
        case Kind.BATCH:
            return Values({any_part(owner)})
        case Kind.ITERATOR if owner.how == "enumerate":
            pair = (0, Values({NUMBER})), (1, element(any_item(owner), site, script))
            return made(Kind.SEQUENCE, site, script, items=pair)
        case Kind.ITERATOR if owner.how == "zip":
            items = tuple((key, element(each, site, script)) for key, each in owner.items)
            return made(Kind.SEQUENCE, site, script, items=items)
        case Kind.ITERATOR if owner.how in ("pass", "iter") or (owner.how == "generator" and owner.items):
            return element(any_item(owner), site, script)
        case Kind.MAPPING:
            return Values({STRING})
        case Kind.SEQUENCE | Kind.ITERATOR:
            return any_item(owner) or ANY
        case Kind.TENSOR | Kind.MODULE:
            return made(owner.kind, site, script)
        case Kind.ARRAY:
            return made(Kind.ARRAY, site, script, how="view")
        case Kind.STRING:
            return Values({STRING})
        case _:
            return ANY


def container_method(owner: Value, name: str, node: ast.Call, script: Script) -> Values:
    """What a method of a sequence, a mapping or an iterator gives."""
    if owner.kind is Kind.MAPPING:
        if name == "values":
            return made(Kind.SEQUENCE, node, script, items=((None, any_item(owner) or ANY),))
        if name == "items":
            pair = made(Kind.SEQUENCE, node, script, items=((0, Values({STRING})), (1, any_item(owner) or ANY)))
            return made(Kind.SEQUENCE, node, script, items=((None, pair),))
        if name in ("get", "pop") and node.args:
            key = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            default = map(script.inference.possible, node.args[1:])
            return union((item(owner, key if isinstance(key, str) else None), *default))
    if name == "pop" and owner.kind is Kind.SEQUENCE:
        return any_item(owner) or ANY
    if name == "copy":
        return Values({owner})
    if name in ("__next__", "next") and owner.how == "iter":
        return element(any_item(owner), node, script)
    return ANY
