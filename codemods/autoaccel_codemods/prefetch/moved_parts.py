"""How much of a batch a move takes: a whole part, one key of a mapping after another, or tensors alone."""

from __future__ import annotations

import ast
import enum

from autoaccel.analysis.script import Script
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.definitions import STAR, ElementPath
from autoaccel.dataflow.syntax_index import breadth_first, position
from autoaccel.pytorch.loader_loops import BatchTransfer
from autoaccel.pytorch.recursive_moves import looked_into, parameter

_PLAIN = ast.expr | ast.keyword | ast.Assign | ast.Expr


def replaced(transfer: BatchTransfer) -> tuple[ScriptNode, ElementPath] | None:
    """Where `batch[key] = batch[key].to(device)` replaces a part by its copy, and which."""
    script, receiver = transfer.script, transfer.call.func.value  # type: ignore[attr-defined]
    match script.statement(transfer.call):
        case ast.Assign(targets=[ast.Subscript() as target], value=value) as statement if value is transfer.call:
            if (loop := key_loop(transfer)) is not None:
                whole = transfer.path[:-1] if isinstance(receiver, ast.Name) else transfer.path
                return ((script, loop), whole) if _is_item_of(target, loop) else None
            same = isinstance(target.slice, ast.Constant) and script.source(target) == script.source(receiver)
            return ((script, statement), transfer.path) if same else None
        case _:
            return None


def key_loop(transfer: BatchTransfer) -> ast.For | None:
    """The loop over all keys in which a move takes what lies there: `for k in batch: … batch[k].to(device)`, `for k, v
    in batch.items(): … v.to(device)`."""
    script, loop = transfer.script, next(iter(transfer.script.loops(transfer.call)), None)
    receiver = transfer.call.func.value if isinstance(transfer.call.func, ast.Attribute) else None
    if not isinstance(loop, ast.For) or script.function(loop) is not script.function(transfer.call):
        return None
    names = {each.id for part in loop.body for each in script.within(part, ast.Name) if isinstance(each.ctx, ast.Store)}
    leaves = any(isinstance(each, ast.Break | ast.Continue | ast.Return) for each in loop.body)
    if leaves or names.intersection(_keyed(loop) or ()):
        return None
    choices = [each for each in script.ancestors(transfer.call) if script.inside(each, loop) and each is not loop]
    choices += [each for each in script.within(loop, ast.If) if _may_leave(each)]
    if not all(_names_types(e.test) if isinstance(e, ast.If) else isinstance(e, _PLAIN) for e in choices):
        return None  # some keys are left out
    match receiver:
        case ast.Subscript():
            return loop if _is_item_of(receiver, loop) else None
        case ast.Name(id=name):
            match loop.target:
                case ast.Tuple(elts=[ast.Name(), ast.Name(id=value)]) if value == name and _keyed(loop) is not None:
                    return loop
    return None


def _keyed(loop: ast.For) -> tuple[str, str] | None:
    """The mapping over whose keys, all of them, a loop goes, and its name for the key."""
    iterated = loop.iter
    match iterated:
        case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted"), args=[inner], keywords=[]):
            iterated = inner
    match iterated, loop.target:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="items"), args=[]), ast.Tuple(
            elts=[ast.Name(id=key), ast.Name()]
        ):
            return owner, key
        case (
            (ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="keys"), args=[]) | ast.Name(id=owner)),
            ast.Name(id=key),
        ):
            return owner, key
        case _:
            return None


def _is_item_of(item: ast.Subscript, loop: ast.For) -> bool:
    match item:
        case ast.Subscript(value=ast.Name(id=owner), slice=ast.Name(id=key)):
            return _keyed(loop) == (owner, key)
        case _:
            return False


def is_key(script: Script, name: ast.Name) -> bool:
    """Whether a name is a key of the mapping that a loop goes over: `for k in batch: … batch[k] …`."""
    return any(
        isinstance(each.node, ast.For)
        and (_keyed(each.node) or ())[1:] == (name.id,)
        and any(_is_item_of(item, each.node) for item in script.within(each.node, ast.Subscript))
        for each in script.definitions(name)
    )


