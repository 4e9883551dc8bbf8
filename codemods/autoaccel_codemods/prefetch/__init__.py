"""Fetch the next batch during the step.

Without it each step begins by waiting for its own batch: to be fetched from the loader, then to be copied. The
prefetcher starts both for the next batch on a side stream as soon as a step begins. The copies in the loop stay, and
find the data already in place.

Samples that lie in memory (`TensorDataset`, MNIST, CIFAR, a class whose `__getitem__` only indexes) are looked up a
batch at a time instead of one by one, on the device where they fit, and on the CPU as well: same order, same batches,
bit for bit. Where such samples are on the device already, or the script never leaves the CPU, there is nothing to
prefetch: loops over them get `accel.in_memory(loader)`. For all other data without an accelerator the loader is
iterated as before.

Only what the loop itself moves is moved ahead. Left alone:
- parts of the batch that the host reads or changes as well (lengths for packing, labels for NumPy);
- what lies in containers that the loop does not look into: lists beside the tensors that `torch.is_tensor` picks;
- helpers that call themselves for what containers hold, and may leave a tensor where it is;
- samples, their order or their collation that ask a model or that the loop changes: a step too early they differ;
- samples that read environment variables, or files by paths and kinds, that the loop may write; samples that print;
- loops that draw from the generator of the loader's order as well;
- batches that the loop changes while they are copied, as `non-blocking` (AA103) says;
- iterators that are resumed after a `break`, endless streams, batches that `itertools.cycle` keeps;
- a device that is only known inside the loop, or after the iterator was made (`bar = tqdm(loader)`);
- iterators with a name that something else reads as well;
- iterators for `next` (`batches = iter(loader)`), where samples or their order are changed once there is one;
- scripts that capture CUDA graphs themselves;
- objects with a `to()` of their own, which move themselves in the loop.

Before:
    for images, labels in loader:

After:
    for images, labels in accel.prefetch(loader, device):
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis import Script
from autoaccel.analysis.callables import called_name
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.definitions import STAR, ElementPath
from autoaccel.edits import Code, Edit, Finding, InsertBefore, Replace, Skipped, Tier, literal
from autoaccel.pytorch import cuda_graphs, device_expressions
from autoaccel.pytorch.batches import device_of, own_to_method
from autoaccel.pytorch.host_writes import changed_after
from autoaccel.pytorch.kept_iterators import BatchSource, KeptIterator, batch_sources, nexts_not_followed
from autoaccel.pytorch.loader_changes import drawn_beside, drawn_by_next
from autoaccel.pytorch.loader_loops import (
    BatchTransfer,
    LoaderLoop,
    holds_batches,
    loops_of_unknown,
    moves_parts,
)
from autoaccel.pytorch.recursive_moves import CONTAINERS, looked_into, parameter
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.prefetch import in_memory
from autoaccel_codemods.prefetch.batch_reads import BatchReads
from autoaccel_codemods.prefetch.loop_device import device_for
from autoaccel_codemods.prefetch.moved_parts import Reach, moves_whole_part, reach

RULE = Rule(
    code="AA202",
    name="prefetch",
    tier=Tier.EXACT,
    needles=(b".to(", b".cuda(", b".type(", b"oader"),  # a subclass in another file may move what `self.loader` gives
    references=("https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
    addresses=("transfer", "loader"),
    order=90,
)
BatchPart = int | str
_ITERATING = ("__iter__", "__next__", "_get_iterator")
_ITER = "builtins.iter"  # an iterator over what is fetched ahead has no length and no other attributes
_ANY: tuple[ElementPath, ...] = ((), (STAR,))
_ON_DEVICE = "its samples may be on a device already, and nothing shows that they are only looked up there"
_LEAVES = "its batches go through a helper that calls itself, and may leave tensors where they are"


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A loop, or who calls `next`, gets batches ahead, or is left alone for the first reason that is found.

    Loops, and the moves in them, are found by `autoaccel.pytorch.loader_loops`; here:
        batch_reads  which parts of its batches a loop moves, and which it reads on the host
        moved_parts  how much of a part a move takes
        loop_device  the device that is named where the loader stands
        in_memory    whether a loop that stays on the CPU can look up its batches whole
    """
    for loop in batch_sources(script):
        if isinstance(loop, LoaderLoop) and loop.prefetched:
            continue
        batch = BatchReads(script, loop)
        moved = [each for each in batch.transfers.values() if device_of(each.script, each).accelerates]
        if not moved and isinstance(loop, KeptIterator):
            if any(in_memory.works(script, outer) for outer in script.loops(loop.node)):
                yield RULE.skip(loop.node, _unmoved(script, loop.node))
            continue
        if not moved and isinstance(loop, LoaderLoop):
            unfit = _unfit(script, loop) or _read_elsewhere(script, loop)
            if unfit is None and in_memory.is_indexed_in_place(script, loop):
                yield _in_place(script, loop)
            elif in_memory.works(script, loop.node):
                unmoved = _ON_DEVICE if in_memory.may_be_on_device(script, loop) else _unmoved(script, loop.node)
                yield RULE.skip(loop.node, unfit or (unmoved if loop.known else _unknown(script, loop.loader)))
            elif not loop.known and moves_parts(script, loop.target, loop.node):
                yield RULE.skip(loop.node, _unknown(script, loop.loader))
            elif loop.known and _is_handed_out(script, loop.node):
                yield RULE.skip(loop.node, "its object hands its batches on to a loop elsewhere")
            continue
        moves = list(dict.fromkeys(read.transfer for read in batch.reads if read.transfer in moved))
        walks = [each for each in moves if parameter(each.script, each)]
        problem = _unfit(script, loop)
        if problem is None and any(_is_either(batch, each) for each in moves):
            problem = "a batch is moved whole, or only a part of it"
        others = (each for each in moves if each not in walks)  # a walk goes into no objects
        objects = {each: reason for each in others if (reason := own_to_method(each.script, each))}
        if len(objects) == len(moves) or any(path[:1] in _ANY for each in objects for path in each.paths):
            problem = problem or next(iter(objects.values()), None)
        moves = [each for each in moves if each not in objects]  # objects are left to move themselves
        problem = problem or _read_elsewhere(script, loop)
        if problem is None and not all(looked_into(each.script, each) for each in walks):
            problem = _LEAVES
        device, trouble = device_for(batch, moves)
        parts = _parts(batch, moves, objects)
        if problem or device is None or not parts:
            yield RULE.skip(loop.node, problem or trouble or next(iter(objects.values()), None) or _kept(batch))
            continue
        what, imports = _what(script, parts, moves)
        arguments = f", {device.text}{what}"
        edits = _edits(script, loop, f"prefetch({{0}}{literal(arguments)})")
        message = "the step waits for its batch to be fetched and copied"
        yield RULE.finding(loop.node, message, *edits, *device.naming, *imports, *script.import_runtime)
    for taken in nexts_not_followed(script):
        yield RULE.skip(taken, _not_kept(taken))
    for unknown, iterable in loops_of_unknown(script):
        several = f"`{script.source(iterable)}` holds batches of several loaders"
        yield RULE.skip(unknown, several if holds_batches(script, iterable) else _unknown(script, iterable))


