"""Whether an object has parameters, which training changes."""

from __future__ import annotations

import ast

from autoaccel.analysis.classes import class_info, external_lineage, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value
from autoaccel.pytorch.forwards import WITHOUT_PARAMETERS


def has_parameters(value: Value, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a value is a parameter, or a module that may have some; transforms in the form of modules have none."""
    if value.kind is Kind.PARAMETER or value.kind is Kind.OPTIMIZER:
        return True
    if value.kind is not Kind.MODULE:
        return False
    if value.cls is not None:
        return value.cls.node not in seen and _class_has_parameters(value.cls, seen | {value.cls.node})
    if value.name == "torch.nn.Sequential" and isinstance(value.node, ast.Call) and value.script is not None:
        file = value.script
        parts = [each.value if isinstance(each, ast.Starred) else each for each in value.node.args]
        return not parts or any(_holds_parameters(file, part, seen) for part in parts)
    return value.name not in WITHOUT_PARAMETERS


def _class_has_parameters(cls: ClassRef, seen: frozenset[ast.AST]) -> bool:
    if not set(external_lineage(cls)) <= {"torch.nn.Module", "object", "abc.ABC"}:
        return True
    for each in lineage(cls):
        file = each.script
        if any(file.qualname(call.func) == "torch.nn.Parameter" for call in file.within(each.node, ast.Call)):
            return True
        called = {call.func.attr for call in file.within(each.node, ast.Call) if isinstance(call.func, ast.Attribute)}
        if not called.isdisjoint({"register_parameter", "add_module", "register_module"}):
            return True
        for attr, bindings in class_info(each).attributes.items():
            for binding, _ in bindings:
                if isinstance(binding, ast.expr) and _holds_parameters(file, binding, seen, called=attr in called):
                    return True
    return False


def _holds_parameters(file: Script, part: ast.expr, seen: frozenset[ast.AST], *, called: bool = True) -> bool:
    values = file.values(part)
    items = [item for value in values for _, items in value.items for item in items]
    return any(has_parameters(value, seen) or (called and value.kind is Kind.UNKNOWN) for value in (*values, *items))
