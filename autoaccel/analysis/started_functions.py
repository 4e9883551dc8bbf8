"""Functions that run in processes and threads of their own: who starts them, and what they are handed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.dataflow.call_arguments import given_as, positional
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


_PROCESSES = ("Process", "spawn", "start_processes")
_STARTERS = (*_PROCESSES, "Thread")


@once
def starts(script: Script, function: ast.AST) -> tuple[tuple[Script, ast.Call], ...]:
    """Calls that run a function in a process or thread: `Process(target=f, args=…)`, `spawn(f, args=…)`."""
    name = getattr(function, "name", None)
    if name is None or isinstance(script.parent(function), ast.ClassDef):
        return ()
    files = script.project.files_naming(script, name, attribute=False)
    return tuple(
        (other, call)
        for other in files
        for call in other.syntax_index.calls_named(*_STARTERS)
        if (target := _started(call)) is not None and _is_name_of(other, target, script, function)
    )


def _started(call: ast.Call) -> ast.expr | None:
    """The function that a call runs elsewhere."""
    match last_name(call.func):
        case "Process" | "Thread":
            return given_as(call, "target")
        case "spawn" | "start_processes":
            return call.args[0] if call.args else given_as(call, "fn")
        case _:
            return None


def starts_process(*around: ast.AST | None) -> bool:
    """Whether a function is handed to a process of its own, with arguments in sight: `spawn(f, …)`,
    `Process(target=f)`."""
    calls = [each for each in around if isinstance(each, ast.Call) and last_name(each.func) in _PROCESSES]
    return any(_passed(call) is not None for call in calls)


def _is_name_of(other: Script, target: ast.expr, script: Script, function: ast.AST) -> bool:
    """Whether a name stands for a function of `script`: it is defined under it, or imported from there."""
    if not isinstance(target, ast.Name):
        return False
    definitions = other.definitions(target)
    if len(definitions) != 1:
        return False
    if definitions[0].how == "import" and definitions[0].target:
        imported = script.project.imported(other, definitions[0].target, definitions[0].level)
        name = getattr(function, "name", None)
        return imported is not None and imported[0] is script and imported[1] == name
    return definitions[0].node is function


def handed_over(function: ast.AST, call: ast.Call, parameter: str) -> ast.expr | None:
    """The expression that a process or thread gets for a parameter; `spawn` passes its rank before them."""
    passed = _passed(call)
    if passed is None:
        return None
    spawned = last_name(call.func) not in ("Process", "Thread")
    return {**dict(zip(positional(function)[int(spawned) :], passed[0], strict=False)), **passed[1]}.get(parameter)


def _passed(call: ast.Call) -> tuple[list[ast.expr], dict[str, ast.expr]] | None:
    """The positional arguments and the others that a process or thread gets for its function; None where they are not
    in sight."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in given:
        return None
    positional, named = given.get("args"), given.get("kwargs")
    if positional is None and last_name(call.func) not in ("Process", "Thread") and len(call.args) > 1:
        positional = call.args[1]
    if not isinstance(positional, ast.Tuple | ast.List | None) or not isinstance(named, ast.Dict | None):
        return None
    elements = [] if positional is None else positional.elts
    keys = [] if named is None else [getattr(key, "value", None) for key in named.keys]
    if any(isinstance(each, ast.Starred) for each in elements) or not all(isinstance(key, str) for key in keys):
        return None
    values = [] if named is None else named.values
    return elements, {str(key): value for key, value in zip(keys, values, strict=True)}
