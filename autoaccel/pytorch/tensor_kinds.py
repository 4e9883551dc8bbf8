"""Whether an expression is a tensor, or one of the old types that make tensors."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind

TENSORS = frozenset({Kind.TENSOR, Kind.BATCH})
NO_TENSORS = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DEVICE, Kind.DTYPE, Kind.ARRAY, Kind.CLASS, Kind.FUNCTION}
)
WHOLE_TYPES = tuple(f".{name}Tensor" for name in ("Long", "Int", "Short", "Byte", "Char", "Bool"))
"""How the names of old types end whose tensors hold whole numbers: none of these has a graph."""
_WHOLE_DTYPES = frozenset(f"torch.{name}" for name in "long int short uint8 int8 int16 int32 int64 bool".split())


def is_tensor(script: Script, expression: ast.expr) -> bool:
    """Whether a value surely is a tensor, if it is not a batch of several."""
    return script.values(expression).kinds <= TENSORS | {Kind.PARAMETER}


def is_tensor_type(script: Script, function: ast.expr, ends: tuple[str, ...] = ("Tensor",)) -> bool:
    """Whether an expression is one of the old types, `torch.FloatTensor`, or the name of one or the other.

    With `ends` one of those whose names end so.
    """
    name = script.qualname(function)
    if name is not None:
        return name.startswith("torch.") and name.endswith(ends) and name.count(".") <= 2
    definitions = script.definitions(function) if isinstance(function, ast.Name) else ()
    return bool(definitions) and all(
        each.how == "assign" and not each.path and each.value is not None and _is_type(script, each.value, ends)
        for each in definitions
    )


def is_whole_type(script: Script, expression: ast.expr) -> bool:
    """Whether an expression surely is a type of whole numbers: `torch.long`, `torch.LongTensor`, or a name for one."""
    return script.qualname(expression) in _WHOLE_DTYPES or is_tensor_type(script, expression, WHOLE_TYPES)


def _is_type(script: Script, expression: ast.expr, ends: tuple[str, ...]) -> bool:
    match expression:
        case ast.IfExp(body=body, orelse=orelse):
            return _is_type(script, body, ends) and _is_type(script, orelse, ends)
        case _:
            return script.qualname(expression) is not None and is_tensor_type(script, expression, ends)


def may_be_tensor(script: Script, expression: ast.expr) -> bool:
    """Whether a value may be a tensor, or a batch of some."""
    return bool(script.values(expression).kinds & {*TENSORS, Kind.UNKNOWN})
