"""Squared distances and variances by their expanded formulas: `a² + b² - 2ab`, `E[x²] - E[x]²`.

Both subtract numbers that may be much larger than what is left of them, and products are rounded to eight
binary digits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.syntax_index import last_name
from autoaccel_codemods.autocast.value_origins import (
    Place,
    is_computed,
    is_number,
    is_product,
    operand,
    operands,
    spelled,
    value_of,
)

_Term = tuple[Script, ast.expr, int]
"""An addend and its sign."""

_SUMS = frozenset("sum mean".split())
_DIAGONALS = frozenset("diagonal diag".split())
_SCALED_PRODUCTS = frozenset(f"{name}{end}" for name in ("addmm", "baddbmm", "addbmm") for end in ("", "_"))


def is_distance(script: Script, node: ast.AST) -> bool:
    """`(a ** 2).sum(1, keepdim=True) + (b ** 2).sum(1) - 2 * a @ b.T`, `torch.addmm(squares, a, b.T, alpha=-2)`."""
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            terms = list(_terms(script, node))
        case ast.Call() if last_name(node.func) in _SCALED_PRODUCTS and (first := operand(script, node)) is not None:
            alpha = given_as(node, "alpha")
            value = 1.0 if alpha is None else value_of(script, alpha)
            terms = [*_terms(script, first), (script, node, -1 if value is None or value < 0 else 1)]
        case _:
            return False
    products = {sign for file, term, sign in terms if is_product(file, term)}
    squares = {sign for file, term, sign in terms if _is_sum_of_squares(file, term)}
    return any(-sign in squares for sign in products)


def is_variance(script: Script, node: ast.AST) -> bool:
    """`(x ** 2).mean(0) - x.mean(0) ** 2`, and covariances: `pool(x * y) - pool(x) * pool(y)`."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)) or not is_computed(script, node.left):
        return False
    averages = {
        last_name(each.func)
        for file, each in addends(script, node.left)
        if isinstance(each, ast.Call) and any(_is_square(file, inner) for inner in operands(file, each)[:1])
    }
    return any(
        last_name(average.func) in averages
        for file, each in addends(script, node.right)
        for side in _sides(file, each)
        for _, average in spelled(file, side)
        if isinstance(average, ast.Call)
    )


def _terms(script: Script, expression: ast.expr) -> Iterator[_Term]:
    """What an expression adds up, also by name: each addend without the numbers that it is multiplied by."""
    pending: list[_Term] = [(script, expression, 1)]
    seen = set[tuple[ast.AST, int]]()
    while pending:
        at, part, sign = pending.pop()
        for file, node in spelled(at, part):
            if (node, sign) in seen:
                continue
            seen.add((node, sign))
            match node:
                case ast.BinOp(op=ast.Add(), left=left, right=right):
                    pending += [(file, left, sign), (file, right, sign)]
                case ast.BinOp(op=ast.Sub(), left=left, right=right):
                    pending += [(file, left, sign), (file, right, -sign)]
                case ast.UnaryOp(op=op, operand=inner):
                    pending.append((file, inner, -sign if isinstance(op, ast.USub) else sign))
                case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right) if is_number(file, right):
                    pending.append((file, left, sign * _sign(file, right)))
                case ast.BinOp(op=ast.Mult(), left=left, right=right) if is_number(file, left):
                    pending.append((file, right, sign * _sign(file, left)))
                case ast.BinOp(op=ast.MatMult(), left=ast.BinOp(op=ast.Mult(), left=left)):  # `-2 * a @ b.T`
                    yield file, node, sign * _sign(file, left)
                case ast.BinOp(op=ast.MatMult(), left=ast.UnaryOp(op=ast.USub())):
                    yield file, node, -sign
                case _:
                    yield file, node, sign


def _sign(script: Script, number: ast.expr) -> int:
    return -1 if (value_of(script, number) or 1.0) < 0 else 1


def _is_sum_of_squares(script: Script, node: ast.expr) -> bool:
    """`(x ** 2).sum(1)`, `x.norm(dim=1) ** 2`, `torch.diagonal(x @ x.T)`."""
    if isinstance(node, ast.Call):
        given = operand(script, node)
        if given is None:
            return False
        if last_name(node.func) in _SUMS:
            return _is_square(script, given)
        return last_name(node.func) in _DIAGONALS and any(is_product(*each) for each in spelled(script, given))
    return any(
        isinstance(each, ast.Call) and last_name(each.func) in ("norm", "vector_norm")
        for side in _sides(script, node)
        for _, each in spelled(script, side)
    )


def _is_square(script: Script, expression: ast.expr) -> bool:
    """`x ** 2`, `x * x`, `x * y`, `x.pow(2)`."""
    return any(next(_sides(file, node), None) is not None for file, node in spelled(script, expression))


def _sides(script: Script, node: ast.expr) -> Iterator[ast.expr]:
    """What is squared, or multiplied by one another."""
    match node:
        case ast.BinOp(op=ast.Pow(), left=left, right=right) if value_of(script, right) == 2:
            yield left
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            if not is_number(script, left) and not is_number(script, right):
                yield from (left, right)
        case ast.Call() if last_name(node.func) in ("pow", "square") and (inner := operand(script, node)) is not None:
            if last_name(node.func) == "square" or (node.args and value_of(script, node.args[-1]) == 2):
                yield inner


def addends(script: Script, expression: ast.expr) -> Iterator[Place]:
    """What an expression adds up, without the numbers that it is multiplied by."""
    return ((file, node) for file, node, _ in _terms(script, expression))
