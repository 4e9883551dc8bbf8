"""Load batches in workers, into pinned memory.

Without workers the training step waits while the main process reads and decodes every sample; with them the next
batches are made meanwhile. From pinned memory the copy to the device runs at full speed and beside the computation.
Whether there is a device to pin for is decided when the script runs, and so is how many workers pay, if any: from what
its first batches and steps take.

What the script sets itself stays, but for `num_workers=0`: that is the default, written out, and counts as if it were
not there where workers would serve more than one pass. Workers persist where later epochs use them again and see the
same dataset, but never where the script chose their number, nor in notebooks, whose cells may change the dataset
between epochs. The order of samples is kept (by persistent workers in the first epoch only); random augmentation draws
from the workers' random streams, therefore `equivalent`.

No workers, but pinned memory: samples that are only indexed in memory, which workers would make slower.

Left alone:
- samples or collation on a device;
- programs that train, and say nothing of devices: workers would take CPU time from the training itself;
- scripts that capture CUDA graphs themselves: page-locked memory may not be asked for meanwhile;
- streams (`IterableDataset`): every worker would repeat all of it, or make other batches of its part;
  `iterable-shards` (AA204) divides plain ones;
- samples, their order or their collation that ask a model or that the loop changes: workers hold copies;
- samples that read environment variables, or files by paths and kinds, that the loop may write; samples that print;
- a dataset that is changed as it is read, or that keeps an open file or gradients;
- samples that draw from a generator of their own, which workers would repeat: `worker-seed` (AA203) has it seeded;
- memory is not pinned for batches of texts, and not for batches of the script's own making that the loop writes to, in
  which it may ask a part for being a tuple, or that are objects of a class of their own; where that is all that the
  file would import autoaccel for, it gets `torch.cuda.is_available()`, if its loops are in sight;
- samples whose errors the script handles: a worker hands on another error, made from a text;
- loaders of which only one batch is taken from each fresh iterator, and those with `num_workers=0` that serve one pass;
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
from autoaccel.analysis.parsed_options import default_of
from autoaccel.dataflow.abstract_values import Value
from autoaccel.edits import AddArguments, Code, Finding, Skipped, Tier
from autoaccel.pytorch import datasets, device_expressions
from autoaccel.pytorch.forwards import forward_calls
from autoaccel.pytorch.loader_calls import Iteration, LoaderCall, handed_out, iterations, loader_calls
from autoaccel.pytorch.loader_loops import loader_loops
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.loader_workers.pin_memory import holds_no_tensor, told_apart
from autoaccel_codemods.loader_workers.worker_safety import (
    STARTED_AGAIN,
    added_argument,
    asks_for_none,
    kept_workers,
    moved_later,
    no_workers,
    trains_on_cpu,
    unfit,
    unreadable,
    worker_edits,
)

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


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A loader gets what it does not set itself, or is left alone for the first reason that is found.

    Loaders are found by `autoaccel.pytorch.loader_calls`, what workers would see by `datasets` and `loader_changes`:
        worker_safety  whether it may have workers, and whether these may serve later passes
        handled_errors  whether the script handles errors of samples, which workers change
        pin_memory     whether a loop can tell a pinned batch from the one that was made
    """
    for made in loader_calls(script):
        problem = unreadable(script, made)
        if problem is not None:
            yield RULE.skip(made.call, problem)
        else:
            yield from _findings(script, made)