def _not_kept(taken: ast.Call) -> str:
    """Why nobody fetches ahead for a call of `next`."""
    match taken.args:
        case [ast.Call(func=ast.Name(id="iter"))]:
            return "its batches are taken by `next(…)`, each from an iterator of its own"
        case [ast.Name() | ast.Attribute(), *_]:
            return "its batches are taken by `next(…)` from what may be no loader's, or is set or read elsewhere"
        case _:
            return "its batches are taken by `next(…)` from an iterator that has no name of its own"


def _unknown(script: Script, iterable: ast.expr) -> str:
    return f"nothing shows that `{script.source(iterable)}` is a data loader"


def _unmoved(script: Script, loop: ast.AST) -> str:
    """Why there is nothing to do ahead for a loop of which no batch is seen to be moved."""
    for call in script.within(loop, ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(attr="copy_"), args=[part, *_]) if script.kind(part) is Kind.BATCH:
                return f"its batches are copied into a tensor that is kept, by `{script.source(call.func)}`"
    for call in script.within(loop, ast.Call):
        given = any(script.kind(each) is Kind.BATCH for each in call.args)
        if given and any(_moves_parameter(file, function) for file, function in script.callees(call)):
            return f"what `{script.source(call.func)}` moves to a device may be something else than a batch"
    if device_expressions.is_used(script):
        return "nothing shows that its batches are moved to a device"
    return "its batches stay on the CPU, and nothing shows that their samples lie in memory"


