"""Numbers that the runtime adds up on the device: what is added to them is detached and widened, as by `.item()`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.library_models.library_values import RUNNING_TOTALS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


def is_running_total(script: Script, expression: ast.expr) -> bool:
    """Whether an expression surely is an `accel.total()`, or what additions have made of it."""
    values = script.values(expression)
    return bool(values) and all(value.name in RUNNING_TOTALS for value in values)


def joins_total(script: Script, statement: ast.AST) -> bool:
    """Whether a statement adds to one, so that nothing of the addend lives on but its number."""
    match statement:
        case ast.AugAssign(op=ast.Add(), target=target):
            return is_running_total(script, target)
        case _:
            return False
