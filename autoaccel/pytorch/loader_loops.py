"""Loops over data loaders, the parts of their batches, and the places where these are moved to a device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.definitions import STAR, ElementPath
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models import library_values

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

Method = Literal["to", "cuda", "type"]
_WIDENING = frozenset({"to", "cuda", "type"})
_PREFETCHED = ("prefetch", "in_memory")  # the runtime's


@dataclass(frozen=True, slots=True, eq=False)
class LoaderLoop:
    """A `for` over a data loader.

    `loader` is the expression of the loader itself, inside `enumerate`, `tqdm`, `zip` and the like, also when the
    wrapped iterable was given a name first (`bar = tqdm(loader)`). `target` is the part of the loop's target that
    receives the batch. `prefetched` says that the loader already is in the runtime's `prefetch` or `in_memory`.
    `known` is False when only use speaks for a loader. `zip(a, b)` gives two."""

    node: ast.For
    loader: ast.expr
    target: ast.expr
    known: bool
    prefetched: bool


@dataclass(frozen=True, slots=True, eq=False)
class BatchTransfer:
    """A call that moves batch data: `x.to(device)`, `x.cuda()`, `x.type(Tensor)`.

    `path` is the part of the batch: () the whole, (0,) or ("input_ids",) an element, with "*" for any. `derived`
    tells how the moved value came from the batch: None as it is, "view" of the same memory, "copy" converted on the
    host first. `site` is the loop (or the `next()` call) that yields the batch, possibly in another file
    (`site_script`). A call that several loops hand their batches to is a transfer for each of them."""

    call: ast.Call
    method: Method
    device: ast.expr | None
    path: ElementPath
    derived: str | None
    site: ast.AST
    site_script: Script


@once_all
def loader_loops(script: Script) -> Iterator[LoaderLoop]:
    """Every loop over a loader in source order of the loops."""
    for node in script.find(ast.For):
        for loader, target, prefetched in _leaves(script, node.iter, node.target, False):
            kinds = script.values(loader).kinds - {Kind.NONE}
            if kinds == {Kind.LOADER}:
                yield LoaderLoop(node, loader, target, True, prefetched)
            elif kinds == {Kind.UNKNOWN} and _named_loader(loader):
                yield LoaderLoop(node, loader, target, False, prefetched)


@once_all
def loops_of_unknown(script: Script) -> Iterator[tuple[ast.For, ast.expr]]:
    """The loops, with what they iterate, that move what they get to a device and of which nothing shows that they
    are over a loader."""
    known = {loop.node for loop in loader_loops(script)}
    for node in script.find(ast.For):
        if node in known or not _moves_elements(script, node):
            continue
        for iterable, _, _ in _leaves(script, node.iter, node.target, False):
            if not _of_dict(iterable) and any(value.kind is Kind.UNKNOWN for value in script.values(iterable)):
                yield node, iterable
                break


def _of_dict(iterable: ast.expr) -> bool:
    """`grads.items()`, `state.values()`"""
    match iterable:
        case ast.Call(func=ast.Attribute(attr="items" | "values" | "keys"), args=[]):
            return True
        case _:
            return False


def _moves_elements(script: Script, loop: ast.For) -> bool:
    """`x.to(device)` or `x.cuda()` of a name that the loop's header binds."""
    bound = {each.id for each in script.within(loop.target, ast.Name)}
    return any(
        isinstance(call.func, ast.Attribute)
        and (call.func.attr == "cuda" or (call.func.attr == "to" and not _only_converts(script, call)))
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in bound
        for call in script.within(loop, ast.Call)
    )


