"""Fetch the next batch and copy it to the device while the current step runs.

Without it each step begins by waiting for its own batch: to be fetched from the loader, then to be copied. The
prefetcher starts both for the next batch on a side stream as soon as a step begins. The copies in the loop stay, and
find the data already in place; where there is no accelerator, the loader is iterated as before.

Only what the loop itself moves is moved ahead. Left alone: parts of the batch that the host reads or changes as well
(lengths for packing, labels for NumPy), iterators that are resumed after a `break`, endless streams, batches that are
kept by `itertools.cycle`, a device that is only known inside the loop, objects with a `to()` of their own.

Before:
    for images, labels in loader:
After:
    for images, labels in accel.prefetch(loader, device):
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.rewriting.finding import Code, Finding, Replace, Skipped, Tier
from autoaccel.rewriting.rule import Rule
from autoaccel.script import Script
from autoaccel.script.batches import Read, device_of, moves_whole_part, own_to_method, reads, shared_copies
from autoaccel.script.flow import STAR
from autoaccel.script.loaders import LoaderLoop, Transfer
from autoaccel.script.values import Kind

RULE = Rule(
    code="AA202",
    name="prefetch",
    tier=Tier.EXACT,
    needles=(b".to(", b".cuda(", b".type("),
    references=("https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
)
Part = int | str


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    for loop in script.loader_loops:
        transfers = [each for each in script.transfers_of(loop) if device_of(script, each).accelerates]
        if loop.prefetched or not transfers:
            continue
        seen = tuple(reads(script, loop))
        moves = [read.transfer for read in seen if read.transfer is not None and read.transfer in transfers]
        problem = _unfit(script, loop) or next((p for each in moves if (p := own_to_method(script, each))), None)
        device, trouble = _device(script, loop, moves)
        parts = _parts(script, loop, seen, moves)
        if problem or trouble or not parts:
            yield RULE.skip(loop.node, problem or trouble or _kept(script, loop, transfers))
            continue
        arguments = f", {device}" + ("" if parts == (STAR,) else f", move={_tuple(script, parts)}")
        code = Code(f"{script.accel}.prefetch({{0}}{arguments.replace('{', '{{').replace('}', '}}')})", (loop.loader,))
        message = "the step waits for its batch to be fetched and copied"
        yield RULE.finding(loop.node, message, Replace(loop.loader, code), *script.import_runtime)


def _kept(script: Script, loop: LoaderLoop, transfers: list[Transfer]) -> str:
    """Why no part of the batch may be moved ahead."""
    if all(script.function(each.call) is not script.function(loop.node) for each in transfers):
        return "its batches are moved in another function"
    if shared_copies(script, loop):
        return "its batches are moved again after a copy was changed"
    return "its batches are used on the CPU as well, or before they are moved"


def _unfit(script: Script, loop: LoaderLoop) -> str | None:
    """Why looking one batch ahead would change this loop."""
    for ancestor in script.ancestors(loop.loader):
        if isinstance(ancestor, ast.Call) and script.qualname(ancestor.func) == "itertools.cycle":
            return "itertools.cycle keeps every batch, which would fill the device"
        if ancestor is loop.node:
            break
    for outer in script.loops(loop.node):
        if isinstance(outer, ast.While) and isinstance(outer.test, ast.Constant) and outer.test.value:
            return "it is an endless stream of batches"
    return None


def _device(script: Script, loop: LoaderLoop, moves: list[Transfer]) -> tuple[str | None, str | None]:
    """The device as source text for the loop's header, or why there is none."""
    spelled: set[str] = set()
    for transfer in moves:
        target = device_of(script, transfer)
        condition = _condition(script, loop, transfer)
        if target.text is None or not _settled(script, loop, target.names):
            return None, "its device is only known inside the loop"
        if not _surely(script, transfer):
            return None, f"it is not certain that {target.text} is a device"
        if condition is None:
            spelled.add(target.text)
        elif _is_plain(condition) and _settled(script, loop, tuple(_names(condition))):
            spelled.add(_choice(script, target.text, script.source(condition)))
        else:
            return None, "its batches are moved only under a condition inside the loop"
    if len(spelled) > 1:
        return None, "its batches go to more than one device"
    return (spelled.pop() if spelled else None), None


