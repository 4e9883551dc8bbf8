"""Classes of the project that libraries get to see: these may call any of their methods, by names of their own."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis.classes import derived_classes
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import fixpoint
from autoaccel.library_models.library_values import LIBRARIES
from autoaccel.library_models.python_names import BUILTINS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef, Value

_IN_SIGHT = frozenset({Kind.FUNCTION, Kind.CLASS, Kind.OBJECT, Kind.MODULE, Kind.LOSS_FUNCTION})


@fixpoint(False, True)
def is_shown(ref: ClassRef) -> bool:
    """Whether a class, or an object of it or of one that derives from it, is handed to code out of sight, or kept in
    an attribute of a library: `start(Runner())`, `print(x, file=Tee())`, `sys.stdout = Tee()`."""
    derived = derived_classes(ref)
    try:
        files = ref.script.project.related(ref.script)
    except Incomplete:
        return True
    family = {each.node for each in (ref, *derived)}
    return derived.missing is not None or any(
        _is_of(value, family)
        for file in files
        for part in _shown_parts(file)
        for value in file.inference.possible(part).unordered()
    )


def _shown_parts(script: Script) -> list[ast.expr]:
    """What a file hands to code out of sight."""
    found: list[ast.expr] = []
    for call in script.find(ast.Call):
        given = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
        given += [each.value for each in call.keywords]
        if isinstance(call.func, ast.Name) and call.func.id in BUILTINS and not script.definitions(call.func):
            given = [each.value for each in call.keywords if each.arg == "file"]
        given = [each for each in given if not isinstance(each, ast.Constant)]
        if given and _is_out_of_sight(script, call.func):
            found += given
    for store in script.find(ast.Assign):
        if any(isinstance(each, ast.Attribute) and script.qualname(each) is not None for each in store.targets):
            found.append(store.value)
    return found


def _is_out_of_sight(script: Script, function: ast.expr) -> bool:
    """Whether a call may enter code that neither the project has nor a library that the tables know."""
    name = script.qualname(function)
    if name is not None and not script.is_project_name(function):
        return name.split(".")[0] not in LIBRARIES
    return any(value.kind not in _IN_SIGHT or value.node is None for value in script.inference.possible(function))


def _is_of(value: Value, family: set[ast.ClassDef]) -> bool:
    own = value.cls is not None and value.cls.node in family
    return own or any(_is_of(item, family) for _, items in value.items for item in items.unordered())
