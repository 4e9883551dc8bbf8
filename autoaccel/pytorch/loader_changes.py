"""When a program changes what a loader's batches are made from: whether these may be made elsewhere, or sooner."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.pytorch import datasets
from autoaccel.pytorch.changing_calls import held_methods, is_library, possible_changes
from autoaccel.pytorch.execution_order import extents_of, in_body, runs_after, runs_within, stored_generators
from autoaccel.pytorch.input_changes import changes, own_changes, readings
from autoaccel.pytorch.input_search import find_inputs
from autoaccel.pytorch.kept_iterators import KeptIterator
from autoaccel.pytorch.loader_calls import LoaderCall, iterations, loader_calls, loaders_made, repeats
from autoaccel.pytorch.loader_inputs import ALL, IN_WORKERS, LoaderInputs
from autoaccel.pytorch.loader_loops import LoaderLoop
from autoaccel.pytorch.order_generators import shares_generator
from autoaccel.pytorch.sample_code import keeps_gradients
from autoaccel.pytorch.shared_resources import SharedResources
from autoaccel.pytorch.unseen_modules import calls_of_unseen_modules

_ORDER = frozenset(ALL) - frozenset(IN_WORKERS)
_SOURCES = re.compile(r"(sampler|data_?set|collate(_fn)?|curriculum|replay|buffer)$", re.IGNORECASE)
_SHORTENING = frozenset({"islice", "zip", "takewhile", "range"})


@dataclass(eq=False)
class LoaderState:
    """What one loader's batches are made from, and every place that changes it."""

    script: Script
    made: LoaderCall
    inputs: LoaderInputs

    @cached_property
    def changes(self) -> tuple[ScriptNode, ...]:
        """The statements and expressions that change one of these inputs."""
        return tuple(changes(self.inputs, self.script.project.related(self.script)))

    @cached_property
    def changed_any_time(self) -> bool:
        """Whether something is handed on that changes one of these inputs when it is called."""
        return any(
            place is None and self.inputs.touched(file, owner)
            for file in self.script.project.related(self.script)
            for owner, place in held_methods(file)
        )

    @cached_property
    def keeper(self) -> str | None:
        """A function that leaves something behind when a sample is made."""
        names = [_function_name(file, node) for file, node in own_changes(self.inputs)]
        return min((*names, *self.inputs.storing()), default=None)

    @cached_property
    def unseen(self) -> str | None:
        """A module that is not seen and that is called when a sample is made."""
        modules = (
            module
            for file in set(self.inputs.code.values())
            for call, module in calls_of_unseen_modules(file)
            if file.function(call) in self.inputs.code
        )
        return min(modules, default=None)

    @cached_property
    def carrier(self) -> str | None:
        """A function that changes what is there already when a sample is made."""
        return min((_function_name(file, node) for file, node in own_changes(self.inputs)), default=None)

    @cached_property
    def readings(self) -> tuple[ScriptNode, ...]:
        """Where others read what making a batch changes: the task that a sampler has chosen."""
        return tuple(readings(self.inputs, self.script.project.related(self.script)))

    @cached_property
    def resources(self) -> SharedResources:
        """What samples use of what the whole process has."""
        scripts = self.script.project.related(self.script)
        return SharedResources(self.inputs.code, frozenset(self.inputs.own), scripts, self.inputs.possible_code)

    def problem(self, draws: Sequence[ScriptNode], *, in_workers: bool = False) -> str | None:
        """Why batches cannot be made anywhere else, or any sooner, than where loops (or other `draws`) ask for them."""
        if (reason := self.trained()) is not None:
            return reason
        here = loader_state(self.script, self.made, in_workers=True)
        if in_workers and (keeper := here.keeper) is not None:
            return f"`{keeper}` keeps something between samples, of which each worker would keep its own"
        if in_workers and (unseen := here.unseen) is not None:
            return f"`{unseen}` is not seen, and may keep something between samples, as each worker would of its own"
        left = any(_may_be_left(*draw) for draw in draws)
        if left:
            if self.generator_reads:
                return "a batch that nobody asked for would change its generator"
            if (carrier := here.carrier) is not None:
                return f"`{carrier}` keeps something between samples, and a batch that nobody asked for would change it"
            if (unseen := here.unseen) is not None:
                return f"`{unseen}` is not seen, and a batch that nobody asked for may change what it keeps"
        beside = partial(self._runs_beside_any, draws)
        if self.changed_any_time or any(beside(*place) for place in self.changes):
            return "its dataset, order or collation is changed while it is read"
        if any(beside(*place) or left for place in self.readings):
            return "what making a batch changes is read beside it"
        return self.resources.problem(beside, in_workers=in_workers)

    @cached_property
    def generator_reads(self) -> tuple[tuple[Script, ast.expr], ...]:
        """Where samples draw from a generator that is still there for the next one, and for the next pass: of a
        dataset, a transform, the program."""
        given = self.made.at(self.script, "dataset")
        found: dict[ast.expr, Script] = {}
        for value in datasets.origins(*given) if given is not None else ():
            for file, method in datasets.item_methods(value.cls) if value.cls is not None else ():
                found |= dict.fromkeys(datasets.generator_reads(file, method, value.cls), file)
        for function, file in self.inputs.code.items():  # of datasets inside of others too: `Subset(data, rows)`
            cls = file.parent(function)
            ref = file.class_ref(cls) if isinstance(cls, ast.ClassDef) else None
            found |= dict.fromkeys(datasets.generator_reads(file, function, ref), file)
        return tuple((file, each) for each, file in found.items())

    def trained(self) -> str | None:
        """Why a batch may be part of a graph, or of what an optimizer changes."""
        if self.inputs.trained is not None:
            return f"its samples or their order come from `{self.inputs.trained}`, which may be trained"
        given = [each for part in ALL if (each := self.made.at(self.script, part)) is not None]
        if any(keeps_gradients(file, setting) for file, setting in given):
            return "its samples may require gradients"
        return None

    def _runs_beside_any(self, draws: Sequence[ScriptNode], file: Script, node: ast.AST) -> bool:
        return any(self._runs_beside(file, node, *draw) for draw in draws)

    def _runs_beside(self, file: Script, node: ast.AST, script: Script, draw: ast.AST) -> bool:
        """Whether a place runs between two draws of batches: in the body of a loop, again and again beside a kept
        iterator, at any time after a generator was made that an attribute keeps."""
        code = self.inputs.code
        if isinstance(draw, ast.Call):
            if file.function(node) in code:
                return False
            kept = any(runs_within(file, node, script, loop, code) for loop in _lived_in(script, draw))
            return kept or repeats(file, node, script, draw)
        kept_generators = stored_generators(script, draw)
        if file.function(node) not in code and any(runs_after(file, node, *each) for each in kept_generators):
            return True
        if self._is_local_binding(file, node):
            extents = extents_of(script, draw, stored=False)
            return any(file is where and in_body(file, node, loop) for where, loop in extents)
        return runs_within(file, node, script, draw, code, stored=False)

    def _is_local_binding(self, file: Script, node: ast.AST) -> bool:
        """Whether a name of a function is bound in that function: every call of it binds another one."""
        function = file.function(node)
        return any(
            scope is function and any(each.node is node and each.how != "global" for each in known)
            for scope, name in self.inputs.names
            if (
                known := file.reaching_definitions.scopes[scope].definitions.get(name, [])
                if scope in file.reaching_definitions.scopes
                else []
            )
        )

    def changed_after(self, script: Script, call: ast.Call, *, seeded: bool = False) -> bool:
        """Whether anything is changed once the loader was made; `seeded` but for what samples draw from."""
        return self.changed_any_time or any(
            ((file is script and file.function(node) is file.function(call)) or not self._is_local_binding(file, node))
            and runs_after(file, node, script, call)
            for file, node in (*self.changes, *self.resources.environment_changes)
            if not (seeded and self._is_draw(file, node))
        )

    def _is_draw(self, file: Script, node: ast.AST) -> bool:
        """`self.rng.normal()`, where a sample is made"""
        return file.function(node) in self.inputs.code and any(
            file is where and file.inside(read, node) for where, read in self.generator_reads
        )


