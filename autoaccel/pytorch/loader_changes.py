"""Where a program changes what a loader's batches are made from, and when that code runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import class_info, lineage
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import once
from autoaccel.library_models.in_place_operations import (
    HANDING_ON,
    IN_PLACE_METHODS,
    changes_input,
    only_reads,
    written,
)
from autoaccel.library_models.python_names import BUILTINS, CONSTRUCTORS, CONTAINER_CHANGES
from autoaccel.library_models.tensor_operations import METHODS
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel.pytorch import datasets
from autoaccel.pytorch.execution_order import extents_of, in_body, runs_after, runs_within
from autoaccel.pytorch.loader_calls import LoaderCall, loader_calls, repeats
from autoaccel.pytorch.loader_inputs import ALL, IN_WORKERS, LoaderInputs

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef
    from autoaccel.dataflow.completeness import ScriptNode
    from autoaccel.dataflow.definitions import Definition
    from autoaccel.pytorch.loader_loops import LoaderLoop

_ORDER = frozenset(ALL) - frozenset(IN_WORKERS)
_CONTAINER = CONTAINER_CHANGES | frozenset(
    """appendleft extendleft popleft reverse rotate subtract fill put itemset partition resize push __setitem__
    __delitem__""".split()
)
_CONTAINERS = frozenset({Kind.SEQUENCE, Kind.MAPPING, Kind.ARRAY})
_UNCHANGED = frozenset(
    {Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE, Kind.EXTERNAL, Kind.LOADER, Kind.CLASS}
    | {Kind.FUNCTION, Kind.LOSS_FUNCTION, Kind.BATCH}
)
_READING = ("get_", "is_", "has_", "to_", "num_", "n_", "as_", "convert_ids_to_")
_READS = RESHAPING | frozenset(
    """decode batch_decode encode tokenize inverse inverse_transform denormalize unnormalize format log info debug
    warning error print show plot describe summary state_dict save dump index count copy keys values items get
    len size numel dim item tolist join split strip rstrip lstrip lower upper replace startswith endswith clone
    detach float double half long int bool to cuda cpu numpy type expand repeat contiguous narrow chunk unbind mean
    sum std var max min argmax argmin any all norm mul add_scalar sub div pow exp log sqrt abs clamp round eq ne lt gt
    le ge softmax log_softmax sigmoid matmul mm bmm dot astype ravel""".split()
)
_SOURCES = re.compile(r"(sampler|data_?set|collate(_fn)?|curriculum|replay|buffer)$", re.IGNORECASE)


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
    def readings(self) -> tuple[ScriptNode, ...]:
        """Where others read what making a batch changes: the task that a sampler has chosen."""
        return tuple(_readings(self.inputs, self.script.project.related(self.script)))

    def problem(self, draws: Sequence[ScriptNode], *, in_workers: bool = False) -> str | None:
        """Why batches cannot be made anywhere else, or any sooner, than where loops (or other `draws`) ask for them."""
        if (reason := self.trained()) is not None:
            return reason
        here = loader_state(self.script, self.made, in_workers=True).inputs
        if in_workers and (keeper := here.keeps_state()) is not None:
            return f"`{keeper}` keeps something between samples, of which each worker would keep its own"
        for file, node in self.changes:
            if any(self._runs_beside(file, node, *draw) for draw in draws):
                return "its dataset, order or collation is changed while it is read"
        for file, node in self.readings:
            if any(self._runs_beside(file, node, *draw) for draw in draws):
                return "what making a batch changes is read beside it"
        return None

    def trained(self) -> str | None:
        """Why a batch may be part of a graph, or of what an optimizer changes."""
        if self.inputs.trained is not None:
            return f"its samples or their order come from `{self.inputs.trained}`, which may be trained"
        settings = self.made.settings
        if any(datasets.keeps_gradients(self.script, settings[part]) for part in ALL if part in settings):
            return "its samples may require gradients"
        return None

    def _runs_beside(self, file: Script, node: ast.AST, script: Script, draw: ast.AST) -> bool:
        """Whether a place runs between two draws of batches: in the body of a loop, again and again beside a kept
        iterator."""
        code = self.inputs.code
        if isinstance(draw, ast.Call):
            return file.function(node) not in code and repeats(file, node, script, draw)
        if self._is_local_binding(file, node):
            return any(file is where and in_body(file, node, loop) for where, loop in extents_of(script, draw))
        return runs_within(file, node, script, draw, code)

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

    def changed_after(self, script: Script, call: ast.Call) -> bool:
        """Whether anything is changed once the loader was made."""
        return any(
            ((file is script and file.function(node) is file.function(call)) or not self._is_local_binding(file, node))
            and runs_after(file, node, script, call)
            for file, node in self.changes
        )


def drawn_beside(script: Script, loop: LoaderLoop) -> str | None:
    """Why the batches of a loop cannot be made before it asks for them."""
    known = {
        call: loader_state(file, made)
        for file, call in script.creations(loop.loader)
        for made in loader_calls(file)
        if made.call is call
    }
    for state in known.values():
        if (problem := state.problem([(script, loop.node)])) is not None:
            return problem
        if _shares_generator(state.script):
            return "the generator of its order may be drawn from or asked beside it"
    made = [value.node for value in script.values(loop.loader) if value.kind is not Kind.NONE]
    if not all(node in known for node in made):
        calls = (call for call in script.find(ast.Call) if _hands_on(script, call))
        for node in (*(each for each in possible_changes(script) if _changes_by_name(script, each)), *calls):
            if runs_within(script, node, script, loop.node):
                return "its dataset or order may be changed while it is read"
    return None


@once
def _shares_generator(script: Script) -> bool:
    """Whether the generator of an order of samples is not one of its own: `generator=torch.default_generator`, one that
    two loaders have, one that is handed on or asked of a loader."""
    given = [
        keyword.value
        for call in script.find(ast.Call)
        for keyword in call.keywords
        if keyword.arg == "generator" and _orders(script, call)
    ]
    given += [made.settings["generator"] for made in loader_calls(script) if "generator" in made.settings]
    given = [each for each in given if not isinstance(each, ast.Constant)]
    return any(not _is_own_generator(script, each) for each in given) or (bool(given) and _asks_loaders(script))


def _asks_loaders(script: Script) -> bool:
    """Whether something reads the generator of what may be a loader or a sampler: `loader.generator.get_state()`."""
    try:
        files = script.project.with_word(script, "generator")
    except Incomplete:
        return True
    return any(
        isinstance(read, ast.Attribute) and isinstance(read.ctx, ast.Load) and _may_be_loader(other, read.value)
        for other in files
        for read in other.syntax_index.mentions("generator")
    )


def _may_be_loader(script: Script, owner: ast.expr) -> bool:
    return any(value.cls is None and value.kind not in _UNCHANGED - {Kind.LOADER} for value in script.values(owner))


def _orders(script: Script, call: ast.Call) -> bool:
    """Whether a call makes a loader or a sampler, which draw when they are iterated."""
    name = script.qualname(call.func) or ""
    return name.startswith("torch.utils.data.") and not name.endswith("random_split")


def _is_own_generator(script: Script, value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=None):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="manual_seed")):
            return _is_own_generator(script, made)
        case ast.Call(func=function):
            return script.qualname(function) == "torch.Generator"
        case ast.Name():
            definitions = script.definitions(value)
            made_here = [each for each in definitions if each.value is not None and each.how == "assign"]
            if not definitions or len(made_here) < len(definitions):
                return False
            if not all(_is_own_generator(script, each.value) for each in made_here if each.value is not None):
                return False
            uses: list[tuple[Script, ast.Name | ast.Attribute]] = []
            uses += ((script, use) for use in script.find(ast.Name) if use.id == value.id)
            if any(each.scope is script.module_scope for each in definitions):
                try:
                    uses += _uses_elsewhere(script, value.id)
                except Incomplete:
                    return False
            return all(
                use is value or not isinstance(use.ctx, ast.Load) or _is_followed(where, use) for where, use in uses
            )
        case _:
            return False


def _uses_elsewhere(script: Script, name: str) -> Iterator[tuple[Script, ast.Name | ast.Attribute]]:
    """Where other files name what a file has at its top level. Raises `Incomplete`."""
    for other in script.project.with_word(script, name)[1:]:
        for use in other.syntax_index.mentions(name, *other.import_aliases((name,))):
            if isinstance(use, ast.Attribute):
                owners = other.values(use.value)
                if Kind.UNKNOWN in owners.kinds or any(value.node is script.tree for value in owners):
                    yield other, use
            elif all(each.how == "import" and _leads_to(other, each, script) for each in other.definitions(use)):
                yield other, use


def _leads_to(other: Script, definition: Definition, script: Script) -> bool:
    found = script.project.imported(other, definition.target or "", definition.level)
    return found is None or found[0] is script


def _is_followed(script: Script, generator: ast.Name | ast.Attribute) -> bool:
    """Whether a use of a generator counts among the changes: `g.manual_seed(0)`, `torch.randperm(n, generator=g)`."""
    match parent := script.parent(generator):
        case ast.Attribute(attr="manual_seed"):
            return True
        case ast.keyword(arg="generator"):
            call = script.parent(parent)
            return (
                isinstance(call, ast.Call)
                and not _orders(script, call)
                and is_library(script, call)
                and (script.qualname(call.func) or "").startswith("torch.")
            )
        case _:
            return False


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
    return LoaderState(script, made, LoaderInputs(script, made, parts))


def changes(inputs: LoaderInputs, scripts: tuple[Script, ...]) -> Iterator[ScriptNode]:
    """Statements and expressions that change one of these inputs."""
    for file in scripts:
        for node in possible_changes(file):
            match node:
                case ast.AugAssign(target=ast.Name() as target):
                    changed = inputs.extends(file, target)
                case ast.Call():
                    changed = _is_change(inputs, file, node)
                case ast.Attribute(value=owner, attr=attr) if inputs.includes(file, owner):
                    changed = inputs.reads(file, owner, attr)
                case ast.Attribute(value=owner) | ast.Subscript(value=owner):
                    changed = inputs.touched(file, owner)
                case _:
                    changed = False
            if changed:
                yield file, node
        for owner, node in bound_methods(file):
            if inputs.touched(file, owner):
                yield file, node
    for (scope, name), file in inputs.names.items():
        for each in file.reaching_definitions.scopes[scope].definitions.get(name, ()):
            if each.how not in ("import", "def", "class", "param"):
                yield file, each.node


def _readings(inputs: LoaderInputs, scripts: tuple[Script, ...]) -> Iterator[ScriptNode]:
    written = {
        target.attr
        for function, file in inputs.code.items()
        for target in file.within(function, ast.Attribute)
        if _is_written(file, target) and not _makes_anew(file, target)
    }
    for file in scripts if written else ():
        for attribute in file.find(ast.Attribute):
            if attribute.attr in written and isinstance(attribute.ctx, ast.Load):
                if file.function(attribute) not in inputs.code and inputs.includes(file, attribute.value):
                    yield file, attribute


def _is_written(file: Script, attribute: ast.Attribute) -> bool:
    """`self.task = …`, `self.seen[i] = …`, `self.seen.append(…)`."""
    if not isinstance(attribute.ctx, ast.Load):
        return True
    match file.parent(attribute):
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Attribute(attr=method):
            return method in _CONTAINER
        case _:
            return False


@once
def possible_changes(script: Script) -> tuple[ast.AST, ...]:
    """The places of a file that may change an object."""
    return tuple(_possible_changes(script))


def _possible_changes(script: Script) -> Iterator[ast.AST]:
    """The places of a file that may change an object: what is assigned to, and calls that do not only read."""
    targets: Iterator[ast.Attribute | ast.Subscript] = script.find(ast.Attribute, ast.Subscript)
    for target in targets:
        if not isinstance(target.ctx, ast.Load) and not _makes_anew(script, target):
            yield target
    for statement in script.find(ast.AugAssign):
        if isinstance(statement.target, ast.Name):
            yield statement
    for call in script.find(ast.Call):
        if is_library(script, call):
            if changed_by_library(script, call) or _drawn_from(script, call) or _is_unseen(script, call):
                yield call
        elif _drawn_from(script, call) or (call.args and (_writes(script, call) or _is_unknown(script, call))):
            yield call
        elif isinstance(call.func, ast.Attribute) and (
            _changes_owner(call.func.attr) or not _is_reading(call.func.attr)
        ):
            yield call


def is_library(script: Script, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and not script.definitions(call.func):
        return True
    return script.qualname(call.func) is not None and not script.is_project_name(call.func)


def changed_by_library(script: Script, call: ast.Call) -> list[ast.expr]:
    """What a function of a library changes: `random.shuffle(order)`, `torch.relu_(x)`, `torch.add(a, b, out=c)`."""
    return [*written(script.qualname(call.func) or f"builtins.{getattr(call.func, 'id', '')}", call)]


def _is_unseen(script: Script, call: ast.Call) -> bool:
    """Whether a library's function may write to whatever it is handed; its classes only keep it."""
    name = script.qualname(call.func)
    if name is None:
        return getattr(call.func, "id", "") not in BUILTINS
    return not only_reads(name) and not name.rpartition(".")[2][:1].isupper()


