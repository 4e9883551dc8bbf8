"""Every pass over a DataLoader: what the loader itself hands out, before anything looks ahead or moves it."""

from __future__ import annotations

import functools
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

from torch.utils import data
from torch.utils.data.dataloader import _BaseDataLoaderIter

from autoaccel.measure.observing.fingerprints import digest_of
from autoaccel.measure.observing.observation import Batch, Observation
from autoaccel.measure.observing.record import Pass


@dataclass
class Iteration:
    """A pass that is under way."""

    loader: int
    length: int | None
    workers: int
    batches: list[str] = field(default_factory=list)
    handed_out: int = 0
    complete: bool = False


class Loaders:
    """Hooks the iterators that all DataLoaders use; `hashed` says whether batches are looked at."""

    def __init__(self, hashed: bool = True) -> None:
        self._hashed = hashed
        self._passes: list[Iteration] = []
        self._under_way: weakref.WeakKeyDictionary[Any, Iteration] = weakref.WeakKeyDictionary()
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._loaders = 0

    def install(self, observation: Observation) -> None:
        self._observation = observation
        self._hook_beginning()
        self._hook_batches()

    def contribute(self) -> dict[str, Any]:
        return {
            "passes": tuple(
                Pass(each.loader, each.length, tuple(each.batches), each.complete, each.workers)
                for each in self._passes
            )
        }

    def _hook_beginning(self) -> None:
        create, reset = _BaseDataLoaderIter.__init__, _BaseDataLoaderIter._reset  # noqa: SLF001

        @functools.wraps(create)
        def created(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            create(iterator, loader, *args, **kwargs)
            self._begin(iterator, loader)

        @functools.wraps(reset)
        def begun_again(iterator: Any, loader: Any, first_iter: bool = False) -> None:
            reset(iterator, loader, first_iter)
            if not first_iter:  # workers that are kept: the same iterator serves every pass
                self._begin(iterator, loader)

        _BaseDataLoaderIter.__init__ = created  # type: ignore[method-assign]
        _BaseDataLoaderIter._reset = begun_again  # type: ignore[method-assign]  # noqa: SLF001

    def _begin(self, iterator: Any, loader: Any) -> None:
        if not self._observation.here:
            return
        if loader not in self._numbers:
            self._numbers[loader] = self._loaders
            self._loaders += 1
        begun = Iteration(self._numbers[loader], _length(loader), int(loader.num_workers))
        self._under_way[iterator] = begun
        self._passes.append(begun)

    def _hook_batches(self) -> None:
        plain = _BaseDataLoaderIter.__next__
        limit = self._observation.request.pass_batches

        @functools.wraps(plain)
        def following(iterator: Any) -> Any:
            current = self._under_way.get(iterator)
            if current is None or not self._observation.here:
                return plain(iterator)
            if limit is not None and current.handed_out >= limit:
                raise StopIteration
            began = time.perf_counter()
            try:
                batch = plain(iterator)
            except StopIteration:
                current.complete = True
                raise
            self._handed_out(current, batch, time.perf_counter() - began)
            return batch

        _BaseDataLoaderIter.__next__ = following  # type: ignore[method-assign]

    def _handed_out(self, current: Iteration, batch: Any, waited: float) -> None:
        current.handed_out += 1
        if self._hashed:
            current.batches.append(digest_of(batch))
        for told in self._observation.events.batch:
            told(Batch(current.loader, batch, waited))


def _length(loader: Any) -> int | None:
    # asked for its length, a loader of an IterableDataset would warn when it turns out to be another one
    if isinstance(loader.dataset, data.IterableDataset):
        return None
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None
