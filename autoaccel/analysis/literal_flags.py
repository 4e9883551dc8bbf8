"""Flags that are off in a script as it stands: `DETERMINISTIC = False`, `def set_seed(seed, deterministic=False)`."""

from __future__ import annotations

import ast
import itertools

from autoaccel.analysis.rebound_names import rebound_names
from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.library_models.python_names import NAMESPACES, TEXT_RUNNERS

_RUN_TEXT = (*TEXT_RUNNERS, *NAMESPACES)


def is_off(script: Script, flag: ast.expr) -> bool:
    """Whether an expression surely is a false literal: as written, or by a name that stands for nothing else."""
    if not isinstance(flag, ast.Name):
        return isinstance(flag, ast.Constant) and not flag.value
    definitions = script.definitions(flag)
    return bool(definitions) and all(_is_bound_off(script, each) for each in definitions)


def is_switched_off(script: Script, node: ast.AST) -> bool:
    """Whether a node runs only where a flag is on that is off: `if DETERMINISTIC: …`"""
    for child, above in itertools.pairwise((node, *script.ancestors(node))):
        match above:
            case ast.If(test=test, body=body) if child in body and is_off(script, test):
                return True
            case ast.IfExp(test=test, body=body) if child is body and is_off(script, test):
                return True
    return False


def is_never_given(script: Script, parameter: Definition) -> bool:
    """Whether no call in sight passes an argument for a parameter of a function."""
    function = parameter.scope.node
    calls = script.callers(function)
    return all(file.argument(call, function, parameter.name, script) is None for file, call in calls)


def _is_bound_off(script: Script, definition: Definition) -> bool:
    if definition.path or not isinstance(definition.value, ast.Constant) or definition.value.value:
        return False
    if definition.how == "param":
        calls = script.callers(definition.scope.node)
        whole = calls.missing is None and not any(unpacks(call) for _, call in calls)
        return whole and is_never_given(script, definition)
    if definition.how != "assign" or definition.name in rebound_names(script):
        return False
    return not any(isinstance(part, ast.Name) and part.id in _RUN_TEXT for part in breadth_first(script.tree))
