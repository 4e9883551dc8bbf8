"""Everywhere that an object may turn up: the files that share it, the reads of its attributes, the calls of a method.

Answers are complete, or `Incomplete` is raised. Attributes are told by their names alone, unless the object that they
are read of surely is of another class.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from autoaccel.analysis.call_sites import handed_out
from autoaccel.analysis.classes import external_lineage, lineage
from autoaccel.analysis.computed_members import is_extended
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import NONE, Kind
from autoaccel.dataflow.completeness import CallSite, Incomplete
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import Function, last_name
from autoaccel.library_models.library_members import MEMBERS
from autoaccel.library_models.python_names import METHOD_DECORATORS, PROPERTIES
from autoaccel.library_models.tensor_operations import ATTRIBUTES, METHODS
from autoaccel.pytorch.gradients import sets_grad_mode

_CLOSED = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.ARRAY, Kind.DEVICE, Kind.DTYPE}
    | {Kind.TENSOR, Kind.PARAMETER, Kind.SEQUENCE, Kind.MAPPING}
)  # what has no attributes of the script's own, but for tensors
_TENSORS = frozenset({Kind.TENSOR, Kind.PARAMETER})
_ONLY_NONE = frozenset({NONE})
_BASES = ("torch.", "abc.", "builtins.", "typing.", "collections.", "enum.")  # of classes that call no method by itself


@once
def connected_files(script: Script) -> tuple[Script, ...]:
    """All files that may share an object with a script: those that imports connect with it."""
    return _closure(script, lambda each: (*each.project.related(each), *_importers(each)))


def importing_files(script: Script) -> tuple[Script, ...]:
    """A script and all files that may read its names: those that import it, and those that import these."""
    return _closure(script, _importers)


def _closure(script: Script, beside: Callable[[Script], Iterable[Script]]) -> tuple[Script, ...]:
    found = {script: None}
    pending = [script]
    while pending:
        for each in beside(pending.pop()):
            if each not in found:
                if len(found) >= script.project.bounds.graph_files:
                    raise Incomplete("more files are connected with it than are looked at")
                found[each] = None
                pending.append(each)
    return tuple(found)


def _importers(script: Script) -> Iterator[Script]:
    importers = script.project.importer_paths(script)
    if len(importers) >= script.project.bounds.graph_files:
        raise Incomplete("more files import it than are looked at")
    for path in importers:
        other = script.project.script(path)
        if other is not None:
            yield other


def attribute_reads(
    script: Script, classes: frozenset[ast.ClassDef] | None, name: str, *, called: bool
) -> Iterator[tuple[Script, ast.expr]]:
    """The reads of an attribute of objects of some classes (None: of any), also those by a name that is not told.

    Whether one that is `called` is of interest: `x.sum()` does not read what an object keeps as its `sum`. Raises
    `Incomplete` where a pattern may read it, by its name or its place."""
    for other in connected_files(script):
        if any(name in pattern.kwd_attrs or pattern.patterns for pattern in other.find(ast.MatchClass)):
            raise Incomplete("a pattern may read it")
        for part in other.find(ast.Attribute):
            if part.attr in (name, "__dict__") and isinstance(part.ctx, ast.Load):
                if (called or other.call_of(part) is None) and _may_be_same(other, part, classes):
                    yield other, part
        for call in other.syntax_index.calls_named("getattr", "vars", "attrgetter"):
            named = call.args[1] if len(call.args) > 1 else None
            told = isinstance(named, ast.Constant) and named.value != name
            if not told and not _looks_elsewhere(other, call, classes):
                yield other, call


def property_name(function: Function) -> str | None:
    """The name of a property, which is read and not called."""
    decorators = {last_name(each) for each in getattr(function, "decorator_list", ())}
    return function.name if decorators & PROPERTIES and not isinstance(function, ast.Lambda) else None


def all_callers(script: Script, function: Function) -> tuple[CallSite, ...]:
    """Every call of a function, of which there must be one, and which nobody else may call."""
    cls = script.parent(function)
    of_class = f"{cls.name}." if isinstance(cls, ast.ClassDef) else ""
    name = "a lambda" if isinstance(function, ast.Lambda) else f"`{of_class}{function.name}`"
    unknown = Incomplete(f"who calls {name} is not known")
    if isinstance(function, ast.Lambda):
        raise unknown
    for decorator in function.decorator_list:
        plain = isinstance(decorator, ast.Name) and decorator.id in METHOD_DECORATORS
        if not plain and not sets_grad_mode(script, decorator):
            raise unknown
    found = script.callers(function)
    calls = {call: other for other, call in found}
    if isinstance(cls, ast.ClassDef):
        if function.name.startswith("__") and function.name not in ("__init__", "__call__"):
            raise unknown  # operators and loops call it
        if not all(name.startswith(_BASES) for name in external_lineage(script.class_ref(cls))):
            raise unknown
        calls |= _calls_by_name(script, function, classes_of(script, cls))
    found.all()  # else there may be more
    if not calls:
        raise unknown
    return tuple((other, call) for call, other in calls.items())


def _calls_by_name(
    script: Script, method: ast.FunctionDef | ast.AsyncFunctionDef, classes: frozenset[ast.ClassDef]
) -> dict[ast.Call, Script]:
    """Calls that may be of a method, of whatever object it seems."""
    calls: dict[ast.Call, Script] = {}
    for other in connected_files(script):
        for part in other.find(ast.Attribute):
            if part.attr != method.name or not isinstance(part.ctx, ast.Load):
                continue
            if not _may_be_same(other, part, classes) or _is_elsewhere(other, part, method, classes):
                continue
            call = other.call_of(part)
            if call is None:
                raise Incomplete("it is handed over")
            calls[call] = other
    return calls


def classes_of(script: Script, cls: ast.ClassDef) -> frozenset[ast.ClassDef]:
    """A class with its bases."""
    return frozenset(each.node for each in lineage(script.class_ref(cls)))


def _is_elsewhere(script: Script, read: ast.Attribute, method: ast.AST, classes: frozenset[ast.ClassDef]) -> bool:
    """Whether a method that is read surely is another of the same name, and none that this one overrides."""
    values = script.values(read)
    return bool(values) and all(
        value.kind is Kind.FUNCTION
        and value.script is not None
        and value.node is not None
        and value.node is not method
        and value.script.parent(value.node) not in classes
        for value in values
    )


def possible_classes(script: Script, owner: ast.expr) -> frozenset[ast.ClassDef] | None:
    """The project classes that an object may be of, with their bases; None if it may be anything."""
    values = script.values(owner)
    if any(value.kind not in _CLOSED and value.cls is None for value in values) or _ONLY_NONE.issuperset(values):
        return None
    if any(value.cls is not None for value in values) and not _TENSORS.isdisjoint(values.kinds):
        return None  # one of these, or a tensor
    return frozenset(each.node for value in values if value.cls is not None for each in lineage(value.cls))


def _may_be_same(script: Script, read: ast.Attribute, stored: frozenset[ast.ClassDef] | None) -> bool:
    """Whether an attribute may be read of the same object that it was stored on."""
    if script.qualname(read) is not None and not script.is_project_name(read):
        return False
    here = possible_classes(script, read.value)
    if here is None:
        return stored is None or not _is_module(script, read.value)
    if stored is None:
        return bool(here) or (_is_of_tensor(script, read) and read.attr not in METHODS | ATTRIBUTES)
    return not here.isdisjoint(stored) or (not stored and _is_of_tensor(script, read))


def _looks_elsewhere(script: Script, call: ast.Call, stored: frozenset[ast.ClassDef] | None) -> bool:
    """Whether a lookup by a computed name is one in a module, which is no object that something was stored on:
    `getattr(torch.optim, args.optimizer)`, `getattr(models, args.arch)`."""
    if not call.args or last_name(call.func) == "attrgetter":
        return False
    owner = call.args[0]
    library = None if script.is_project_name(owner) else script.qualname(owner)
    if library in MEMBERS and not is_extended(script, library):
        return True
    return stored is not None and _is_module(script, owner)


def _is_module(script: Script, owner: ast.expr) -> bool:
    """Whether an object surely is a module: `getattr(models, args.arch)`."""
    values = script.values(owner)
    return bool(values) and all(value.kind is Kind.OBJECT and value.how == "module" for value in values)


def _is_of_tensor(script: Script, read: ast.Attribute) -> bool:
    """Whether it may be read of a tensor, which a script may store anything on: `anchor.extra = output`."""
    return not _TENSORS.isdisjoint(script.values(read.value).kinds)


@once
def callables(script: Script) -> tuple[tuple[Script, ast.FunctionDef], ...]:
    """What a callable that is not known may be, of the project: objects with a `__call__`, functions that are handed
    over, put into tables, registered."""
    return tuple(
        (file, function)
        for file in script.project.related(script)
        for function in file.find(ast.FunctionDef)
        if (function.name == "__call__" and isinstance(file.parent(function), ast.ClassDef))
        or (not function.name.startswith("__") and handed_out(file, function) and _may_be_made(file, function))
    )


def _may_be_made(file: Script, function: ast.FunctionDef) -> bool:
    """Whether a function within another one may be there: not that of a decorator that nobody uses."""
    outer = file.function(function)
    if not isinstance(outer, ast.FunctionDef):
        return True
    callers = file.callers(outer)
    return bool(callers) or callers.missing is not None
