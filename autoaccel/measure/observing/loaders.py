"""Every pass over a DataLoader: what the loader itself hands out, before anything looks ahead or moves it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch.utils import data
from torch.utils.data import _utils
from torch.utils.data.dataloader import _BaseDataLoaderIter

from autoaccel.measure.observing.digests import Samples, digest_of
from autoaccel.measure.observing.hooks import around, replacing
from autoaccel.measure.observing.observation import Batch, Observation, Observer
from autoaccel.measure.observing.randomness import host_streams
from autoaccel.measure.observing.run_record import Pass


@dataclass
class OpenPass:
    """A pass that is under way."""

    loader: int
    length: int | None
    batches: list[str] = field(default_factory=list)
    handed_out: int = 0
    complete: bool = False
    samples: Samples | None = None
    backwards: int = 0
    """That were made before it."""
    draws: tuple[str, ...] = ()


class Loaders(Observer):
    """Hooks the iterators that all DataLoaders use; `hashed` says whether batches are looked at."""

    def __init__(self, hashed: bool = True) -> None:
        self._hashed = hashed
        self._passes: list[OpenPass] = []
        self._under_way: weakref.WeakKeyDictionary[Any, OpenPass] = weakref.WeakKeyDictionary()
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._loaders = 0
        self._wants_whole = False

    def install(self, observation: Observation) -> None:
        self._observation = observation
        if self._hashed:
            watch_fetches()
        if observation.request.batch_scale > 1:
            scale_batches(observation.request.batch_scale)
        self._hook_beginning()
        self._hook_batches()
        if observation.request.pass_batches is not None:
            self._cut_lengths(observation.request.pass_batches)

    def contribute(self) -> dict[str, Any]:
        return {
            "passes": tuple(
                Pass(
                    each.loader,
                    each.length,
                    tuple(each.batches),
                    each.complete,
                    each.draws,
                    each.samples.digest() if each.samples is not None and each.complete else "",
                )
                for each in self._passes
            )
        }

    def _hook_beginning(self) -> None:
        @around(_BaseDataLoaderIter, "__init__")
        def create(plain: Callable[..., None], iterator: Any, loader: Any) -> None:
            plain(iterator, loader)
            self._begin(iterator, loader)

        @around(_BaseDataLoaderIter, "_reset")
        def reset(plain: Callable[..., None], iterator: Any, loader: Any, first_iter: bool = False) -> None:
            plain(iterator, loader, first_iter)
            if not first_iter:  # workers that are kept: the same iterator serves every pass
                self._begin(iterator, loader)

    def _begin(self, iterator: Any, loader: Any) -> None:
        self._wants_whole = True
        try:
            length = _length(loader)
        finally:
            self._wants_whole = False
        begun = OpenPass(self._number(loader), length, backwards=self._observation.events.backwards)
        begun.samples = Samples() if self._observation.request.samples else None
        self._under_way[iterator] = begun
        self._passes.append(begun)

    def _number(self, loader: Any) -> int:
        """By identity: a loader may be equal to another, and not be hashable."""
        reference, number = self._known.get(id(loader), (None, -1))
        if reference is None or reference() is not loader:
            number = self._loaders
            self._loaders += 1
            self._known[id(loader)] = weakref.ref(loader), number
        return number

    def _cut_lengths(self, limit: int) -> None:
        """Say that loaders are as short as their passes: who counts batches and who multiplies come to the same."""

        @replacing(data.DataLoader, "__len__")
        def length(plain: Callable[[Any], int], loader: Any) -> int:
            return plain(loader) if self._wants_whole else min(plain(loader), limit)

    def _hook_batches(self) -> None:
        limit = self._observation.request.pass_batches

        @around(_BaseDataLoaderIter, "__next__")
        def following(plain: Callable[[Any], Any], iterator: Any) -> Any:
            current = self._under_way.get(iterator)
            if current is None:
                return plain(iterator)
            if limit is not None and current.handed_out >= limit:
                raise StopIteration
            began = time.perf_counter()
            try:
                batch = plain(iterator)
            except StopIteration:
                current.complete = True
                if current.backwards < self._observation.events.backwards:
                    current.samples = None
                raise
            waited = time.perf_counter() - began
            current.draws = drawn(iterator)
            # images that come as bytes are told as what the loop gets
            self._handed_out(current, getattr(iterator, "in_floats", lambda same: same)(batch), waited)
            return batch

    def _handed_out(self, current: OpenPass, batch: Any, waited: float) -> None:
        current.handed_out += 1
        if self._hashed:
            current.batches.append(digest_of(batch))
            if current.samples is not None:
                current.samples.add(batch)
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


def scale_batches(scale: int) -> None:
    """Loaders made from now on have batches so many times as large, unless they leave the size to a batch sampler."""

    @around(data.DataLoader, "__init__")
    def create(
        plain: Callable[..., None], loader: Any, dataset: Any, batch_size: Any = 1, *args: Any, **rest: Any
    ) -> None:
        sampler = rest.get("batch_sampler", args[2] if len(args) > 2 else None)
        if sampler is None and batch_size is not None:
            batch_size *= scale
        plain(loader, dataset, batch_size, *args, **rest)


# -- whether a dataset draws random numbers itself, while samples are fetched and put together: in workers it draws
# others, each worker having seeds of its own. What is drawn by the sampler, or by the loop, is not the dataset's. Only
# fetching in the process of the script is seen, which is how a script without workers does it


def watch_fetches() -> None:
    """Watch every fetch from now on."""
    for owner in fetchers():
        replacing(owner, "fetch")(_watched)


def fetchers() -> tuple[type, ...]:
    """What fetches for the iterators of loaders."""
    # not a cost of a script that does without the runtime
    from autoaccel.runtime.in_memory.batch_fetcher import WholeBatchFetcher

    return (_utils.fetch._MapDatasetFetcher, _utils.fetch._IterableDatasetFetcher, WholeBatchFetcher)  # noqa: SLF001


def drawn(batches: object) -> tuple[str, ...]:
    """Which streams of random numbers the dataset of an iteration over a DataLoader has drawn from so far."""
    fetcher = getattr(batches, "_dataset_fetcher", None)
    return tuple(sorted(getattr(fetcher, "drawn", ())))


def _watched(fetch: Callable[[Any, Any], Any], fetcher: Any, indices: Any) -> Any:
    kept = vars(fetcher).get("kept")
    if kept is None:
        kept = fetcher.kept = KeptGenerators(fetcher.dataset)
    before = host_streams() | kept.streams()
    batch = fetch(fetcher, indices)
    changed = {name for name, state in (host_streams() | kept.streams()).items() if before.get(name, state) != state}
    if changed:
        fetcher.drawn = getattr(fetcher, "drawn", set()) | changed
    return batch


class KeptGenerators:
    """The generators that a dataset keeps for itself."""

    def __init__(self, dataset: object) -> None:
        from autoaccel.runtime.loading.worker_seeds import kept_generators, state_of

        self._found, _ = kept_generators(dataset)
        self._state_of = state_of

    def streams(self) -> dict[str, str]:
        """Where they stand."""
        numbered = enumerate(self._found, 1)
        return {f"generator {number} of the dataset": digest_of(self._state_of(each)) for number, each in numbered}
