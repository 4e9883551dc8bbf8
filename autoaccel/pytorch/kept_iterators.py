"""Iterators over loaders that have a name and give their batches to `next(name)`, not to a loop.

`batches = iter(loader)` with a new one where it has run out, `batches = cycle(loader)` of a generator of the script's
own that goes over the loader again and again; `self.batches = cycle(loader)` that a trainer keeps.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autoaccel.analysis.iteration_wrappers import wrapped_argument
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value, any_item
from autoaccel.dataflow.completeness import Incomplete
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
from autoaccel.pytorch.object_references import attribute_reads, possible_classes

_HIDDEN_READS = re.compile(r"__(?:get|set)attr(?:ibute)?__|\bgetmembers\b|=\s*getattr\b(?!\()")
"""How an attribute is read, or what is stored looked at, under no name that can be found."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptIterator:
    """A name, or an attribute, for iterators over loaders that nothing reads but `next(name)`, all in one function.

    `loaders` are the loaders where the iterators are made, for an attribute maybe in other functions; `sites` the calls
    of `next`, `target` the names that the first of them gives its batch, or that call itself
    (`next(batches).to(device)`)."""

    loaders: tuple[ast.expr, ...]
    sites: tuple[ast.Call, ...]
    target: ast.expr

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
    kept_in = [each for call in _nexts(script) for each in call.args[:1] if isinstance(each, ast.Attribute)]
    for attribute in dict.fromkeys(each.attr for each in kept_in):
        kept = _kept_by_attribute(script, attribute)
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
    made: list[ast.expr | None] = []
    match taken.args[0]:
        case ast.Name() as name:
            made += [each.value for each in script.definitions(name)]
        case ast.Attribute(attr=attribute):
            made += [_assigned(script, each) for each in script.syntax_index.stored(attribute)]
    return bool(made) and all(
        isinstance(call, ast.Call) and any(looks_prefetched(script, each) for each in call.args) for call in made
    )


def _nexts(script: Script) -> Iterator[ast.Call]:
    for call in script.syntax_index.calls_named("next"):
        if isinstance(call.func, ast.Name) and not script.definitions(call.func) and call.args and not call.keywords:
            yield call


def _kept(script: Script, definitions: list[Definition]) -> KeptIterator | None:
    loaders = [_iterated(script, each.whole) for each in definitions]
    wrapped = {each for each in loaders if each is not None}
    definitions = [each for each in definitions if {*script.uses(each)} - wrapped]  # not of `loader = cycle(loader)`
    if any(script.additions(each) for each in definitions):
        return None
    uses = [use for each in definitions for use in script.uses(each)]
    kept = _asked_alone(script, [_iterated(script, each.whole) for each in definitions], uses)
    if kept is None or any(script.function(each) is not script.function(kept.node) for each in kept.loaders):
        return None
    return kept


def _kept_by_attribute(script: Script, name: str) -> KeptIterator | None:
    """The same for an attribute: whatever it is of, and whoever may read it, by its name or one that is computed."""
    stores = script.syntax_index.stored(name)
    classes = [possible_classes(script, each.value) for each in stores]
    of_any = None if None in classes else frozenset(each for found in classes for each in found or ())
    try:
        reads = [*attribute_reads(script, of_any, name, called=True)]
        hidden = any(_HIDDEN_READS.search(text) for text in script.project.related_texts(script))
    except Incomplete:
        return None
    if hidden or any(file is not script for file, _ in reads):
        return None
    kept = _asked_alone(script, [_iterated(script, _assigned(script, each)) for each in stores], [e for _, e in reads])
    if kept is None or not all(loaders_of(script, each.args[0]) for each in kept.sites):
        return None
    return kept


def _asked_alone(script: Script, loaders: list[ast.expr | None], uses: Iterable[ast.expr]) -> KeptIterator | None:
    """What all iterators over these loaders are if they are used so, and no other way."""
    sites: dict[ast.Call, None] = {}
    for use in uses:
        match script.parent(use):
            case ast.Call(func=ast.Name(id="next") as name, args=[_], keywords=[]) as call if (
                call.func is not use and not script.definitions(name)
            ):
                sites[call] = None
            case _:
                return None
    known = [each for each in loaders if each is not None]
    if not sites or len(known) < len(loaders) or len({script.function(each) for each in sites}) > 1:
        return None
    if not all(_lasts(script, each, [*sites]) for each in known):
        return None
    ordered = sorted(sites, key=position)
    return KeptIterator(tuple(known), tuple(ordered), _target(script, ordered[0]) or ordered[0])


def loaders_of(script: Script, iterator: ast.expr) -> list[Value]:
    """The loaders that what is asked for the next batch goes over; none where it may be anything else."""
    given = [any_item(value) if value.kind is Kind.ITERATOR else None for value in script.values(iterator)]
    loaders = [value for values in given for value in values or ()]
    return loaders if all(given) and all(value.kind is Kind.LOADER for value in loaders) else []


def _assigned(script: Script, target: ast.expr) -> ast.expr | None:
    """What a statement of its own stores in an attribute."""
    match script.parent(target):
        case ast.Assign(targets=[_], value=value) | ast.AnnAssign(value=value):
            return value
        case _:
            return None


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


def _iterated(script: Script, iterator: ast.expr | None) -> ast.expr | None:
    """The loader that an iterator goes over."""
    match iterator:
        case ast.Call(func=ast.Name(id="iter") as name, args=[given], keywords=[]) if not script.definitions(name):
            loader: ast.expr | None = given
        case ast.Call() as call:
            loader = wrapped_argument(script, call, endless=True)
        case _:
            return None
    if loader is None or looks_prefetched(script, loader):
        return None
    return loader if script.values(loader).kinds == {Kind.LOADER} else None
