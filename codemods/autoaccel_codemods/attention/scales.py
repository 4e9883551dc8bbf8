"""The factors of attention scores: which are surely numbers, and which are what torch scales by itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis.classes import class_info, lineage
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.pytorch.integers import is_shape
from autoaccel.pytorch.tensor_creation import number
from autoaccel_codemods.attention.dimensions import are_same, bound

if TYPE_CHECKING:
    from autoaccel.analysis import Script
    from autoaccel_codemods.attention.written_out import Attention

_SIZES = frozenset({"torch.nn.Linear", "torch.nn.Embedding", "torch.nn.LayerNorm"})  # whose arguments are whole numbers


def is_number(script: Script, expression: ast.expr) -> bool:
    """Whether an expression surely is a number of Python, and no tensor."""
    match expression:
        case ast.Constant(value=int() | float()):
            return True
        case ast.BinOp(left=left, right=right):
            return is_number(script, left) and is_number(script, right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return is_number(script, operand)
        case ast.Subscript(value=sizes, slice=axis) if is_shape(sizes) and not isinstance(axis, ast.Slice):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[_]) if script.qualname(expression.func) is None:
            return True
        case ast.Call(func=function) if (name := script.qualname(function)) is not None:
            is_root = name == "numpy.sqrt" and all(is_number(script, each) for each in expression.args)
            return name.startswith("math.") or is_root
        case ast.Call(func=ast.Name(id="float" | "int" | "len") as function):
            return isinstance(function, ast.Name) and not script.definitions(function)
    return script.kind(expression) is Kind.NUMBER or _is_known(script, expression)


def is_low(script: Script, fill: ast.expr | None) -> bool:
    """Whether a finite number is so far below all scores that a softmax surely gives it no weight."""
    value = bound(script, fill) if isinstance(fill, ast.Name) else fill
    match value:
        case ast.Attribute(value=ast.Call(func=function), attr="min"):
            return script.qualname(function) in ("torch.finfo", "numpy.finfo")
        case None:
            return False
    low = number(value)
    return low is not None and low <= -1000.0


def _is_known(script: Script, expression: ast.expr) -> bool:
    """Whether all that a name or an attribute is bound to are numbers, or layers are made with that size."""
    if _is_size(script, expression):
        return True
    match expression:
        case ast.Name() if (value := bound(script, expression)) is not None:
            return is_number(script, value)
        case ast.Name():
            definitions = script.definitions(expression)
            defaults = [each.value for each in definitions if each.how == "param"]
            return (
                len(definitions) == len(defaults) == 1
                and isinstance(defaults[0], ast.Constant)
                and is_number(script, defaults[0])
            )
        case ast.Attribute(value=ast.Name() as owner, attr=name):
            classes = [value.cls for value in script.values(owner)]
            bindings = [
                (ref.script, binding, path)
                for cls in classes
                if cls is not None
                for ref in lineage(cls)
                for binding, path in class_info(ref).attributes.get(name, ())
            ]
            return bool(bindings) and all(
                isinstance(binding, ast.expr) and not path and is_number(file, binding)
                for file, binding, path in bindings
            )
        case _:
            return False


def _is_size(script: Script, expression: ast.expr) -> bool:
    """Whether layers are made with a size that is written so, in the same function."""
    if not isinstance(expression, ast.Name | ast.Attribute):
        return False
    text = ast.unparse(expression)
    made = (call for call in script.in_scope(script.function(expression) or script.tree, ast.Call))
    return any(
        script.qualname(call.func) in _SIZES and any(ast.unparse(each) == text for each in call.args) for call in made
    )


def is_usual_scale(script: Script, attention: Attention) -> bool:
    """Whether the scores are divided by the square root of the size of the last axis, as torch does."""
    if len(attention.factors) != 1:
        return False
    ((factor, divides),) = attention.factors
    size = _under_root(script, factor, inverse=not divides)
    return size is not None and _is_last_size(script, size, attention)


def _under_root(script: Script, factor: ast.expr, *, inverse: bool) -> ast.expr | None:
    match factor:
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Div(), right=root) if inverse:
            return _under_root(script, root, inverse=False)
        case ast.BinOp(left=size, op=ast.Pow(), right=power):
            return size if ast.unparse(power) in (("-0.5",) if inverse else ("0.5", "1 / 2")) else None
        case ast.Call(args=[size], keywords=[]) if not inverse:
            return size if script.qualname(factor.func) in ("math.sqrt", "numpy.sqrt") else None
        case _:
            return None


def _is_last_size(script: Script, size: ast.expr, attention: Attention) -> bool:
    match size:
        case (
            ast.Call(func=ast.Attribute(value=of, attr="size"), args=[axis])
            | ast.Subscript(value=ast.Attribute(value=of, attr="shape"), slice=axis)
            | ast.Subscript(value=ast.Call(func=ast.Attribute(value=of, attr="size"), args=[], keywords=[]), slice=axis)
        ) if ast.unparse(axis) == "-1":
            return any(are_same(script, of, each) for each in (attention.query, attention.key))
        case _:
            return False
