"""Load batches in worker processes, into pinned memory.

Without workers the training step waits while the main process reads and decodes every sample; with them the next
batches are made meanwhile. From pinned memory the copy to the device runs at full speed and beside the computation.
Whether there is a device to pin for is decided when the script runs, and so is how many workers pay, if any: from what
its first batches and steps take.

What the script sets itself stays. Workers persist where later epochs use them again and see the same dataset, but
never where the script chose their number, nor in notebooks, whose cells may change the dataset between epochs. The
order of samples is kept (by persistent workers in the first epoch only); random augmentation draws from the workers'
random streams, therefore `equivalent`.

No workers, but pinned memory: samples that are only indexed in memory, which workers would make slower.

Left alone:
- samples or collation on a device;
- scripts that capture CUDA graphs themselves: page-locked memory may not be asked for meanwhile;
- streams (`IterableDataset`): every worker would repeat all of it, or make other batches of its part;
- samples, their order or their collation that ask a model or that the loop changes: workers hold copies;
- samples that read environment variables, or files by paths and kinds, that the loop may write; samples that print;
- a dataset that is changed as it is read, or that keeps a random generator, an open file or gradients;
- memory is not pinned for batches of the script's own making that the loop writes to, in which it may ask a part for
  being a tuple, or that are objects of a class of their own; and not where that is all that the file would import
  autoaccel for: then with `pin_memory=True` where its loops plainly use CUDA;
- loaders of which only one batch is taken from each fresh iterator;
- `DataLoader(**options)`, where the options may hold these settings.

Before:
    loader = DataLoader(dataset, batch_size=100, shuffle=True)

After:
    loader = DataLoader(dataset, batch_size=100, shuffle=True, num_workers=accel.num_workers(),
                        pin_memory=accel.pin_memory(), persistent_workers=accel.num_workers() > 0)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.analysis.classes import external_lineage
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.edits import AddArguments, Code, Edit, Finding, Replace, Skipped, Tier
from autoaccel.pytorch import cuda_graphs, datasets, device_expressions
from autoaccel.pytorch.execution_order import runs_within
from autoaccel.pytorch.forwards import forward_calls
from autoaccel.pytorch.loader_calls import (
    Iteration,
    LoaderCall,
    advances,
    in_daemon,
    iterations,
    loader_calls,
    loops_over_unknown,
    repeats,
)
from autoaccel.pytorch.loader_changes import loader_state
from autoaccel.pytorch.loader_loops import BatchTransfer, loader_loops, transfers
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.loader_workers.pin_memory import told_apart

RULE = Rule(
    code="AA201",
    name="loader-workers",
    tier=Tier.EQUIVALENT,
    needles=(b"DataLoader",),
    references=(
        "https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading",
        "https://docs.pytorch.org/docs/stable/data.html#memory-pinning",
    ),
    addresses=("loader", "transfer"),
    order=30,
)
_TUNED = ("timeout", "multiprocessing_context", "prefetch_factor")


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A loader gets what it does not set itself, or is left alone for the first reason that is found.

    Loaders are found by `autoaccel.pytorch.loader_calls`, what workers would see by `datasets` and `loader_changes`:
        pin_memory  whether a loop can tell a pinned batch from the one that was made
    """
    calls = list(loader_calls(script))
    captures = bool(calls) and cuda_graphs.captures(script)
    for made in calls:
        problem = _framework(script, made.call) or made.problem or (cuda_graphs.REASON if captures else None)
        if problem is not None:
            yield RULE.skip(made.call, problem)
        else:
            yield from _findings(script, made)


def _findings(script: Script, made: LoaderCall) -> Iterator[Finding | Skipped]:
    given = made.settings.keys() | made.possible
    workers = made.settings.get("num_workers")
    without = "num_workers" not in given or _is_zero(made)
    hidden = sorted({"num_workers", "pin_memory"} & (made.possible - made.settings.keys()))
    if hidden:
        yield RULE.skip(made.call, f"{' and '.join(hidden)} may already be set through the unpacked keyword arguments")
    uses = iterations(script, made.call)
    sources = tuple(datasets.origins(script, made.settings["dataset"])) if "dataset" in made.settings else ()
    wrong = _unfit(script, made, sources, uses)
    if wrong is not None:
        if without or "pin_memory" not in given:
            yield RULE.skip(made.call, wrong)
        return
    refused = _no_workers(script, made, sources, uses) if without else None
    first: Finding | None = None
    if refused is not None:
        yield RULE.skip(made.call, refused)
    elif without:
        first = _with_workers(script, made, sources)
        yield first
    if "pin_memory" not in given and _has_accelerator(script, uses):
        yield _pinned(script, made, uses)
    chosen = isinstance(workers, ast.Constant) and isinstance(workers.value, int) and workers.value > 0
    if "persistent_workers" in given or not (first or chosen) or not _persists(script, made, uses):
        return
    if script.is_notebook:
        yield RULE.skip(made.call, "persistent workers would not see what other cells change of the dataset")
    elif first is not None:
        edits = _add(script, made, "persistent_workers", "num_workers() > 0")
        yield RULE.finding(made.call, "its workers are started again for every pass", *edits, needs=(first,))
    else:
        yield RULE.skip(
            made.call, "persistent workers would change the shuffles of a loader whose workers it chose itself"
        )