def _is_unknown(script: Script, call: ast.Call) -> bool:
    """Whether it is not known what a call enters, which may write to whatever it is handed."""
    if isinstance(call.func, ast.Attribute) and _is_reading(call.func.attr):
        return False
    return Kind.UNKNOWN in script.values(call.func).kinds and not script.callees(call)


def _writes(script: Script, call: ast.Call) -> bool:
    """Whether a call writes to its first argument: `rng.shuffle(order)`, a layer that works in place."""
    if not call.args or isinstance(call.args[0], ast.Constant):
        return False
    shuffles = isinstance(call.func, ast.Attribute) and call.func.attr == "shuffle"
    return shuffles or any(writes_to_input(value) for value in script.values(call.func))


def _drawn_from(script: Script, call: ast.Call) -> list[ast.expr]:
    """The generator that a call draws from, which is another one afterwards: `torch.randn(4, generator=noise)`."""
    if _orders(script, call):
        return []
    return [keyword.value for keyword in call.keywords if keyword.arg == "generator"]


def _named_before(file: Script, expression: ast.expr) -> list[tuple[Script, ast.expr]]:
    """An object under the names that it has here and where it comes from, through arguments and `a = b`."""
    found = [(file, expression)]
    for where, each in found:
        for bound in where.definitions(each) if isinstance(each, ast.Name) else ():
            if bound.how == "param":
                given = list(arguments_for(where, bound.scope.node, bound.name))
            else:
                given = [(where, bound.value)] if bound.value is not None and not bound.path else []
            found.extend(place for place in given if place not in found)
    return found


