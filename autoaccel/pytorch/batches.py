"""Moves of batch data: where they go and what they move; what a script changes in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis.call_values import returned
from autoaccel.analysis.script import Script
from autoaccel.analysis.type_tests import asked_for_tensor
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once, once_all
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.edits import AddImport, InsertAfter
from autoaccel.pytorch.batch_objects import makes_tensors, may_move_themselves
from autoaccel.pytorch.changing_calls import (
    bound_methods,
    changed_by_library,
    is_in_place,
    is_library,
    writes_to_input,
)
from autoaccel.pytorch.datasets import item_methods, origins
from autoaccel.pytorch.kept_iterators import batch_sources, loaders_of
from autoaccel.pytorch.loader_calls import LoaderCall, loaders_made
from autoaccel.pytorch.loader_loops import BatchTransfer
from autoaccel.pytorch.tensor_type_aliases import chosen_type, tensor_type

_ELSEWHERE = ("cpu", "mps")
_DISPLAYS = (ast.Dict, ast.DictComp, ast.Tuple, ast.List, ast.ListComp)
_ARRAY_CHANGES = frozenset("byteswap fill itemset partition put resize setfield sort".split())


@dataclass(frozen=True, slots=True)
class Target:
    """Where a move goes: the device as source text for the loop's header (None when it cannot stand there).

    `test` is the condition that it depends on, and `naming` gives it a name first.
    """

    text: str | None
    accelerates: bool
    names: tuple[ast.Name, ...] = ()
    test: ast.expr | None = None
    naming: tuple[InsertAfter | AddImport, ...] = ()


@once
def device_of(script: Script, transfer: BatchTransfer) -> Target:
    """The device of a move, and whether it may be an accelerator."""
    if transfer.method == "type":
        return _alias_device(script, transfer.call.args[0])
    if transfer.device is None:
        return Target(_quoted(script, "cuda"), True)
    device = transfer.device
    names = tuple(node for node in breadth_first(device) if isinstance(node, ast.Name))
    text = script.source(device) if is_repeatable(script, device) else None
    return Target(text, not _elsewhere(script, device), names)


def is_repeatable(script: Script, device: ast.expr) -> bool:
    """Whether a device expression may be evaluated once, before the loop."""
    match device:
        case ast.Constant() | ast.Name():
            return True
        case ast.Attribute(value=value) | ast.Subscript(value=value, slice=ast.Constant()):
            return is_repeatable(script, value)
        case ast.Call(func=function, args=args):
            return script.qualname(function) == "torch.device" and all(is_repeatable(script, each) for each in args)
        case _:
            return False


def _elsewhere(script: Script, device: ast.expr) -> bool:
    """Whether a device surely is none that copies in the background."""
    return all(_names_elsewhere(value.node) for value in script.values(device))


def _names_elsewhere(node: ast.AST | None) -> bool:
    match node:
        case ast.Constant(value=str() as text):
            return text.startswith(_ELSEWHERE)
        case ast.Call(args=[first, *_]):
            return _names_elsewhere(first)
        case _:
            return False


def _alias_device(script: Script, alias: ast.expr) -> Target:
    """The device of a type alias: `Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor`."""
    chosen = chosen_type(script, alias)
    if chosen is not None and isinstance(alias, ast.Name):
        text = chosen.device.text.format(*(script.source(hole) for hole in chosen.device.holes))
        return Target(text, True, (alias,), chosen.test, chosen.naming)
    if isinstance(alias, ast.Constant):
        return Target(_quoted(script, "cuda"), str(alias.value).startswith("torch.cuda."))
    spelled = [alias, *(each.value for each in script.definitions(alias))] if isinstance(alias, ast.Name) else [alias]
    made = [
        part
        for each in spelled
        if each is not None
        for part in ([each.body, each.orelse] if isinstance(each, ast.IfExp) else [each])
    ]
    types = [found for part in made if (found := tensor_type(script, part)) is not None]
    accelerates = any(found.cuda for found in types)
    certain = accelerates and len(types) == 1 and len(spelled) <= 2
    return Target(_quoted(script, "cuda") if certain else None, accelerates)


def _quoted(script: Script, text: str) -> str:
    return f"{script.quote}{text}{script.quote}"


def own_to_method(script: Script, transfer: BatchTransfer) -> str | None:
    """Why the moved value may be an object with a `to()` of its own; None when it surely is a tensor."""
    reason = "it may be an object whose own to() takes no such argument"
    if transfer.method == "type" or _is_tensor_there(script, transfer.call):
        return None
    whole = () in transfer.paths and transfer.derived is None
    creations = _creations(transfer.site_script, transfer.site)
    found = [(file, loaders_made(file, call)) for file, call in creations]
    loaders = [(file, made) for file, several in found for made in several]
    own = (may_move_themselves(*each, path, transfer.method) for each in loaders for path in transfer.paths)
    if any(not several for _, several in found) or any(own):
        return reason
    if not whole:
        return None
    collated = any("collate_fn" in made.settings.keys() | made.possible for _, made in loaders)
    opaque = not loaders or collated or any(made.problem for _, made in loaders)
    if not opaque and all(_gives_plain_samples(*each) for each in loaders):
        return None
    if loaders and all(makes_tensors(*each) for each in loaders):
        return None
    return reason if opaque or _used_by_key(script, transfer) else None


def _creations(script: Script, site: ast.AST) -> list[tuple[Script, ast.Call]]:
    """The calls that make the loaders of a loop or a `next()`; of what is kept elsewhere, `next(self.batches)`, only
    where all it may be are iterators over loaders."""
    found = [
        each
        for source in batch_sources(script)
        if site in source.sites
        for loader in source.loaders
        for each in script.creations(loader)
    ]
    match site:
        case ast.Call(func=ast.Name(id="next"), args=[iterator, *_]) if not found:
            loaders = loaders_of(script, iterator)
            found = [(each.script, each.node) for each in loaders if each.script and isinstance(each.node, ast.Call)]
    return found


def _is_tensor_there(script: Script, call: ast.Call) -> bool:
    """Whether a test around a move tells that what it moves is a tensor: `if isinstance(x, torch.Tensor)`."""
    child: ast.AST = call
    for ancestor in script.ancestors(call):
        match ancestor:
            case ast.FunctionDef() | ast.Lambda() | ast.For():
                return False
            case ast.If(test=test, body=body) if child in body and _asks_for_tensor(script, test, call):
                return True
            case ast.IfExp(test=test, body=body) if child is body and _asks_for_tensor(script, test, call):
                return True
        child = ancestor
    return False


def _asks_for_tensor(script: Script, test: ast.expr, move: ast.Call) -> bool:
    asked = asked_for_tensor(script, test)
    return asked is not None and isinstance(move.func, ast.Attribute) and ast.dump(asked) == ast.dump(move.func.value)


def _gives_plain_samples(script: Script, made: LoaderCall) -> bool:
    """Whether the samples of a loader are dicts, tuples or tensors themselves, made where they are seen."""
    dataset = made.at(script, "dataset")
    sources = [] if dataset is None else [*origins(*dataset)]
    methods = [
        (file, method)
        for source in sources
        if source.cls is not None
        for file, method in item_methods(source.cls)
        if method.name == "__getitem__"
    ]
    return len(methods) == len(sources) > 0 and all(
        value.kind in (Kind.TENSOR, Kind.ARRAY, Kind.NUMBER)
        or (value.kind in (Kind.MAPPING, Kind.SEQUENCE) and isinstance(value.node, _DISPLAYS))
        for file, method in methods
        for value in returned(file, method)
    )


def _used_by_key(script: Script, transfer: BatchTransfer) -> bool:
    """Whether the moved batch is read like a mapping: then it is no tensor."""
    statement = script.statement(transfer.call)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return True
    for definition in script.definitions(statement.targets[0]):
        for use in script.uses(definition):
            match script.parent(use):
                case ast.keyword(arg=None) | ast.Subscript(slice=ast.Constant(value=str())):
                    return True
    return False


@once_all
def changed_in_place(script: Script) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What a file changes in place, and where: by in-place methods, functions and layers, `out=`, item assignments and
    `x += y`."""
    for call in script.find(ast.Call):
        if is_library(script, call):
            yield from ((changed, call) for changed in changed_by_library(script, call))
            continue
        match call.func:
            case ast.Attribute(value=owner, attr=attr) if is_in_place(attr):
                yield owner, call
            case ast.Attribute(attr="shuffle"):  # of a generator: `rng.shuffle(x)`
                yield from ((each, call) for each in call.args[:1])
            case ast.Attribute(value=owner, attr=attr) if attr in _ARRAY_CHANGES:
                if any(value.kind is Kind.ARRAY for value in script.values(owner)):
                    yield owner, call
        if call.args and any(writes_to_input(value) for value in script.values(call.func)):
            yield call.args[0], call
        yield from ((each.value, call) for each in call.keywords if each.arg == "out")
    for item in script.find(ast.Subscript):
        if isinstance(item.ctx, ast.Store):
            yield item.value, item
    for sum_ in script.find(ast.AugAssign):
        yield sum_.target, sum_
    yield from bound_methods(script)


def root(expression: ast.expr) -> ast.Name | None:
    while True:
        match expression:
            case ast.Name():
                return expression
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)):
                expression = inner
            case ast.Call(args=[inner]):
                expression = inner
            case _:
                return None
