"""Whether an expression is a tensor, or one of the old types that make tensors."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind

TENSORS = frozenset({Kind.TENSOR, Kind.BATCH})
NO_TENSORS = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DEVICE, Kind.DTYPE, Kind.ARRAY, Kind.CLASS, Kind.FUNCTION}
)


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


def _is_type(script: Script, expression: ast.expr, ends: tuple[str, ...]) -> bool:
    match expression:
        case ast.IfExp(body=body, orelse=orelse):
            return _is_type(script, body, ends) and _is_type(script, orelse, ends)
        case _:
            return script.qualname(expression) is not None and is_tensor_type(script, expression, ends)


def may_be_tensor(script: Script, expression: ast.expr) -> bool:
    """Whether a value may be a tensor, or a batch of some."""
    return bool(script.values(expression).kinds & {*TENSORS, Kind.UNKNOWN})