def _findings(script: Script, made: LoaderCall) -> Iterator[Finding | Skipped]:
    given = made.settings.keys() | made.possible
    workers = made.settings.get("num_workers")
    without = "num_workers" not in given or asks_for_none(made)
    hidden = sorted({"num_workers", "pin_memory"} & (made.possible - made.settings.keys()))
    if hidden:
        yield RULE.skip(made.call, f"{' and '.join(hidden)} may already be set through the unpacked keyword arguments")
    uses = iterations(script, made.call)
    sources = tuple(datasets.origins(script, made.settings["dataset"])) if "dataset" in made.settings else ()
    wrong = unfit(script, made, sources, uses)
    if wrong is not None:
        if without or "pin_memory" not in given:
            yield RULE.skip(made.call, wrong)
        return
    refused = no_workers(script, made, sources, uses) if without else None
    if without and refused is None and trains_on_cpu(script):
        refused = "no workers: it trains on the CPU, whose time they would take from the training itself"
    first: Finding | None = None
    if refused is not None:
        yield RULE.skip(made.call, refused)
    elif without:
        first = _with_workers(script, made, sources)
        yield first
    everywhere = (*uses, *handed_out(script, uses, made.call))
    if "pin_memory" not in given and _has_accelerator(script, everywhere):
        yield _pinned(script, made, sources, everywhere)
    if workers is not None and not without and _is_zero(default_of(script, workers)):
        yield RULE.skip(made.call, f"`{script.source(workers)}` is 0 unless the command line asks for workers")
    chosen = isinstance(workers, ast.Constant) and isinstance(workers.value, int) and workers.value > 0
    kept = kept_workers(script, made) if first or chosen else None
    if isinstance(kept, str):
        yield RULE.skip(made.call, kept)
    elif kept is not None and first is not None:
        yield RULE.finding(made.call, STARTED_AGAIN, *kept, needs=(first,))
    elif kept is not None:
        yield RULE.skip(
            made.call, "torch draws one seed for persistent workers, not one a pass: later passes would differ"
        )


def _is_zero(default: ast.Constant | None) -> bool:
    return default is not None and default.value == 0


def _pinned(
    script: Script, made: LoaderCall, sources: tuple[Value, ...], uses: tuple[Iteration, ...]
) -> Finding | Skipped:
    if _only_looked_at(made, uses) or (_is_all(script) and not uses):
        return RULE.skip(made.call, "no pinned memory: nothing shows that its batches go to a device")
    if (reason := told_apart(script, made, uses)) is not None:
        return RULE.skip(made.call, reason)
    if holds_no_tensor(script, made, sources):
        return RULE.skip(made.call, "no pinned memory: its batches hold no tensors")
    if not _is_all(script):
        edits = added_argument(script, made, "pin_memory", "pin_memory()")
    else:  # the file would import autoaccel for that alone
        asks, imports = script.spell("torch.cuda.is_available")
        edits = (AddArguments(made.call, (("pin_memory", Code(f"{asks}()")),)), *imports)
    return RULE.finding(made.call, "batches are not loaded into pinned memory", *edits, tier=Tier.EXACT)


def _is_all(script: Script) -> bool:
    """Whether pinned memory is all that a file has to gain: it makes loaders, with workers, and uses none."""
    chosen = all("num_workers" in made.settings and not asks_for_none(made) for made in loader_calls(script))
    return bool(script.import_runtime) and chosen and not loader_loops(script) and ".backward(" not in script.text


def _with_workers(script: Script, made: LoaderCall, sources: tuple[Value, ...]) -> Finding:
    message = "samples are loaded by the process that trains"
    plain = not {"sampler", "batch_sampler", "collate_fn"} & made.settings.keys()
    exact = plain and bool(sources) and all(datasets.is_pure_vision(script, source) for source in sources)
    tier = Tier.EXACT if exact else Tier.EQUIVALENT
    return RULE.finding(made.call, message, *worker_edits(script, made), tier=tier)


def _has_accelerator(script: Script, uses: tuple[Iteration, ...]) -> bool:
    """Whether the project uses a device at all; on the CPU, pinning costs time and a device context for nothing."""
    if any(device_expressions.is_used(each) for each in dict.fromkeys((script, *(use.script for use in uses)))):
        return True
    return not uses and ".backward(" not in script.text


def _only_looked_at(made: LoaderCall, uses: tuple[Iteration, ...]) -> bool:
    """Whether nothing shows that a batch leaves the host: they are plotted, counted, written to a file."""
    return bool(uses) and not moved_later(made, uses) and not any(_works(use) for use in uses)


def _works(use: Iteration) -> bool:
    """Whether a loop runs a model, moves anything, or calls functions that do."""
    file, loop = use.script, use.node
    if not isinstance(loop, ast.For) or any(True for _ in forward_calls(file, loop)):
        return True
    bodies = [(file, loop), *(callee for call in file.within(loop, ast.Call) for callee in file.callees(call))]
    return any(
        part.attr in ("to", "cuda", "type") for where, body in bodies for part in where.within(body, ast.Attribute)
    )
