"""Training that a framework runs: where it is told how to, and what of its settings does what rules would do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models.frameworks import CONFIGURED, FRAMEWORKS, Configured


def told(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """The first call of each kind that tells a framework how to train, and the framework."""
    for configured in CONFIGURED:
        if (call := _call_of(script, configured)) is not None:
            yield call, configured.framework


def untaken(script: Script, framework: str) -> str:
    """What is left to set where a framework is told how to train; empty if there is nothing, or no such place."""
    for configured in CONFIGURED:
        call = _call_of(script, configured) if configured.framework == framework else None
        if call is not None:
            return _untaken(script, call, configured)
    return ""


def _call_of(script: Script, configured: Configured) -> ast.Call | None:
    calls = [*script.calls(*configured.names), *_starred(script, configured)]
    return min(calls, key=position) if calls and configured.only_with in script.text else None


def _untaken(script: Script, call: ast.Call, configured: Configured) -> str:
    """What is not said yet of what could be."""
    given = {keyword.arg for keyword in call.keywords}
    settings = [each for each in configured.settings if each.partition("=")[0] not in given]
    if settings:
        return f"`{script.source(call.func)}({', '.join(settings)})`"
    return configured.instead


def _starred(script: Script, configured: Configured) -> list[ast.Call]:
    """Calls of names that nothing binds but a star import of the framework."""
    packages = {name for name, label in FRAMEWORKS.items() if label == configured.framework}
    if not any(module.partition(".")[0] in packages for module, level in script.module_scope.stars if not level):
        return []
    names = {name.rpartition(".")[2] for name in configured.names} - set(script.module_scope.definitions)
    calls = script.find(ast.Call)
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in names]