def _choice(script: Script, device: str, test: str) -> str:
    """The device where `test` holds, else the CPU; a type alias may have made the very same choice already."""
    if f" if {test} else " in device:
        return device
    return f"{f'({device})' if ' if ' in device else device} if {test} else {script.quote}cpu{script.quote}"


def _surely(script: Script, transfer: Transfer) -> bool:
    device = transfer.device
    if device is None or transfer.method == "cuda" or script.is_device(device):
        return True
    if any(value.kind is Kind.NUMBER for value in script.values(device)):
        return True
    name = device.id if isinstance(device, ast.Name) else getattr(device, "attr", "")
    return any(word in name.lower() for word in ("device", "rank", "gpu", "cuda"))


def _condition(script: Script, loop: LoaderLoop, transfer: Transfer) -> ast.expr | None:
    """The test under which a move is made; the constant None where there is more than a single simple one."""
    found: list[ast.expr] = []
    child: ast.AST = transfer.call
    for ancestor in script.ancestors(transfer.call):
        if ancestor is loop.node:
            break
        match ancestor:
            case ast.If(test=test) | ast.IfExp(test=test) if child is not test:
                negated = (child in ancestor.orelse) if isinstance(ancestor, ast.If) else child is ancestor.orelse
                asks_type = isinstance(ancestor, ast.IfExp) and isinstance(test, ast.Call)
                if not asks_type:
                    found.append(ast.Constant(None) if negated else test)
            case ast.Try() | ast.While() | ast.Match():
                found.append(ast.Constant(None))
        child = ancestor
    return None if not found else found[0] if len(found) == 1 else ast.Constant(None)


def _is_plain(test: ast.expr) -> bool:
    match test:
        case ast.Name():
            return True
        case ast.Attribute(value=value):
            return _is_plain(value)
        case ast.Call(func=function, args=[], keywords=[]):
            return ast.unparse(function) == "torch.cuda.is_available"
        case _:
            return False


def _names(expression: ast.expr) -> Iterator[ast.Name]:
    return (node for node in ast.walk(expression) if isinstance(node, ast.Name))


def _settled(script: Script, loop: LoaderLoop, names: tuple[ast.Name, ...]) -> bool:
    """Whether these names mean the same before the loop as in it."""
    return all(
        not script.inside(definition.node, loop.node) for name in names for definition in script.definitions(name)
    )


def _parts(script: Script, loop: LoaderLoop, seen: tuple[Read, ...], moves: list[Transfer]) -> tuple[Part, ...]:
    """Which parts of the batch may be moved ahead: `("*",)` for all of it, () for none."""
    kept = {read.path[:1] for read in seen if read.transfer is None} | shared_copies(script, loop)
    if () in kept or not moves:
        return ()
    whole = {transfer.path[:1] for transfer in moves if moves_whole_part(script, transfer)}
    if () in whole or (STAR,) in whole:
        return () if kept else (STAR,)
    parts = {path[0] for path in whole - kept}
    visible = dict.fromkeys((*range(_arity(script, loop)), *(read.path[0] for read in seen if read.path)))
    unpacked = _arity(script, loop) == 1
    if parts == set(visible) and all(isinstance(part, int) for part in parts) and (len(parts) > 1 or unpacked):
        return (STAR,)
    return tuple(part for part in visible if part in parts)


def _arity(script: Script, loop: LoaderLoop) -> int:
    """How many elements the loop unpacks a batch into, in its header or in its body."""
    if isinstance(loop.target, ast.Tuple | ast.List):
        return len(loop.target.elts)
    most = 0
    if isinstance(loop.target, ast.Name):
        for definition in script.definitions(loop.target):
            for use in script.uses(definition):
                match script.parent(use):
                    case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value) if value is use:
                        most = max(most, len(elements))
    return most


def _tuple(script: Script, parts: tuple[Part, ...]) -> str:
    spelled = [f"{script.quote}{part}{script.quote}" if isinstance(part, str) else str(part) for part in parts]
    return f"({', '.join(spelled)}{',' if len(spelled) == 1 else ''})"
