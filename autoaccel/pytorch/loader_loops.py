"""Loops over data loaders, the parts of their batches, and the places where these are moved to a device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from autoaccel.analysis.iteration_wrappers import side_by_side, wrapped_argument
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value, any_item
from autoaccel.dataflow.call_arguments import given_as
from autoaccel.dataflow.definitions import STAR, Definition, ElementPath
from autoaccel.dataflow.query import once_all
from autoaccel.dataflow.syntax_index import last_name, position
from autoaccel.pytorch.gradients import backward_calls

Method = Literal["to", "cuda", "type"]
_WIDENING = frozenset({"to", "cuda", "type"})
_PREFETCHED = ("prefetch", "in_memory")  # the runtime's
_DATA = re.compile("load|data|batch")
_HANDING_ON = {Kind.UNKNOWN, Kind.OBJECT, Kind.ITERATOR, Kind.LOADER}  # may give what a loader gives


@dataclass(frozen=True, slots=True, eq=False)
class LoaderLoop:
    """A `for` over a data loader.

    `loader` is the expression of the loader itself, inside `enumerate`, `tqdm`, `zip` and the like, also when the
    wrapped iterable was given a name first (`bar = tqdm(loader)`). `target` is the part of the loop's target that
    receives the batch. `prefetched` says that the loader already is in the runtime's `prefetch` or `in_memory`.
    `known` is False when only use speaks for a loader. `zip(a, b)` gives two. `through` are the bindings of such names:
    what becomes of the loader happens to whatever else reads them. `before` is the statement that binds the loader's
    own name to a wrapper of it, under a condition: `if verbose: loader = tqdm(loader)`. `also` are more places of the
    same loader, in other branches: `tqdm(loader) if verbose else loader`."""

    node: ast.For
    loader: ast.expr
    target: ast.expr
    known: bool
    prefetched: bool
    through: tuple[Definition, ...] = ()
    before: ast.stmt | None = None
    also: tuple[ast.expr, ...] = ()

    @property
    def sites(self) -> tuple[ast.For, ...]:
        """Where its batches come from, in the words of a `BatchTransfer`."""
        return (self.node,)

    @property
    def loaders(self) -> tuple[ast.expr, ...]:
        """The places where its loader stands."""
        return (self.loader, *self.also)


@dataclass(frozen=True, slots=True, eq=False)
class BatchTransfer:
    """A call that moves batch data: `x.to(device)`, `x.cuda()`, `x.type(Tensor)`.

    `paths` are the parts of the batch that it may get, one after another (a helper's `tensor.to(device)`) or one of
    them: () the whole, (0,) or ("input_ids",) an element, with "*" for any. `derived` tells how the moved value came
    from the batch: None as it is, "view" of the same memory, "copy" converted on the host first. `site` is the loop (or
    the `next()` call) that yields the batch, possibly in another file (`site_script`) than the call (`script`). A call
    that several loops hand their batches to is a transfer for each of them."""

    script: Script
    call: ast.Call
    method: Method
    device: ast.expr | None
    paths: frozenset[ElementPath]
    derived: str | None
    site: ast.AST
    site_script: Script

    @property
    def path(self) -> ElementPath:
        """The one part that it gets; any element where there are several."""
        return next(iter(self.paths)) if len(self.paths) == 1 else (STAR,)


@once_all
def loader_loops(script: Script) -> Iterator[LoaderLoop]:
    """Every loop over a loader in source order of the loops."""
    for node in script.find(ast.For):
        for leaf in _leaves(script, _Leaf(node.iter, node.target)):
            kinds = script.values(leaf.iterable).kinds - {Kind.NONE}
            known = kinds == {Kind.LOADER}
            if known or (kinds == {Kind.UNKNOWN} and _named_loader(leaf.iterable)):
                before = _rebinding(script, node, leaf.base, leaf.iterable)
                if leaf.base is None or before is not None:
                    through = leaf.through
                    yield LoaderLoop(
                        node, leaf.iterable, leaf.target, known, leaf.prefetched, through, before, leaf.also
                    )


def _rebinding(script: Script, loop: ast.For, base: Definition | None, wrapped: ast.expr) -> ast.stmt | None:
    """The statement, before a loop, that may bind a name anew to a wrapper of what it had from `base`."""
    statements = [each for each in (wrapped, *script.ancestors(wrapped)) if isinstance(each, ast.stmt)]
    outermost = [each for each in statements if not script.inside(loop, each)][-1:]
    if base is None or not outermost or isinstance(outermost[0], ast.FunctionDef | ast.ClassDef):
        return None
    if base.how != "param" and not isinstance(base.node, ast.stmt):
        return None
    block = script.block(outermost[0])
    first = base.how == "param" or (base.node in block and block.index(base.node) < block.index(outermost[0]))
    return outermost[0] if first and position(outermost[0]) < position(loop) else None


@once_all
def endless_loops(script: Script) -> Iterator[LoaderLoop]:
    """The loops that a generator of the script gives the batches of a loader, pass after pass: `cycle(loader)`."""
    known = {loop.node for loop in loader_loops(script)}
    for node in script.find(ast.For):
        if node not in known:
            for leaf in _leaves(script, _Leaf(node.iter, node.target, endless=True)):
                if leaf.base is None and script.values(leaf.iterable).kinds == {Kind.LOADER}:
                    yield LoaderLoop(node, leaf.iterable, leaf.target, True, leaf.prefetched, leaf.through)


@once_all
def loops_of_unknown(script: Script) -> Iterator[tuple[ast.For, ast.expr]]:
    """The loops, with what they iterate, that move what they get to a device, or train with what is called data, and of
    which nothing shows that they are over a loader."""
    known = {loop.node for loop in (*loader_loops(script), *endless_loops(script))}
    for node in script.find(ast.For):
        if node in known or not (moves_parts(script, node.target, node) or _trains_with_data(script, node)):
            continue
        for iterable in (leaf.iterable for leaf in _leaves(script, _Leaf(node.iter, node.target))):
            unknown = isinstance(iterable, ast.Starred) or script.values(iterable).kinds & _HANDING_ON
            if (unknown and not _of_dict(iterable) and not _moves_itself(script, iterable)) or holds_batches(
                script, iterable
            ):
                yield node, iterable
                break


def holds_batches(script: Script, iterable: ast.expr) -> bool:
    """`for batches in zip(first, second)`: whole batches, side by side."""
    return any(
        value.kind is Kind.SEQUENCE and any(each.kind is Kind.BATCH and not each.path for each in any_item(value))
        for value in script.values(iterable)
    )


def _moves_itself(script: Script, iterable: ast.expr) -> bool:
    """Whether a generator, or an object, goes over a loader and moves its batches where it is written: that loop
    counts, not the one over it."""
    for value in script.values(iterable):
        code = value.node if value.how == "generator" else None if value.cls is None else value.cls.node
        file = value.script if value.cls is None else value.cls.script
        if not isinstance(code, ast.FunctionDef | ast.ClassDef) or file is None:
            return False
        moved = {each.site for each in transfers(file)}
        if not any(loop.node in moved and file.inside(loop.node, code) for loop in loader_loops(file)):
            return False
    return True


def _of_dict(iterable: ast.expr) -> bool:
    """`grads.items()`, `state.values()`"""
    match iterable:
        case ast.Call(func=ast.Attribute(attr="items" | "values" | "keys"), args=[]):
            return True
        case _:
            return False


def _trains_with_data(script: Script, loop: ast.For) -> bool:
    """Whether a loop over something called data or batches goes backward itself, not in a loop inside of it."""
    return _DATA.search(script.source(loop.iter).lower()) is not None and any(
        next(iter(script.loops(call)), None) is loop for call in backward_calls(script, loop)
    )


def moves_parts(script: Script, target: ast.expr, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """`x.to(device)` or `x.cuda()`, in a loop, of a name that a target binds, or of what a comprehension finds in it:
    `{key: value.to(device) for key, value in batch.items()}`."""
    bound = {each.id for each in script.within(target, ast.Name)}
    for inner in script.within(loop, ast.comprehension):
        iterated = inner.iter
        if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute) and not iterated.args:
            iterated = iterated.func.value
        if isinstance(iterated, ast.Name) and iterated.id in bound:
            bound |= {each.id for each in script.within(inner.target, ast.Name)}
    return any(
        isinstance(call.func, ast.Attribute)
        and (call.func.attr == "cuda" or (call.func.attr == "to" and not _only_converts(script, call)))
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in bound
        for call in script.within(loop, ast.Call)
    )


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What a loop's header iterates, and the part of its target that receives the items."""

    iterable: ast.expr
    target: ast.expr
    prefetched: bool = False
    through: tuple[Definition, ...] = ()
    base: Definition | None = None
    """What bound the name first, where it may have been bound to a wrapper since."""
    endless: bool = False
    """Whether generators are looked into that go over what they are given again and again."""
    also: tuple[ast.expr, ...] = ()
    """Where the same iterable stands in other branches."""


def _leaves(script: Script, leaf: _Leaf) -> Iterator[_Leaf]:
    """The innermost iterables of a loop header."""
    match leaf.iterable:
        case ast.Call() as call:
            inner = _inside(script, leaf, call)
        case ast.Name() as name:
            inner = _named(script, leaf, name)
        case ast.IfExp() as chosen:
            inner = _either(script, leaf, chosen)
        case _:
            inner = None
    if inner is None:
        yield leaf
    else:
        for each in inner:
            yield from _leaves(script, each)


def _inside(script: Script, leaf: _Leaf, call: ast.Call) -> list[_Leaf] | None:
    """What a call in a header iterates; None if it is no `enumerate`, `zip` or wrapper of loops."""
    name = script.qualname(call.func)
    if name is None and isinstance(call.func, ast.Name) and not script.definitions(call.func):
        name = f"builtins.{call.func.id}"
    if name == "builtins.zip":
        parts = [
            (each, _element(leaf.target, index), leaf.through if list_of is None else (*leaf.through, list_of))
            for index, (each, list_of) in enumerate(side_by_side(script, call))
        ]
        return [replace(leaf, iterable=each, target=part, through=through) for each, part, through in parts if part]
    prefetched = looks_prefetched(script, call)
    if name == "builtins.iter":
        wrapped = call.args[0] if len(call.args) == 1 else None
    elif name == "builtins.enumerate" or prefetched:
        wrapped = call.args[0] if call.args else given_as(call, "iterable")
    else:
        wrapped = wrapped_argument(script, call, again=bool(leaf.through), endless=leaf.endless)
    if wrapped is None or isinstance(wrapped, ast.Starred):
        return None
    target = _element(leaf.target, 1) if name == "builtins.enumerate" else leaf.target
    if target is None:
        return []
    return [replace(leaf, iterable=wrapped, target=target, prefetched=leaf.prefetched or prefetched)]


def _either(script: Script, leaf: _Leaf, chosen: ast.IfExp) -> list[_Leaf] | None:
    """What both branches iterate, if that is the same: `tqdm(loader) if verbose else loader`."""
    branches = [[*_leaves(script, replace(leaf, iterable=each))] for each in (chosen.body, chosen.orelse)]
    match branches:
        case [[_Leaf(iterable=ast.Name() as first) as found], [_Leaf(iterable=ast.Name() as second) as other]]:
            same = replace(found, iterable=second, through=other.through, also=other.also) == other
            if same and script.definitions(first) == script.definitions(second):
                return [replace(found, also=(*found.also, second, *other.also))]
    return None


def looks_prefetched(script: Script, expression: ast.expr) -> bool:
    """`accel.prefetch(loader)`, `accel.in_memory(loader)`"""
    return isinstance(expression, ast.Call) and script.runtime_name(expression.func) in _PREFETCHED


def _named(script: Script, leaf: _Leaf, name: ast.Name) -> list[_Leaf] | None:
    """What a name in a header was bound to: `bar = tqdm(loader)`, also under a condition (`if verbose: …`)."""
    definitions = script.definitions(name)
    if len(definitions) == 1 and definitions[0].how != "param":
        (definition,) = definitions
        value = definition.whole if definition.how == "assign" else definition.value if not definition.path else None
        if definition in leaf.through or definition.how not in ("assign", "with"):
            return None
        if isinstance(value, ast.IfExp):
            return [replace(leaf, iterable=value, through=(*leaf.through, definition))]
        if not isinstance(value, ast.Call):
            return None
        return _inside(script, replace(leaf, iterable=value, through=(*leaf.through, definition)), value)
    if not all(each.how in ("assign", "with", "param") and not each.path for each in definitions):
        return None
    if len(definitions) == 1:
        return None
    found = dict.fromkeys(end for each in definitions for end in _ends(script, leaf, each))
    ends = [end for end in found if end is not None]
    wrapped = [end for end in ends if end.base is None or end.iterable is not name]
    if None in found or len({(end.iterable, end.target, end.prefetched) for end in wrapped}) != 1:
        return None
    if len({(end.base, end.target) for end in ends}) != 1 or (wrapped[0].base is not None and wrapped[0].prefetched):
        return None
    ends = [*wrapped, *ends]
    return [replace(ends[0], through=(*dict.fromkeys(each for end in ends for each in end.through),))]


def _ends(script: Script, leaf: _Leaf, definition: Definition) -> list[_Leaf | None]:
    """The ways from one of several bindings of a name to what is iterated: through wrappers and other bindings of the
    same name; None for one that leads elsewhere."""
    if definition in leaf.through:
        return [None]
    if definition.how == "param":
        return [replace(leaf, base=definition, through=(*leaf.through, definition))]
    if definition.value is None:
        return [None]
    if isinstance(definition.value, ast.Call) and _inside(script, leaf, definition.value) is None:
        return [replace(leaf, base=definition, through=(*leaf.through, definition))]
    leaf = replace(leaf, iterable=definition.value, through=(*leaf.through, definition))
    while isinstance(leaf.iterable, ast.Call):
        inner = _inside(script, leaf, leaf.iterable)
        if inner is None or len(inner) != 1:
            return [None]
        (leaf,) = inner
    if isinstance(leaf.iterable, ast.Name) and leaf.iterable.id == definition.name:
        return [end for each in script.definitions(leaf.iterable) for end in _ends(script, leaf, each)]
    return [leaf]


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
            paths, derived = frozenset(value.path for value in own), {value.how for value in own}
            how = derived.pop() if len(derived) == 1 else "copy"
            yield BatchTransfer(script, call, function.attr, device, paths, how, site, file)  # type: ignore[arg-type]


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
    name = last_name(expression)
    return "type" in name.lower() or name in ("float", "long", "half", "double")
