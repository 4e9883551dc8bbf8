"""Whether the host may write to a batch while the copy of it to the device is still under way.

Every in-place change in reach is traced back to the memory that it writes to, and put in order with the move: through
helpers, objects that keep the batch, views and NumPy. Where the batch goes out of sight, changes of what is not known
count as well, and code that is not seen counts as one that writes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.call_sites import arguments_for, may_be_left_out
from autoaccel.analysis.callables import called_name
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import UNKNOWN, Kind, Value, any_item
from autoaccel.dataflow.call_arguments import bind_argument
from autoaccel.dataflow.completeness import Answer, Incomplete, ScriptNode
from autoaccel.dataflow.definitions import STAR, Definition, ElementPath
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import Function, last_name, position
from autoaccel.library_models.in_place_operations import only_reads
from autoaccel.library_models.python_names import BUILTINS
from autoaccel.library_models.tensor_operations import METHODS, STORING
from autoaccel.pytorch.batches import changed_in_place
from autoaccel.pytorch.host_memory import HOLDING, comes_around, is_sum, memory
from autoaccel.pytorch.loader_loops import BatchTransfer, transfers
from autoaccel.pytorch.memory_aliases import made_of

_CALLED = frozenset({"map", "starmap", "apply", "tree_map", "setattr"})
_MAPPING = frozenset({"map", "starmap", "tree_map"})
_WRAPPERS = frozenset({"torch.autograd.Variable", "builtins.tuple", "builtins.list"})
_CONTAINERS = frozenset({Kind.MAPPING, Kind.SEQUENCE})
_GROWING = _CONTAINERS | {Kind.TENSOR}  # to a tensor no sequence is added
_SEEN = frozenset({Kind.EXTERNAL, Kind.MODULE, Kind.LOSS_FUNCTION, Kind.OPTIMIZER, Kind.DEVICE, Kind.DTYPE})

# `buffer.pin_memory()`, `torch.empty((8, 4), pin_memory=True)`
_PINNING = re.compile(
    r"(?<!accel)(?<!accel_runtime)\.pin_memory\s*\(|\b(?:empty|zeros|ones|full|tensor|rand\w*|arange|\w+_like|new_\w+)\s*"
    r"\((?:[^()]|\([^()]*\))*?\bpin_memory\s*=\s*(?!False)"
)
_CHANGED = "the host tensor is changed after its copy has begun"
_UNORDERED = "the host tensor may be changed after its copy has begun: who else does it is not seen"
_KEPT = "the host tensor is kept, and may be changed after its copy has begun"
_MAYBE_CHANGED = "the host tensor is kept, and what may be it is changed after its copy has begun"
_REFILLED = "batches may lie in page-locked memory of the script's own, which is filled again while it is copied"
_HANDED_ON = "after its copy has begun, the host tensor goes to code that is not seen and may change it"


@once
def changed_after(script: Script, transfer: BatchTransfer) -> str | None:
    """Why the host tensor may change while it is still being copied."""
    return _HostTensor(script, transfer).problem() or _own_pinned_memory(transfer.site_script)


@once
def _own_pinned_memory(script: Script) -> str | None:
    """Why batches may lie in page-locked memory that their source fills again: it is asked for outside of loaders."""
    try:
        texts = script.project.texts_with_word(script, "pin_memory")
        return _REFILLED if any("pin_memory" in text and _PINNING.search(text) for text in texts) else None
    except Incomplete as unseen:
        return f"{_REFILLED}: {unseen}"


class _HostTensor:
    """The source of one move."""

    def __init__(self, script: Script, transfer: BatchTransfer) -> None:
        self.script = script
        self.transfer = transfer
        self._handed: list[tuple[Script, ast.Call]] = []
        self._reached: dict[Script, None] = dict.fromkeys((script, transfer.site_script))
        """The files with code that is handed the tensor; where it is not kept, no others can change it."""

    def problem(self) -> str | None:
        unknown: list[ScriptNode] = []
        kept, files = self._is_kept, tuple(self._reached)
        if kept:
            try:
                files = self.script.project.related(self.script)
            except Incomplete as unseen:
                return f"{_KEPT}: {unseen}"
        for file in files:
            for owner, node in changed_in_place(file):
                found = memory(file, owner)
                if not any(value is UNKNOWN or self._is_part(value, node) for value in found):
                    continue
                if self._replaces(file, node) or not self._may_follow(file, node):
                    continue
                if self._is_copy(file, owner) or self._is_copy_by_now(file, owner):
                    continue
                if any(self._is_part(value, node) for value in found):
                    return _CHANGED if self._follows(file, node) else _UNORDERED
                if self._was_held(file, owner):
                    return _MAYBE_CHANGED
                if not is_sum(file, owner, node):
                    unknown.append((file, node))
        if kept and unknown:
            return _MAYBE_CHANGED
        return _HANDED_ON if any(self._may_follow(*each) for each in self._handed) else None

    def _is_part(self, value: Value, node: ast.AST | None = None) -> bool:
        """Whether a batch, or a part of one, may have memory in common with what is moved."""
        if value.kind is not Kind.BATCH or value.node is not self.transfer.site:
            return False
        paths = self.transfer.paths
        if not value.path and all(paths) and isinstance(node, ast.Subscript | ast.AugAssign):
            return False  # an item of the container is replaced, no tensor is changed
        return any(_overlap(value.path, path) for path in paths)

    def _was_held(self, file: Script, owner: ast.expr) -> bool:
        """Whether what is not known was bound to the tensor, or made of it: `memoryview(x.numpy())`."""
        pending, seen = [owner], {owner}
        for each in pending:
            bound = file.definitions(each) if isinstance(each, ast.Name) else ()
            definitions = file.reaching_definitions.before_additions(bound)
            if any(made.node is self.transfer.site for made in definitions):
                return True
            if self._is_held(file, each) and not self._is_given_copy(file, definitions):
                return True
            found = [*made_of(file, each), *(made.value for made in definitions if made.value is not None)]
            pending.extend(part for part in found if part not in seen)
            seen.update(found)
        return False

    def _replaces(self, file: Script, node: ast.AST) -> bool:
        """`batch[key] = batch[key].to(device)`: the batch gets the copy, nothing is written to the tensor; nor is it by
        a list or dict that gets another element, `inputs += (target,)`."""
        if isinstance(node, ast.AugAssign):
            kinds, added = file.values(node.target).kinds, file.values(node.value).kinds
            return bool(kinds) and (kinds <= _CONTAINERS or (kinds <= _GROWING and added <= {Kind.SEQUENCE}))
        statement = file.parent(node) if isinstance(node, ast.Subscript) else None
        if not isinstance(node, ast.Subscript) or not isinstance(statement, ast.Assign):
            return False
        kinds = file.values(node.value).kinds
        return (bool(kinds) and kinds <= _CONTAINERS) or any(
            value.kind is Kind.TENSOR and value.how == "moved" for value in file.values(statement.value)
        )

    def _is_copy(self, file: Script, owner: ast.expr) -> bool:
        """`if cuda: x = x.cuda()`, and then `x[…] = …`: a name is the copy wherever one has begun, and the tensor on
        the host only where it was not moved."""
        if file is not self.script or file is not self.transfer.site_script or not isinstance(owner, ast.Name):
            return False
        pending, moved = [owner], False
        for name in pending:
            for each in file.reaching_definitions.before_additions(file.definitions(name)):
                of = None if each.whole is None else self._wrapped(each.whole)
                if of is self.transfer.call:
                    moved = True
                elif isinstance(of, ast.Name) and of.id == name.id:
                    pending += [of] if of not in pending else []
                elif not self._is_the_batch(each):
                    return False
        return moved

    def _is_copy_by_now(self, where: Script, expression: ast.expr, seen: frozenset[Definition] = frozenset()) -> bool:
        """The same where it is read: below the move and as often as that, so never before it; or as a parameter."""
        bound = where.definitions(expression) if isinstance(expression, ast.Name) else ()
        if bound and all(each.how == "param" for each in bound) and seen.isdisjoint(bound):
            return self._is_given_copy(where, bound, seen.union(bound))
        move = self.transfer.call
        return (
            self._is_copy(where, expression)
            and where.function(expression) is where.function(move)
            and position(expression) > position(move)
            and not self._repeated(where, move, expression)
        )

    def _is_given_copy(
        self, file: Script, definitions: Iterable[Definition], seen: frozenset[Definition] = frozenset()
    ) -> bool:
        """Whether a parameter is given what is the copy wherever one has begun; what else its name is bound to is asked
        on its own."""
        functions = [(each.scope.node, each.name) for each in definitions if each.how == "param"]
        given = [pair for each in functions for pair in arguments_for(file, *each)]
        known = all(file.callers(each).missing is None and not may_be_left_out(file, each, n) for each, n in functions)
        copies = (self._is_copy_by_now(*each, seen) or not self._is_held(*each) for each in given)
        return known and bool(given) and all(copies)

    def _wrapped(self, expression: ast.expr) -> ast.expr:
        """What `x.cuda().detach()` and `[Variable(x.cuda()) for …]` are made of: the call that moves, or a name."""
        while expression is not self.transfer.call:
            match expression:
                case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner) | ast.Call(func=ast.Attribute(value=inner)):
                    expression = inner
                case ast.Call(func=wrapper, args=[inner], keywords=[]) if (
                    called_name(self.script, wrapper) in _WRAPPERS
                ):
                    expression = inner
                case _:
                    break
        return expression

    def _is_the_batch(self, definition: Definition) -> bool:
        """Whether a name gets the tensor from where batches come from: a loop, or one of several calls of `next`."""
        return definition.node in self._sites or definition.value in self._sites

    @cached_property
    def _sites(self) -> set[ast.AST]:
        return {each.site for each in transfers(self.script) if each.call is self.transfer.call}

    # -- order

    @cached_property
    def _moved_at(self) -> Answer[ScriptNode]:
        return self._frames(self.script, self.transfer.call)

    def _may_follow(self, file: Script, node: ast.AST) -> bool:
        """Whether a place may run after the move, for the same batch."""
        return self._frames(file, node).missing is not None or self._follows(file, node) is not False

    def _follows(self, file: Script, node: ast.AST) -> bool | None:
        """Whether a place runs after the move, as far as its calls are seen; None where nothing connects the two."""
        places = self._frames(file, node)
        met = False
        for where, move in self._moved_at:
            for other, use in places:
                if where is other and where.function(move) is where.function(use):
                    met = True
                    if self._in_order(where, move, use):
                        return True
        return False if met else None

    def _frames(self, file: Script, node: ast.AST) -> Answer[ScriptNode]:
        """A place and the calls that lead to it from the loop."""
        frames: list[ScriptNode] = [(file, node)]
        seen: set[Function] = set()
        missing: str | None = None
        for where, each in frames:
            if where is self.transfer.site_script and where.inside(each, self.transfer.site):
                continue
            function = where.function(each)
            if function is None or function in seen or self._holds_site(where, function):
                continue
            seen.add(function)
            if isinstance(function, ast.Lambda) and isinstance(where.parent(function), ast.Call):
                frames.append((where, function))  # it runs where it is handed over: `map(lambda t: …, batch)`
                missing = missing or "a lambda is kept"
                continue
            callers = where.callers(function)
            missing = missing or callers.missing
            frames.extend((other, call) for other, call in callers if self._may_get_batch(other, call))
        return Answer(tuple(frames), missing)

    def _holds_site(self, where: Script, function: Function) -> bool:
        """Whether a function yields the batch to itself: those who call it get another one each time."""
        return where is self.transfer.site_script and where.function(self.transfer.site) is function

    def _may_get_batch(self, other: Script, call: ast.Call) -> bool:
        """Whether a call may be made for this batch: not if it is handed those of other loops alone."""
        given = [value for each in _arguments(call) for value in other.values(each) if value.kind is Kind.BATCH]
        return not given or any(value.node is self.transfer.site for value in given)

    def _in_order(self, where: Script, move: ast.AST, use: ast.AST) -> bool:
        if self._repeated(where, move, use):
            return True
        if move is use or where.inside(use, move):
            return False
        if where.inside(move, use):
            return True  # an argument is moved before the call
        stored = isinstance(use, ast.Subscript) and where.statement(use) is where.statement(move)
        return stored or position(use) > position(move) or self._is_of_last_batch(where, use)

    def _is_of_last_batch(self, where: Script, use: ast.AST) -> bool:
        """Whether a place before the move has the tensor from the iteration before: `old.mul_(2)` … `old = x`."""
        site = self.transfer.site
        if where is not self.transfer.site_script or not where.inside(use, site):
            return False
        return any(
            self._is_held(where, name) and comes_around(where, name, site) for name in where.within(use, ast.Name)
        )

    def _repeated(self, where: Script, move: ast.AST, use: ast.AST) -> bool:
        """Whether both run several times for one batch; a loop over the batch has another part of it each time."""
        site = self.transfer.site
        for loop in where.loops(move):
            if loop is site or not where.inside(use, loop):
                continue
            if where is self.transfer.site_script and where.inside(site, loop):
                continue
            iterated = getattr(loop, "iter", None)
            names = where.within(iterated, ast.Name) if iterated is not None else ()
            if not any(value.node is site for name in names for value in where.values(name)):
                return True
        return False

    # -- where it goes

    @cached_property
    def _is_kept(self) -> bool:
        """Whether the tensor, or what holds it, goes where its values are not known any more."""
        file, site = self.transfer.site_script, self.transfer.site
        pending: list[tuple[Script, ast.AST]] = [(file, file.function(site) or file.tree)]
        pending.append((self.script, self.script.function(self.transfer.call) or self.script.tree))
        seen: set[ast.AST] = set()
        kept = False
        for where, scope in pending:
            if scope in seen:
                continue
            seen.add(scope)
            for name in where.within(scope, ast.Name):
                if (
                    isinstance(name.ctx, ast.Load)
                    and self._is_held(where, name)
                    and not self._is_copy_by_now(where, name)
                ):
                    end = self._follow(where, name)
                    if isinstance(end, ast.Call):
                        pending.extend(where.callees(end))
                        self._reached.update((other, None) for other, _ in where.callees(end))
                    kept = kept or end is None
        return kept

    def _is_held(self, where: Script, expression: ast.expr) -> bool:
        """Whether an expression is the tensor, a part of it, or a container with it."""
        return any(self._is_part(value) for value in memory(where, expression))

    def _follow(self, where: Script, node: ast.expr) -> ast.AST | None:
        """Outwards from a name to where it ends: the call of a function that is followed, None where it is kept."""
        while True:
            parent = where.parent(node)
            match parent:
                case ast.Attribute():
                    node = where.call_of(parent) or parent
                    if not self._is_held(where, node):
                        return node if not isinstance(node, ast.Call) else parent
                case ast.Subscript(value=value) if value is node:
                    if not isinstance(parent.ctx, ast.Load) or not self._is_held(where, parent):
                        return parent
                    node = parent
                case ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.Starred() | ast.NamedExpr() | ast.IfExp():
                    node = parent
                case ast.keyword() | ast.Call():
                    call = parent if isinstance(parent, ast.Call) else where.parent(parent)
                    assert isinstance(call, ast.Call)
                    if self._is_held(where, call) or last_name(call.func) in HOLDING:
                        node = call
                    else:
                        return self._handed_to(where, call, node)
                case ast.Assign(targets=targets):
                    plain = all(isinstance(each, ast.Name | ast.Tuple | ast.List) for each in targets)
                    return parent if plain and not stores_in_objects(targets) else None
                case ast.AugAssign(value=value) if value is node:
                    held = any(value.kind is not Kind.NUMBER for value in where.values(parent.target))
                    return None if held and isinstance(node, ast.List | ast.Tuple) else parent
                case ast.Yield() | ast.YieldFrom():
                    return None
                case _:
                    return parent

    def _handed_to(self, where: Script, call: ast.Call, argument: ast.expr) -> ast.AST | None:
        """A call that gets the tensor: itself where its code is seen, or surely only reads."""
        callees = where.callees(call)
        if callees:
            seen = all(
                any(
                    bind_argument(function, call, each.arg, bound=is_bound(file, function, where, call)) is argument
                    for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
                )
                for file, function in callees
            )
            return call if seen else None
        name = last_name(call.func)
        if name in STORING or name in _CALLED:
            mapped = [each for each in call.args[:1] if name in _MAPPING and not isinstance(each, ast.Lambda)]
            if not all(_is_seen(where, each) for each in mapped):
                self._handed.append((where, call))
            return where.tree if _gives_what_is_known(where, call) else None
        values = where.values(call.func)
        if any(value.kind is Kind.CLASS for value in values):
            return None
        library = isinstance(call.func, ast.Name) and call.func.id in BUILTINS
        seen = _is_seen(where, call.func)
        if library or (seen and values.kinds <= _SEEN):
            return where.tree
        if isinstance(call.func, ast.Attribute) and (seen or Kind.EXTERNAL not in values.kinds):
            if name in METHODS or name.endswith("_"):
                return where.tree  # of another tensor, which reads this one: `predicted.eq(target)`
            owners = where.values(call.func.value)
            if all(value.kind is not Kind.UNKNOWN and value.cls is None for value in owners):
                return where.tree  # a method of a tensor, or of a library's object
        self._handed.append((where, call))
        return None


def _gives_what_is_known(file: Script, call: ast.Call) -> bool:
    """`map(lambda t: t.to(device), batch)`: a lambda is followed where it is written, and what it gives is known."""
    return all(
        value.kind is Kind.ITERATOR
        and value.how == "map"
        and any(any_item(value))
        and Kind.UNKNOWN not in any_item(value).kinds
        for value in file.values(call)
    )


def _is_seen(file: Script, function: ast.expr) -> bool:
    """Whether a function is the project's own, or a library's that is known to leave its arguments alone."""
    return all(
        each.kind is Kind.FUNCTION
        or (each.kind is Kind.EXTERNAL and only_reads(each.name or "") and not file.is_project_name(function))
        or (each.kind in _SEEN and each.kind is not Kind.EXTERNAL)
        for each in file.values(function)
    )


def _overlap(first: ElementPath, second: ElementPath) -> bool:
    return all(
        left == right or STAR in (left, right) or any(isinstance(each, int) and each < 0 for each in (left, right))
        for left, right in zip(first, second, strict=False)
    )


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from (each.value if isinstance(each, ast.Starred) else each for each in call.args)
    yield from (keyword.value for keyword in call.keywords)


def stores_in_objects(targets: Iterable[ast.expr]) -> bool:
    """Whether an assignment puts something into an object: `self.x, y = batch`."""
    return any(isinstance(part, ast.Attribute | ast.Subscript) for target in targets for part in ast.walk(target))
