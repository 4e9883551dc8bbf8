"""What a loop does with the parts of its batches: which it moves, which it reads on the host.

The batch is followed through names, unpacking, views and calls of the project's functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.call_sites import arguments_for
from autoaccel.analysis.classes import derived_classes
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Values, any_item, union
from autoaccel.dataflow.call_arguments import bind_argument
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.definitions import STAR, Definition, ElementPath
from autoaccel.dataflow.syntax_index import Function, breadth_first, position
from autoaccel.library_models.tensor_views import JOINING, VIEW_METHODS
from autoaccel.pytorch.batches import changed_in_place
from autoaccel.pytorch.changed_tensors import assigned
from autoaccel.pytorch.host_writes import changed_after, stores_in_objects
from autoaccel.pytorch.kept_iterators import BatchSource
from autoaccel.pytorch.loader_loops import BatchTransfer, LoaderLoop, loader_loops, transfers
from autoaccel.pytorch.recursive_moves import is_other_type
from autoaccel_codemods.prefetch.moved_parts import is_key, key_loop, left_otherwise, moved_otherwise, replaced

# Methods that keep the values exactly, or convert them the same way on every device.
_PLAIN_METHODS = VIEW_METHODS | frozenset("contiguous float long double int bool type to cuda".split())
_FACTS = frozenset("shape dtype ndim size dim numel nelement is_floating_point __len__ __class__ keys".split())
_FACT_CALLS = frozenset("len isinstance type range hasattr".split())


@dataclass(frozen=True, slots=True)
class Read:
    """One use of a part of the batch as the loader gives it: `transfer` moves it; without one the host reads it."""

    script: Script
    node: ast.expr
    path: ElementPath
    transfer: BatchTransfer | None


class BatchReads:
    """The uses of the batches of one loop, or kept iterator, in its own function and in those that it hands them to."""

    def __init__(self, script: Script, loop: BatchSource) -> None:
        self.script = script
        self.loop = loop
        self.transfers: dict[ast.Call, BatchTransfer] = {}
        self.functions: dict[tuple[Script, Function | None], list[tuple[Script, ast.Call]]] = {}
        """The functions that see the batch, with the calls that hand it over."""
        self._names: dict[Script, set[ast.Name]] = {}  # not looked at yet
        self._is_only_loader = sum(each.node is loop.node for each in loader_loops(script)) <= 1
        self._follow_into(script, script.function(loop.node))
        self.reads: tuple[Read, ...] = tuple(self._collect())

    def _follow_into(self, script: Script, function: Function | None) -> list[tuple[Script, ast.Call]]:
        if script not in self._names:
            self.transfers |= {each.call: each for each in transfers(script) if each.site in self.loop.sites}
            added = {each.target for each in script.find(ast.AugAssign)}
            names = script.find(ast.Name)
            self._names[script] = {each for each in names if isinstance(each.ctx, ast.Load) or each in added}
        return self.functions.setdefault((script, function), [])

    def _collect(self) -> list[Read]:
        found: list[Read] = []
        for taken in self.loop.sites:
            if isinstance(taken, ast.Call):
                found.extend(self._follow(self.script, taken, ()))
        done: set[tuple[Script, Function | None]] = set()
        while pending := [place for place in self.functions if place not in done]:
            script, function = pending[0]
            done.add(pending[0])
            names = self._names[script]
            for name in script.within(script.tree if function is None else function, ast.Name):
                if name in names and self._function_of(script, name) is function:
                    names.remove(name)
                    found.extend(self._of_name(script, name))
        stored = [each for each in map(replaced, self.transfers.values()) if each is not None]
        return [
            read
            for read in found
            if not any(
                _covers(path, read.path)
                and self._runs_before(place, (read.script, read.node))
                and not self._is_kept_from(place, read)
                for place, path in stored
            )
        ]

    def _is_kept_from(self, place: ScriptNode, read: Read) -> bool:
        """Whether a read is of what was given a name of its own before the place: `labels = batch["labels"]`."""
        (script, node), name = place, read.node
        if not isinstance(name, ast.Name) or read.script is not script:
            return False
        items = [each for each in script.within(node, ast.Subscript) if isinstance(each.ctx, ast.Store)]
        replacing = {each.value.id for each in items if isinstance(each.value, ast.Name)}
        pending, seen = [name], {name}
        for each in pending:  # grows while it is walked
            bound = script.definitions(each) if each.id not in replacing else ()
            if any(one.how == "assign" and position(one.node) < position(node) for one in bound):
                return True
            parts = [part for one in bound if one.value is not None for part in script.within(one.value, ast.Name)]
            pending += [part for part in parts if part not in seen]
            seen.update(parts)
        return False

    def _runs_before(
        self, place: ScriptNode, read: ScriptNode, seen: frozenset[tuple[ScriptNode, ScriptNode]] = frozenset()
    ) -> bool:
        """Whether a place has surely run for a batch where it is read: here, or in a function that was handed it."""
        (script, node), (where, use) = place, read
        function, other = script.function(node), self._function_of(where, use)
        if script is where and function is other:
            return position(use) > (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        if (place, read) in seen:
            return False
        seen |= {(place, read)}
        if any(
            self._runs_before(call, read, seen)
            for call in self.functions.get((script, function), ())
            if not any(True for _ in self._choices(*call))
        ):
            return True
        calls = self.functions.get((where, other), ())
        return bool(calls) and all(self._runs_before(place, call, seen) for call in calls)

    def _choices(self, script: Script, node: ast.AST) -> Iterator[ast.AST]:
        """What decides, in its function or within the loop, whether a place runs for a batch."""
        for ancestor in script.ancestors(node):
            if self.is_around(script, ancestor) or isinstance(ancestor, ast.FunctionDef | ast.Lambda):
                return
            if isinstance(ancestor, ast.If | ast.IfExp | ast.BoolOp | ast.For | ast.While | ast.Try | ast.Match):
                yield ancestor

    def _function_of(self, script: Script, node: ast.AST) -> Function | None:
        """The followed function whose code a node is part of; a closure's names belong to the function around it."""
        function = script.function(node)
        while function is not None and (script, function) not in self.functions:
            function = script.function(function)
        return function

    def _of_name(self, script: Script, name: ast.Name) -> Iterator[Read]:
        before = script.reaching_definitions.before_addition(name) if isinstance(name.ctx, ast.Store) else ()
        values = union(map(script.inference.definition, before)) if before else script.values(name)
        batches = [value for value in values if value.kind is Kind.BATCH and value.node in self.loop.sites]
        if not batches or (not self._is_only_loader and not _may_come_from(script, name, self.loop)):
            return
        if self._is_moved(values) or self._is_of_moved(script, name):
            return  # moved under a condition: where it is not, nothing is moved ahead either
        for path in sorted({value.path for value in batches}, key=str):
            yield from self._follow(script, name, path)

    def _is_of_moved(self, script: Script, name: ast.Name, seen: frozenset[ast.Name] = frozenset()) -> bool:
        """Whether a name is of views of a part that a condition moves: `if cuda: x = x.cuda()`, `x = x.flatten(1)`."""
        roots = [(file, _root(value)) for each in script.definitions(name) for file, value in self._bound(script, each)]
        return bool(roots) and all(
            root is not None
            and root not in seen
            and (self._is_moved(file.values(root)) or self._is_of_moved(file, root, seen | {name}))
            for file, root in roots
        )

    def _bound(self, script: Script, definition: Definition) -> Iterator[tuple[Script, ast.expr | None]]:
        """What gives a name parts of the batch, by one of its definitions; None where that is no expression."""
        if definition.how != "param":
            yield script, assigned(definition) if definition.how == "assign" else None
            return
        for file, given in arguments_for(script, definition.scope.node, definition.name):
            if any(value.kind is Kind.BATCH and value.node in self.loop.sites for value in file.values(given)):
                yield file, given

    def _follow(self, script: Script, name: ast.Name | ast.Call, path: ElementPath) -> Iterator[Read]:
        """Outwards from a name, or a call of `next`, until it is moved, asked for a fact, given a name, handed over, or
        used."""
        moves = (each for each in self.transfers.values() if each.script is script)
        if isinstance(name, ast.Name) and (
            is_key(script, name) or any(is_other_type(script, name, each) for each in moves)
        ):
            return
        node: ast.expr = name
        while True:
            parent = script.parent(node)
            match parent:
                case ast.Subscript(value=value, slice=index) if value is node:
                    if isinstance(parent.ctx, ast.Store) and self._replaces(script, parent, path):
                        return
                    if isinstance(index, ast.Constant) and isinstance(index.value, int | str):
                        path = (*path, index.value)
                    node = parent
                case ast.Attribute(attr=attr) if attr in _FACTS:
                    return
                case ast.Attribute(attr=attr):
                    call = script.parent(parent)
                    if isinstance(call, ast.Call) and call.func is parent:
                        if call in self.transfers:
                            transfer = self.transfers[call]
                            yield Read(script, call, path if path in transfer.paths else transfer.path, transfer)
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
                    yield Read(script, name, path, None)
                    return
                case ast.Call(func=ast.Name(id=called)) if called in _FACT_CALLS:
                    return
                case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                    return
                case ast.List() | ast.Tuple() if self._joins(script, script.parent(parent), parent):
                    node = parent
                case ast.Call() if self._joins(script, parent, node):
                    node, path = parent, _joined_path(script, parent, path)
                case ast.Call(func=function) if script.qualname(function) == "torch.is_tensor":
                    return
                case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate"), args=[first]) if first is node:
                    node = parent
                case ast.IfExp(test=test) if node is not test and moved_otherwise(parent, name, self.transfers):
                    return
                case ast.IfExp(test=test) if node is test:
                    return
                case ast.Assign(targets=[ast.Subscript()]) if left_otherwise(script, parent, name, self.transfers):
                    return
                case ast.comprehension() | ast.For():
                    return
                case ast.Assign(targets=[target]) if not stores_in_objects([target]):
                    if _is_lost(script, target):
                        yield Read(script, name, path, None)
                    return
                case ast.Tuple() if _unpacks(script, parent):
                    return
                case ast.Delete() | ast.Expr():
                    return
                case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(), *iterables]) if node in iterables:
                    return
                case ast.Call() | ast.keyword() if self._hands_over(script, node, parent):
                    return
                case _:
                    yield Read(script, name, path, None)
                    return

    def _replaces(self, script: Script, item: ast.Subscript, path: ElementPath) -> bool:
        """Whether an assignment puts another element into a batch, or its copy in the place of a part of one:
        `images[0] = images[0].cuda()`."""
        statement = script.parent(item)
        if not path:
            return not isinstance(statement, ast.AugAssign)
        for each in self.transfers.values():
            place = replaced(each) if each.script is script else None
            if place is not None and (place[0][1] is statement or script.statement(each.call) is statement):
                return True
        return False

    def _joins(self, script: Script, call: ast.AST | None, parts: ast.expr) -> bool:
        """Whether a call puts parts of one batch together, on the device as on the host: of several loaders' batches
        one might be left on the host."""
        if not isinstance(call, ast.Call) or script.qualname(call.func) not in JOINING or call.args[:1] != [parts]:
            return False
        return self._is_only_loader and all(value.kind is Kind.BATCH for value in script.values(call))

    def _hands_over(self, script: Script, argument: ast.expr, parent: ast.Call | ast.keyword) -> bool:
        """Whether a call only passes the batch on to functions of the project, where its uses can be followed."""
        call = parent if isinstance(parent, ast.Call) else script.parent(parent)
        if not isinstance(call, ast.Call) or argument is call.func:
            return False
        callees = script.callees(call) if _knows_callees(script, call) else ()
        if not callees or not all(self._is_followed(script, call, argument, *callee) for callee in callees):
            return False
        for file, function in sorted(callees, key=lambda callee: (str(callee[0].path), position(callee[1]))):
            handing = self._follow_into(file, function)
            if (script, call) not in handing:
                handing.append((script, call))
        return True

    def _is_followed(
        self, script: Script, call: ast.Call, argument: ast.expr, file: Script, function: ast.FunctionDef
    ) -> bool:
        """Whether every use of the parameter that gets `argument` is known to be this loop's batch."""
        bound = is_bound(file, function, script, call)
        scope = file.reaching_definitions.scopes[function]
        for name, definitions in scope.definitions.items():
            if bind_argument(function, call, name, bound=bound) is argument:
                return all(
                    any(value.kind is Kind.BATCH and value.node in self.loop.sites for value in file.values(use))
                    for each in definitions
                    if each.how == "param"
                    for use in file.uses(each)
                )
        return False

    def passed(self, script: Script, name: ast.Name) -> ast.expr | None:
        """What the loop's function passes for a parameter of one that it hands the batch to, itself or by others."""
        seen: set[Function] = set()
        while (function := script.function(name)) is not None and function not in seen:
            seen.add(function)
            if any(each.how != "param" for each in script.definitions(name)):
                return None
            given = list(self._given(script, function, name.id))
            if not given or len({(file, file.source(each)) for file, each in given}) > 1:
                return None
            file, found = given[0]
            if all(
                file is self.script and file.function(each) is file.function(self.loop.node) for file, each in given
            ):
                return found
            if not isinstance(found, ast.Name):
                return found if file is self.script and self._is_of_same_object(file.function(found)) else None
            script, name = file, found
        return None

    def _is_of_same_object(self, function: Function | None) -> bool:
        """Whether a method is called on the object of the loop's own method: `self.step(batch)`."""
        outer = self.script.function(self.loop.node)
        receivers = [each.args.args[0].arg for each in (outer, function) if each is not None and each.args.args]
        calls = self.functions.get((self.script, function), [])
        return len(set(receivers)) == 1 < len(receivers) and all(
            file is self.script
            and file.function(call) is outer
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == receivers[0]
            for file, call in calls
        )

    def _given(self, script: Script, function: Function, parameter: str) -> Iterator[tuple[Script, ast.expr]]:
        """What calls that hand over the batch pass besides, without those that a function hands on to itself."""
        for file, call in self.functions.get((script, function), ()):
            found = bind_argument(function, call, parameter, bound=is_bound(script, function, file, call))
            itself = file.function(call) is function and isinstance(found, ast.Name) and found.id == parameter
            if found is not None and not itself:
                yield file, found

    def returning_moved(self, transfer: BatchTransfer) -> Iterator[tuple[Script, ast.Call]]:
        """The calls, up to the loop's function, that hand a batch on to where it is moved, and give it back so."""
        pending: list[tuple[Script, ast.Call]] = [(transfer.script, transfer.call)]
        for script, inner in pending:
            function = script.function(inner)
            for file, call in self.functions.get((script, function), ()):
                itself = file.function(call) is function
                if not itself and (file, call) not in pending and self._holds_moved(file.values(call)):
                    pending.append((file, call))
                    yield file, call

    def _holds_moved(self, values: Values) -> bool:
        items = (any_item(value) for value in values if value.items)
        return self._is_moved(values) or any(self._holds_moved(each) for each in items)

    def _is_moved(self, values: Values) -> bool:
        return any(value.how == "moved" and value.node in self.transfers for value in values)

    def shared_copies(self) -> frozenset[ElementPath]:
        """Parts of the batch of which there are several tensors, one of which is changed in place: each move makes one,
        and the part itself is another, which the host may change while it is copied.

        On the device every further move gives the same tensor, so a change of one would show in the others.
        """
        changed = (each for each in self.transfers.values() if changed_after(each.script, each))
        several = {path[:1] for each in changed for path in each.paths}
        if not any(map(self._changes_copies, self._names)):
            return frozenset(several)
        seen: set[ElementPath] = set()
        for transfer in self.transfers.values():
            inner = self._in_inner_loop(transfer.script, transfer.call)
            function = transfer.script.function(transfer.call)
            handing = self.functions.get((transfer.script, function), [])
            handing = [(file, call) for file, call in handing if file.function(call) is not function]
            again = len(handing) > 1 or any(self._in_inner_loop(*call) for call in handing)
            parts = {path[:1] for path in transfer.paths}
            if not seen.isdisjoint(parts) or again or (inner and key_loop(transfer) is None):
                several |= parts
            seen |= parts
        return frozenset(several)

    def _in_inner_loop(self, script: Script, node: ast.AST) -> bool:
        """Whether code runs several times for one batch."""
        same_function = script is self.script and script.function(node) is script.function(self.loop.node)
        loops = [each for each in script.loops(node) if each not in self.loop.sites]
        return any(not (same_function and self.is_around(script, each)) for each in loops)

    def is_around(self, script: Script, node: ast.AST) -> bool:
        """Whether batches are taken within a place, all of them."""
        return script is self.script and all(script.inside(each, node) for each in self.loop.sites)

    def _changes_copies(self, script: Script) -> bool:
        """Whether a file may change a moved part of the batch in place, or ask for its gradient."""
        for owner, _ in (*changed_in_place(script), *_gradients(script)):
            if self._is_moved(script.values(owner)):
                return True
        moved = {
            (script.function(transfer.call), name.id)
            for transfer in self.transfers.values()
            if transfer.script is script and isinstance(statement := script.statement(transfer.call), ast.Assign)
            for target in statement.targets
            for name in breadth_first(target)
            if isinstance(name, ast.Name)
        }
        return any(
            isinstance(each.target, ast.Name) and (script.function(each), each.target.id) in moved
            for each in script.find(ast.AugAssign)
        )