def _pinned(script: Script, made: LoaderCall, uses: tuple[Iteration, ...]) -> Finding | Skipped:
    if _only_looked_at(made, uses):
        return RULE.skip(made.call, "no pinned memory: nothing shows that its batches go to a device")
    if (reason := told_apart(script, made, uses)) is not None:
        return RULE.skip(made.call, reason)
    edits = _add(script, made, "pin_memory", "pin_memory()")
    if _is_all(script):
        if not _on_cuda(uses):
            return RULE.skip(made.call, "no pinned memory: for that alone the file would have to import autoaccel")
        edits = (AddArguments(made.call, (("pin_memory", Code("True")),)),)
    return RULE.finding(made.call, "batches are not loaded into pinned memory", *edits, tier=Tier.EXACT)


def _is_all(script: Script) -> bool:
    """Whether pinned memory is all that a file has to gain: it makes loaders, with workers, and uses none."""
    chosen = all("num_workers" in made.settings and not _is_zero(made) for made in loader_calls(script))
    return bool(script.import_runtime) and chosen and not loader_loops(script) and ".backward(" not in script.text


def _is_zero(made: LoaderCall) -> bool:
    workers = made.settings.get("num_workers")
    return isinstance(workers, ast.Constant) and not workers.value and made.writes("num_workers")


def _on_cuda(uses: tuple[Iteration, ...]) -> bool:
    """Whether all loops plainly move their batches to CUDA: `.cuda()`, `.to("cuda")`."""
    moves = [[each for each in transfers(use.script) if each.site is use.node] for use in uses]
    return bool(moves) and all(made and all(_is_cuda(each) for each in made) for made in moves)


def _is_cuda(transfer: BatchTransfer) -> bool:
    device = transfer.device
    if device is None:
        return transfer.method == "cuda"
    return isinstance(device, ast.Constant) and isinstance(device.value, str) and device.value.startswith("cuda")


def _with_workers(script: Script, made: LoaderCall, sources: tuple[Value, ...]) -> Finding:
    message = "samples are loaded by the process that trains"
    plain = not {"sampler", "batch_sampler", "collate_fn"} & made.settings.keys()
    exact = plain and bool(sources) and all(datasets.is_pure_vision(script, source) for source in sources)
    tier = Tier.EXACT if exact else Tier.EQUIVALENT
    literal = made.settings.get("num_workers")
    if literal is None:
        return RULE.finding(made.call, message, *_add(script, made, "num_workers", "num_workers()"), tier=tier)
    edits: tuple[Edit, ...] = (Replace(literal, Code(f"{script.accel}.num_workers()")), *script.import_runtime)
    return RULE.finding(made.call, message, *edits, tier=tier)


def _add(script: Script, made: LoaderCall, name: str, value: str) -> tuple[Edit, ...]:
    return (AddArguments(made.call, ((name, Code(f"{script.accel}.{value}")),)), *script.import_runtime)


def _framework(script: Script, call: ast.Call) -> str | None:
    cls = script.enclosing_class(call)
    if cls is None:
        return None
    for name in external_lineage(script.class_ref(cls)):
        if name.startswith(("lightning.", "pytorch_lightning.")):
            return "Lightning calls this hook and manages its loader"
        if name.startswith(("transformers.", "torch.utils.data.DataLoader", "fastai.")):
            return f"it belongs to a subclass of {name}"
    return None


def _unfit(script: Script, made: LoaderCall, sources: tuple[Value, ...], uses: tuple[Iteration, ...]) -> str | None:
    """Why neither workers nor pinned memory are safe."""
    dataset = made.settings.get("dataset")
    if dataset is None:
        return "its dataset is not visible in the call"
    if datasets.uses_device(script, dataset):
        return "its dataset may hold tensors on a device"
    collate = made.settings.get("collate_fn")
    if collate is not None and datasets.uses_device(script, collate):
        return "its batches are moved to a device while they are collated"
    if any(_unknown(source) for source in sources) and not _moved(made, uses):
        return "its dataset is not known here, so its samples may be on a device"
    return loader_state(script, made).trained()


def _unknown(source: Value) -> bool:
    abstract = source.cls is None and source.name == "torch.utils.data.Dataset"
    return abstract or source.kind in (Kind.UNKNOWN, Kind.EXTERNAL)


