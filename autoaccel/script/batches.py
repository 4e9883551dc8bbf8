"""What a loop does with the parts of its batches: which it moves, which it reads on the host, which it changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoaccel.script.flow import STAR, Path
from autoaccel.script.loader_calls import loader_calls
from autoaccel.script.loaders import LoaderLoop, Transfer
from autoaccel.script.tensor_types import chosen_type, tensor_type
from autoaccel.script.values import Kind, Value

if TYPE_CHECKING:
    from autoaccel.script.script import Script

# Methods that keep the values exactly, or convert them the same way on every device.
_PLAIN_METHODS = frozenset(
    """view reshape squeeze unsqueeze transpose permute t flatten expand expand_as narrow contiguous detach float long
    double int bool type to cuda view_as movedim swapaxes unbind""".split()
)
_FACTS = frozenset("shape dtype ndim size dim numel nelement is_floating_point __len__ keys".split())
_FACT_CALLS = frozenset("len isinstance type range".split())
_ELSEWHERE = ("cpu", "mps")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a move goes: the device as source text for the loop's header (None when it cannot stand there)."""

    text: str | None
    accelerates: bool
    names: tuple[ast.Name, ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """One use of a part of the batch as the loader gives it: `transfer` moves it; without one the host reads it."""

    node: ast.expr
    path: Path
    transfer: Transfer | None


def device_of(script: Script, transfer: Transfer) -> Target:
    """The device of a move, and whether it may be an accelerator."""
    if transfer.method == "type":
        return _alias_device(script, transfer.call.args[0])
    if transfer.device is None:
        return Target(_quoted(script, "cuda"), True)
    device = transfer.device
    names = tuple(node for node in ast.walk(device) if isinstance(node, ast.Name))
    text = script.source(device) if _repeatable(script, device) else None
    return Target(text, not _elsewhere(script, device), names)


def _repeatable(script: Script, device: ast.expr) -> bool:
    """Whether a device expression may be evaluated once, before the loop."""
    match device:
        case ast.Constant() | ast.Name():
            return True
        case ast.Attribute(value=value):
            return _repeatable(script, value)
        case ast.Call(func=function, args=args):
            return script.qualname(function) == "torch.device" and all(_repeatable(script, each) for each in args)
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
    if chosen is not None:
        return Target(chosen.device.text.format(*(script.source(hole) for hole in chosen.device.holes)), True)
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


def own_to_method(script: Script, transfer: Transfer) -> str | None:
    """Why the moved value may be an object with a `to()` of its own; None when it surely is a tensor."""
    reason = "it may be an object whose own to() takes no such argument"
    if transfer.method == "type":
        return None
    whole = not transfer.path and transfer.derived is None
    loaders = [
        made
        for loop in transfer.site_script.loader_loops
        if loop.node is transfer.site
        for home, call in transfer.site_script.creations(loop.loader)
        for made in loader_calls(home)
        if made.call is call
        for collate in [made.settings.get("collate_fn")]
        if collate is None or not _gives_objects(home, collate, transfer.path)
    ]
    known = sum(
        len(loop.node.body) > 0 and len(transfer.site_script.creations(loop.loader))
        for loop in transfer.site_script.loader_loops
        if loop.node is transfer.site
    )
    if len(loaders) < known:
        return reason
    if not whole:
        return None
    opaque = not loaders or any("collate_fn" in made.settings or made.problem for made in loaders)
    return reason if opaque or _used_by_key(script, transfer) else None


def _gives_objects(script: Script, collate: ast.expr, path: Path) -> bool:
    """Whether a collate function of the project returns an object with its own `to` for this part."""
    for value in script.values(collate):
        if value.kind is not Kind.FUNCTION or value.script is None or value.node is None:
            continue
        returned = value.script.inference.returned(value.node)
        for step in path[:1]:
            returned = frozenset(
                part for owner in returned for key, parts in owner.items if key in (step, None) for part in parts
            )
        if any(_has_to(part) for part in returned):
            return True
    return False


def _has_to(value: Value) -> bool:
    if value.cls is None or value.kind is Kind.MODULE:
        return False
    return any(
        isinstance(part, ast.FunctionDef) and part.name == "to"
        for each in value.cls.script.project.lineage(value.cls)
        for part in each.node.body
    )


def _used_by_key(script: Script, transfer: Transfer) -> bool:
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


def changed_after(script: Script, transfer: Transfer) -> str | None:
    """Why the host tensor may change while it is still being copied."""
    loop = transfer.site
    start = _position(transfer.call)
    for owner, node in _changes(script):
        if _position(node) <= start or script.function(node) is not script.function(transfer.call):
            continue
        if any(_same_part(value, transfer) for value in script.values(owner)):
            return "the host tensor is changed after its copy has begun"
    statement = script.statement(transfer.call)
    moved = _root(transfer.call.func)
    stored = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    if moved is None or moved.id in stored:
        return None
    for change in script.find(ast.AugAssign):
        same = isinstance(change.target, ast.Name) and change.target.id == moved.id
        if same and script.inside(change, loop) and _position(change) > start:
            return "the host tensor is changed after its copy has begun"
    return None


def _position(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _changes(script: Script) -> Iterator[tuple[ast.expr, ast.AST]]:
    """In-place methods and item assignments: the object that they change, and where."""
    for call in script.find(ast.Call):
        match call.func:
            case ast.Attribute(value=owner, attr=attr) if attr.endswith("_") and not attr.endswith("__"):
                if attr != "requires_grad_":
                    yield owner, call
    for item in script.find(ast.Subscript):
        if isinstance(item.ctx, ast.Store):
            yield item.value, item


def _same_part(value: Value, transfer: Transfer) -> bool:
    if value.kind is not Kind.BATCH or value.node is not transfer.site or value.name == "copy":
        return False
    if not value.path and transfer.path:
        return False  # an item of the container is replaced, no tensor is changed
    return value.path[: len(transfer.path)] == transfer.path or transfer.path[: len(value.path)] == value.path


def shared_copies(script: Script, loop: LoaderLoop) -> frozenset[Path]:
    """Parts of the batch that are moved several times per batch where some copy is changed in place.

    Once they are on the device every further move gives the same tensor, so a change of one would show in the others.
    """
    if not _changes_copies(script, loop):
        return frozenset()
    seen: set[Path] = set()
    several: set[Path] = set()
    for transfer in script.transfers_of(loop):
        inner = [
            each for each in script.loops(transfer.call) if each is not loop.node and script.inside(each, loop.node)
        ]
        if transfer.path[:1] in seen or (inner and not _key_loop(script, transfer)):
            several.add(transfer.path[:1])
        seen.add(transfer.path[:1])
    return frozenset(several)


def _changes_copies(script: Script, loop: LoaderLoop) -> bool:
    """Whether a loop may change a moved part of its batch in place, or ask for its gradient."""
    for owner, node in (*_changes(script), *_gradients(script)):
        if script.inside(node, loop.node) and any(
            value.kind is Kind.TENSOR and value.name == "moved" for value in script.values(owner)
        ):
            return True
    moved = {
        name.id
        for transfer in script.transfers_of(loop)
        if isinstance(statement := script.statement(transfer.call), ast.Assign)
        for target in statement.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    return any(
        isinstance(each.target, ast.Name) and each.target.id in moved and script.inside(each, loop.node)
        for each in script.find(ast.AugAssign)
    )


def _gradients(script: Script) -> Iterator[tuple[ast.expr, ast.AST]]:
    for attribute in script.find(ast.Attribute):
        if attribute.attr == "requires_grad_" or (
            attribute.attr == "requires_grad" and isinstance(attribute.ctx, ast.Store)
        ):
            yield attribute.value, attribute


def _root(expression: ast.expr) -> ast.Name | None:
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


def reads(script: Script, loop: LoaderLoop) -> Iterator[Read]:
    """Every use, in the loop's function, of batch data as the loader gives it. Facts such as sizes do not count."""
    transfers = {transfer.call: transfer for transfer in script.transfers_of(loop)}
    stored = [each for each in (_stored(script, transfer) for transfer in transfers.values()) if each is not None]
    single = sum(each.node is loop.node for each in script.loader_loops) == 1
    for name in script.find(ast.Name):
        if not isinstance(name.ctx, ast.Load) or name.lineno < loop.node.lineno:
            continue
        values = script.values(name)
        batches = [value for value in values if value.kind is Kind.BATCH and value.node is loop.node]
        if not batches or not _encloses(script, loop, name) or (not single and not _comes_from(script, name, loop)):
            continue
        if any(value.kind is Kind.TENSOR and value.name == "moved" for value in values):
            continue
        for read in _uses(script, name, batches[0].path, transfers):
            if not any(_covers(path, read.path) and _position(read.node) > where for path, where in stored):
                yield read


def _encloses(script: Script, loop: LoaderLoop, name: ast.Name) -> bool:
    home = script.function(loop.node)
    function = script.function(name)
    while function is not home and function is not None:
        function = script.function(function)
    return function is home


def _stored(script: Script, transfer: Transfer) -> tuple[Path, tuple[int, int]] | None:
    """The part that `batch[key] = batch[key].to(device)` replaces by its copy, and from where on."""
    statement = script.statement(transfer.call)
    match statement:
        case ast.Assign(targets=[ast.Subscript()], value=value) if value is transfer.call:
            end = script.parent(statement) if _key_loop(script, transfer) else statement
            assert end is not None
            return transfer.path, (end.end_lineno, end.end_col_offset)  # type: ignore[attr-defined]
        case _:
            return None


def _key_loop(script: Script, transfer: Transfer) -> bool:
    """Whether a move by variable key runs over all keys: `for k in batch: batch[k] = batch[k].to(device)`."""
    match transfer.call.func:
        case ast.Attribute(value=ast.Subscript(value=ast.Name() as owner, slice=ast.Name() as key)):
            loop = script.parent(script.statement(transfer.call))
            return (
                isinstance(loop, ast.For)
                and isinstance(loop.target, ast.Name)
                and loop.target.id == key.id
                and (root := _root(loop.iter)) is not None
                and root.id == owner.id
            )
        case _:
            return False


def _covers(path: Path, other: Path) -> bool:
    return all(left in (right, STAR) for left, right in zip(path, other, strict=False)) and len(path) <= len(other)


def moves_whole_part(script: Script, transfer: Transfer) -> bool:
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


def _comes_from(script: Script, name: ast.Name, loop: LoaderLoop, depth: int = 6) -> bool:
    """Whether, in a loop over several loaders, a name's data stems from this one."""
    own = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for definition in script.definitions(name):
        if definition.node is loop.node:
            return name.id in own
        root = _root(definition.value) if definition.value is not None else None
        if root is not None and depth and _comes_from(script, root, loop, depth - 1):
            return True
    return False


def _uses(script: Script, name: ast.Name, path: Path, transfers: dict[ast.Call, Transfer]) -> Iterator[Read]:
    """Follow an expression outwards from a name until it is moved, asked for a fact, given a name, or used."""
    node: ast.expr = name
    while True:
        parent = script.parent(node)
        match parent:
            case ast.Subscript(value=value, slice=index) if value is node:
                if isinstance(parent.ctx, ast.Store) and not path:
                    return
                if isinstance(index, ast.Constant) and isinstance(index.value, int | str):
                    path = (*path, index.value)
                node = parent
            case ast.Attribute(attr=attr) if attr in _FACTS:
                return
            case ast.Attribute(attr=attr):
                call = script.parent(parent)
                if isinstance(call, ast.Call) and call.func is parent:
                    if call in transfers:
                        yield Read(call, transfers[call].path, transfers[call])
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
            case ast.Call(func=function, args=[first]) if (
                first is node and script.qualname(function) == "torch.autograd.Variable"
            ):
                node = parent
            case ast.Call(func=ast.Name(id=called)) if called in _FACT_CALLS:
                return
            case ast.Call(func=function) if script.qualname(function) == "torch.is_tensor":
                return
            case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate"), args=[first]) if first is node:
                node = parent
            case ast.IfExp(test=test) if node is not test and _moved_otherwise(parent, name, transfers):
                return
            case ast.IfExp(test=test) if node is test:
                return
            case ast.comprehension() | ast.For():
                return
            case ast.Assign(targets=[target]) if not isinstance(target, ast.Attribute | ast.Subscript):
                return
            case ast.Tuple() if _unpacks(script, parent):
                return
            case ast.Delete() | ast.Expr():
                return
            case _:
                yield Read(name, path, None)
                return


def _moved_otherwise(choice: ast.IfExp, name: ast.Name, transfers: dict[ast.Call, Transfer]) -> bool:
    """`v.to(device) if torch.is_tensor(v) else v`: what stays is no tensor, or there is no device at all."""
    moved = [node for node in ast.walk(choice.body) if isinstance(node, ast.Call) and node in transfers]
    return bool(moved) and isinstance(choice.orelse, ast.Name) and choice.orelse is name


def _unpacks(script: Script, parent: ast.Tuple) -> bool:
    """`x, y = a, b`: each side has names of its own, which are followed on their own."""
    match script.parent(parent):
        case ast.Assign(targets=[ast.Tuple()]):
            return True
        case _:
            return False
