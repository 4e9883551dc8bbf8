"""Numbers that follow from shapes, as `1 / images.shape[0]` does: a captured graph is of one shape."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.bounds import OPERANDS
from autoaccel.pytorch.integers import is_shape


def follows_from_shapes(script: Script, number: ast.expr, depth: int = OPERANDS) -> bool:
    """Whether a number surely is the same in all steps whose tensors have the same shapes."""
    match number:
        case ast.Constant():
            return True
        case ast.UnaryOp(operand=operand):
            return follows_from_shapes(script, operand, depth)
        case ast.BinOp(left=left, right=right):
            return depth > 0 and all(follows_from_shapes(script, each, depth - 1) for each in (left, right))
        case ast.Subscript(value=sizes, slice=ast.Constant() | ast.UnaryOp()) if is_shape(sizes):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant() | ast.UnaryOp()]):
            return True
        case ast.Call(func=ast.Attribute(attr="numel"), args=[]):
            return True
        case ast.Name():
            made = script.definitions(number)
            values = [each.value for each in made if each.how == "assign" and not each.path and each.value is not None]
            return (0 < len(made) == len(values) and depth > 0) and all(
                follows_from_shapes(script, each, depth - 1) for each in values
            )
        case _:
            return False
