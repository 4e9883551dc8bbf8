"""What a program puts into objects that are there already: `transform.steps.append(flip)`, `data.transform = flip`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.tensor_operations import STORING
from autoaccel.pytorch.changing_calls import held_methods

_METHODS = STORING | {"__setitem__", "__iadd__", "__ior__", "extendleft", "push"}
_DATA = frozenset(
    {Kind.TENSOR, Kind.ARRAY, Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE, Kind.BATCH}
)


@once_all
def insertions(script: Script) -> Iterator[tuple[ast.expr, str | None, ast.expr]]:
    """The objects of a file, the attributes under which they are given something, None where it goes into a container,
    and what they are given; not plain data."""
    for owner, attr, given in _insertions(script):
        for each in _elements(given):
            if not script.values(each).kinds <= _DATA:
                yield owner, attr, each


def _insertions(script: Script) -> Iterator[tuple[ast.expr, str | None, ast.expr]]:
    for call in script.syntax_index.calls_named(*sorted(_METHODS)):
        if isinstance(call.func, ast.Attribute):
            yield from ((call.func.value, None, given) for given in given_values(call))
    for owner, place in held_methods(script):  # `add = steps.append`
        if isinstance(place, ast.Call):
            yield from ((owner, None, given) for given in given_values(place))
    for call in script.syntax_index.calls_named("setitem", "setattr"):
        match call.args:
            case [owner, ast.Constant(value=str() as attr), given] if last_name(call.func) == "setattr":
                yield owner, attr, given
            case [owner, _, given]:
                yield owner, None, given
    for statement in script.find(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Attribute):
                yield target.value, target.attr, statement.value
            elif isinstance(target, ast.Subscript):
                yield target.value, None, statement.value
    for sum_ in script.find(ast.AugAssign):
        yield sum_.target, None, sum_.value


def _elements(given: ast.expr) -> Iterator[ast.expr]:
    """What a display holds, `[flip, crop]`, `{"flip": flip}`; itself otherwise."""
    match given:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            yield from elements
        case ast.Dict(values=elements):
            yield from elements
        case _:
            yield given
