"""The batches in whose memory an expression may lie."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import UNKNOWN, Kind, Value, any_part
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models.python_names import CONTAINERS
from autoaccel.pytorch.memory_aliases import MAYBE_SAME, NEW_MEMORY, same_memory

_OF_CONTAINERS = frozenset("get pop setdefault copy popitem".split())
HOLDING = CONTAINERS | {"next", "filter"}


@once_all
def memory(file: Script, expression: ast.expr) -> Iterator[Value]:
    """The batches in whose memory an expression may lie, and `UNKNOWN` where it may be anything."""
    return _memory(file, expression, frozenset())


def _memory(file: Script, expression: ast.expr, seen: frozenset[ast.AST]) -> Iterator[Value]:
    if expression in seen:
        return
    seen = seen | {expression}
    for value in file.values(expression):
        if value.kind is Kind.BATCH and value.how == "copy":
            yield from _unless_copied(file, expression, value, seen)
        elif value.kind is Kind.BATCH or value is UNKNOWN:
            yield value
        elif value.kind is Kind.UNKNOWN:
            yield UNKNOWN
        elif value.kind in (Kind.TENSOR, Kind.ARRAY) and value.script is not None and value.how != "moved":
            for owner in same_memory(value):
                yield from _memory(value.script, owner, seen)
        elif value.kind in (Kind.SEQUENCE, Kind.MAPPING) or (value.kind is Kind.ITERATOR and value.how == "map"):
            yield from (each for _, items in value.items for each in items if each.kind is Kind.BATCH)


def _unless_copied(file: Script, expression: ast.expr, value: Value, seen: frozenset[ast.AST]) -> Iterator[Value]:
    """What is said to be a copy of a batch: `x.float()` gives `x` itself where that is a float already."""
    match expression:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if file.qualname(expression.func) is None:
            if attr in _OF_CONTAINERS:
                yield from (any_part(each) if each.kind is Kind.BATCH else each for each in _memory(file, owner, seen))
            elif attr in MAYBE_SAME or not (attr in NEW_MEMORY or file.callees(expression)):
                yield from _memory(file, owner, seen)
            else:
                yield from _returned(file, expression, seen)
        case ast.Call():
            yield from _returned(file, expression, seen)
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return
        case ast.IfExp(body=body, orelse=orelse):
            yield from _memory(file, body, seen)
            yield from _memory(file, orelse, seen)
        case ast.Subscript(value=owner) | ast.NamedExpr(value=owner) | ast.Starred(value=owner):
            yield from _memory(file, owner, seen)
        case ast.Name():
            for each in file.reaching_definitions.before_additions(file.definitions(expression)):
                if each.how == "param":
                    if file.callers(each.scope.node).missing is not None:
                        yield UNKNOWN
                    for other, given in arguments_for(file, each.scope.node, each.name):
                        yield from _memory(other, given, seen)
                elif each.value is not None and each.how in ("assign", "walrus") and not each.path:
                    yield from _memory(file, each.value, seen)
                else:
                    yield value
        case _:
            yield value


def _returned(file: Script, call: ast.Call, seen: frozenset[ast.AST]) -> Iterator[Value]:
    for other, function in file.callees(call):
        for each in other.in_scope(function, ast.Return):
            if each.value is not None:
                yield from _memory(other, each.value, seen)


def is_sum(file: Script, owner: ast.expr, node: ast.AST) -> bool:
    """Whether what `total += …` changes began as something known: `total = 0.0`, and no batch."""
    if not isinstance(node, ast.AugAssign) or not isinstance(owner, ast.Name):
        return False
    begun = file.reaching_definitions.before_additions(file.reaching_definitions.before_addition(owner))
    unknown = any(value.kind is Kind.UNKNOWN for each in begun for value in file.inference.definition(each))
    return bool(begun) and not unknown


def comes_around(file: Script, name: ast.Name, loop: ast.AST, seen: frozenset[Definition] = frozenset()) -> bool:
    """Whether a name may have what the iteration before has bound, by way of any number of names."""
    for each in {*file.reaching_definitions.before_additions(file.definitions(name)), *file.definitions(name)} - seen:
        if each.node is loop or not file.inside(each.node, loop):
            continue
        if position(each.node) > position(name) or (file.inside(name, each.node) and not _is_addition(each.node, name)):
            return True
        block = file.block(file.statement(each.node))
        if not any(file.inside(name, statement) for statement in block):
            return True  # bound under a condition: where it does not hold, to what was there before
        inner = file.within(each.value, ast.Name) if each.value is not None else ()
        if any(comes_around(file, part, loop, seen | {each}) for part in inner):
            return True
    return False


def _is_addition(node: ast.AST, name: ast.Name) -> bool:
    return isinstance(node, ast.AugAssign) and node.target is name
