"""Whether a call binds the first parameter of a function to the object that it is a method of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis import name_lookups
from autoaccel.analysis.classes import lineage
from autoaccel.dataflow.abstract_values import BOUND, Kind

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


def is_bound(script: Script, function: ast.AST, other: Script, call: ast.Call) -> bool:
    """Whether the first parameter is the receiver, not the first argument of the call."""
    cls = script.parent(function)
    if not isinstance(cls, ast.ClassDef):  # a class may have been given it: `Trainer.log = log`
        reached = other.inference.possible(call.func) if isinstance(call.func, ast.Attribute) else ()
        return any(value.node is function and value.path == BOUND for value in reached)
    decorators = {each.id for each in getattr(function, "decorator_list", ()) if isinstance(each, ast.Name)}
    if decorators & {"staticmethod", "classmethod"}:
        return "classmethod" in decorators
    receiver = name_lookups.receiver(call.func)
    made = getattr(function, "name", "") == "__init__"
    if receiver is not None and (not made or getattr(call.func, "attr", "") == "__init__"):
        owner = other.inference.possible(receiver)
        classes = (value.cls for value in owner if value.kind is Kind.CLASS and value.cls is not None)
        return not any(each.node is cls for ref in classes for each in lineage(ref))
    return True
