"""What a program puts into objects that are there already: `transform.steps.append(flip)`, `data.transform = flip`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.in_place_operations import only_reads
from autoaccel.library_models.python_names import LOOKING
from autoaccel.library_models.tensor_operations import STORING
from autoaccel.pytorch.changing_calls import changes_owner, held_methods

DATA = frozenset(
    {Kind.TENSOR, Kind.ARRAY, Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE, Kind.BATCH}
)
_METHODS = STORING | {"__setitem__", "__iadd__", "__ior__", "extendleft", "push"}
_WITH_FUNCTIONS = frozenset(
    "builtins functools itertools operator heapq bisect collections concurrent multiprocessing threading".split()
)
_CONTAINERS = frozenset({Kind.SEQUENCE, Kind.MAPPING, Kind.UNKNOWN, Kind.OBJECT})
_CODE = frozenset({Kind.FUNCTION, Kind.MODULE, Kind.OBJECT, Kind.UNKNOWN})

Inserted = tuple[ast.expr, str | None, ast.expr]


@once_all
def insertions(script: Script) -> Iterator[Inserted]:
    """The objects of a file, the attributes under which they are given something, None where it goes into a container,
    and what they are given; not plain data."""
    for owner, attr, given in (*_insertions(script), *_by_functions(script)):
        for each in _elements(script, given):
            if not script.values(each).kinds <= DATA:
                for into in _owners(script, owner):
                    yield into, attr, each


def _insertions(script: Script) -> Iterator[Inserted]:
    for call in script.syntax_index.calls_named(*sorted(_METHODS)):
        if isinstance(call.func, ast.Attribute):
            yield from ((call.func.value, None, given) for given in given_values(call))
    for owner, place in held_methods(script):  # `add = steps.append`
        if isinstance(place, ast.Call):
            yield from ((owner, None, given) for given in given_values(place))
    for call in script.syntax_index.calls_named("setitem", "setattr", "__setattr__"):
        match call.args:
            case [owner, ast.Constant(value=str() as attr), given] if last_name(call.func) != "setitem":
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


def _by_functions(script: Script) -> Iterator[Inserted]:
    """What is handed to one call together with a container, which may put it there: `reduce(iadd, [[flip]], steps)`,
    `methodcaller("append", flip)(steps)`, `list(map(put, [steps], [flip]))`, `list(map(steps.append, [flip]))`."""
    for call in script.find(ast.Call):
        handed = [*given_values(call), *_held_by(script, call.func)]
        if len(handed) < 2 or all(isinstance(each, ast.Constant) for each in handed):
            continue
        if script.callees(call) or not _may_put(script, call):
            continue  # what the project's own functions do is seen there
        for given in handed:
            for owner in _elements(script, given.value if _is_held_method(given) else given):
                if isinstance(owner, ast.Name | ast.Attribute) and script.values(owner).kinds <= _CONTAINERS:
                    yield from ((owner, None, each) for each in handed if each is not given and _may_run(script, each))


def _may_put(script: Script, call: ast.Call) -> bool:
    """Whether a function may put some of what it is given into another part of it, or have that done."""
    name = called_name(script, call.func)
    if name is None or not only_reads(name):
        return True
    return name.partition(".")[0] in _WITH_FUNCTIONS and name.removeprefix("builtins.") not in LOOKING


def _held_by(script: Script, function: ast.expr) -> list[ast.expr]:
    """What a function was given where it was made: `methodcaller("append", flip)`."""
    made = [function]
    if isinstance(function, ast.Name):
        made = [each.value for each in script.definitions(function) if each.value is not None and not each.path]
    return [given for each in made if isinstance(each, ast.Call) for given in given_values(each)]


def _is_held_method(given: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(given, ast.Attribute) and changes_owner(given.attr)


def _may_run(script: Script, given: ast.expr) -> bool:
    """Whether there may be code in what a call is given."""
    return any(
        isinstance(each, ast.Lambda) or not script.values(each).kinds.isdisjoint(_CODE)
        for each in _elements(script, given)
    )


def _owners(script: Script, owner: ast.expr) -> Iterator[ast.expr]:
    """An object, and what it comes out of: `attrgetter("steps")(chain)`, `tables.setdefault("train", [])`."""
    yield owner
    if isinstance(owner, ast.Call):
        yield from given_values(owner)
        if isinstance(owner.func, ast.Attribute):
            table = owner.func.value
            yield table
            for made in script.definitions(table) if isinstance(table, ast.Name) else ():
                yield from _elements(script, made.value) if made.value is not None and not made.path else ()


def _elements(script: Script, given: ast.expr) -> Iterator[ast.expr]:
    """What a display or a loop over one holds, `[flip, crop]`, `{"flip": flip}.items()`; a call with what goes into it;
    itself otherwise."""
    pending = [given]
    for each in pending:
        inner: list[ast.expr] = []
        match each:
            case ast.List(elts=inner) | ast.Tuple(elts=inner) | ast.Set(elts=inner) | ast.Dict(values=inner):
                pass
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
                inner = [element]
            case ast.DictComp(value=element) | ast.Starred(value=element) | ast.NamedExpr(value=element):
                inner = [element]
            case ast.IfExp(body=one, orelse=other):
                inner = [one, other]
            case ast.Call(func=ast.Attribute(value=owner, attr="items" | "values" | "copy")):
                inner = [owner]
            case ast.Call() if not script.callees(each) and _may_put(script, each):
                yield each
                inner = given_values(each)
            case ast.Name():
                bound = script.definitions(each)
                inner = [made.value for made in bound if made.how == "for" and made.value is not None]
                if len(inner) < len(bound) or not bound:
                    yield each
            case _:
                yield each
        pending.extend(part for part in inner if part not in pending)
