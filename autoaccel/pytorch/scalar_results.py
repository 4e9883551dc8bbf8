"""Figures that a program computes: tensors of one element, such as the best loss, told by how they are compared."""

from __future__ import annotations

import ast

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.pytorch.object_references import connected_files

_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def is_scalar(script: Script, definition: Definition) -> bool:
    """Whether what a name is bound to is surely compared and the outcome decided upon, as a number of one element is,
    and nothing that is read from a file is trained."""
    node = definition.node
    block = script.block(node) if isinstance(node, ast.stmt) else getattr(definition.scope.node, "body", [])
    surely = any(_decides(script, use) and script.statement(use) in block for use in script.uses(definition))
    return surely and not any(_trains_loaded(other) for other in connected_files(script))


def _decides(script: Script, use: ast.Name) -> bool:
    """Whether a statement compares what it reads, whatever else it does: `if v < best:`, `best = max(v, best)`."""
    comparison: ast.AST = use
    parent = script.parent(use)
    if isinstance(parent, ast.Call):
        several = len(parent.args) > 1 and not any(isinstance(each, ast.Starred) for each in parent.args)
        extreme = called_name(script, parent.func) in ("builtins.max", "builtins.min")
        at_once = isinstance(script.parent(parent), ast.stmt)
        return extreme and several and at_once and not parent.keywords and use in parent.args
    if not isinstance(parent, ast.Compare) or len(parent.ops) != 1 or not isinstance(parent.ops[0], _ORDERS):
        return False
    while (
        isinstance(parent, ast.Compare)
        or (isinstance(parent, ast.BoolOp) and parent.values[0] is comparison)
        or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))
    ):
        comparison, parent = parent, script.parent(parent)
    match parent:
        case ast.If(test=test) | ast.Assert(test=test):
            return comparison is test
        case ast.IfExp(test=test):
            return comparison is test and isinstance(script.parent(parent), ast.stmt)
        case _:
            return False


@once
def _trains_loaded(script: Script) -> bool:
    """Whether an optimizer gets something out of a file by itself: `Adam([torch.load(path)["codes"]])`."""
    for call in script.find(ast.Call):
        if any(value.kind is Kind.OPTIMIZER and value.node is call for value in script.values(call)):
            parts = [part for each in given_values(call) for part in ast.walk(each) if isinstance(part, ast.expr)]
            if any(value.how in ("read", "read part") for part in parts for value in script.values(part)):
                return True
    return False