def _moves_parameter(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function moves what it is given: `return tensor.cuda() if use_cuda else tensor`."""
    parameters = {each.arg for each in function.args.args}
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("to", "cuda")
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in parameters
        for call in script.in_scope(function, ast.Call)
    )


def _is_handed_out(script: Script, loop: ast.AST) -> bool:
    """Whether a loop gives batches to whoever iterates an object: it stands in `__iter__`, and yields."""
    inside = getattr(script.function(loop), "name", "") == "__iter__"
    return inside and any(True for _ in script.in_scope(loop, ast.Yield))


def _in_place(script: Script, loop: LoaderLoop) -> Finding:
    message = "batches are put together sample by sample"
    return RULE.finding(loop.node, message, *_edits(script, loop, "in_memory({0})"), *script.import_runtime)


def _edits(script: Script, loop: BatchSource, call: str) -> Iterator[Edit]:
    """What puts a call of the runtime around each loader; what may get a wrapper later is bound anew before that."""
    text = f"{script.accel}.{call}"
    if isinstance(loop, LoaderLoop) and loop.before is not None:
        name = script.source(loop.loader)
        yield InsertBefore(loop.before, Code(f"{name} = {text.replace('{0}', name)}"))
        return
    for loader in loop.loaders:
        yield Replace(loader, Code(text, (loader,)))


def _kept(batch: BatchReads) -> str:
    """Why no part of the batch may be moved ahead."""
    if problem := next((p for each in batch.transfers.values() if (p := changed_after(each.script, each))), None):
        return problem
    if batch.shared_copies():
        return "its batches are moved again after a copy was changed"
    return "its batches are used on the CPU as well, or before they are moved"


def _unfit(script: Script, loop: BatchSource) -> str | None:
    """Why looking one batch ahead would change this loop."""
    if cuda_graphs.captures(script):
        return cuda_graphs.REASON
    for other in script.project.related(script):
        if name := next((each for each in _ITERATING if _is_replaced(other, each)), None):
            return f"`{name}` is assigned, to code that is not looked at"
    for loader in loop.loaders:
        for ancestor in script.ancestors(loader):
            if isinstance(ancestor, ast.Call) and script.qualname(ancestor.func) == "itertools.cycle":
                return "itertools.cycle keeps every batch, which would fill the device"
            if isinstance(ancestor, ast.stmt):
                break
    if isinstance(loop, KeptIterator):
        return drawn_by_next(script, loop)
    if any(True for kind in (ast.Yield, ast.YieldFrom) for _ in script.in_scope(loop.node, kind)):
        for outer in script.loops(loop.node):
            if isinstance(outer, ast.While) and isinstance(outer.test, ast.Constant) and outer.test.value:
                return "it is an endless stream of batches"
    return drawn_beside(script, loop)


def _is_replaced(script: Script, method: str) -> bool:
    """Whether a file may put something in the place of a method: also by `setattr(DataLoader, "__iter__", counted)`."""
    named = method in script.text and any(each.value == method for each in script.find(ast.Constant))
    return named or bool(script.syntax_index.stored(method))


def _read_elsewhere(script: Script, loop: BatchSource) -> str | None:
    """Who else gets the batches of an iterable that has a name: it would get them where this loop wants them."""
    if isinstance(loop, KeptIterator):
        return None
    for definition in loop.through:
        iterator = isinstance(definition.value, ast.Call) and called_name(script, definition.value.func) == _ITER
        for use in script.uses(definition):
            match script.parent(use):
                case ast.For(iter=source) as other if source is use and other is not loop.node:
                    return f"another loop, in line {other.lineno}, reads `{definition.name}` as well"
                case ast.For():
                    continue
                case ast.Attribute() | ast.Call(func=ast.Name(id="len")) if not iterator:
                    continue
            if not any(each.value is not None and script.inside(use, each.value) for each in loop.through):
                if not script.inside(use, loop.node.iter):
                    return f"`{definition.name}` is used in line {use.lineno} as well"
    return None


def _parts(batch: BatchReads, moves: list[BatchTransfer], objects: Iterable[BatchTransfer]) -> tuple[BatchPart, ...]:
    """Which parts of the batch may be moved ahead: `("*",)` for all of it, () for none. Nothing is taken from the moves
    of `objects`."""
    kept = {read.path[:1] for read in batch.reads if read.transfer is None} | batch.shared_copies()
    kept |= {path[:1] for each in objects for path in each.paths}
    if () in kept or not moves:
        return ()
    whole = {path[:1] for transfer in moves if moves_whole_part(transfer) for path in transfer.paths}
    whole |= _moved_one_by_one(batch.loop.target, moves)
    whole -= {path[:1] for transfer in moves if reach(transfer) is Reach.SOME for path in transfer.paths}
    if () in whole or (STAR,) in whole:
        return () if kept else (STAR,)
    parts = {path[0] for path in whole - kept}
    arity = _arity(batch)
    visible = dict.fromkeys((*range(arity), *(read.path[0] for read in batch.reads if read.path)))
    walks = [looked_into(each.script, each) for each in moves if parameter(each.script, each)]
    unpacked = parts == set(visible) and all(isinstance(part, int) for part in parts)
    if unpacked and (len(parts) > 1 or arity == 1) and all({"list", "tuple"} <= set(walk) for walk in walks):
        return (STAR,)
    return tuple(part for part in visible if part in parts)


def _moved_one_by_one(target: ast.expr, moves: list[BatchTransfer]) -> set[ElementPath]:
    """The elements of a batch of which the loop's header names all parts, and the loop moves each of them:
    `for (first, second), labels in loader`; or of which it moves the first parts by their numbers, `images[0]` and
    `images[1]`: those of a list, for of a tensor they were rows."""
    moved = {path for each in moves for path in each.paths if len(each.paths) == 1 and each.derived is None}
    elements = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    numbered: dict[ElementPath, set[int | str]] = {}
    for path in moved:
        if len(path) == 2:
            numbered.setdefault(path[:1], set()).add(path[1])
    listed = {whole for whole, numbers in numbered.items() if len(numbers) > 1 and numbers == {*range(len(numbers))}}
    return listed | {
        (index,)
        for index, each in enumerate(elements)
        if isinstance(each, ast.Tuple | ast.List) and each.elts
        if not any(isinstance(part, ast.Starred) for part in (*elements, *each.elts))
        if all((index, part) in moved for part in range(len(each.elts)))
    }


def _what(script: Script, parts: tuple[BatchPart, ...], moves: list[BatchTransfer]) -> tuple[str, tuple[Edit, ...]]:
    """`move=…` for these parts, with the containers within them that are looked into, and what that imports; nothing
    where all is moved that there is."""
    types: list[str] = []
    walks = [looked_into(each.script, each) for each in moves if parameter(each.script, each)]
    imports: tuple[Edit, ...] = ()
    tested = [each for each in moves if reach(each) is Reach.TENSORS]
    if tested:
        itself = any(() in each.paths and each.derived is None for each in tested)
        if parts == (STAR,) and not itself:
            return f", move={script.quote}tensors{script.quote}", ()
        name, imports = script.spell("torch.Tensor")
        types = [name]
    elif walks:
        types = [each for each in CONTAINERS if all(each in walk for walk in walks)]
    if parts == (STAR,) and not types:
        return "", ()
    return f", move={_tuple(script, () if parts == (STAR,) else parts, types)}", imports


def _is_either(batch: BatchReads, transfer: BatchTransfer) -> bool:
    """Whether a move takes the batch or a part of it: `if isinstance(batch, list): batch = batch[0]`."""
    if not isinstance(transfer.call.func, ast.Attribute) or parameter(transfer.script, transfer):
        return False
    values = transfer.script.values(transfer.call.func.value)
    paths = {value.path for value in values if value.kind is Kind.BATCH and value.node in batch.loop.sites}
    return any(one != other and one == other[: len(one)] for one in paths for other in paths)


def _arity(batch: BatchReads) -> int:
    """How many elements a batch is unpacked into: in the header of the loop, or where its name is used."""
    script, loop = batch.script, batch.loop
    if isinstance(loop.target, ast.Tuple | ast.List):
        return len(loop.target.elts)
    return max(
        (
            len(target.elts)
            for node in script.find(ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Tuple)
            if any(
                value.kind is Kind.BATCH and value.node in loop.sites and not value.path
                for value in script.values(node.value)
            )
        ),
        default=0,
    )


def _tuple(script: Script, parts: tuple[BatchPart, ...], types: list[str]) -> str:
    spelled = [f"{script.quote}{part}{script.quote}" if isinstance(part, str) else str(part) for part in parts]
    spelled += types
    return f"({', '.join(spelled)}{',' if len(spelled) == 1 else ''})"
