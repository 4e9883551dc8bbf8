"""Whether a loader may have worker processes, and what gives it some.

Of workers, what they would see is asked of `datasets`, `sample_code` and `loader_changes`: they hold copies of what
makes samples.
"""

from __future__ import annotations

import ast

from autoaccel.analysis import Script
from autoaccel.analysis.classes import external_lineage
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.edits import AddArguments, Code, Edit, Replace
from autoaccel.pytorch import backend_settings, cuda_graphs, datasets
from autoaccel.pytorch.execution_order import runs_within
from autoaccel.pytorch.loader_calls import (
    Iteration,
    LoaderCall,
    advances,
    in_daemon,
    iterations,
    loops_over_unknown,
    repeats,
)
from autoaccel.pytorch.loader_changes import loader_state
from autoaccel.pytorch.loader_loops import transfers
from autoaccel.pytorch.sample_code import uses_device
from autoaccel.pytorch.training_steps import training_steps
from autoaccel_codemods.loader_workers import handled_errors

_TUNED = ("timeout", "multiprocessing_context", "prefetch_factor")
STARTED_AGAIN = "its workers are started again for every pass"
REPEATED = "its samples draw from a random generator of their own, which each would repeat"


def refusal(script: Script, made: LoaderCall, *, seeded: bool = False, sharded: bool = False) -> str | None:
    """Why a loader whose workers the script does not choose gets none; `seeded` where each worker would draw other
    numbers from the generators that samples keep, `sharded` where each would have its part of a stream."""
    if (problem := unreadable(script, made)) is not None:
        return problem
    if "num_workers" in made.possible - made.settings.keys():
        return "num_workers may already be set through the unpacked keyword arguments"
    uses = iterations(script, made.call)
    sources = tuple(datasets.origins(script, made.settings["dataset"])) if "dataset" in made.settings else ()
    return unfit(script, made, sources, uses) or no_workers(script, made, sources, uses, seeded=seeded, sharded=sharded)


def unreadable(script: Script, made: LoaderCall) -> str | None:
    """Why nothing at all is done to a loader."""
    captured = cuda_graphs.REASON if cuda_graphs.captures(script) else None
    return _framework(script, made.call) or made.problem or captured


def chooses_workers(made: LoaderCall) -> bool:
    """Whether a script says how many workers a loader has, and not that it has none."""
    return "num_workers" in made.settings.keys() | made.possible and not asks_for_none(made)


def asks_for_none(made: LoaderCall) -> bool:
    """Whether a loader is given the default by name, `num_workers=0`."""
    workers = made.settings.get("num_workers")
    return isinstance(workers, ast.Constant) and not workers.value and made.writes("num_workers")


def worker_edits(script: Script, made: LoaderCall) -> tuple[Edit, ...]:
    """What gives a loader workers."""
    literal = made.settings.get("num_workers")
    if literal is None:
        return added_argument(script, made, "num_workers", "num_workers()")
    return (Replace(literal, Code(f"{script.accel}.num_workers()")), *script.import_runtime)


def kept_workers(script: Script, made: LoaderCall, *, seeded: bool = False) -> tuple[Edit, ...] | str | None:
    """What lets workers that a loader gets serve later passes, why they may not; None where nothing is to be said."""
    given = made.settings.keys() | made.possible
    uses = tuple(use for use in iterations(script, made.call) if use.how != "endless")
    again = any(use.how != "next" and repeats(use.script, use.node, script, made.call) for use in uses)
    if "persistent_workers" in given or not again:
        return None
    if not _in_turns(uses):
        return f"{STARTED_AGAIN}: two may be under way at once"
    if loader_state(script, made, in_workers=True).changed_after(script, made.call, seeded=seeded):
        return f"{STARTED_AGAIN}: code that changes what its samples are made of may run after it is made"
    if script.is_notebook:
        return "persistent workers would not see what other cells change of the dataset"
    return added_argument(script, made, "persistent_workers", "num_workers() > 0")


def added_argument(script: Script, made: LoaderCall, name: str, value: str) -> tuple[Edit, ...]:
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