def moves_whole_part(transfer: BatchTransfer) -> bool:
    """Whether all of one element (or of the whole batch) is moved, not a selection of it."""
    if any(step != STAR for path in transfer.paths for step in path[1:]):
        return False
    if looked_into(transfer.script, transfer):
        return True
    receiver = transfer.call.func.value if isinstance(transfer.call.func, ast.Attribute) else None
    dynamic = not transfer.path and isinstance(receiver, ast.Subscript)
    if dynamic or (STAR in transfer.path and transfer.derived is not None):
        return dynamic and key_loop(transfer) is not None
    for ancestor in transfer.script.ancestors(transfer.call):
        match ancestor:
            case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) | ast.DictComp(generators=parts):
                if any(not asks_type(test) and not _is_of_keys(part, test) for part in parts for test in part.ifs):
                    return False
    return True


def _is_of_keys(part: ast.comprehension, test: ast.expr) -> bool:
    """Whether a condition chooses items of a mapping by their keys: nobody sees where those are that it leaves out."""
    match part:
        case ast.comprehension(
            target=ast.Tuple(elts=[ast.Name(), ast.Name(id=value)]),
            iter=ast.Call(func=ast.Attribute(attr="items"), args=[]),
        ):
            return not any(isinstance(each, ast.Name) and each.id == value for each in ast.walk(test))
        case _:
            return False


class Reach(enum.Enum):
    """Which tensors of a part a move takes, of those in containers within one another."""

    ALL = enum.auto()
    TENSORS = enum.auto()
    """The part itself, where it is a tensor: what it holds else stays where it is."""
    SOME = enum.auto()
    """Some of those that it holds."""


def reach(transfer: BatchTransfer) -> Reach:
    """Which tensors a move surely takes: one that is made of tensors alone leaves a list of tensors as it is."""
    if parameter(transfer.script, transfer) or not _is_of_some_types(transfer):
        return Reach.ALL
    steps = max(map(len, transfer.paths)) + (key_loop(transfer) is not None and transfer.path == ())
    return Reach.TENSORS if steps <= 1 else Reach.SOME


def _is_of_some_types(transfer: BatchTransfer) -> bool:
    """Whether a move is made of values of some types, as a test tells: `if torch.is_tensor(v)`, also where it leads
    others past the move (`if not torch.is_tensor(v): continue`)."""
    script, call = transfer.script, transfer.call
    extent: ast.AST = script.function(call) or script.tree
    for ancestor in script.ancestors(call):
        if ancestor is transfer.site:
            extent = ancestor
            break
        match ancestor:
            case ast.If(test=test) | ast.IfExp(test=test) if _names_types(test):
                return True
            case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) | ast.DictComp(generators=parts):
                if any(_names_types(test) for part in parts for test in part.ifs):
                    return True
    return any(
        position(each) < position(call) and _names_types(each.test) and _may_leave(each)
        for each in script.within(extent, ast.If)
    )


def _may_leave(choice: ast.If) -> bool:
    """Whether a condition may lead past what stands below it."""
    return any(isinstance(each, ast.Return | ast.Continue | ast.Break) for each in ast.walk(choice))


def _names_types(test: ast.expr) -> bool:
    return any(map(asks_type, ast.walk(test)))


def asks_type(test: ast.AST) -> bool:
    """Whether a condition tells kinds of values apart: tensors from lists and texts."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance") | ast.Attribute(attr="is_tensor") | ast.Name(id="hasattr")):
            return True
        case _:
            return False


def moved_otherwise(choice: ast.IfExp, name: ast.expr, transfers: dict[ast.Call, BatchTransfer]) -> bool:
    """`v.to(device) if torch.is_tensor(v) else v`: what stays is no tensor, or there is no device at all."""
    moved = [node for node in breadth_first(choice.body) if isinstance(node, ast.Call) and node in transfers]
    return bool(moved) and isinstance(name, ast.Name) and choice.orelse is name


def left_otherwise(script: Script, kept: ast.Assign, name: ast.expr, transfers: dict[ast.Call, BatchTransfer]) -> bool:
    """`if torch.is_tensor(v): out[k] = v.to(device)`, `else: out[k] = v`: what stays is no tensor."""
    choice = script.parent(kept)
    if not isinstance(name, ast.Name) or not isinstance(choice, ast.If) or kept not in choice.orelse:
        return False
    if not asks_type(choice.test):
        return False
    moved = [
        each.value.func
        for each in choice.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and each.value in transfers
    ]
    return any(
        isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == name.id
        for each in moved
    )
