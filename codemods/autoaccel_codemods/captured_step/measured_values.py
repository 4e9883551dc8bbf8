"""Values that a step's functions count of its results, such as an accuracy: made of comparisons and of indices.

They are tensors of their own, without an autograd graph: neither the update of the parameters nor a replay, which hands
out values alone, makes them others.
"""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import fixpoint
from autoaccel.library_models.tensor_operations import WITH_INDICES
from autoaccel.library_models.tensor_views import VIEW_METHODS

_COMPARE = frozenset(
    "eq ne gt lt ge le isclose logical_and logical_or logical_not isnan isinf isfinite argmax argmin argsort".split()
)
_KEEP = VIEW_METHODS | frozenset(
    "float double half long int sum mean contiguous all any clone mul mul_ div div_ add add_ sub item cumsum".split()
)
"""Methods that compute of what was counted alone, or give it another form."""

_TENSORS = frozenset({Kind.TENSOR, Kind.BATCH, Kind.NUMBER, Kind.UNKNOWN})
"""What a model out of sight gives counts as tensors where it is asked for what they have."""


@fixpoint(True, False)
def is_measured(script: Script, value: ast.expr) -> bool:
    """Whether an expression surely is counted: numbers, comparisons, indices, and what is computed of these alone.

    A list or tuple is where all that is in it is; a call of a function of the project, where all that it returns is.
    """
    match value:
        case ast.Constant() | ast.Compare():
            return True
        case ast.Name():
            if script.kind(value) in (Kind.NUMBER, Kind.BOOL):
                return True
            found = script.definitions(value)
            return bool(found) and all(_is_measured_binding(script, each) for each in found)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return all(is_measured(script, each) for each in parts)
        case ast.ListComp(elt=part):
            return is_measured(script, part)
        case ast.BinOp(left=left, right=right):
            return is_measured(script, left) and is_measured(script, right)
        case ast.UnaryOp(operand=operand):
            return is_measured(script, operand)
        case ast.IfExp(body=first, orelse=second):
            return is_measured(script, first) and is_measured(script, second)
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Subscript(value=owner):
            return is_measured(script, owner) or _is_indices(script, owner, value.slice)
        case ast.Call():
            return _is_measured_call(script, value)
        case _:
            return False


def _is_measured_call(script: Script, call: ast.Call) -> bool:
    name = script.qualname(call.func)
    if name is not None and name.startswith("torch."):
        return name.removeprefix("torch.") in _COMPARE
    match call.func:
        case ast.Name(id="len" | "max" | "min" | "float" | "int") as function if not script.definitions(function):
            return function.id == "len" or all(is_measured(script, each) for each in call.args)
        case ast.Attribute(value=owner, attr=method) if not script.callees(call):
            if not script.values(owner).kinds <= _TENSORS:
                return False
            if method in _COMPARE or method in ("size", "numel", "dim"):
                return True
            return method in _KEEP and is_measured(script, owner) and all(_is_size(script, each) for each in call.args)
        case _:
            return measures(script, call)


def _is_size(script: Script, given: ast.expr) -> bool:
    """What a method is given besides its tensor: sizes, numbers, what was counted, or a tensor of which it takes the
    shape alone, `expand_as(target)`."""
    match script.parent(given):
        case ast.Call(func=ast.Attribute(attr="expand_as" | "view_as")):
            return True
        case _:
            return is_measured(script, given)


def measures(script: Script, call: ast.Call) -> bool:
    """Whether a call is of functions of the project that all return what they have counted."""
    callees = script.callees(call)
    if not callees or script.values(call.func).kinds != {Kind.FUNCTION}:
        return False
    for other, function in callees:
        returned = other.in_scope(function, ast.Return)
        if not isinstance(function, ast.FunctionDef) or _writes(other, function):
            return False
        if not (parts := [each.value for each in returned]):
            return False
        if not all(each is not None and is_measured(other, each) for each in parts):
            return False
    return True


def _writes(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function writes into tensors, other than what it has counted into what it has counted, or yields."""
    if any(True for _ in script.in_scope(function, ast.Yield)):
        return True
    if any(isinstance(each.ctx, ast.Store) for each in script.in_scope(function, ast.Subscript)):
        return True
    for call in script.in_scope(function, ast.Call):
        match call.func:
            case ast.Attribute(attr=name) if name.endswith("_") and not is_measured(script, call):
                return True
    return False


def _is_measured_binding(script: Script, definition: Definition) -> bool:
    value = definition.value
    if definition.how != "assign" or value is None or _is_changed(script, definition):
        return False
    if definition.path:
        whole = definition.whole
        if whole is not None:
            return is_measured(script, whole)
        taken = definition.path[0] if len(definition.path) == 1 else None
        counted = isinstance(value, ast.Call) and is_measured(script, value)
        return counted or (taken == 1 and _gives_indices(script, value))
    if isinstance(value, ast.List):
        return is_measured(script, value) and _is_filled_with_measured(script, definition)
    return is_measured(script, value)


def _is_changed(script: Script, made: Definition) -> bool:
    """Whether a method changes what a name holds by what was not counted: `hits.mul_(output.sum())`."""
    for use in script.uses(made):
        match script.parent(use):
            case ast.Attribute(attr=name) as method if name.endswith("_"):
                call = script.call_of(method)
                if call is None or not is_measured(script, call):
                    return True
    return False


def _is_filled_with_measured(script: Script, made: Definition) -> bool:
    """Whether a list is only given what was counted, `res.append(correct.sum())`, read by index, and returned."""
    for use in script.uses(made):
        match script.parent(use):
            case ast.Return() | ast.Subscript(ctx=ast.Load()):
                pass
            case ast.Attribute(attr="append") as method:
                call = script.call_of(method)
                if call is None or not all(is_measured(script, each) for each in call.args):
                    return False
            case _:
                return False
    return True


def _is_indices(script: Script, owner: ast.expr, index: ast.expr) -> bool:
    """`output.max(1)[1]`"""
    return isinstance(index, ast.Constant) and index.value == 1 and _gives_indices(script, owner)


def _gives_indices(script: Script, call: ast.expr) -> bool:
    """Whether what a call gives are values and their indices: `output.topk(5, 1)`."""
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=keywords) if args or keywords:
            qualified = script.qualname(call.func)
            if qualified is not None:
                return qualified.removeprefix("torch.") in WITH_INDICES
            return name in WITH_INDICES and script.values(owner).kinds <= _TENSORS
        case _:
            return False
