"""`accel.prefetch` as it fetches where there is an accelerator: the next batch before the loop is done with this one.

The runtime does so where that draws no random numbers, and where it pays; here it always pays, from the third batch on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from autoaccel.measure.observing.randomness import host_streams
from autoaccel.runtime.loading.torch_iterators import WorkerEpoch, generators_of


class FetchedAhead:
    """A loader's batches, each fetched one step early."""

    def __init__(self, loader: Any, *_: Any, **__: Any) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._loader)  # which draws a seed at once, not when the first batch is asked for
        if isinstance(self._loader, DataLoader):
            batches = WorkerEpoch(batches, generators_of(self._loader))
        return self._early(batches)

    def _early(self, batches: Iterator[Any]) -> Iterator[Any]:
        draws = [not isinstance(self._loader, DataLoader)]  # by fetch; the first one starts the order
        waiting: list[Any] = []
        ended = False
        try:
            while True:
                before = host_streams()
                try:
                    waiting.append(next(batches))
                except StopIteration:
                    break
                except Exception:  # it belongs to the batch that cannot be had
                    yield from waiting
                    waiting.clear()
                    raise
                draws.append(len(draws) > 1 and before != host_streams())
                if any(draws) or len(draws) < 3 or len(waiting) > 1:
                    yield waiting.pop(0)
            while waiting:
                yield waiting.pop(0)
            ended = True
        finally:
            if isinstance(batches, WorkerEpoch) and not ended:  # as the runtime leaves generators of the script's own
                batches.left(len(waiting))