def _moved(made: LoaderCall, uses: tuple[Iteration, ...]) -> bool:
    """Whether some batches are moved to a device after they were loaded: then they come from the CPU."""
    for file in dict.fromkeys(use.script for use in uses):
        loops = [use.node for use in uses if use.script is file]
        for transfer in transfers(file):
            if transfer.site in loops or advances(transfer.site_script, transfer.site, made.call):
                return True
    return False


def _no_workers(
    script: Script, made: LoaderCall, sources: tuple[Value, ...], uses: tuple[Iteration, ...]
) -> str | None:
    """Why worker processes would break, change or slow down this loader."""
    tuned = next((name for name in _TUNED if name in made.settings), None)
    if tuned is not None:
        return f"no workers: the script sets {tuned}= itself"
    again = any(use.how == "for" and repeats(use.script, use.node, script, made.call) for use in uses)
    if "num_workers" in made.settings and not again:
        return "no workers: the script asks for none, and its workers would serve a single pass"
    if in_daemon(script, made.call):
        return "no workers: it runs in a daemon process, which may not start others"
    hub = datasets.from_hub(script, made.settings["dataset"])
    for source in sources:
        reason = None if _unknown(source) and hub else _unsafe(source)
        if reason is not None:
            return f"no workers: {reason}"
    size = made.settings.get("batch_size")
    if isinstance(size, ast.Call) and isinstance(size.func, ast.Name) and size.func.id == "len":
        return "no workers: one batch holds the whole dataset"
    if any(use.how == "next" and repeats(use.script, use.node, script, made.call) for use in uses):
        return "no workers: each fresh iterator gives one batch only, and would start them again"
    if uses and all(use.how == "next" for use in uses):
        return "no workers: a single batch is read, and they would prepare several"
    if len(script.loops(made.call)) > 1 and not again:
        return "no workers: the loader is made again in an inner loop"
    draws = [*((use.script, use.node) for use in uses), *loops_over_unknown(script)]
    reason = loader_state(script, made).problem(draws, in_workers=True)
    return f"no workers: {reason}" if reason is not None else None


def _unsafe(source: Value) -> str | None:
    if _unknown(source):
        return "its dataset is not known here"
    if datasets.is_iterable(source):
        return "each would repeat the whole stream, or make other batches of its part"
    if source.cls is None:
        return "its samples are only indexed in memory" if datasets.only_indexes(source) else None
    if datasets.keeps_generator(source.cls):
        return "its dataset keeps a random generator, which each would repeat"
    if datasets.changes_itself(source.cls):
        return "its dataset changes as it is read"
    if datasets.holds_file(source.cls):
        return "its dataset keeps a file open"
    if datasets.only_indexes(source):
        return "its samples are only indexed in memory"
    return None


def _has_accelerator(script: Script, uses: tuple[Iteration, ...]) -> bool:
    """Whether the project uses a device at all; on the CPU, pinning costs time and a device context for nothing."""
    if any(device_expressions.is_used(each) for each in dict.fromkeys((script, *(use.script for use in uses)))):
        return True
    return not uses and ".backward(" not in script.text


def _only_looked_at(made: LoaderCall, uses: tuple[Iteration, ...]) -> bool:
    """Whether nothing shows that a batch leaves the host: they are plotted, counted, written to a file."""
    return bool(uses) and not _moved(made, uses) and not any(_works(use) for use in uses)


def _works(use: Iteration) -> bool:
    """Whether a loop runs a model, moves anything, or calls functions that do."""
    file, loop = use.script, use.node
    if not isinstance(loop, ast.For) or any(True for _ in forward_calls(file, loop)):
        return True
    bodies = [(file, loop), *(callee for call in file.within(loop, ast.Call) for callee in file.callees(call))]
    return any(
        part.attr in ("to", "cuda", "type") for where, body in bodies for part in where.within(body, ast.Attribute)
    )


def _persists(script: Script, made: LoaderCall, uses: tuple[Iteration, ...]) -> bool:
    """Whether later passes may reuse the workers: iterated again, never twice at once, over an unchanged dataset."""
    uses = tuple(use for use in uses if use.how != "endless")
    if not any(use.how != "next" and repeats(use.script, use.node, script, made.call) for use in uses):
        return False
    nodes = [use.node for use in uses]
    if len(set(nodes)) < len(nodes) or (len(nodes) > 1 and any(use.how == "iter" for use in uses) and _mixed(uses)):
        return False
    for use in uses:
        if any(runs_within(use.script, use.node, other.script, other.node) for other in uses if other is not use):
            return False
    return not loader_state(script, made, in_workers=True).changed_after(script, made.call)


def _mixed(uses: tuple[Iteration, ...]) -> bool:
    return {use.how for use in uses} != {"iter"}
