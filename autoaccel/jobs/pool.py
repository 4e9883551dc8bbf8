"""Work on many items: in shards, by several processes where that is worth it, in this one where it is not."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

Prepare = Callable[[], Callable[[T], R]]


def usable_cpus() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shards(items: Sequence[T], key: Callable[[T], object], most: int) -> list[list[T]]:
    """Runs of neighbouring items with the same key, of at most so many items each."""
    found = []
    for _, group in itertools.groupby(items, key):
        while part := list(itertools.islice(group, most)):
            found.append(part)
    return found


def run(
    work: Sequence[Sequence[T]], prepare: Prepare[T, R], lost: Callable[[T], R], *, jobs: int
) -> Iterator[tuple[int, list[R]]]:
    """The results of each shard of work with its number, as shards are done; in this process if `jobs` is 1.

    `lost` says what becomes of an item whose process died; every other item of its shard still gets its result.
    Exceptions of the function end the run.
    """
    done: set[int] = set()
    if jobs > 1 and len(work) > 1:
        from autoaccel.jobs.processes import NoProcesses, in_processes

        with contextlib.suppress(NoProcesses):
            for number, results in in_processes(work, prepare, lost, min(jobs, len(work))):
                done.add(number)
                yield number, results
    if len(done) < len(work):
        function = prepare()
        for number, shard in enumerate(work):
            if number not in done:
                with collecting_afterwards():
                    results = [function(item) for item in shard]
                yield number, results


@contextlib.contextmanager
def collecting_afterwards() -> Iterator[None]:
    """Trees are many objects that live long: the collector would look through them again and again, for a third of the
    time. Analyses leave no cycles behind; what is there in the end counts as old without a look at it."""
    was_on = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        if was_on:
            gc.enable()