def _changes_owner(method: str) -> bool:
    return method in _CONTAINER or is_in_place(method)


@once
def bound_methods(script: Script) -> tuple[tuple[ast.expr, ast.AST], ...]:
    """What may be changed by a method that is looked up, and where."""
    return tuple(_bound_methods(script))


def _bound_methods(script: Script) -> Iterator[tuple[ast.expr, ast.AST]]:
    """In-place methods that are looked up, or kept: `step = x.add_` may be whatever is called and not known."""
    for read in script.find(ast.Attribute):
        known = read.attr in METHODS or read.attr[:-1] in METHODS
        if known and is_in_place(read.attr) and script.call_of(read) is None:
            yield from ((read.value, place) for place in (read, *_unknown_calls(script)))
    for call in script.syntax_index.calls_named("getattr"):
        match call.args:
            case [owner, ast.Constant(value=str() as name), *_] if not is_in_place(name):
                pass
            case [owner, _, *_] if script.call_of(call) is not None:
                yield owner, call
            case [owner, _, *_] if script.values(owner).kinds & {Kind.TENSOR, Kind.ARRAY, Kind.BATCH}:
                yield from ((owner, place) for place in (call, *_unknown_calls(script)))


@once
def _unknown_calls(script: Script) -> tuple[ast.Call, ...]:
    """The calls of a file of which it is not known what they call."""
    return tuple(
        call
        for call in script.find(ast.Call)
        if not is_library(script, call) and Kind.UNKNOWN in script.values(call.func).kinds
    )