def _knows_callees(script: Script, call: ast.Call) -> bool:
    """Whether a call enters no function that is not seen: a method that its class leaves to derived ones is theirs."""
    if Kind.UNKNOWN not in script.values(call.func).kinds:
        return True
    cls = script.enclosing_class(call)
    own = (
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "self"
    )
    return own and cls is not None and derived_classes(script.class_ref(cls)).missing is None


def _covers(path: ElementPath, other: ElementPath) -> bool:
    return all(left in (right, STAR) for left, right in zip(path, other, strict=False)) and len(path) <= len(other)


def _may_come_from(script: Script, name: ast.Name, loop: BatchSource) -> bool:
    """Whether, in a loop over several loaders, a name's data may stem from this one."""
    if not isinstance(loop, LoaderLoop):
        return True
    own = {node.id for node in breadth_first(loop.target) if isinstance(node, ast.Name)}
    return name.id in own or any(each.node is not loop.node for each in script.definitions(name))


def _gradients(script: Script) -> Iterator[tuple[ast.expr, ast.AST]]:
    for attribute in script.find(ast.Attribute):
        if attribute.attr == "requires_grad_" or (
            attribute.attr == "requires_grad" and isinstance(attribute.ctx, ast.Store)
        ):
            yield attribute.value, attribute


def _root(value: ast.expr | None) -> ast.Name | None:
    """The tensor whose views and methods give a value: `x` for `x[:, 0].view(-1)`."""
    while isinstance(value, ast.Call | ast.Subscript | ast.Attribute):
        value = value.func if isinstance(value, ast.Call) else value.value
    return value if isinstance(value, ast.Name) else None


def _joined_path(script: Script, call: ast.Call, path: ElementPath) -> ElementPath:
    return next((value.path for value in script.values(call) if value.path == path[: len(value.path)]), path)


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
        case ast.Assign(targets=[ast.Tuple() as target]):
            return not stores_in_objects([target])
        case _:
            return False
