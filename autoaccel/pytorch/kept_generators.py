"""Generators that wait between two values for whoever asks next: what runs in them has the grad mode of that one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import derived_classes, external_lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models.python_names import CONTAINER_CHANGES
from autoaccel.pytorch.kept_state import may_carry_graph, stored_values

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_ITERATING = (
    *(f"builtins.{name}" for name in ("iter", "enumerate", "zip", "map", "filter", "reversed")),
    *("itertools.", "more_itertools.", "torch.utils.data.", "tqdm", "rich.", "autoaccel"),
)
"""Functions, by how their names begin, whose result goes on with what it is given: loaders with their samplers."""
_SEEN = ("builtins.", "torch.", "numpy.", "math.", "copy.", "functools.")
"""Functions that keep no iterator; those of other libraries may."""
_READ_AT_ONCE = frozenset("list tuple set frozenset dict sorted sum any all min max next".split())
_READ_BY_A_LOOP = frozenset("enumerate zip map filter iter tqdm islice chain".split())


def goes_on_with_graph(script: Script, home: ast.AST | None) -> bool:
    """Whether a generator of a file keeps from one value to the next what may carry a graph, and may be asked for
    values here and there: it has begun before some code of the function `home` runs, or goes on after it."""
    for function in _generators(script):
        sites = script.callers(function)
        kept = [(other, call) for other, call in sites if _is_kept(other, call, home)]
        given = any(may_carry_graph(other, each, set()) for other, call in kept for each in given_values(call))
        asked = kept or (sites.missing is not None and not _is_read_by_loops_alone(script, function, home))
        if asked and (given or _keeps_graph(script, function, set())):
            return True
    return any(_is_kept(script, call, home) for call in script.calls("itertools.accumulate"))


def _is_read_by_loops_alone(script: Script, function: _Function, home: ast.AST | None) -> bool:
    """Whether Python alone calls a generator, `__iter__` of a class, and only for loops that go over its objects: none
    is handed to a library, and nowhere an iterator of what may be one is kept."""
    cls = script.parent(function)
    if not isinstance(cls, ast.ClassDef) or getattr(function, "name", "") != "__iter__":
        return False
    ref = script.class_ref(cls)
    if script.project.files_naming(script, "__iter__", attribute=True).missing is not None:
        return False
    if any(each != "builtins.object" for each in external_lineage(ref)) or derived_classes(ref).missing is not None:
        return False
    classes = {cls, *(each.node for each in derived_classes(ref))}
    for other in script.project.related(script):
        if any(_may_be(other, each.value, classes) for each in other.find(ast.YieldFrom)):
            return False
        if any(_may_be(other, loop.iter, classes) for loop in _loops_of_generators(other)):
            return False
        for call in other.find(ast.Call):
            name = called_name(other, call.func)
            if name is None or other.callees(call) or not _is_kept(other, call, home):
                continue  # a function of the project is looked at itself
            unknown = name.startswith(_ITERATING)
            if not unknown and name.startswith(_SEEN):
                continue
            if any(_may_be(other, each, classes, unknown=unknown) for each in given_values(call)):
                return False
    return True


def _loops_of_generators(script: Script) -> Iterator[ast.For | ast.comprehension]:
    """The loops of functions that wait between two values themselves."""
    generators = set(_generators(script))
    yield from (loop for loop in script.find(ast.For) if script.function(loop) in generators)
    yield from (loop for loop in script.find(ast.comprehension) if script.function(loop) in generators)
    for made in script.find(ast.GeneratorExp):
        yield from made.generators


def _may_be(script: Script, expression: ast.expr, classes: set[ast.ClassDef], *, unknown: bool = True) -> bool:
    """Whether a value may be an object of one of some classes; where nothing is known of it, as `unknown` says."""
    values = script.values(expression)
    if not values:
        return unknown
    return any(
        (unknown and value.kind is Kind.UNKNOWN) or (value.cls is not None and value.cls.node in classes)
        for value in values
    )


@once
def _generators(script: Script) -> tuple[_Function, ...]:
    yields: list[ast.AST] = [*script.find(ast.Yield), *script.find(ast.YieldFrom)]
    functions = (script.function(each) for each in yields)
    return tuple(dict.fromkeys(each for each in functions if each is not None))


def _is_kept(script: Script, call: ast.expr, home: ast.AST | None) -> bool:
    """Whether the generator that a call makes may be asked for values at several places."""
    parent = script.parent(call)
    match parent:
        case ast.For() | ast.comprehension() | ast.withitem() | ast.YieldFrom():
            return False
        case ast.Call(func=function) if function is not call:
            name = (called_name(script, function) or "").rpartition(".")[2]
            return name not in _READ_AT_ONCE and (name not in _READ_BY_A_LOOP or _is_kept(script, parent, home))
        case ast.Assign(targets=[ast.Name() as name]):
            scope = script.function(parent)
            if scope is None or scope is home or any(name.id in each.names for each in script.find(ast.Global)):
                return True
            uses = [use for each in script.definitions(name) for use in script.uses(each)]
            return not all(script.function(use) is scope and _is_asked(script, use) for use in uses)
        case _:
            return True


def _is_asked(script: Script, use: ast.Name) -> bool:
    """Whether a use of a generator asks it for values, and keeps it nowhere."""
    match script.parent(use):
        case ast.For(iter=source) | ast.comprehension(iter=source) if source is use:
            return True
        case ast.Call(func=function, args=[first, *_]) if first is use:
            return called_name(script, function) == "builtins.next"
        case ast.Attribute(attr="send" | "close"):
            return True
        case _:
            return False


def _keeps_graph(script: Script, function: _Function, seen: set[ast.AST]) -> bool:
    """Whether what a generator, or one that it reads, computes for one value may be used for a later one."""
    if function in seen:
        return False
    seen.add(function)
    if any(True for _ in stored_values(script, function)) or _collects_graph(script, function):
        return True
    scope = script.reaching_definitions.scopes[function]
    definitions = [each for rows in scope.definitions.values() for each in rows]
    yields: list[ast.AST] = [*script.in_scope(function, ast.Yield), *script.in_scope(function, ast.YieldFrom)]
    if any(_outlives(script, each, yields) and _may_carry(script, each) for each in definitions):
        return True
    return any(
        _keeps_graph(other, callee, seen)
        for call in script.in_scope(function, ast.Call)
        for other, callee in script.callees(call)
        if callee in _generators(other)
    )


def _collects_graph(script: Script, function: _Function) -> bool:
    """Whether a container of the generator's own gets what may carry a graph."""
    added = [
        each
        for call in script.in_scope(function, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in CONTAINER_CHANGES
        for each in given_values(call)
    ]
    added += [
        statement.value
        for statement in script.in_scope(function, ast.Assign)
        if any(isinstance(each, ast.Subscript) for each in statement.targets)
    ]
    return any(may_carry_graph(script, each, set()) for each in added)


def _outlives(script: Script, definition: Definition, yields: list[ast.AST]) -> bool:
    """Whether a binding is read after a `yield` that follows it: further down, or in the next turn of a loop."""
    start = position(definition.node)
    turns = {loop for each in yields for loop in script.loops(each) if not script.inside(definition.node, loop)}
    return any(
        (position(use) <= start and bool(yields))
        or script.inside(use, definition.node)
        or not turns.isdisjoint(script.loops(use))
        or any(start < position(each) < position(use) and not script.inside(use, each) for each in yields)
        for use in script.uses(definition)
    )


def _may_carry(script: Script, definition: Definition) -> bool:
    if definition.how == "param":
        return False
    return definition.value is None or may_carry_graph(script, definition.value, set())
