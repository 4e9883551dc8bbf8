"""What a loop does with the parts of its batches: which it moves, which it reads on the host.

The batch is followed through names, unpacking, views and calls of functions of the same file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoaccel.analysis.call_sites import is_bound
from autoaccel.dataflow.abstract_values import Kind, union
from autoaccel.dataflow.call_arguments import bind_argument
from autoaccel.dataflow.definitions import STAR, ElementPath
from autoaccel.dataflow.syntax_index import Function, breadth_first, position
from autoaccel.library_models.tensor_views import VIEW_METHODS
from autoaccel.pytorch.batches import changed_in_place, root
from autoaccel.pytorch.host_writes import changed_after
from autoaccel.pytorch.loader_loops import BatchTransfer, LoaderLoop, loader_loops, transfers_of

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

# Methods that keep the values exactly, or convert them the same way on every device.
_PLAIN_METHODS = VIEW_METHODS | frozenset("contiguous float long double int bool type to cuda".split())
_FACTS = frozenset("shape dtype ndim size dim numel nelement is_floating_point __len__ keys".split())
_FACT_CALLS = frozenset("len isinstance type range".split())


@dataclass(frozen=True, slots=True)
class Read:
    """One use of a part of the batch as the loader gives it: `transfer` moves it; without one the host reads it."""

    node: ast.expr
    path: ElementPath
    transfer: BatchTransfer | None


class BatchReads:
    """The uses of one loop's batches, in its own function and in those that it hands them to."""

    def __init__(self, script: Script, loop: LoaderLoop) -> None:
        self.script = script
        self.loop = loop
        self.transfers = {transfer.call: transfer for transfer in transfers_of(script, loop)}
        self.functions: dict[Function | None, list[ast.Call]] = {script.function(loop.node): []}
        """The functions that see the batch, with the calls that hand it over."""
        self._is_only_loader = sum(each.node is loop.node for each in loader_loops(script)) == 1
        self.reads: tuple[Read, ...] = tuple(self._collect())

    def _collect(self) -> list[Read]:
        stored = [each for each in (_stored(self.script, move) for move in self.transfers.values()) if each is not None]
        added = {each.target for each in self.script.find(ast.AugAssign)}
        names = [name for name in self.script.find(ast.Name) if isinstance(name.ctx, ast.Load) or name in added]
        found: list[Read] = []
        done: set[Function | None] = set()
        while pending := [function for function in self.functions if function not in done]:
            done.add(pending[0])
            others: list[ast.Name] = []
            for name in names:
                if self._function_of(name) is pending[0]:
                    found.extend(self._of_name(name))
                else:
                    others.append(name)
            names = others
        return [
            read
            for read in found
            if not any(_covers(path, read.path) and position(read.node) > where for path, where in stored)
        ]

    def _function_of(self, name: ast.Name) -> Function | None:
        """The followed function whose code a name is part of; a closure's names belong to the function around it."""
        function = self.script.function(name)
        while function is not None and function not in self.functions:
            function = self.script.function(function)
        return function

    def _of_name(self, name: ast.Name) -> Iterator[Read]:
        before = self.script.reaching_definitions.before_addition(name) if isinstance(name.ctx, ast.Store) else ()
        values = union(map(self.script.inference.definition, before)) if before else self.script.values(name)
        batches = [value for value in values if value.kind is Kind.BATCH and value.node is self.loop.node]
        if not batches or (not self._is_only_loader and not _may_come_from(self.script, name, self.loop)):
            return
        if any(value.how == "moved" and value.node in self.transfers for value in values):
            return  # moved under a condition: where it is not, nothing is moved ahead either
        for path in sorted({value.path for value in batches}, key=str):
            yield from self._follow(name, path)

    def _follow(self, name: ast.Name, path: ElementPath) -> Iterator[Read]:
        """Outwards from a name until it is moved, asked for a fact, given a name, handed over, or used."""
        node: ast.expr = name
        while True:
            parent = self.script.parent(node)
            match parent:
                case ast.Subscript(value=value, slice=index) if value is node:
                    replaced = isinstance(parent.ctx, ast.Store) and not path
                    if replaced and not isinstance(self.script.parent(parent), ast.AugAssign):
                        return
                    if isinstance(index, ast.Constant) and isinstance(index.value, int | str):
                        path = (*path, index.value)
                    node = parent
                case ast.Attribute(attr=attr) if attr in _FACTS:
                    return
                case ast.Attribute(attr=attr):
                    call = self.script.parent(parent)
                    if isinstance(call, ast.Call) and call.func is parent:
                        if call in self.transfers:
                            yield Read(call, self.transfers[call].path, self.transfers[call])
                            return
                        if attr in ("items", "values"):
                            node, path = call, (*path, STAR)
                            continue
                        if attr in _PLAIN_METHODS:
                            node = call
                            continue
                    elif attr == "data":
                        node = parent
                        continue
                    yield Read(name, path, None)
                    return
                case ast.Call(func=ast.Name(id=called)) if called in _FACT_CALLS:
                    return
                case ast.Call(func=function) if self.script.qualname(function) == "torch.is_tensor":
                    return
                case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate"), args=[first]) if first is node:
                    node = parent
                case ast.IfExp(test=test) if node is not test and _moved_otherwise(parent, name, self.transfers):
                    return
                case ast.IfExp(test=test) if node is test:
                    return
                case ast.comprehension() | ast.For():
                    return
                case ast.Assign(targets=[target]) if not isinstance(target, ast.Attribute | ast.Subscript):
                    if _is_lost(self.script, target):
                        yield Read(name, path, None)
                    return
                case ast.Tuple() if _unpacks(self.script, parent):
                    return
                case ast.Delete() | ast.Expr():
                    return
                case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(), *iterables]) if node in iterables:
                    return
                case ast.Call() | ast.keyword() if self._hands_over(node, parent):
                    return
                case _:
                    yield Read(name, path, None)
                    return

    def _hands_over(self, argument: ast.expr, parent: ast.Call | ast.keyword) -> bool:
        """Whether a call only passes the batch on to functions of this file, where its uses can be followed."""
        call = parent if isinstance(parent, ast.Call) else self.script.parent(parent)
        if not isinstance(call, ast.Call) or argument is call.func:
            return False
        callees = self.script.callees(call)
        if not callees or any(
            file is not self.script or not self._follows_parameter(call, argument, function)
            for file, function in callees
        ):
            return False
        for function in sorted((function for _, function in callees), key=position):
            handing = self.functions.setdefault(function, [])
            if call not in handing:
                handing.append(call)
        return True

    def passed(self, name: ast.Name) -> ast.expr | None:
        """What the loop passes for a parameter of the one function that it hands the batch to in a single call."""
        for function, calls in self.functions.items():
            if len(calls) == 1 and self.script.function(name) is function is not None:
                bound = is_bound(self.script, function, self.script, calls[0])
                found = bind_argument(function, calls[0], name.id, bound=bound)
                return found if self.script.function(calls[0]) is self.script.function(self.loop.node) else None
        return None

    def _follows_parameter(self, call: ast.Call, argument: ast.expr, function: ast.FunctionDef) -> bool:
        """Whether every use of the parameter that gets `argument` is known to be this loop's batch."""
        bound = is_bound(self.script, function, self.script, call)
        scope = self.script.reaching_definitions.scopes[function]
        for name, definitions in scope.definitions.items():
            if bind_argument(function, call, name, bound=bound) is argument:
                return all(
                    any(value.kind is Kind.BATCH and value.node is self.loop.node for value in self.script.values(use))
                    for each in definitions
                    if each.how == "param"
                    for use in self.script.uses(each)
                )
        return False

    def shared_copies(self) -> frozenset[ElementPath]:
        """Parts of the batch of which there are several tensors, one of which is changed in place: each move makes one,
        and the part itself is another, which the host may change while it is copied.

        On the device every further move gives the same tensor, so a change of one would show in the others.
        """
        several = {each.path[:1] for each in self.transfers.values() if changed_after(self.script, each)}
        if not self._changes_copies():
            return frozenset(several)
        seen: set[ElementPath] = set()
        for transfer in self.transfers.values():
            inner = self._in_inner_loop(transfer.call)
            handing = self.functions.get(self.script.function(transfer.call), [])
            again = len(handing) > 1 or any(self._in_inner_loop(call) for call in handing)
            if transfer.path[:1] in seen or again or (inner and not _key_loop(self.script, transfer)):
                several.add(transfer.path[:1])
            seen.add(transfer.path[:1])
        return frozenset(several)

    def _in_inner_loop(self, node: ast.AST) -> bool:
        """Whether code runs several times for one batch."""
        same_function = self.script.function(node) is self.script.function(self.loop.node)
        loops = [each for each in self.script.loops(node) if each is not self.loop.node]
        return any(not same_function or self.script.inside(each, self.loop.node) for each in loops)

    def _changes_copies(self) -> bool:
        """Whether a moved part of the batch may be changed in place, or asked for its gradient."""
        script = self.script
        for owner, _ in (*changed_in_place(script), *_gradients(script)):
            if any(value.how == "moved" and value.node in self.transfers for value in script.values(owner)):
                return True
        moved = {
            (script.function(transfer.call), name.id)
            for transfer in self.transfers.values()
            if isinstance(statement := script.statement(transfer.call), ast.Assign)
            for target in statement.targets
            for name in breadth_first(target)
            if isinstance(name, ast.Name)
        }
        return any(
            isinstance(each.target, ast.Name) and (script.function(each), each.target.id) in moved
            for each in script.find(ast.AugAssign)
        )


