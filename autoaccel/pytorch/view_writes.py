"""Writing into views: torch lets nobody write what carries a graph into a view that was made without gradients, once
they are on again."""

from __future__ import annotations

import ast
from functools import cached_property

from autoaccel.analysis.constant_arguments import SpecializedCall
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.library_models.tensor_views import VIEW_METHODS
from autoaccel.pytorch.batches import changed_in_place
from autoaccel.pytorch.gradients import in_grad_mode
from autoaccel.pytorch.graph_operands import MAY_HOLD, may_have_graph
from autoaccel.pytorch.hidden_gradients import code_run_by
from autoaccel.pytorch.object_references import connected_files


class RegionCode:
    """The code that may go without gradients: a region, and the functions and models that run in it."""

    def __init__(self, script: Script, region: list[ast.AST], specialized: tuple[SpecializedCall, ...] = ()) -> None:
        self.specialized = specialized
        self._script = script
        self._region = region

    @cached_property
    def makes_view(self) -> bool:
        """Whether it makes a view of a tensor itself, which remembers that gradients were off."""
        entered = [(each.file, each.function) for each in self.specialized]
        return any(_makes_view(*part) for part in (*((self._script, each) for each in self._region), *entered))

    @property
    def writes_in_place(self) -> bool:
        """Whether it may change tensors in place that it is handed."""
        if any(each.arg == "inplace" for file in connected_files(self._script) for each in file.find(ast.keyword)):
            return True
        return any(file.inside(node, part) for file, part in self._code for _, node in changed_in_place(file))

    def is_written_later(self, script: Script, tensor: ast.AST) -> bool:
        """Whether what carries a graph is written into a tensor that comes from here, where gradients are on again."""
        if not _writes_graph(script, tensor) or in_grad_mode(script, tensor):
            return False
        if any(file is script and script.inside(tensor, part) for file, part in self._code):
            return False
        return any(_makes_view(*part) for part in self._code)

    @cached_property
    def _code(self) -> tuple[ScriptNode, ...]:
        return tuple(code_run_by(self._script, self._region, specialized=self.specialized))


def _writes_graph(script: Script, tensor: ast.AST) -> bool:
    """Whether what may carry a graph is written into a tensor: `t[0] = model(x)`, `t.add_(y)`, `t += model(x)`."""
    written: list[ast.expr] = []
    around = script.parent(tensor)
    match around:
        case ast.Attribute(attr=name) if (call := script.call_of(around)) is not None and _is_in_place(name):
            written = given_values(call)
        case ast.Subscript(ctx=ast.Store()) if around.value is tensor:
            statement = script.statement(around)
            written = [statement.value] if isinstance(statement, ast.Assign | ast.AugAssign) else []
        case ast.AugAssign(target=target, value=value) if target is tensor:
            return _carries(script, value)
    return any(_carries(script, each) or _is_given(script, each) for each in written)


def _is_in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__")


def _is_given(script: Script, value: ast.expr) -> bool:
    """Whether a tensor comes from whoever calls the function."""
    kinds = script.values(value).kinds
    return (
        isinstance(value, ast.Name)
        and any(each.how == "param" for each in script.definitions(value))
        and bool(kinds & {Kind.UNKNOWN, Kind.TENSOR, Kind.PARAMETER})
    )


def _makes_view(script: Script, part: ast.AST) -> bool:
    """Whether code makes a view of a tensor, which remembers that gradients were off."""
    return any(isinstance(each.ctx, ast.Load) for each in script.within(part, ast.Subscript)) or any(
        isinstance(each.func, ast.Attribute) and each.func.attr in VIEW_METHODS
        for each in script.within(part, ast.Call)
    )


def writes_into_kept(script: Script) -> bool:
    """Whether a file writes what carries a graph into a tensor that an attribute or a module's name keeps: torch allows
    it in no view that was made without gradients."""
    writes: list[tuple[ast.expr, ast.expr]] = [(each.target, each.value) for each in script.find(ast.AugAssign)]
    writes += [
        (target, each.value)
        for each in script.find(ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Subscript)
    ]
    writes += [
        (call.func.value, argument)
        for call in script.find(ast.Call)
        if isinstance(call.func, ast.Attribute) and _is_in_place(call.func.attr)
        for argument in call.args
    ]
    return any(_is_kept(script, target) and _carries(script, value) for target, value in writes)


def _is_kept(script: Script, target: ast.expr) -> bool:
    """Whether a tensor may be one that other code has kept: a name that it is summed up in, is not."""
    owner = target
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    if isinstance(owner, ast.Attribute) and owner.attr == "data" and _is_parameter(script, owner.value):
        return False  # each read gives a new tensor, which is no view that was made without gradients
    if script.kind(owner) not in (*MAY_HOLD, Kind.TENSOR, Kind.BATCH):
        return False
    definitions = script.definitions(owner) if isinstance(owner, ast.Name) else ()
    return isinstance(owner, ast.Attribute) or any(
        each.how == "global" or (owner is not target and each.scope.parent is None) for each in definitions
    )


def _is_parameter(script: Script, expression: ast.expr) -> bool:
    """Whether a value surely is one of torch's parameters, and none of a class of the project."""
    if isinstance(expression, ast.Attribute) and expression.attr in ("weight", "bias"):
        layers = script.values(expression.value)
        if layers.kinds == {Kind.MODULE} and all((each.name or "").startswith("torch.nn.") for each in layers):
            return all(each.cls is None for each in layers)
    values = script.values(expression)
    return values.kinds == {Kind.PARAMETER} and all(each.cls is None for each in values)


def _carries(script: Script, value: ast.expr) -> bool:
    """Whether a value is computed of parameters, or by a model."""
    operands: list[ast.expr] = [*script.within(value, ast.Name), *script.within(value, ast.Attribute)]
    return any(may_have_graph(script, each, None) for each in operands) or any(
        script.kind(call.func) is Kind.MODULE for call in script.within(value, ast.Call)
    )
