"""Where Python itself reads what is in a tensor, without a method that says so: tests, conversions, masks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.syntax_index import is_constant, last_name
from autoaccel.library_models.tensor_operations import NO_TENSOR

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_CONVERTING = frozenset({"int", "float", "bool", "complex"})
_PLAIN = (NO_TENSOR | {"type", "get_device"}) - {"any", "all", "equal", "allclose", "is_nonzero"}
_MASKS = frozenset(
    """eq ne gt lt ge le isnan isinf isfinite isclose isin logical_and logical_or logical_not logical_xor bool signbit
    BoolTensor""".split()
)
_IDENTITY = ast.Is | ast.IsNot | ast.In | ast.NotIn

READING = (ast.If, ast.IfExp, ast.While, ast.Assert, ast.BoolOp, ast.UnaryOp, ast.comprehension, ast.Call)
"""What `read_by` finds something for."""


def read_by(script: Script, node: ast.AST) -> ast.expr | None:
    """The tensor whose value a test or a conversion asks for: `if x.any()`, `int(x.sum())`; None where none surely is
    one."""
    return next((each for each in _asked(script, node) if gives_tensor(script, each)), None)


def _asked(script: Script, node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
            yield from test.values if isinstance(test, ast.BoolOp) else [test]
        case ast.BoolOp(values=[*tests, _]):
            yield from tests
        case ast.UnaryOp(op=ast.Not(), operand=test):
            yield test
        case ast.comprehension(ifs=tests):
            yield from tests
        case ast.Call(func=ast.Name(id=name) as function, args=[given], keywords=[]) if name in _CONVERTING:
            if not script.definitions(function):
                yield given


def gives_tensor(script: Script, expression: ast.expr) -> bool:
    """Whether an expression surely gives a tensor, rather than what Python knows of one: `x.dim() > 2`, `x is None`."""
    values = script.values(expression)
    return bool(values) and all(_has_elements(value) for value in values.unordered())


def _has_elements(value: Value) -> bool:
    if value.kind is not Kind.TENSOR:
        return value.kind is Kind.PARAMETER
    match value.node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            told = isinstance(operator, _IDENTITY) or is_constant(right, None)
            sides = [side for each in (left, right) if value.script for side in value.script.values(each).unordered()]
            return not told and all(_has_elements(side) for side in sides if side.kind is Kind.TENSOR)
        case ast.Call(func=function):
            return last_name(function) not in _PLAIN
        case _:
            return True


def is_mask(script: Script, index: ast.expr) -> bool:
    """Whether an index is a tensor of booleans, by which as many elements are chosen as are true in it; of what is not
    known, a comparison is taken for one."""
    values = script.values(index)
    if Kind.UNKNOWN in values.kinds:
        given = [each.value for each in script.definitions(index)] if isinstance(index, ast.Name) else [index]
        return any(isinstance(each, ast.Compare) and not isinstance(each.ops[0], _IDENTITY) for each in given)
    return gives_tensor(script, index) and all(_has_booleans(value) for value in values.unordered())


def _has_booleans(value: Value) -> bool:
    match value.node:
        case ast.Compare():
            return True
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr()) | ast.UnaryOp(op=ast.Invert(), operand=left):
            return value.script is not None and is_mask(value.script, left)
        case ast.Call(func=function, keywords=keywords):
            typed = any(each.arg == "dtype" and last_name(each.value) == "bool" for each in keywords)
            return typed or last_name(function) in _MASKS
        case _:
            return False


def masks(script: Script, subscript: ast.Subscript) -> bool:
    """Whether a mask is among the indices: `x[y > 0]`, `x[0, mask]`."""
    indices = subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]
    may_be_tensor = gives_tensor(script, subscript.value) or Kind.UNKNOWN in script.values(subscript.value).kinds
    return may_be_tensor and any(is_mask(script, each) for each in indices)