def is_in_place(method: str) -> bool:
    """Whether the name of a method says that it changes its tensor."""
    return method in IN_PLACE_METHODS or (
        method.endswith("_") and not method.endswith("__") and method != "requires_grad_"
    )


def writes_to_input(value: Value, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a library's layer writes to what it is called with: `nn.ReLU(inplace=True)`, or a sequence that begins
    so.

    What has parameters is handed what was moved to them; nothing is said of sequences whose first layer is not seen."""
    if value.kind is not Kind.MODULE or value.cls is not None or not isinstance(value.node, ast.Call):
        return False
    name = value.name or ""
    if name != "torch.nn.Sequential":
        return changes_input(name, value.node)
    seen |= {value.node}
    for part in value.node.args:
        layers = [] if value.script is None or isinstance(part, ast.Starred) else [*value.script.values(part)]
        if any(writes_to_input(each, seen) for each in layers if each.node not in seen):
            return True
        if not layers or not all((each.name or "").rpartition(".")[2] in HANDING_ON for each in layers):
            return False
    return False


def _makes_anew(file: Script, target: ast.AST) -> bool:
    """`self.x = …` in a constructor: the object is new, and nobody has read it."""
    function = file.function(target)
    owner = getattr(target, "value", None)
    return (
        isinstance(function, ast.FunctionDef)
        and function.name in CONSTRUCTORS
        and isinstance(owner, ast.Name)
        and bool(function.args.args)
        and owner.id == function.args.args[0].arg
    )


def _is_change(inputs: LoaderInputs, file: Script, call: ast.Call) -> bool:
    """Whether a call may change an input by itself; what the project's own functions do is seen there."""
    drawn = _drawn_from(file, call)
    if drawn and not file.callees(call):
        for each in drawn:
            if any(inputs.touched(other, name) for other, name in _named_before(file, each)):
                return True
    if is_library(file, call):
        given = given_values(call) if _is_unseen(file, call) else []
        return any(inputs.touched(file, each) for each in (*changed_by_library(file, call), *given))
    if _writes(file, call):
        return inputs.touched(file, call.args[0])
    if _is_unknown(file, call):
        given = given_values(call)
        if any(isinstance(each, ast.Name | ast.Attribute) and inputs.touched(file, each) for each in given):
            return True
    if not isinstance(call.func, ast.Attribute):
        return False
    method, owner = call.func.attr, call.func.value
    in_place = _changes_owner(method)
    kinds = file.values(owner).kinds
    if kinds <= (_UNCHANGED if in_place else _UNCHANGED | _CONTAINERS | {Kind.TENSOR, Kind.PARAMETER}):
        return False
    if not inputs.touched(file, owner) or file.callees(call):
        return False
    if not in_place and method in inputs.methods:
        return False  # of a class in sight, whose own changes are found where they are written
    return not any(_is_attribute(value.cls, method) for value in file.values(owner) if value.cls is not None)


def _is_reading(method: str) -> bool:
    return method in _READS or method.startswith(("__", *_READING))


def _is_attribute(cls: ClassRef, name: str) -> bool:
    """Whether the objects of a class hold something under a name, which a call only calls: `self.transform(x)`."""
    return any(
        isinstance(binding, ast.expr)
        for each in lineage(cls)
        for binding, _ in class_info(each).attributes.get(name, ())
    )
