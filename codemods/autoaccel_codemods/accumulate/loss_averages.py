"""Losses that are averages over the batch: of several batches they are averaged, too. Sums just add up."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import walk_scope
from autoaccel_codemods.accumulate.updates import Update
from autoaccel_codemods.captured_step.problems import DeclinedError

_LOSSES: Final = frozenset({"cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div"})
_SAME: Final = frozenset("to float double half bfloat16 cpu cuda squeeze clone contiguous".split())


def refuse(script: Script, update: Update) -> None:
    """Raises `DeclinedError` where not all of a loss is known to be averages and numbers."""
    unlike = _unlike(script, update.backward.loss if not update.backward.scaled else _unscaled(update), set())
    if unlike is not None:
        line = getattr(unlike, "lineno", update.backward.call.lineno)
        raise DeclinedError(f"its loss may be a sum over the batch: nothing shows that line {line} computes an average")


def _unscaled(update: Update) -> ast.expr:
    assert isinstance(update.backward.loss, ast.Call)
    return update.backward.loss.args[0]


def _unlike(script: Script, node: ast.expr, seen: set[ast.AST]) -> ast.AST | None:
    """What of a loss is not known to be an average over the batch, or to have nothing to do with it; None if all is."""
    if node in seen or script.kind(node) in (Kind.NUMBER, Kind.BOOL):
        return None
    seen.add(node)
    match node:
        case ast.Constant():
            return None
        case ast.Name() if definitions := script.definitions(node):
            return _first(_unlike_bound(script, each, seen) for each in definitions)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _unlike(script, left, seen) or _unlike(script, right, seen)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):  # by a weight
            return _unlike(script, left, seen) and _unlike(script, right, seen)
        case ast.BinOp(left=inner, op=ast.Div()) | ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            return _unlike(script, inner, seen)
        case ast.IfExp(body=body, orelse=orelse):
            return _unlike(script, body, seen) or _unlike(script, orelse, seen)
        case ast.Call():
            return _unlike_call(script, node, (), seen)
        case _:
            return node


def _unlike_bound(script: Script, definition: Definition, seen: set[ast.AST]) -> ast.AST | None:
    node = definition.node
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        before = script.reaching_definitions.before_addition(node.target)
        if node in seen:
            return None
        seen.add(node)
        added = None if isinstance(node.op, ast.Mult | ast.Div) else _unlike(script, node.value, seen)
        return added or _first(_unlike_bound(script, each, seen) for each in before)
    if definition.how != "assign" or definition.value is None:
        return node
    if not definition.path:
        return _unlike(script, definition.value, seen)
    match definition.value, definition.path:
        case ((ast.Tuple(elts=elements) | ast.List(elts=elements)), (int(index),)) if 0 <= index < len(elements):
            return _unlike(script, elements[index], seen)
        case ast.Call() as call, path:
            return _unlike_call(script, call, path, seen)
    return definition.value


def _unlike_call(script: Script, call: ast.Call, path: tuple[int | str, ...], seen: set[ast.AST]) -> ast.AST | None:
    """Of the part of its result that `path` leads to."""
    name = script.qualname(call.func) or ""
    if name.startswith("torch.nn.functional.") and not path:
        last = name.rpartition(".")[2]
        return call if not (last in _LOSSES or last.endswith("_loss")) or _adds(call) else None
    if name == "torch.mean" and not path:
        return None
    if isinstance(call.func, ast.Attribute) and not name and not path and not script.callees(call):
        if call.func.attr == "mean":
            return None
        if call.func.attr in _SAME:
            return _unlike(script, call.func.value, seen)
    values = script.values(call.func)
    if not values or not all(_is_in_sight(each) for each in values):
        return call
    found = [_unlike_criterion(each) for each in values if each.cls is None and each.kind is Kind.LOSS_FUNCTION]
    callees = script.callees(call)
    if len(found) + len(callees) < len(values):
        return call
    for other, function in callees:
        returned = [each.value for each in walk_scope(function) if isinstance(each, ast.Return)]
        if not returned:
            return call
        found += [call if each is None else _unlike_part(other, each, path, seen) for each in returned]
    return _first(found)


def _unlike_part(script: Script, result: ast.expr, path: tuple[int | str, ...], seen: set[ast.AST]) -> ast.AST | None:
    match result, path:
        case _, ():
            return _unlike(script, result, seen)
        case ast.Tuple(elts=elements), (int(index),) if 0 <= index < len(elements):
            return _unlike(script, elements[index], seen)
        case _:
            return result


def _is_in_sight(value: Value) -> bool:
    if value.kind is Kind.LOSS_FUNCTION:
        return value.cls is not None or isinstance(value.node, ast.Call)
    return value.kind in (Kind.FUNCTION, Kind.MODULE)


def _unlike_criterion(criterion: Value) -> ast.AST | None:
    """Where a criterion of torch is made that adds up."""
    made = criterion.node
    average = (criterion.name or "").startswith("torch.nn.") and isinstance(made, ast.Call) and not _adds(made)
    return None if average else made


def _adds(call: ast.Call) -> bool:
    """`reduction="sum"`, `size_average=False`, or one that is not written there."""
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="reduction", value=ast.Constant(value="mean" | "batchmean")):
                pass
            case ast.keyword(arg="size_average", value=ast.Constant(value=True)):
                pass
            case ast.keyword(arg="reduction" | "size_average" | "reduce" | None):
                return True
    return any(isinstance(each, ast.Starred) for each in call.args)


def _first(found: Iterable[ast.AST | None]) -> ast.AST | None:
    return next((each for each in found if each is not None), None)
