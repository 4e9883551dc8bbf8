"""Every call that may enter a function or the `forward` of a module: also of elements of containers, and of what is not
known but might be the module."""

from __future__ import annotations

import ast
import re

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import fits, unpacks
from autoaccel.dataflow.completeness import CallSite, Incomplete
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.tensor_operations import METHODS
from autoaccel.pytorch.module_containers import forwards
from autoaccel.pytorch.object_references import all_callers, connected_files

_RUNNERS = frozenset(
    """checkpoint checkpoint_sequential partial partialmethod functional_call vmap jit map imap imap_unordered starmap
    submit apply_async call_soon run_in_executor Thread Process Timer parallel_apply trace script""".split()
)
_COMPUTING = re.compile(
    r"(torch(\.nn(\.functional)?|\.Tensor|\.linalg)?|numpy|math)\.(?!apply_|piecewise|vectorize|cond$|while_loop)\w+"
)
"""Functions that call nothing that they are given, but for those that are runners by their names; and classes."""
_PUTTING = re.compile(r"\b(setattr|add_module|register_module|__setattr__)\(")
_POSSIBLE = frozenset({Kind.UNKNOWN, Kind.MODULE, Kind.OBJECT, Kind.EXTERNAL})


@once
def forward_calls(script: Script, function: ast.FunctionDef) -> tuple[CallSite, ...]:
    """The calls that a function may be entered by. Raises `Incomplete` where there are none, or may be others."""
    cls = script.parent(function)
    if not isinstance(cls, ast.ClassDef) or function.name != "forward":
        return all_callers(script, function)
    files = connected_files(script)
    for other in files:
        for call in other.syntax_index.calls_named(*_RUNNERS):
            if any(other.values(each).kinds & _POSSIBLE for each in _run_by(other, call)):
                raise Incomplete(f"`{last_name(call.func)}` may call `{cls.name}.forward`")
        for read in other.syntax_index.mentions("forward", "__call__"):
            if isinstance(read, ast.Attribute) and other.call_of(read) is None:
                raise Incomplete(f"`{other.source(read)}` may be a call of `{cls.name}.forward`")
    found = [
        (other, call)
        for other in files
        for call in other.find(ast.Call)
        if _may_enter(other, call, function) and _may_be_held(files, call)
    ]
    if not found:
        raise Incomplete(f"who calls `{cls.name}.forward` is not known")
    return tuple(found)


def passed_by(script: Script, parameter: Definition, other: Script, call: ast.Call) -> tuple[Script, ast.expr]:
    """What a call passes for a parameter, or its default. Raises `Incomplete` where that is not in sight."""
    function = parameter.scope.node
    given = other.argument(call, function, parameter.name, script)
    if given is not None:
        return other, given
    if parameter.value is None or unpacks(call):
        raise Incomplete(f"what is passed for `{parameter.name}` in line {call.lineno} is not spelled out")
    return script, parameter.value


def _may_enter(other: Script, call: ast.Call, function: ast.FunctionDef) -> bool:
    named = other.qualname(call.func)
    if named is not None and not other.is_project_name(call.func):
        return False
    if _is_builtin(other, call.func):
        return False
    if entered := forwards(other, call.func):
        return any(each is function for _, each in entered)
    by_class = isinstance(call.func, ast.Attribute) and call.func.attr in ("forward", "__call__")
    possible = bool(other.values(call.func).kinds & _POSSIBLE)
    if by_class and possible and Kind.MODULE not in other.values(call.func.value).kinds:  # type: ignore[attr-defined]
        raise Incomplete(f"`{other.source(call.func)}` may be a call of `{function.name}`")
    return possible and fits(function, call, bound=True)


def _run_by(script: Script, call: ast.Call) -> list[ast.expr]:
    """What a function may run that it is handed: the first argument, `map(layer, rows)`, or one behind a pool."""
    first = call.args[: 2 if last_name(call.func) == "run_in_executor" else 1]
    named = [each.value for each in call.keywords if each.arg in ("target", "func", "function", "fn", None)]
    return [each for each in (*first, *named) if not _is_builtin(script, each) and not _computes(script, each)]


def _computes(script: Script, function: ast.expr) -> bool:
    """Whether what is handed over is a library's own, which enters nothing of the project: `map(torch.stack, rows)`."""
    name = script.qualname(function)
    if name is None or script.is_project_name(function):
        return False
    return _COMPUTING.fullmatch(name) is not None and name.rpartition(".")[2] not in _RUNNERS


def _is_builtin(script: Script, function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and script.qualname(function) is None and not script.definitions(function)


def _may_be_held(files: tuple[Script, ...], call: ast.Call) -> bool:
    """Whether `x.name(…)` may call a module that an object holds: a file stores something under the name."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr in ("forward", "__call__"):
        return True
    name = call.func.attr
    if name not in METHODS and any(_PUTTING.search(other.text) for other in files):
        return True
    return any(True for other in files for _ in other.syntax_index.stored(name))
