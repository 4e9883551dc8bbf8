"""Modules that are not in sight: which calls are of them, or of what they have made.

Such a module may keep what it is handed, write files and set variables that it was told of, and count its calls:
nothing is known to be independent that has one in common. Well-known libraries do none of it (`keeps_state`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.classes import class_info, lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once_all
from autoaccel.library_models.in_place_operations import keeps_state
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.pytorch.memory_aliases import bound_to

STAR = "*"
"""The module of a name that nobody defines: it came by a star."""


@once_all
def calls_of_unseen_modules(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """The calls of modules that are not seen, and of what they have made, each with the name of the module."""
    for call in script.find(ast.Call):
        module = _module_of(script, call.func)
        if module is not None:
            yield call, module


def _module_of(script: Script, function: ast.expr) -> str | None:
    places = [(script, function)]
    for file, each in places:
        name = file.qualname(each) if isinstance(each, ast.Name | ast.Attribute) else None
        if name is not None:
            if not file.is_project_name(each) and keeps_state(name):
                return name.partition(".")[0]
            continue
        found: list[tuple[Script, ast.expr]] = []
        match each:
            case ast.Name() if not file.definitions(each):
                unknown = each.id not in BUILTINS and Kind.UNKNOWN in file.values(each).kinds
                if unknown and file.module_scope.stars:
                    return STAR
            case ast.Call(func=inner):
                found = [(file, inner)]
            case ast.Attribute() if file.values(each.value).kinds <= {Kind.UNKNOWN, Kind.OBJECT, Kind.EXTERNAL}:
                found = [(file, each.value), *_stored(file, each)]
            case ast.Name() if Kind.UNKNOWN in file.values(each).kinds:
                found = [*bound_to(file, file.definitions(each))]
        places.extend(place for place in found if place not in places)
    return None


def _stored(file: Script, attribute: ast.Attribute) -> Iterator[tuple[Script, ast.expr]]:
    """What an object of the project holds: `self.miner`."""
    for value in file.values(attribute.value):
        for ref in lineage(value.cls) if value.cls is not None else ():
            for binding, _ in class_info(ref).attributes.get(attribute.attr, ()):
                if isinstance(binding, ast.expr):
                    yield ref.script, binding
                else:
                    yield from bound_to(ref.script, [binding])
