"""What is finer than the steps of bfloat16, of which there are 128 between a number and its double.

Lost are what is added to a large number, the small difference of two results, the fraction of a turn in an angle of
many turns, and the order of results that are close.
"""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.pytorch.step_effects import may_run_model
from autoaccel_codemods.autocast import skip_reasons
from autoaccel_codemods.autocast.float_tensors import content
from autoaccel_codemods.autocast.tensor_content import Content
from autoaccel_codemods.autocast.value_origins import is_computed, is_number, is_product, operand, spelled, value_of

_LARGE = 50.0  # times what is added to it: steps of a quarter and more
_MANY_TURNS = 6.0
_SMALL_STEP = 0.02
_LARGE_FACTOR = 200.0
_SELECTIONS = frozenset("gather max min amax amin take_along_dim diagonal diag".split())


def reason(script: Script, node: ast.AST) -> str | None:
    """Why an expression is left in float32."""
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            for number, other in ((left, right), (right, left)):
                if _is_drowned(script, number, other):
                    return skip_reasons.BESIDE_A_LARGE_NUMBER.format(number=script.source(number))
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            if 0 < abs(value_of(script, right) or 0.0) <= _SMALL_STEP and _is_difference(script, left):
                return skip_reasons.FINITE_DIFFERENCE
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            for number, other in ((left, right), (right, left)):
                if abs(value_of(script, number) or 0.0) >= _LARGE_FACTOR and _is_difference(script, other):
                    return skip_reasons.FINITE_DIFFERENCE
        case ast.Call(func=ast.Attribute(value=value, attr="div"), args=[by]):
            if 0 < abs(value_of(script, by) or 0.0) <= _SMALL_STEP and _is_difference(script, value):
                return skip_reasons.FINITE_DIFFERENCE
        case ast.Call() if last_name(node.func) in ("sin", "cos") and (angle := operand(script, node)) is not None:
            return skip_reasons.MANY_TURNS.format(name=last_name(node.func)) if _turns(script, angle) else None
    return None


def is_rank(script: Script, one: ast.expr, other: ast.expr) -> bool:
    """Whether a comparison is of results with one of them: `scores > scores.gather(1, target)`."""
    for file, node in spelled(script, other):
        if isinstance(node, ast.Call) and last_name(node.func) in _SELECTIONS:
            chosen = operand(file, node)
            if file is script and chosen is not None and script.source(chosen) == script.source(one):
                return True
    return False


def _is_drowned(script: Script, number: ast.expr, other: ast.expr) -> bool:
    """Whether a result is added to a number beside which it is small."""
    large = abs(value_of(script, number) or 0.0)
    if large < _LARGE or is_number(script, other) or not is_computed(script, other):
        return False
    if content(script, other) is not Content.FLOATING:
        return False
    scales = [1.0]
    for file, node in spelled(script, other):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            scales += [abs(value_of(file, each) or _LARGE) for each in (node.left, node.right) if is_number(file, each)]
    return large / max(scales) >= _LARGE


def _is_difference(script: Script, expression: ast.expr) -> bool:
    """Whether a value is the difference of two results of one model, or an average of its size."""
    pending, seen = [(script, expression)], set[ast.AST]()
    while pending:
        for file, node in spelled(*pending.pop()):
            if node in seen:
                continue
            seen.add(node)
            match node:
                case ast.BinOp(op=ast.Sub(), left=left, right=right) if _results(file, left) & _results(file, right):
                    return True
                case ast.Call(func=ast.Attribute(value=left, attr="sub"), args=[right]) if _results(
                    file, left
                ) & _results(file, right):
                    return True
                case ast.Call() if not may_run_model(file, node) and (inner := operand(file, node)) is not None:
                    pending.append((file, inner))
                case ast.BinOp(op=ast.Pow(), left=inner) | ast.UnaryOp(operand=inner):
                    pending.append((file, inner))
    return False


def _results(script: Script, expression: ast.expr) -> set[str]:
    """The models whose result a value may be."""
    return {
        file.source(node.func)
        for file, node in spelled(script, expression)
        if isinstance(node, ast.Call) and may_run_model(file, node)
    }


def _turns(script: Script, angle: ast.expr) -> bool:
    """Whether an angle is a result times a large number, or an unknown one: `30 * linear(x)`, `2 * pi * x @ b`."""
    for file, node in spelled(script, angle):
        factor = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) else node
        if not (isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Mult)):
            continue
        for number, other in ((factor.left, factor.right), (factor.right, factor.left)):
            value = value_of(file, number)
            large = is_number(file, number) if value is None else abs(value) >= _MANY_TURNS
            low = is_product(file, node) or any(
                is_product(*each) or (isinstance(each[1], ast.Call) and may_run_model(each[0], each[1]))
                for each in spelled(file, other)
            )
            if large and low:
                return True
    return False
