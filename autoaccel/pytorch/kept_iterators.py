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
from autoaccel.pytorch.loader_loops import LoaderLoop, endless_loops, loader_loops, looks_prefetched


@dataclass(frozen=True, slots=True, eq=False)
class KeptIterator:
    """A name for iterators over loaders that nothing reads but `next(name)`, all in one function.

    `loaders` are the loaders where the iterators are made, `sites` the calls of `next`, `target` what the first of them
    is assigned to, `through` the bindings of the name."""

    loaders: tuple[ast.expr, ...]
    sites: tuple[ast.Call, ...]
    target: ast.expr | None
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


def _nexts(script: Script) -> Iterator[ast.Call]:
    for call in script.syntax_index.calls_named("next"):
        if isinstance(call.func, ast.Name) and not script.definitions(call.func) and not call.keywords:
            yield call


def _kept(script: Script, definitions: list[Definition]) -> KeptIterator | None:
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
    ordered = sorted(sites, key=lambda call: (call.lineno, call.col_offset))
    match script.parent(ordered[0]):
        case ast.Assign(targets=[target]):
            return KeptIterator(tuple(known), tuple(ordered), target, tuple(definitions))
        case _:
            return KeptIterator(tuple(known), tuple(ordered), None, tuple(definitions))


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
    if definition.how != "assign" or definition.path or not isinstance(definition.value, ast.Call):
        return None
    match definition.value:
        case ast.Call(func=ast.Name(id="iter") as name, args=[given], keywords=[]) if not script.definitions(name):
            loader: ast.expr | None = given
        case call:
            loader = wrapped_argument(script, call, endless=True)
    if loader is None or looks_prefetched(script, loader):
        return None
    return loader if script.values(loader).kinds == {Kind.LOADER} else None