def unfit(script: Script, made: LoaderCall, sources: tuple[Value, ...], uses: tuple[Iteration, ...]) -> str | None:
    """Why neither workers nor pinned memory are safe."""
    dataset = made.settings.get("dataset")
    if dataset is None:
        return "its dataset is not visible in the call"
    if uses_device(script, dataset):
        return "its dataset may hold tensors on a device"
    collate = made.settings.get("collate_fn")
    if collate is not None and uses_device(script, collate):
        return "its batches are moved to a device while they are collated"
    if any(is_unknown(source) for source in sources) and not moved_later(made, uses):
        return "its dataset is not known here, so its samples may be on a device"
    return loader_state(script, made).trained()


def is_unknown(source: Value) -> bool:
    abstract = source.cls is None and source.name == "torch.utils.data.Dataset"
    return abstract or source.kind in (Kind.UNKNOWN, Kind.EXTERNAL)


def moved_later(made: LoaderCall, uses: tuple[Iteration, ...]) -> bool:
    """Whether some batches are moved to a device after they were loaded: then they come from the CPU."""
    for file in dict.fromkeys(use.script for use in uses):
        loops = [use.node for use in uses if use.script is file]
        for transfer in transfers(file):
            if transfer.site in loops or advances(transfer.site_script, transfer.site, made.call):
                return True
    return False


def no_workers(
    script: Script,
    made: LoaderCall,
    sources: tuple[Value, ...],
    uses: tuple[Iteration, ...],
    *,
    seeded: bool = False,
    sharded: bool = False,
) -> str | None:
    """Why worker processes would break, change or slow down this loader."""
    tuned = next((name for name in _TUNED if name in made.settings), None)
    if tuned is not None:
        return f"no workers: the script sets {tuned}= itself"
    passes = (use for use in uses if use.how in ("for", "iter"))  # a fresh iterator is kept: `it = iter(loader)`
    again = any(repeats(use.script, use.node, script, made.call) for use in passes)
    if "num_workers" in made.settings and not again:
        return "no workers: the script asks for none, and its workers would serve a single pass"
    if in_daemon(script, made.call):
        return "no workers: it runs in a daemon process, which may not start others"
    hub = datasets.from_hub(script, made.settings["dataset"])
    for source in sources:
        reason = None if is_unknown(source) and hub else _unsafe(source, sharded=sharded)
        if reason is not None:
            return f"no workers: {reason}"
    if not seeded and loader_state(script, made, in_workers=True).generator_reads:
        return f"no workers: {REPEATED}"
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
    if handled_errors.handles_errors(script, made, draws):
        return f"no workers: {handled_errors.REASON}"
    reason = loader_state(script, made).problem(draws, in_workers=True)
    return f"no workers: {reason}" if reason is not None else None


def trains_on_cpu(script: Script) -> bool:
    """Whether a program trains, and surely nothing in it leaves the CPU."""
    if not backend_settings.stays_on_the_cpu(script):
        return False
    files = script.project.related(script)
    return any(training_steps(each) for each in files) and not any(each.frameworks for each in files)


def _unsafe(source: Value, *, sharded: bool) -> str | None:
    if is_unknown(source):
        return "its dataset is not known here"
    if datasets.is_iterable(source) and not sharded:
        return "each would repeat the whole stream, or make other batches of its part"
    if source.cls is None:
        return "its samples are only indexed in memory" if datasets.only_indexes(source) else None
    if datasets.holds_file(source.cls):
        return "its dataset keeps a file open"
    if datasets.only_indexes(source):
        return "its samples are only indexed in memory"
    return None


def _in_turns(uses: tuple[Iteration, ...]) -> bool:
    """Whether a loader surely is never iterated twice at once."""
    nodes = [use.node for use in uses]
    if len(set(nodes)) < len(nodes) or (len(nodes) > 1 and any(use.how == "iter" for use in uses) and _mixed(uses)):
        return False
    return not any(
        runs_within(use.script, use.node, other.script, other.node)
        for use in uses
        for other in uses
        if other is not use
    )


def _mixed(uses: tuple[Iteration, ...]) -> bool:
    return {use.how for use in uses} != {"iter"}
