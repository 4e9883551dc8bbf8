"""The share of a stream that one of several workers has, in batches that are those of a single process.

torch asks the workers of a loader for batches in turn. So worker w of n makes the batches w, w + n, w + 2n, ... of the
stream, and skips the items of all others: batches come in the order, and hold the items, that one process gives them.
A worker whose stream ends is asked no more; by then all batches before have been asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, TypeVar

from torch.utils.data import _utils, get_worker_info

from .loader_settings import WorkerCount

Item = TypeVar("Item")


def shard(source: Iterable[Item]) -> Iterable[Item]:
    """The items of `source` that are this worker's to make samples of; all of them where there are no workers.

    For the loop of an `IterableDataset` that yields one sample for each item: `for line in accel.shard(file)`. Items
    are divided by the batches of the loader whose workers ask: each worker goes through all of them and skips those of
    the others. Nothing is skipped in other processes, in workers whose number is not `accel.num_workers()`, nor where
    another dataset iterates this one: there, all of it was meant.

    Args:
        source: What gives the same items in the same order in each process.

    Returns:
        An iterable of items; outside of such workers `source` itself.
    """
    info: Any = get_worker_info()
    if info is None or not isinstance(info.num_workers, WorkerCount):
        return source
    method = sys._getframe(1)  # noqa: SLF001 - the loop that is divided
    own = method.f_locals.get(method.f_code.co_varnames[0]) if method.f_code.co_argcount else None
    if own is not info.dataset or method.f_code.co_name != "__iter__":
        return source
    return _share(source, info.id, info.num_workers)


def _share(source: Iterable[Item], worker: int, workers: WorkerCount) -> Iterator[Item]:
    frame = sys._getframe()  # noqa: SLF001
    size, begun = _batch_size(frame), workers.taken
    del frame
    for number, item in enumerate(source):
        batch = number // size - begun
        if batch >= 0 and batch % workers == worker:
            yield item


def _batch_size(frame: FrameType | None) -> int:
    """How many items the batch has that torch's fetcher is making: it is the one that asks."""
    while frame is not None:
        if frame.f_code.co_name == "fetch" and frame.f_code.co_filename == _utils.fetch.__file__:
            indices = frame.f_locals[frame.f_code.co_varnames[1]]
            return 1 if indices is None else len(indices)
        frame = frame.f_back
    raise RuntimeError("accel.shard: this torch does not say how large batches are; set AUTOACCEL_DISABLE=workers")
