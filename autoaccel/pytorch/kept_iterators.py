"""Iterators over loaders that have a name and give their batches to `next(name)`, not to a loop.

`batches = iter(loader)` with a new one where it has run out, `batches = cycle(loader)` of a generator of the script's
own that goes over the loader again and again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis.iteration_wrappers import wrapped_argument
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import position
from autoaccel.pytorch.loader_loops import (
    LoaderLoop,
    endless_loops,
    loader_loops,
    looks_prefetched,
    moves_parts,
    transfers,
)


@dataclass(frozen=True, slots=True, eq=False)
class KeptIterator:
    """A name for iterators over loaders that nothing reads but `next(name)`, all in one function.

    `loaders` are the loaders where the iterators are made, `sites` the calls of `next`, `target` the names that the
    first of them gives its batch, or that call itself (`next(batches).to(device)`), `through` the bindings of the
    name."""

    loaders: tuple[ast.expr, ...]
    sites: tuple[ast.Call, ...]
    target: ast.expr
    through: tuple[Definition, ...]

    @property
    def node(self) -> ast.Call:
        return self.sites[0]


BatchSource = LoaderLoop | KeptIterator


def batch_sources(script: Script) -> Iterator[BatchSource]:
    """All that takes batches from loaders."""
    yield from loader_loops(script)
    yield from endless_loops(script)
    yield from kept_iterators(script)


@once_all
def kept_iterators(script: Script) -> Iterator[KeptIterator]:
    """Every such name whose loaders are surely loaders that nobody fetches ahead for yet, in source order."""
    names = {name.id for call in _nexts(script) for name in call.args if isinstance(name, ast.Name)}
    for scope in script.reaching_definitions.scopes.values():
        for name, definitions in scope.definitions.items():
            kept = _kept(script, definitions) if name in names else None
            if kept is not None:
                yield kept


@once_all
def nexts_not_followed(script: Script) -> Iterator[ast.Call]:
    """The other calls of `next`, and those of kept attributes, whose batches are moved in a loop or a method."""
    known = {site for each in kept_iterators(script) for site in each.sites}
    moved = {each.site for each in transfers(script)}
    for call in _nexts(script):
        loop, target = next(iter(script.loops(call)), None), _target(script, call)
        if call in known or _is_prefetched(script, call):
            continue
        if call in moved:
            if loop is not None or isinstance(call.args[0], ast.Attribute):
                yield call
        elif loop is not None and target is not None and moves_parts(script, target, loop):
            yield call


def _is_prefetched(script: Script, taken: ast.Call) -> bool:
    """Whether `next` takes its batches from `iter(accel.prefetch(loader))`."""
    names = [each for each in taken.args if isinstance(each, ast.Name)]
    made = [each.value for name in names for each in script.definitions(name)]
    return bool(made) and all(
        isinstance(call, ast.Call) and any(looks_prefetched(script, each) for each in call.args) for call in made
    )


def _nexts(script: Script) -> Iterator[ast.Call]:
    for call in script.syntax_index.calls_named("next"):
        if isinstance(call.func, ast.Name) and not script.definitions(call.func) and call.args and not call.keywords:
            yield call


def _kept(script: Script, definitions: list[Definition]) -> KeptIterator | None:
    loaders = [_iterated(script, each) for each in definitions]
    wrapped = {each for each in loaders if each is not None}
    definitions = [each for each in definitions if {*script.uses(each)} - wrapped]  # not of `loader = cycle(loader)`
    loaders = [_iterated(script, each) for each in definitions]
    sites: dict[ast.Call, None] = {}
    for each in definitions:
        if script.additions(each):
            return None
        for use in script.uses(each):
            match script.parent(use):
                case ast.Call(func=ast.Name(id="next") as name, args=[_], keywords=[]) as call if (
                    call.func is not use and not script.definitions(name)
                ):
                    sites[call] = None
                case _:
                    return None
    known = [each for each in loaders if each is not None]
    if not sites or len(known) < len(definitions) or len({script.function(each) for each in (*known, *sites)}) > 1:
        return None
    if not all(_lasts(script, each, [*sites]) for each in known):
        return None
    ordered = sorted(sites, key=position)
    target = _target(script, ordered[0]) or ordered[0]
    return KeptIterator(tuple(known), tuple(ordered), target, tuple(definitions))


def _target(script: Script, call: ast.Call) -> ast.expr | None:
    """The names that a batch is bound to: `x, y = next(it)`, also `a, (x, y) = next(other), next(it)`."""
    match script.parent(call):
        case ast.Assign(targets=[target]):
            found: ast.expr | None = target
        case ast.Tuple(elts=values) as side_by_side:
            match script.parent(side_by_side):
                case ast.Assign(targets=[ast.Tuple(elts=targets)]) if len(targets) == len(values):
                    found = targets[values.index(call)]
                case _:
                    return None
        case _:
            return None
    return found if found is not None and _holds_names_alone(found) else None


def _holds_names_alone(target: ast.expr) -> bool:
    match target:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return all(map(_holds_names_alone, elements))
        case _:
            return isinstance(target, ast.Name)


def _lasts(script: Script, loader: ast.expr, sites: list[ast.Call]) -> bool:
    """Whether a loader is the same one for all the loops around those calls: each of them may take it up again."""
    match loader:
        case ast.Name():
            made = [each.node for each in script.definitions(loader)]
        case ast.Call():
            made = [loader]
        case _:
            return False
    return not any(script.inside(site, loop) for node in made for loop in script.loops(node) for site in sites)


def _iterated(script: Script, definition: Definition) -> ast.expr | None:
    """The loader that a name is bound to an iterator over."""
    match definition.whole:
        case ast.Call(func=ast.Name(id="iter") as name, args=[given], keywords=[]) if not script.definitions(name):
            loader: ast.expr | None = given
        case ast.Call() as call:
            loader = wrapped_argument(script, call, endless=True)
        case _:
            return None
    if loader is None or looks_prefetched(script, loader):
        return None
    return loader if script.values(loader).kinds == {Kind.LOADER} else None
