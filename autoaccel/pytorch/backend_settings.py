"""Settings that are in force for a whole process: whether a program chooses them, and where they are made."""

from __future__ import annotations

import ast
import re

from autoaccel.analysis.script import Script
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.syntax_index import last_name, split_lines
from autoaccel.edits import Code, Edit, InsertAfter, InsertBefore
from autoaccel.notebooks.cells import cells

_CUDA = re.compile(r"cuda|accelerator")
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEVICE = re.compile(r"cuda|accelerator|device|gpu|GPU")


def names_cuda(script: Script) -> bool:
    """Whether a script, or one that shares its objects as far as these are known, says anything of CUDA."""
    return any(_CUDA.search(each.text) for each in (script, *script.project.known_related(script)))


def may_leave_the_cpu(script: Script) -> bool:
    """Whether a script, or one that may share its objects, says anything of devices."""
    try:
        return not stays_on_the_cpu(script)
    except Incomplete:
        return True


def stays_on_the_cpu(script: Script) -> bool:
    """Whether a script, and each that may share its objects, says nothing of devices. Raises `Incomplete`."""
    return not _DEVICE.search(script.text) and not any(map(_DEVICE.search, script.project.related_texts(script)))


def mention(script: Script, words: re.Pattern[str]) -> str | None:
    """The first of some words in the text of a script, or of a file that shares its objects. Raises `Incomplete`."""
    for text in dict.fromkeys((script.text, *script.project.related_texts(script))):
        if (found := words.search(text)) is not None:
            return found[0].strip(".(")
    return None


def is_given(script: Script, verb: str) -> bool:
    """Whether a script, or one that shares its objects, calls a function of the runtime already."""
    return any(any(True for _ in each.runtime_calls(verb)) for each in (script, *script.project.known_related(script)))


def call_after_imports(script: Script, verb: str) -> tuple[Edit, ...]:
    """The edits that call a function of the runtime, whose first call counts: below the imports that a file begins
    with; in a module that others may import for what else is in it, where its `main` begins, or where what trains
    chooses the device, or begins itself."""
    body = script.tree.body
    if (notebook := cells(script.text)) is not None:
        imports = (each for each in body if isinstance(each, ast.Import | ast.ImportFrom))
        last = notebook.last_import(imports) or notebook.top(body, split_lines(script.text))
        return InsertAfter(last, Code(f"{script.accel}.{verb}()")), *script.import_runtime
    if (start := _start_of_main(script)) is not None:
        return InsertBefore(start, Code(f"{script.accel}.{verb}()")), *script.import_runtime
    trains = _trains(script) if _is_imported(script) else []
    if (chosen := _device_choice(script, trains)) is not None:
        leaves = any(True for _ in script.within(chosen, ast.Return))
        edit: Edit = (InsertBefore if leaves else InsertAfter)(chosen, Code(f"{script.accel}.{verb}()"))
        return edit, *script.import_runtime
    if trains and (start := next((each for each in trains[0] if not _is_beginning(each)), None)) is not None:
        return InsertBefore(start, Code(f"{script.accel}.{verb}()")), *script.import_runtime
    first = next((number for number, each in enumerate(body) if not _is_beginning(each)), len(body))
    code = Code(f"{script.accel}.{verb}()")
    apart = first < len(body) and not isinstance(body[first], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    edit = InsertBefore(body[first], code) if apart else InsertAfter(body[max(first - 1, 0)], code)
    return (edit, *script.import_runtime)


def _start_of_main(script: Script) -> ast.stmt | None:
    """The first statement of the function `main` that a module of a package runs as a program."""
    if script.project.locate(script, "", 1) is None:
        return None
    for statement in script.tree.body:
        match statement:
            case ast.FunctionDef(name="main", body=[*body]):
                calls = [call for _, call in script.callers(statement).seen]
                tests = (each.test for call in calls for each in script.ancestors(call) if isinstance(each, ast.If))
                guarded = any("__name__" in script.source(each) for each in tests)
                return next((each for each in body if not _is_beginning(each)), None) if guarded else None
    return None


def _is_imported(script: Script) -> bool:
    """Whether a module is no program."""
    if "__main__" in script.text:
        return False
    return script.project.locate(script, "", 1) is not None or bool(script.project.importer_paths(script))


def _trains(script: Script) -> list[list[ast.stmt]]:
    """The bodies of the functions of a module that train, and of the constructors of the classes that do."""
    found = []
    for statement in script.tree.body:
        if not any(each.attr == "backward" for each in script.within(statement, ast.Attribute)):
            continue
        match statement:
            case ast.FunctionDef(body=body):
                found.append(body)
            case ast.ClassDef(body=members):
                made = (each for each in members if isinstance(each, ast.FunctionDef) and each.name == "__init__")
                found += [each.body for each in made]
    return found


def _device_choice(script: Script, trains: list[list[ast.stmt]]) -> ast.stmt | None:
    """The first statement that chooses the device in what trains."""
    return next((each for body in trains for each in body if _chooses_device(script, each)), None)


def _chooses_device(script: Script, statement: ast.stmt) -> bool:
    parts: list[ast.Name | ast.Attribute] = [
        *script.within(statement, ast.Name),
        *script.within(statement, ast.Attribute),
    ]
    stored = (last_name(each) for each in parts if isinstance(each.ctx, ast.Store))
    return not isinstance(statement, _SCOPES) and "device" in stored


def _is_beginning(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__init__"))):  # `super().__init__()`
            return True
        case _:
            return False
