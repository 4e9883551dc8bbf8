"""What an expression that is called stands for, by name or by value."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


def functions_of(script: Script, expression: ast.expr) -> list[tuple[Script, ast.AST]]:
    """The functions and lambdas that an expression stands for; none unless these are all."""
    values = script.values(expression)
    found: list[tuple[Script, ast.AST]] = [
        (value.script, value.node)
        for value in values
        if value.kind is Kind.FUNCTION and value.script is not None and value.node is not None
    ]
    return found if len(found) == len(values) else [*lambdas_of(script, expression)]


def lambdas_of(script: Script, expression: ast.expr) -> list[tuple[Script, ast.Lambda]]:
    """The lambdas that an expression is, or a name for; none unless these are all."""
    if isinstance(expression, ast.Lambda):
        return [(script, expression)]
    definitions = script.definitions(expression) if isinstance(expression, ast.Name) else ()
    made = [each.value for each in definitions if isinstance(each.value, ast.Lambda) and each.how == "assign"]
    return [(script, each) for each in made if each is not None] if len(made) == len(definitions) else []


def called_name(script: Script, function: ast.expr) -> str | None:
    """The qualified name of a library's or Python's own function."""
    if isinstance(function, ast.Name) and not script.definitions(function):
        return f"builtins.{function.id}" if hasattr(builtins, function.id) else None
    return script.qualname(function)
