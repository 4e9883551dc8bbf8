"""What is finer than the steps of bfloat16, of which there are 128 between a number and its double.

Lost are what is added to a large number, the small difference of two results, the fraction of a turn in an angle of
many turns, the order of results that are close, and the accuracy of a solver that advances a state by small steps.
"""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
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
            return skip_reasons.SOLVER if _advances(script, node) else None
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


def _advances(script: Script, product: ast.BinOp) -> bool:
    """Whether a product of a step and of what a model makes of a state is added to that state, turn after turn, as
    solvers of differential equations do: `y = y + h * f(t, y)`. Blocks of a residual network differ from turn to turn.
    """
    match statement := script.statement(product):
        case ast.Assign(targets=[ast.Name(id=state)], value=value):
            terms = _parts(value, (ast.Add, ast.Sub))
            if not any(isinstance(each, ast.Name) and each.id == state for each in terms):
                return False
        case ast.AugAssign(target=ast.Name(id=state), op=ast.Add() | ast.Sub(), value=value):
            terms = _parts(value, (ast.Add, ast.Sub))
        case _:
            return False
    loops = script.loops(statement)
    if product not in terms or not loops:
        return False
    factors = _parts(product, (ast.Mult, ast.Div))
    steps = [each for each in factors if not is_computed(script, each) and script.kind(each) is not Kind.PARAMETER]
    others = [each for each in factors if each not in steps]
    return bool(steps) and any(_is_made_of(script, each, state, loops[0]) for each in others)


def _parts(expression: ast.expr, operators: tuple[type[ast.operator], ...]) -> list[ast.expr]:
    """The operands of sums, or of products, within one another."""
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, operators):
        return [*_parts(expression.left, operators), expression, *_parts(expression.right, operators)]
    return [expression]


def _is_made_of(script: Script, expression: ast.expr, state: str, loop: ast.AST) -> bool:
    """Whether a model that is the same in every turn of a loop makes a value of a state."""
    called = (
        node
        for part in ast.walk(expression)
        if isinstance(part, ast.Name | ast.Call)
        for file, node in spelled(script, part)
        if file is script and isinstance(node, ast.Call) and may_run_model(file, node)
    )
    for call in called:
        given = (name.id for each in given_values(call) for name in script.within(each, ast.Name))
        chosen = (each for name in script.within(call.func, ast.Name) for each in script.definitions(name))
        if state in given and not any(each.node is loop for each in chosen):
            return True
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
