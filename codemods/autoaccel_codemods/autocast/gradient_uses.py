"""Names and attributes of which gradients surely are taken, so that they hold decimals."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.library_models.tensor_operations import LOSSES


def is_differentiated(script: Script, definition: Definition) -> bool:
    """Whether gradients of what a name holds are taken: it is run backward from, or what a loss judges."""
    return any(takes_gradients(script, use) for use in script.uses(definition))


def takes_gradients(script: Script, use: ast.expr) -> bool:
    if isinstance(use, ast.Attribute) and isinstance(use.value, ast.Name):
        cls = script.enclosing_class(use)
        reads = script.within(cls, ast.Attribute) if cls is not None else ()
        same = [each for each in reads if each.attr == use.attr and isinstance(each.value, ast.Name)]
        return any(_is_judged(script, each) for each in same if each.value.id == use.value.id)  # type: ignore[attr-defined]
    return _is_judged(script, use)


def _is_judged(script: Script, use: ast.expr) -> bool:
    match script.parent(use):
        case ast.Attribute(attr="backward"):
            return True
        case ast.Call(func=function, args=[first, *_]) if first is use:
            name = script.qualname(function) or ""
            if name.startswith("torch.nn.functional."):
                return name.rsplit(".", 1)[-1] in LOSSES
            values = script.values(function)
            return bool(values) and all(value.kind is Kind.LOSS_FUNCTION and value.cls is None for value in values)
        case _:
            return False
