"""Averages and totals that outlive a call: `self.mean = 0.9 * self.mean + 0.1 * x.mean()`, which each step adds to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import last_name

if TYPE_CHECKING:
    from autoaccel_codemods.autocast.low_precision_flow import Low, Search

_SUMS = frozenset("add sub subtract lerp add_ sub_ subtract_ lerp_".split())
_TENSORS = frozenset({Kind.TENSOR, Kind.PARAMETER, Kind.BATCH})


def found(search: Search) -> Iterator[Low]:
    """What is kept in low precision and made of what was kept before."""
    made_of: dict[ast.expr, set[ast.expr]] = {}
    for (node, _), causes in search.causes.items():
        made_of.setdefault(node, set()).update(each.node for each in causes)
    for low, script, read in search.kept:
        if _is_begun_before(script, read):
            continue
        if _is_added_to(script, read) or _is_sum_with(search, made_of, low.node, read):
            yield low
    for low, target in search.added:
        kinds = low.script.values(target).kinds
        holder = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(holder, ast.Attribute) or (kinds and kinds <= _TENSORS):
            continue
        if not _is_begun_before(low.script, target):
            yield low


def _is_sum_with(search: Search, made_of: dict[ast.expr, set[ast.expr]], stored: ast.expr, read: ast.expr) -> bool:
    """Whether a value is a sum of others and of what is read: by more than a product, which is rounded anew."""
    pending, seen = [(stored, False)], set[tuple[ast.expr, bool]]()
    while pending:
        node, added = pending.pop()
        if node is read and added:
            return True
        if (node, added) in seen or node in search.sources:
            continue
        seen.add((node, added))
        added |= _is_sum(node)
        added |= isinstance(node, ast.Call) and last_name(node.func) in _SUMS
        pending += ((each, added) for each in made_of.get(node, ()))
    return False


def _is_sum(node: ast.expr) -> bool:
    """Of numbers: `kept + [value]` puts lists together."""
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            return not any(isinstance(each, ast.List | ast.Tuple | ast.ListComp) for each in (left, right))
        case _:
            return False


def _is_added_to(script: Script, read: ast.expr) -> bool:
    """`self.mean.mul_(0.9).add_(x.mean(), alpha=0.1)`, of a tensor that was kept in low precision."""
    node: ast.AST | None = read
    while isinstance(part := script.parent(node) if node is not None else None, ast.Attribute):
        call = script.call_of(part)
        if call is not None and part.attr in _SUMS and part.attr.endswith("_"):
            return True
        if part.attr != "data" and not (call is not None and part.attr.endswith("_")):
            return False
        node = call or part
    return False


def _is_begun_before(script: Script, read: ast.expr) -> bool:
    """Whether the same call has bound it to something else, above in the same function: `self.loss = 0`."""
    whole: ast.AST = read
    while isinstance(around := script.parent(whole), ast.Subscript) and around.value is whole:
        whole = around
    text = ast.unparse(whole)
    function = script.function(read)
    for around in (whole, *script.ancestors(whole)):
        if around is function:
            return False
        block = script.parent(around)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(block, name, None)
            if isinstance(statements, list) and around in statements:
                if any(_binds(each, text) for each in statements[: statements.index(around)]):
                    return True
    return False


def _binds(statement: ast.stmt, text: str) -> bool:
    """Whether a statement binds what is spelled so, to what is not made of it."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            names = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
            made = (each for each in ast.walk(value) if isinstance(each, ast.expr))
            return any(ast.unparse(each) == text for each in names) and all(ast.unparse(each) != text for each in made)
        case _:
            return False
