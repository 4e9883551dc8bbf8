"""Which tensors and arrays surely hold whole numbers or truths: indices, labels, masks. None of these has a graph."""

from __future__ import annotations

import ast

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.query import fixpoint
from autoaccel.library_models.tensor_operations import WHOLE
from autoaccel.library_models.tensor_views import JOINING, VIEW_ATTRIBUTES, VIEWS
from autoaccel.pytorch.integers import integral
from autoaccel.pytorch.tensor_creation import integral_range
from autoaccel.pytorch.tensor_kinds import WHOLE_TYPES, is_tensor_type, is_whole_type

_HOLDING = frozenset({Kind.TENSOR, Kind.ARRAY, Kind.BATCH})
_SAME = (VIEWS - {"view"}) | {"contiguous", "clone", "copy", "cpu", "cuda", "flip", "repeat", "flatten"}
_ALWAYS = WHOLE - {"bincount", "randint_like"}  # of weights, and like a tensor, decimals
_OF_NUMPY = frozenset({"numpy.argwhere", "numpy.argsort", "numpy.flatnonzero", "numpy.searchsorted", "numpy.digitize"})
_CONVERTING = frozenset({"torch.from_numpy", "torch.as_tensor", "torch.tensor", "numpy.array", "numpy.asarray"})


@fixpoint(True, False)
def is_whole(script: Script, expression: ast.expr) -> bool:
    """Whether an expression surely is a tensor or an array of whole numbers, or of truths."""
    match expression:
        case ast.Call():
            return _is_made_whole(script, expression)
        case ast.Compare():
            return script.kind(expression) in _HOLDING
        case ast.Attribute(value=owner, attr=name) if name in VIEW_ATTRIBUTES:
            return is_whole(script, owner)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), left=left, right=right):
            whole = [is_whole(script, each) for each in (left, right)]
            known = (one or integral(script, each) for one, each in zip(whole, (left, right), strict=True))
            return any(whole) and all(known)
        case ast.Subscript(value=owner) if is_whole(script, owner):
            return True
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return _are_whole(script, expression)
        case _:
            return False


def _are_whole(script: Script, expression: ast.expr) -> bool:
    """Whether all that an expression may be was made of whole numbers."""
    values = script.values(expression)
    return bool(values) and all(
        value.kind in _HOLDING
        and value.script is not None
        and isinstance(value.node, ast.expr)
        and value.node is not expression
        and is_whole(value.script, value.node)
        for value in values
    )


def _is_made_whole(script: Script, call: ast.Call) -> bool:
    dtype, name = given_as(call, "dtype"), called_name(script, call.func) or ""
    if any(each.arg in (None, "out") for each in call.keywords) or script.callees(call):
        return False
    if dtype is not None:
        return is_whole_type(script, dtype) and name.startswith("torch.")
    if name == "torch.arange":
        return integral_range(script, call)
    if name in _CONVERTING:
        return len(call.args) == 1 and (is_whole(script, call.args[0]) or integral(script, call.args[0]))
    if name in JOINING:
        return bool(call.args) and _holds_whole(script, call.args[0])
    if name:
        of_torch = name.startswith("torch.") and name.removeprefix("torch.") in _ALWAYS
        return of_torch or name in _OF_NUMPY or is_tensor_type(script, call.func, WHOLE_TYPES)
    match call.func:
        case ast.Attribute(value=owner, attr=method) if script.kind(owner) in _HOLDING:
            same = method in _SAME or (method == "view" and all(integral(script, each) for each in call.args))
            return method in _ALWAYS or (same and is_whole(script, owner))
        case _:
            return is_tensor_type(script, call.func, WHOLE_TYPES)


def _holds_whole(script: Script, parts: ast.expr) -> bool:
    """Whether a written list or tuple holds such tensors alone."""
    return isinstance(parts, ast.List | ast.Tuple) and all(is_whole(script, each) for each in parts.elts)