def _lived_in(script: Script, made: ast.Call) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
    """The loops in which an iterator may be the one of an earlier iteration: it is made anew under a condition."""
    conditional = False
    for ancestor in script.ancestors(made):
        if isinstance(ancestor, ast.For | ast.AsyncFor | ast.While):
            if conditional:
                yield ancestor
        elif isinstance(ancestor, ast.If | ast.ExceptHandler | ast.IfExp | ast.BoolOp | ast.Match):
            conditional = True
        elif isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return


def drawn_beside(script: Script, loop: LoaderLoop) -> str | None:
    """Why the batches of a loop cannot be made before it asks for them."""
    known, complete = _loaders(script, loop.loader)
    states = [loader_state(*each) for each in known]
    if not complete:  # it may be any loader
        calls_known = {made.call for _, made in known}
        for file in script.project.related(script):
            states += [loader_state(file, made) for made in loader_calls(file) if made.call not in calls_known]
    for state in states:
        if (problem := state.problem([(script, loop.node)])) is not None:
            return problem
        if shares_generator(state.script):
            return "the generator of its order may be drawn from or asked beside it"
    if not complete:
        calls = [call for call in script.find(ast.Call) if _hands_on(script, call)]
        if any(_may_write_later(script, call) for call in calls):
            return "its dataset or order may be changed while it is read"
        for node in (*(each for each in possible_changes(script) if _changes_by_name(script, each)), *calls):
            if runs_within(script, node, script, loop.node):
                return "its dataset or order may be changed while it is read"
    return None


def drawn_by_next(script: Script, kept: KeptIterator) -> str | None:
    """Why the batches of an iterator that is kept for `next` cannot be made before it is asked for them: other code may
    run between any two of them."""
    return next((reason for loader in kept.loaders if (reason := _drawn_by_next(script, kept, loader))), None)