def _leaves(
    script: Script, iterable: ast.expr, target: ast.expr | None, prefetched: bool
) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """The innermost iterables of a loop header with the targets that receive their items."""
    if target is None:
        return
    if isinstance(iterable, ast.Call):
        name = script.qualname(iterable.func)
        if name is None and isinstance(iterable.func, ast.Name) and not script.definitions(iterable.func):
            name = f"builtins.{iterable.func.id}"
        wrapped = iterable.args[0] if iterable.args else None
        if wrapped is None:
            wrapped = given_as(iterable, "iterable")
        if script.runtime_name(iterable.func) in _PREFETCHED and wrapped is not None:
            yield from _leaves(script, wrapped, target, True)
            return
        if name == "builtins.enumerate" and wrapped is not None:
            yield from _leaves(script, wrapped, _element(target, 1), prefetched)
            return
        if name == "builtins.zip":
            for index, each in enumerate(iterable.args):
                yield from _leaves(script, each, _element(target, index), prefetched)
            return
        if library_values.is_loop_wrapper(name) and wrapped is not None:
            yield from _leaves(script, wrapped, target, prefetched)
            return
    if isinstance(iterable, ast.Name):
        definitions = script.definitions(iterable)
        if len(definitions) == 1 and definitions[0].how in ("assign", "with") and not definitions[0].path:
            value = definitions[0].value
            if isinstance(value, ast.Call) and (
                library_values.is_loop_wrapper(script.qualname(value.func))
                or (isinstance(value.func, ast.Name) and value.func.id in ("enumerate", "zip"))
                or script.runtime_name(value.func) in _PREFETCHED
            ):
                yield from _leaves(script, value, target, prefetched)
                return
    yield iterable, target, prefetched


def _element(target: ast.expr, index: int) -> ast.expr | None:
    if isinstance(target, ast.Tuple | ast.List) and index < len(target.elts):
        return target.elts[index]
    return None


def _named_loader(expression: ast.expr) -> bool:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(value=ast.Name(id=name)):
            return "loader" in name.lower()
        case _:
            return False


def transfers_of(script: Script, loop: LoaderLoop) -> tuple[BatchTransfer, ...]:
    """The moves, in this file, of the batches that one loop yields."""
    return tuple(each for each in transfers(script) if each.site is loop.node)


@once_all
def transfers(script: Script) -> Iterator[BatchTransfer]:
    """Moves of batch data anywhere in the file, whichever file holds the loop, in source order."""
    for call in script.find(ast.Call):
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in _WIDENING:
            continue
        if (function.attr == "type" and not call.args) or _only_converts(script, call):
            continue
        batches = [value for value in script.values(function.value) if value.kind is not Kind.NONE]
        if not batches or any(value.kind is not Kind.BATCH for value in batches):
            continue
        if any(value.node is None or value.script is None for value in batches):
            continue
        device = _target_device(script, call, function.attr)
        if function.attr == "to" and device is None:
            continue
        for site, file in _sites(batches):
            own = [value for value in batches if value.node is site]
            paths, derived = {value.path for value in own}, {value.how for value in own}
            path = paths.pop() if len(paths) == 1 else (STAR,)
            how = derived.pop() if len(derived) == 1 else "copy"
            yield BatchTransfer(call, function.attr, device, path, how, site, file)  # type: ignore[arg-type]


def _only_converts(script: Script, call: ast.Call) -> bool:
    """`x.to(dtype=…)`, `x.to(y.dtype)`, `x.to(torch.float32)`: whose batch it is need not be found out."""
    match call:
        case ast.Call(func=ast.Attribute(attr="to"), args=[], keywords=keywords):
            return all(keyword.arg not in (None, "device") for keyword in keywords)
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Attribute(attr=name) as only], keywords=[]):
            return name.endswith("dtype") or (script.qualname(only) is not None and script.kind(only) is Kind.DTYPE)
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name(id=name)], keywords=[]):
            return name.endswith("dtype")
        case _:
            return False


def _sites(batches: list[Value]) -> list[tuple[ast.AST, Script]]:
    """The loops (or `next()` calls) that yield these batches, each once, in source order of the files."""
    sites = {value.node: value.script for value in batches if value.node is not None and value.script is not None}
    return sorted(sites.items(), key=lambda site: (str(site[1].path), position(site[0])))


def _target_device(script: Script, call: ast.Call, method: str) -> ast.expr | None:
    """The device argument of a move, None when there is none (`.cuda()`) or when `.to` only converts."""
    for keyword in call.keywords:
        if keyword.arg == "device":
            return keyword.value
    if not call.args:
        return None
    first = call.args[0]
    if method == "cuda":
        return first
    if method == "type":
        return None
    kinds = script.values(first).kinds
    if kinds & {Kind.DTYPE, Kind.TENSOR, Kind.BATCH}:
        return None
    if kinds == {Kind.UNKNOWN} and not script.is_device(first):
        return None if _dtype_like(first) else first
    return first


def _dtype_like(expression: ast.expr) -> bool:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return "type" in name.lower() or name in ("float", "long", "half", "double")
        case _:
            return False