def _stored(script: Script, transfer: BatchTransfer) -> tuple[ElementPath, tuple[int, int]] | None:
    """The part that `batch[key] = batch[key].to(device)` replaces by its copy, and from where on."""
    statement = script.statement(transfer.call)
    match statement:
        case ast.Assign(targets=[ast.Subscript()], value=value) if value is transfer.call:
            end = script.parent(statement) if _key_loop(script, transfer) else statement
            assert end is not None
            return transfer.path, (end.end_lineno, end.end_col_offset)  # type: ignore[attr-defined]
        case _:
            return None


def _key_loop(script: Script, transfer: BatchTransfer) -> bool:
    """Whether a move by variable key runs over all keys: `for k in batch: batch[k] = batch[k].to(device)`."""
    match transfer.call.func:
        case ast.Attribute(value=ast.Subscript(value=ast.Name() as owner, slice=ast.Name() as key)):
            loop = script.parent(script.statement(transfer.call))
            return (
                isinstance(loop, ast.For)
                and isinstance(loop.target, ast.Name)
                and loop.target.id == key.id
                and (keys := root(loop.iter)) is not None
                and keys.id == owner.id
            )
        case _:
            return False


def _covers(path: ElementPath, other: ElementPath) -> bool:
    return all(left in (right, STAR) for left, right in zip(path, other, strict=False)) and len(path) <= len(other)