def _drawn_by_next(script: Script, kept: KeptIterator, loader: ast.expr) -> str | None:
    changed = "its dataset, order or collation may be changed while it is read"
    known, complete = _loaders(script, loader)
    if not known or not complete:
        return changed
    for file, made in known:
        call = made.call
        state = loader_state(file, made)
        if (reason := state.trained()) is not None:
            return reason
        if "generator" in made.settings or shares_generator(file):
            return "the generator of its order may be drawn from or asked beside it"
        own = {script.parent(each) for each in kept.loaders}
        if "persistent_workers" in made.settings and any(each.node not in own for each in iterations(file, call)):
            return "workers that the script keeps serve one pass at a time, and something else iterates its loader"
        if state.generator_reads:
            return "a batch that nobody asked for would change its generator"
        if (carrier := loader_state(file, made, in_workers=True).carrier) is not None:
            return f"`{carrier}` keeps something between samples, and a batch that nobody asked for would change it"
        if state.changed_any_time:
            return changed
        after = partial(_runs_after_too, state, file, call)
        if any(after(*place) for place in (*state.changes, *state.readings)):
            return changed
        if (reason := state.resources.problem(after, in_workers=False)) is not None:
            return reason
    return None


def _loaders(script: Script, expression: ast.expr) -> tuple[list[tuple[Script, LoaderCall]], bool]:
    """The loaders that an expression may be, with their files, and whether it can be no other."""
    known = [(file, made) for file, call in script.creations(expression) for made in loaders_made(file, call)]
    calls = {made.call for _, made in known if made.problem is None}
    return known, all(value.node in calls for value in script.values(expression) if value.kind is not Kind.NONE)


def _runs_after_too(state: LoaderState, file: Script, call: ast.Call, where: Script, node: ast.AST) -> bool:
    return where.function(node) not in state.inputs.code and runs_after(where, node, file, call)


def _changes_by_name(script: Script, node: ast.AST) -> bool:
    """Whether a place changes what is called a dataset or a sampler, of a loader that is made out of sight."""
    match node:
        case ast.Attribute(value=owner) | ast.Subscript(value=owner):
            pass
        case ast.Call(func=ast.Attribute(value=owner)) if not is_library(script, node) and _may_store(script, node):
            pass
        case _:
            return False
    return _is_source(owner)


def _hands_on(script: Script, call: ast.Call) -> bool:
    """Whether a call is handed what is called a dataset or a sampler, and may change it."""
    given = given_values(call)
    sources = any(isinstance(each, ast.Name | ast.Attribute) and _is_source(each) for each in given)
    return sources and not is_library(script, call) and _may_store(script, call)


def _may_store(script: Script, call: ast.Call) -> bool:
    """Whether what a call enters stores to attributes or items, or is not seen."""
    callees = script.callees(call)
    return not callees or any(
        isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load)
        for file, callee in callees
        for part in file.within(callee, ast.AST)
    )


def _may_write_later(script: Script, call: ast.Call) -> bool:
    """Whether what a call makes may keep what it is handed and write to it: `Bank(loader.dataset)`, which has a method
    with `self.labels[index] = …`; also where its class is not seen, and is one of the project's."""
    callees = script.callees(call)
    if not callees:
        return script.is_project_name(call.func)
    classes = ((file, file.enclosing_class(callee)) for file, callee in callees if callee.name == "__init__")
    return any(
        not isinstance(part.ctx, ast.Load)
        for file, cls in classes
        if cls is not None
        for part in file.within(cls, ast.Subscript)
    )


def _is_source(owner: ast.expr) -> bool:
    while isinstance(owner, ast.Attribute | ast.Subscript | ast.Name):
        if isinstance(owner, ast.Name):
            return _SOURCES.search(owner.id) is not None
        if isinstance(owner, ast.Attribute) and _SOURCES.search(owner.attr):
            return True
        owner = owner.value
    return False


def loader_state(script: Script, made: LoaderCall, *, in_workers: bool = False) -> LoaderState:
    """The same for a loader of `script`; `in_workers` without the order of samples, which no worker holds."""
    return _state(script, made, IN_WORKERS if in_workers and not made.settings.keys().isdisjoint(_ORDER) else ALL)


@once
def _state(script: Script, made: LoaderCall, parts: tuple[str, ...]) -> LoaderState:
    return LoaderState(script, made, find_inputs(script, made, parts))


def _function_name(file: Script, node: ast.AST) -> str:
    return getattr(file.function(node), "name", "lambda")


def _may_be_left(script: Script, draw: ast.AST) -> bool:
    """Whether a loop may end before its loader does: a batch that was made ahead would be one that nobody asked for."""
    if not isinstance(draw, ast.For):
        return False
    leaving = any(script.within(draw, kind) for kind in (ast.Break, ast.Return, ast.Raise))
    return leaving or any(last_name(call.func) in _SHORTENING for call in script.within(draw.iter, ast.Call))
