"""Which operands may carry a graph from outside of a piece of code: parameters of models, leaves, what it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import is_constant, last_name
from autoaccel.library_models.python_names import CONTAINERS
from autoaccel.pytorch.kept_state import is_layer_weight

MAY_HOLD = (None, Kind.SEQUENCE, Kind.MAPPING)


def may_have_graph(script: Script, operand: ast.expr, region: ast.AST | None, *, surely: bool = False) -> bool:
    """Whether an operand may carry a graph from outside; where `surely`, only if it is known to be a tensor."""
    match operand:
        case ast.Name(id=name):
            kind = script.kind(operand)
            if name in _leaf_names(script) or kind is Kind.PARAMETER:
                return True
            if region is None or (kind is not Kind.TENSOR and (surely or kind not in MAY_HOLD)):
                return False
            seen: set[Definition] = set()
            return any(_is_given(script, each, region, seen) for each in script.definitions(operand))
        case ast.Attribute(attr=name):
            if script.qualname(operand) is not None:
                return False
            own = script.kind(operand) is Kind.PARAMETER or is_layer_weight(script, operand)
            return own or name in _leaf_names(script)
        case ast.Subscript(value=owner):
            kind = script.kind(operand)
            if kind not in (None, Kind.TENSOR, Kind.PARAMETER):
                return False
            return may_have_graph(script, owner, region, surely=surely and kind is None)
        case _:
            return False


def _is_given(script: Script, definition: Definition, region: ast.AST, seen: set[Definition]) -> bool:
    """Whether a binding is a parameter of the region's function, or made before its statements; or of a part of one."""
    if definition in seen:
        return False
    seen.add(definition)
    if isinstance(region, ast.FunctionDef | ast.AsyncFunctionDef):
        if definition.how == "param" and definition.scope.node is region:
            return True
    elif definition.how in ("param", "assign", "aug") and not script.inside(definition.node, region):
        return True
    return any(
        _is_given(script, each, region, seen)
        for name in _parts_of(script, definition.value)
        for each in script.definitions(name)
    )


def _parts_of(script: Script, value: ast.expr | None) -> Iterator[ast.Name]:
    """The names whose value, or a part of it, an expression hands on."""
    match value:
        case ast.Name():
            if script.kind(value) not in (Kind.LOADER, Kind.DATASET):
                yield value
        case ast.Subscript(value=owner) | ast.Starred(value=owner) | ast.Attribute(value=owner):
            yield from _parts_of(script, owner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
            for each in parts:
                yield from _parts_of(script, each)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _parts_of(script, body)
            yield from _parts_of(script, orelse)
        case ast.Call(args=arguments):
            if (called_name(script, value.func) or "").removeprefix("builtins.") in CONTAINERS:
                for each in arguments:
                    yield from _parts_of(script, each)


@once
def _leaf_names(script: Script) -> frozenset[str]:
    """Names of variables and attributes that a file makes require gradients."""
    found: set[str] = set()
    for call in script.syntax_index.calls_named("requires_grad_"):
        if isinstance(call.func, ast.Attribute):
            found.add(last_name(call.func.value))
            around = script.parent(call)
            found.update(map(last_name, around.targets) if isinstance(around, ast.Assign) else ())
    for keyword in script.find(ast.keyword):
        if keyword.arg == "requires_grad" and not is_constant(keyword.value, False):
            statement = script.statement(keyword)
            if isinstance(statement, ast.Assign):
                found.update(last_name(each) for each in statement.targets)
    for statement in script.find(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
                found.add(last_name(target.value))
            elif isinstance(statement.value, ast.Call):
                if script.qualname(statement.value.func) == "torch.nn.Parameter":
                    found.add(last_name(target))
    return frozenset(found - {""})
