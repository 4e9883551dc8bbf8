"""Averages and totals that outlive a call: `self.mean = 0.9 * self.mean + 0.1 * x.mean()`, which each step adds to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import last_name
from autoaccel_codemods.autocast.storage_flow import CONTAINERS, constant_key, is_container

if TYPE_CHECKING:
    from autoaccel_codemods.autocast.low_precision_flow import Low, Search, ValuePart

_SUMS = frozenset("add sub subtract lerp add_ sub_ subtract_ lerp_ addcmul_ index_add_ scatter_add_".split())
_TENSORS = frozenset({Kind.TENSOR, Kind.PARAMETER, Kind.BATCH})


def found(search: Search) -> Iterator[Low]:
    """What is kept in low precision and made of what was kept before."""
    made_of: dict[ast.expr, set[ast.expr]] = {}
    for (node, _), causes in search.causes.items():
        made_of.setdefault(node, set()).update(each.node for each in causes)
    for low, script, read in search.kept:
        if _is_begun_before(search, script, read):
            continue
        if _is_added_to(script, read, low.part) or _is_sum_with(search, made_of, low.node, read):
            yield low
    for low, target in search.added:
        kinds = low.script.values(target).kinds
        holder = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(holder, ast.Attribute) and not is_container(low.script, holder):
            continue  # an element of what may be a tensor keeps its precision
        if low.part is not None or (kinds and kinds <= _TENSORS):
            continue  # of containers, which are put together
        if not _is_begun_before(search, low.script, target):
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


def _is_added_to(script: Script, read: ast.expr, part: ValuePart) -> bool:
    """Whether a tensor that was kept in low precision is changed in place, also by another name: `self.sums += x`,
    `SUMS["x"][i] += x`, `self.mean.mul_(0.9).add_(x.mean(), alpha=0.1)`."""
    for name, held in _names(script, read, part):
        for each in script.definitions(name):
            uses = (*script.uses(each), *script.reaching_definitions.additions(each))
            if any(_is_changed(script, use, held) for use in uses):
                return True
    return _is_changed(script, read, part)


def _names(script: Script, read: ast.expr, part: ValuePart) -> Iterator[tuple[ast.Name, ValuePart]]:
    """The names that are bound to what is kept, or to its elements: `sums = self.sums`, `for each in self.sums`."""
    match script.parent(read):
        case ast.Assign(targets=targets, value=value) if value is read:
            yield from ((target, part) for target in targets if isinstance(target, ast.Name))
    for loop in script.ancestors(read):
        if isinstance(loop, ast.stmt):
            if isinstance(loop, ast.For) and script.inside(read, loop.iter):
                yield from ((name, None) for name in script.within(loop.target, ast.Name))
            return


def _is_changed(script: Script, node: ast.expr, part: ValuePart) -> bool:
    while True:
        match script.parent(node):
            case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value) if target is node:
                return script.kind(value) not in (*CONTAINERS, Kind.STRING)
            case ast.Subscript(value=value, slice=index) as around if value is node:
                key = constant_key(index)
                if part is not None and part[0] == "at" and key is not None and key != part[1]:
                    return False
                node, part = around, None
            case ast.Attribute(attr=name) as around:
                call = script.call_of(around)
                if call is not None and name in _SUMS and name.endswith("_"):
                    return True
                if name != "data" and not (call is not None and name.endswith("_")):
                    return False
                node = call or around
            case _:
                return False


def _is_begun_before(search: Search, script: Script, read: ast.expr) -> bool:
    """Whether the same call has bound it to something else, above in the same function: `self.loss = 0`; above a loop
    over steps it has not."""
    inner, whole = read, read
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    while isinstance(around := script.parent(whole), ast.Subscript) and around.value is whole:
        whole = around
    texts = {ast.unparse(inner), ast.unparse(whole)}
    function = script.function(read)
    for around in (whole, *script.ancestors(whole)):
        if around is function or around in search.loops:
            return False
        block = script.parent(around)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(block, name, None)
            if isinstance(statements, list) and around in statements:
                if any(_binds(each, texts) for each in statements[: statements.index(around)]):
                    return True
    return False


def _binds(statement: ast.stmt, texts: set[str]) -> bool:
    """Whether a statement binds what is spelled so, to what is not made of it."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            names = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
            made = (each for each in ast.walk(value) if isinstance(each, ast.expr))
            return any(ast.unparse(each) in texts for each in names) and all(
                ast.unparse(each) not in texts for each in made
            )
        case _:
            return False
