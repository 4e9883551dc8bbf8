"""Who reads a sum: where it is computed with or shown it may stay as it is; elsewhere a plain number goes on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.name_lookups import hands_on_names, runs_text
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.introspection import name_looked_up
from autoaccel_codemods.host_sync.sums import Sum

_CONVERTING = frozenset("print float int str round abs bool".split())
# What is known to leave arithmetic to a number that it does not know.
_OPERANDS = (Kind.NUMBER, Kind.BOOL, Kind.TENSOR, Kind.BATCH, Kind.ARRAY, Kind.STRING)


def problem(script: Script, found: Sum) -> str | None:
    """Why not every read of a sum is seen, or one may get something else than the sum."""
    scope = found.definitions[0].scope.node
    for name in all_reads(script, found):
        if any(isinstance(each, ast.comprehension | ast.GeneratorExp | ast.Lambda) for each in script.ancestors(name)):
            return f"a lambda or comprehension reads it in line {name.lineno}"
        if (script.function(name) or script.tree) is not scope:
            return f"another function reads it in line {name.lineno}"
        if not _stays(script, name) and not set(script.definitions(name)) <= set(found.definitions):
            return f"`{found.name}` may be something else in line {name.lineno}"
    outward: list[ast.Global | ast.Nonlocal] = [*script.find(ast.Global), *script.find(ast.Nonlocal)]
    if any(found.name in each.names for each in outward):
        return f"`{found.name}` is a name that other functions see"
    if scope is not script.tree:
        looked_up = hands_on_names(script, scope) or runs_text(script, scope)
        return "its name may be looked up while the program runs" if looked_up else None
    try:
        return name_looked_up(script, found.name, public=True)
    except Incomplete as unseen:
        return f"other files may read it: {unseen}"


def all_reads(script: Script, found: Sum) -> Iterator[ast.Name]:
    """Every name that may be the sum where it stands, but for additions to it and `del total`."""
    names = dict.fromkeys(name for each in found.definitions for name in script.uses(each))
    return (name for name in names if isinstance(name.ctx, ast.Load))


def other_changes(script: Script, found: Sum) -> Iterator[ast.Name]:
    """The targets of `total /= n` and the like, which read the sum."""
    for definition in found.definitions:
        for target in script.additions(definition):
            statement = script.parent(target)
            if isinstance(statement, ast.AugAssign) and not isinstance(statement.op, ast.Add):
                yield target


def leaving(script: Script, found: Sum) -> Iterator[ast.Name]:
    """The reads from which the sum goes on as an object: it is returned, stored, handed over."""
    return (name for name in all_reads(script, found) if not _stays(script, name))


def _stays(script: Script, name: ast.Name) -> bool:
    """Whether a read gives a plain number by itself: in arithmetic, comparisons and texts."""
    parent = script.parent(name)
    match parent:
        case ast.BinOp(left=left, right=right):
            return left is name or _is_operand(script, left) or _is_shown(right, parent)
        case ast.UnaryOp() | ast.FormattedValue(value=ast.Name()):
            return True
        case ast.Compare(left=left, ops=operators, comparators=others):
            plain = all(not isinstance(each, ast.Is | ast.IsNot | ast.In | ast.NotIn) for each in operators)
            return plain and all(each is name or _is_operand(script, each) for each in (left, *others))
        case ast.Tuple():
            outer = script.parent(parent)
            return isinstance(outer, ast.BinOp) and _is_shown(parent, outer)
        case ast.Call(func=ast.Name(id=function) as called, args=arguments) if name in arguments:
            return function in _CONVERTING and not script.definitions(called)
        case ast.Call(func=ast.Attribute(attr="format", value=text)):
            return _is_text(text)
        case ast.keyword():
            call = script.parent(parent)
            return (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and (call.func.attr == "format" and _is_text(call.func.value))
            )
        case _:
            return False


def _is_operand(script: Script, other: ast.expr) -> bool:
    return isinstance(other, ast.Constant) or script.kind(other) in _OPERANDS


def _is_shown(right: ast.expr, operation: ast.BinOp) -> bool:
    """`"loss %.3f" % total`"""
    return operation.right is right and isinstance(operation.op, ast.Mod) and _is_text(operation.left)


def _is_text(expression: ast.expr) -> bool:
    return isinstance(expression, ast.JoinedStr) or (
        isinstance(expression, ast.Constant) and isinstance(expression.value, str)
    )
