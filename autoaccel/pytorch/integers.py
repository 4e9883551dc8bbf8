"""Which expressions surely are whole numbers."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.bounds import OPERANDS
from autoaccel.dataflow.definitions import Definition


def integral(script: Script, expression: ast.expr, depth: int = 0) -> bool:
    """Whether an expression surely is an int: literals, lengths, sizes, and sums and products of them.

    False also where it is not known. Annotations of single parameters and of names are believed.
    """
    if depth > OPERANDS:
        return False
    match expression:
        case ast.Constant(value=int() as value):
            return not isinstance(value, bool)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return integral(script, operand, depth + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), left=left, right=right):
            return integral(script, left, depth + 1) and integral(script, right, depth + 1)
        case ast.Call(func=ast.Name(id="len" | "int" | "ord") as function):
            return not script.definitions(function)
        case (
            ast.Call(func=ast.Attribute(attr="size"), args=[_])
            | ast.Call(func=ast.Attribute(attr="numel" | "dim"), args=[])
        ):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
            return not isinstance(index, ast.Slice)
        case ast.Name():
            definitions = script.definitions(expression)
            return bool(definitions) and all(_integral_binding(script, each, depth) for each in definitions)
        case _:
            return False


def _integral_binding(script: Script, definition: Definition, depth: int) -> bool:
    annotation = getattr(definition.node, "annotation", None)
    if isinstance(annotation, ast.Name) and annotation.id == "int":
        parameters = script.parent(definition.node)  # those of `*n: int` and `**n: int` say what is in them
        return not isinstance(parameters, ast.arguments) or definition.node not in (parameters.vararg, parameters.kwarg)
    value = definition.value
    match definition.how:
        case "assign" if value is not None and not definition.path:
            return integral(script, value, depth + 1)
        case "assign" if value is not None and len(definition.path) == 1:  # n, c = x.shape
            index = definition.path[0]
            if isinstance(value, ast.Tuple) and isinstance(index, int):
                shifted = any(isinstance(each, ast.Starred) for each in value.elts)
                within = -len(value.elts) <= index < len(value.elts)
                return within and not shifted and integral(script, value.elts[index], depth + 1)
            sizes = value.func if isinstance(value, ast.Call) and not value.args else value
            return (
                isinstance(sizes, ast.Attribute)
                and sizes.attr == ("size" if sizes is not value else "shape")
                and index != "*"
            )
        case "for" if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            plain = not script.definitions(value.func)
            return plain and (
                (value.func.id == "range" and not definition.path)
                or (value.func.id, definition.path) == ("enumerate", (0,))
            )
        case _:
            return False
