"""One pass over a stream whose workers the runtime chose: begun by the training process, handed over if that pays.

The samples of a stream cannot be asked for by their number. Workers that take over go through the stream from its
beginning, pass by what the loop has had already, and divide the rest (`stream_shards`). If they fail, the training
process does the same alone. Either way the loop gets the batches of the loader without workers, in their order.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, Final

from torch.utils import data

from . import loader_settings
from .managed_epoch import ChangingHands, in_words, may_be_managed
from .stream_shards import shard
from .torch_iterators import single_process

_lengths: Final[weakref.WeakKeyDictionary[Any, int]] = weakref.WeakKeyDictionary()  # batches of the last whole pass


def managed_stream(loader: Any) -> bool:
    """Whether the runtime decides, while a pass goes on, who makes the batches of a stream: of one that is divided by
    `accel.shard`, and not otherwise."""
    if not may_be_managed(loader) or not isinstance(loader.dataset, data.IterableDataset):
        return False
    code = getattr(type(loader.dataset).__iter__, "__code__", None)
    return code is not None and shard.__name__ in code.co_names


class StreamEpoch(ChangingHands):
    """The batches of one pass over a stream."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._count = 0  # batches that the loop has had

    def __next__(self) -> Any:
        if self._workers is None and (self._count == 0 or self._statistics.count >= self._statistics.next):
            self._decide()
        try:
            batch = self._here() if self._workers is None else self._by_workers()
        except StopIteration:
            _lengths[self._loader] = self._count
            raise
        self._count += 1
        return batch

    def _here(self) -> Any:
        self._statistics.begin()
        batch = self._fetched(lambda: next(self._single))
        self._steps.begin()
        return batch

    def _decide(self) -> None:
        if self._statistics.may_decide(self._loader):
            # else as many as there were so far
            left = max(_lengths.get(self._loader, 2 * self._count) - self._count, 0)
            found = self._statistics.workers_that_pay(self._loader, left, loader_settings.machine())
            if found is not None and self._started(found, taken=self._count):
                self._single = None  # what its stream has open is closed

    def _by_workers(self) -> Any:
        began = time.perf_counter()
        try:
            batch = next(self._workers)
        except StopIteration:
            raise
        except Exception as raised:  # the training process tries itself: a bad sample raises its own exception
            failure = in_words(raised)
        else:
            self._statistics.is_too_late(time.perf_counter() - began)  # they are left alone until the pass ends
            return batch
        self._workers = None
        self._statistics.refuse(f"workers failed: {failure}")
        self._single = single_process(self._loader, self._seeds)
        for _ in range(self._count):
            next(self._single)
        return next(self._single)