def moves_whole_part(script: Script, transfer: BatchTransfer) -> bool:
    """Whether all of one element (or of the whole batch) is moved, not a selection of it."""
    if any(step != STAR for step in transfer.path[1:]):
        return False
    receiver = transfer.call.func.value if isinstance(transfer.call.func, ast.Attribute) else None
    dynamic = not transfer.path and isinstance(receiver, ast.Subscript)
    if dynamic or (STAR in transfer.path and transfer.derived is not None):
        return dynamic and _key_loop(script, transfer)
    for ancestor in script.ancestors(transfer.call):
        match ancestor:
            case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) | ast.DictComp(generators=parts):
                if any(not _asks_type(test) for part in parts for test in part.ifs):
                    return False
    return True


def _asks_type(test: ast.expr) -> bool:
    match test:
        case ast.Call(func=ast.Name(id="isinstance") | ast.Attribute(attr="is_tensor") | ast.Name(id="hasattr")):
            return True
        case _:
            return False


def _may_come_from(script: Script, name: ast.Name, loop: LoaderLoop) -> bool:
    """Whether, in a loop over several loaders, a name's data may stem from this one."""
    own = {node.id for node in breadth_first(loop.target) if isinstance(node, ast.Name)}
    return name.id in own or any(each.node is not loop.node for each in script.definitions(name))


def _gradients(script: Script) -> Iterator[tuple[ast.expr, ast.AST]]:
    for attribute in script.find(ast.Attribute):
        if attribute.attr == "requires_grad_" or (
            attribute.attr == "requires_grad" and isinstance(attribute.ctx, ast.Store)
        ):
            yield attribute.value, attribute


def _moved_otherwise(choice: ast.IfExp, name: ast.Name, transfers: dict[ast.Call, BatchTransfer]) -> bool:
    """`v.to(device) if torch.is_tensor(v) else v`: what stays is no tensor, or there is no device at all."""
    moved = [node for node in breadth_first(choice.body) if isinstance(node, ast.Call) and node in transfers]
    return bool(moved) and isinstance(choice.orelse, ast.Name) and choice.orelse is name


def _is_lost(script: Script, target: ast.expr) -> bool:
    """Whether a name is bound of whose uses nothing is known."""
    return any(
        {value.kind for value in script.values(use)} == {Kind.UNKNOWN}
        for name in script.within(target, ast.Name)
        for definition in script.definitions(name)
        for use in (*script.uses(definition), *script.additions(definition))
    )


def _unpacks(script: Script, parent: ast.Tuple) -> bool:
    """`x, y = a, b`: each side has names of its own, which are followed on their own."""
    match script.parent(parent):
        case ast.Assign(targets=[ast.Tuple()]):
            return True
        case _:
            return False
