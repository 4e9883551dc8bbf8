"""What the loop does with what a step hands out: the results of a replay have values, but no autograd graph."""

from __future__ import annotations

import ast
import re

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import positional
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.library_models.graph_operations import (
    ENDING_ATTRIBUTES,
    ENDING_FUNCTIONS,
    ENDING_METHODS,
    is_without_graph,
)
from autoaccel.library_models.library_values import RUNNING_TOTALS
from autoaccel.library_models.tensor_operations import LOSSES
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel_codemods.captured_step.lifting import Lifted
from autoaccel_codemods.captured_step.measured_values import is_measured
from autoaccel_codemods.captured_step.problems import DeclinedError

_LOSSES = "torch.nn.functional."
_CONVERTING = frozenset({"float", "int", "bool", "len"})
_STEPS = frozenset("mean sum cpu abs exp clone sigmoid softmax log_softmax sqrt round clamp float".split())
"""Functions and methods of torch's of which the result, too, may be used for its value alone."""
_BARE_FIELD = re.compile(r"\{\w*\}")


def refuse(script: Script, lifted: Lifted) -> None:
    """Raises `DeclinedError` where a result may be used for more than its value."""
    numbers = {part.id for each in lifted.region.numbers for part in each.targets if isinstance(part, ast.Name)}
    inside = {part for each in lifted.region.statements for part in breadth_first(each)}
    for name in script.find(ast.Name):
        if name.id not in lifted.results or name.id in numbers or name in inside or not isinstance(name.ctx, ast.Load):
            continue
        found = script.definitions(name)
        if found and not any(each.node in inside for each in found):
            continue
        if all(each.node in inside for each in found) and is_measured(script, name):
            continue
        if not _is_value_only(script, name):
            raise DeclinedError(f"`{name.id}` may be used for more than its value in line {name.lineno}")


@fixpoint(True, False)
def _is_value_only(script: Script, read: ast.expr) -> bool:
    """Whether a read of a tensor ends in a number, or in a tensor that has no graph."""
    parent = script.parent(read)
    match parent:
        case ast.Attribute(attr=name):
            around = script.parent(parent)
            if isinstance(around, ast.Call) and around.func is parent:
                return name in ENDING_METHODS or _takes_indices(script, around, name) or _is_view(script, around, name)
            return name in ENDING_ATTRIBUTES
        case ast.Call() if read in parent.args and _calls_project(script, parent):
            return all(_is_value_in(other, each, script, parent, read) for other, each in script.callees(parent))
        case ast.Call(func=ast.Name(id=name) as function) if read in parent.args:
            return name in _CONVERTING and not script.definitions(function)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return not _BARE_FIELD.search(text)
        case ast.Call() if read in parent.args:
            name = script.qualname(parent.func) or ""
            if script.runtime_name(parent.func) == "item":
                return True
            if name.startswith(_LOSSES) and name.removeprefix(_LOSSES) in LOSSES and _is_without_graph(script, parent):
                return True
            if name.startswith("torch.") and name.removeprefix(_LOSSES).removeprefix("torch.") in _STEPS:
                return _is_number_later(script, parent)
            return name in ENDING_FUNCTIONS or _takes_indices(script, parent, name.removeprefix("torch."))
        case ast.FormattedValue(format_spec=spec):
            return spec is not None
        case ast.Return():
            return _is_value_of_callers(script, read, None)
        case ast.Tuple(elts=parts) if isinstance(script.parent(parent), ast.Return):
            return _is_value_of_callers(script, read, parts.index(read))
        case ast.AugAssign(target=target, value=value) if value is read:
            return any(each.name in RUNNING_TOTALS for each in script.values(target))
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
            return True
        case ast.BinOp() | ast.UnaryOp(op=ast.USub()):
            return _is_number_later(script, parent)
        case ast.Tuple():
            around = script.parent(parent)
            return isinstance(around, ast.BinOp) and around.right is parent and _is_text(around.left)
        case ast.Compare():
            return all(not isinstance(each, ast.Is | ast.IsNot | ast.In | ast.NotIn) for each in parent.ops)
        case _:
            return False


