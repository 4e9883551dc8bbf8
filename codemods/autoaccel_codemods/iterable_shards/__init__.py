"""Divide streams among workers.

Each worker of a loader repeats an `IterableDataset` as a whole, so `loader-workers` (AA201) gives it none, and the
training step waits for every batch. Where a plain loop yields one sample for each item, the items can be divided: with
`accel.shard` each worker makes the samples of every n-th batch and passes by the items of the others. Batches and their
order are those of one process, bit for bit; what samples draw at random comes from the workers' streams, therefore
`equivalent`. Whether workers pay is decided when the script runs, from what its first batches and steps take.
Each worker goes through all items, so this helps where samples are made of them (parsed, decoded, augmented), and not
where the items themselves take the time.

Left alone:
- `__iter__` that is more than setting up and one loop: several loops, `while`, nested loops, code after the loop;
- loops that skip items, end early, or yield none or several samples for an item: batches would be others;
- samples that hang on earlier ones: buffers that shuffle, counters, anything that is still there for the next item;
- loops that read on in what they iterate (`next(file)`), or change it;
- items that are not surely the same ones in each process: sources out of sight, that are random, that have no end or
  can be read only once; sets, network, standard input;
- streams that divide themselves (`get_worker_info`), that wrap others, or draw from a generator of their own;
- loaders that are made in another file than the stream, or whose workers the script chooses;
- what `loader-workers` leaves alone for other reasons.

Before:
    class Lines(IterableDataset):
        def __iter__(self):
            with open(self.path) as file:
                for line in file:
                    yield encode(line)

    loader = DataLoader(Lines("train.txt"), batch_size=32)

After:
    class Lines(IterableDataset):
        def __iter__(self):
            with open(self.path) as file:
                for line in accel.shard(file):
                    yield encode(line)

    loader = DataLoader(Lines("train.txt"), batch_size=32, num_workers=accel.num_workers())
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from autoaccel.analysis import Script
from autoaccel.analysis.classes import methods
from autoaccel.dataflow.abstract_values import Value
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.edits import Code, Edit, Finding, Replace, Skipped, Tier
from autoaccel.pytorch import datasets
from autoaccel.pytorch.loader_calls import LoaderCall, loader_calls
from autoaccel.pytorch.loader_changes import loader_state
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.iterable_shards.plain_loops import PlainLoop, plain_loop
from autoaccel_codemods.loader_workers.worker_safety import chooses_workers, refusal, worker_edits

RULE = Rule(
    code="AA204",
    name="iterable-shards",
    tier=Tier.EQUIVALENT,
    needles=(b"IterableDataset",),
    pattern=r"DataLoader",
    references=("https://docs.pytorch.org/docs/stable/data.html#iterable-style-datasets",),
    addresses=("loader",),
    order=32,
)
_DEFAULTS: Final[dict[str, tuple[bool | None, ...]]] = {
    "worker_init_fn": (None,),
    "in_order": (True,),
    "sampler": (None,),
    "batch_sampler": (None,),
    "shuffle": (False, None),
}
"""What a loader of a stream may be given of these."""


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A loader gets workers together with the loop of its stream, or is left alone for the first reason that is found.

    What workers would see is asked as by `loader_workers`, and of the stream:
        plain_loops  whether a loop gives one sample for each item, and the same items in each process
    """
    divided: dict[ast.For, Finding] = {}
    for made in loader_calls(script):
        stream = _stream(script, made)
        if stream is None or chooses_workers(made):
            continue
        loop = _loop(script, made, stream)
        reason = loop if isinstance(loop, str) else refusal(script, made, sharded=True)
        if isinstance(loop, str) or reason is not None:
            yield RULE.skip(made.call, f"no workers: {str(reason).removeprefix('no workers: ')}")
            continue
        needs: tuple[Finding, ...] = ()
        if not loop.divided:
            if loop.node not in divided:
                code = Code(f"{script.accel}.shard({{0}})", (loop.node.iter,))
                edits: tuple[Edit, ...] = (Replace(loop.node.iter, code), *script.import_runtime)
                divided[loop.node] = RULE.finding(loop.node, "each worker would repeat the whole stream", *edits)
                yield divided[loop.node]
            needs = (divided[loop.node],)
        message = "the samples of its stream are made by the process that trains"
        yield RULE.finding(made.call, message, *worker_edits(script, made), needs=needs)


def _stream(script: Script, made: LoaderCall) -> Value | None:
    """The stream that a loader surely reads, of a class of the project."""
    given = made.settings.get("dataset")
    values = script.values(given) if given is not None and made.problem is None else ()
    streams = [value for value in values if datasets.is_iterable(value)]
    only = streams[0] if len(streams) == 1 == len(values) else None
    return only if only is not None and only.cls is not None else None


def _is_default(name: str, value: ast.expr | None) -> bool:
    return any(is_constant(value, each) for each in _DEFAULTS[name])


def _loop(script: Script, made: LoaderCall, stream: Value) -> PlainLoop | str:
    """The loop that gives the samples, or why they cannot be divided."""
    assert stream.cls is not None
    given = {name: made.settings.get(name) for name in made.settings.keys() | made.possible}
    otherwise = next((name for name in _DEFAULTS if name in given and not _is_default(name, given[name])), None)
    if otherwise is not None:
        return f"the script sets {otherwise}= itself"
    found = next(methods(stream.cls, "__iter__"), None)
    if found is None:
        return "how its samples are made is not seen"
    file, method = found
    if file is not script:
        return "its stream is in another file"
    state = loader_state(script, made, in_workers=True)
    if state.generator_reads:
        return "its samples draw from a random generator of their own, which each would repeat"
    return plain_loop(script, method)