def _is_without_graph(script: Script, call: ast.Call) -> bool:
    """Whether a call stands in a block without gradients."""
    blocks = (each for each in script.ancestors(call) if isinstance(each, ast.With))
    return any(is_without_graph(script, item.context_expr) for each in blocks for item in each.items)


def _calls_project(script: Script, call: ast.Call) -> bool:
    return script.values(call.func).kinds == {Kind.FUNCTION} and bool(script.callees(call))


def _is_value_in(other: Script, function: ast.FunctionDef, script: Script, call: ast.Call, given: ast.expr) -> bool:
    """Whether a function of the project uses what it is given for its value alone, and what it returns is so used."""
    names = [each for each in positional(function) if script.argument(call, function, each, other) is given]
    reads = [each for each in other.within(function, ast.Name) if each.id in names]
    bound = all(isinstance(each.ctx, ast.Load) and other.function(each) is function for each in reads)
    plain = all(is_without_graph(other, each) for each in function.decorator_list) and not other.in_scope(
        function, ast.Yield
    )
    return len(names) == 1 and bound and plain and all(_is_value_only(other, each) for each in reads)


def _is_value_of_callers(script: Script, returned: ast.expr, index: int | None) -> bool:
    """Whether all who call the function around what it returns, as one of several if so, use it for its value alone."""
    function = script.function(returned)
    calls = () if function is None else script.callers(function).all()
    return bool(calls) and all(_is_value_of_caller(other, call, index) for other, call in calls)


def _is_value_of_caller(script: Script, call: ast.Call, index: int | None) -> bool:
    parent = script.parent(call)
    match parent:
        case ast.Expr():
            return True
        case ast.Assign(targets=[ast.Name() as bound]) if index is None:
            return _is_value_wherever_read(script, parent, bound)
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if index is not None and index < len(parts):
            names = [each for each in parts if isinstance(each, ast.Name)]
            return len(names) == len(parts) and _is_value_wherever_read(script, parent, names[index])
        case ast.Subscript(slice=ast.Constant(value=int(taken))) if index is not None:
            return taken != index or _is_value_only(script, parent)
        case _:
            return index is None and _is_value_only(script, call)


def _is_value_wherever_read(script: Script, made: ast.Assign, bound: ast.Name) -> bool:
    """Whether reads of a name that a function binds here use it for its value alone."""
    if script.function(made) is None or any(bound.id in each.names for each in script.find(ast.Global)):
        return False
    reads = (each for each in script.find(ast.Name) if each.id == bound.id and isinstance(each.ctx, ast.Load))
    return all(
        _is_value_only(script, each) for each in reads if any(known.node is made for known in script.definitions(each))
    )


def _is_number_later(script: Script, computed: ast.expr) -> bool:
    """Whether what is computed of a result ends in a number, where it stands or by the name that it gets:
    `loss = (first + second) / 2`."""
    match script.parent(computed):
        case ast.Assign(targets=[ast.Name(id=bound)]) as statement:
            names = (each for each in script.find(ast.Name) if each.id == bound and isinstance(each.ctx, ast.Load))
            reads = [each for each in names if _may_be(script, each, statement)]
            return not any(script.inside(each, statement) for each in reads) and all(
                _is_value_only(script, each) for each in reads
            )
        case _:
            return _is_value_only(script, computed)


def _may_be(script: Script, name: ast.Name, statement: ast.stmt) -> bool:
    found = script.definitions(name)
    return not found or any(each.node is statement for each in found)


def _takes_indices(script: Script, call: ast.Call, name: str) -> bool:
    """`_, predicted = output.max(1)`, `output.max(1)[1]`: of values and indices the indices alone."""
    if name not in ("max", "min", "topk", "sort"):
        return False
    match script.parent(call):
        case ast.Subscript(slice=ast.Constant(value=1)):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name() as values, ast.Name()])]):
            return not any(script.uses(each) for each in script.definitions(values)) or values.id == "_"
        case _:
            return False


def _is_view(script: Script, call: ast.Call, name: str) -> bool:
    """A step on the way: `loss.mean().item()`, `output.data.max(1)`."""
    return name in RESHAPING | _STEPS and _is_number_later(script, call)


def _is_text(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Constant) and isinstance(expression.value, str)
