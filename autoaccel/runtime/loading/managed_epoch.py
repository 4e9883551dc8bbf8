"""One pass over a loader whose workers the runtime chose: by whom its batches are fetched, decided while it runs.

The loop always gets what the loader without workers would give it: the seed is drawn when the pass begins, the sampler
is asked when the first batch is, batches come in the sampler's order. Only who fetches changes, between two batches:

- the training process, for the first batches that the program ever takes from the loader, which tell what one costs;
- workers, if that pays: they get the rest of the pass, and are kept for later ones where the loader keeps workers. They
  go again if the loop does not wait less for them;
- without workers, a thread of the training process, one batch ahead, if iterations of the loop are measurably shorter
  with it, and neither the dataset nor, meanwhile, the loop draws random numbers on the host;
- the training process again for what workers failed to do. A sample that cannot be had raises its own exception.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch.utils import data

from .. import devices
from ..distributed import process_group
from ..environment import disabled, whole_number
from ..trial.ab_trial import TrialState
from . import background_fetch, loader_settings, worker_count
from .image_bytes import ImageBytes
from .loader_statistics import LoaderStatistics, StepIntervals
from .torch_iterators import (
    Order,
    at_hand,
    drain,
    generators_of,
    is_torchs,
    known,
    resume,
    several_processes,
    shut_down,
    single_process,
)

# Their iterators draw random numbers once, when a pass begins, or from a generator that nothing else uses.
_FORESEEABLE_SAMPLERS: Final = (
    data.SequentialSampler,
    data.RandomSampler,
    data.SubsetRandomSampler,
    data.WeightedRandomSampler,
    data.DistributedSampler,
)


def chosen(loader: Any) -> bool:
    """Whether the runtime chose the workers of a loader, which is to say: the rewriter found them safe there."""
    return is_torchs(loader) and loader_settings.chose_workers(loader)


def managed(loader: Any) -> bool:
    """Whether the runtime decides, batch by batch, who fetches for a loader."""
    streams = (data.IterableDataset, getattr(data, "MapDataPipe", data.IterableDataset))  # which change hands otherwise
    return may_be_managed(loader) and not isinstance(loader.dataset, streams)


def may_be_managed(loader: Any) -> bool:
    """Whether the runtime may decide who fetches: not if the environment says how many workers there are, nor without
    an accelerator: there the CPUs train."""
    # nothing is tried where ranks train together: each would find another time
    alone = process_group.current() is None
    if not alone or not chosen(loader) or whole_number("NUM_WORKERS") is not None or disabled("workers"):
        return False
    hashed: Any = type(loader).__hash__
    return (
        devices.accelerator() is not None
        and data.get_worker_info() is None
        and torch.get_default_device().type == "cpu"
        and getattr(loader, "in_order", True)
        and hashed is object.__hash__
        and known(loader)
    )


def foreseeable(loader: data.DataLoader[Any]) -> bool:
    """Whether a loader's sampler may be asked for indices early: nobody else's random numbers change."""
    batch_sampler = loader.batch_sampler
    if isinstance(loader.dataset, data.IterableDataset):
        return True  # its samplers are placeholders
    if batch_sampler is not None and type(batch_sampler) is not data.BatchSampler:
        return False
    return type(loader.sampler) in _FORESEEABLE_SAMPLERS


_statistics_of: Final[weakref.WeakKeyDictionary[Any, LoaderStatistics]] = weakref.WeakKeyDictionary()


class ChangingHands(Iterator[Any]):
    """A pass over a loader that the training process begins, and that workers may take over."""

    def __init__(self, loader: Any) -> None:
        if loader not in _statistics_of:
            _statistics_of[loader] = LoaderStatistics(loader)
        self._statistics: Final = _statistics_of[loader]
        self._loader: Final = loader
        source = loader.generator or torch.default_generator
        self._seeds: Final = torch.Generator(source.device)
        self._seeds.set_state(source.get_state())  # workers get the seed that is drawn now
        self._single: Any = single_process(loader)
        self._steps: Final = StepIntervals()
        self._workers: Any = None

    def arrived(self) -> bool:
        """Whether the next batch can be had at once; never, where the training process has to fetch it."""
        return self._workers is not None and at_hand(self._workers)

    def _fetched(self, fetch: Callable[[], Any], *, by_thread: bool = False) -> Any:
        """A batch that the training process fetches, timed unless a thread of its has begun that before."""
        for host, device in self._steps.end():
            self._statistics.stepped(host, device)
        began = time.perf_counter()
        batch = fetch()
        if not by_thread:
            self._statistics.fetched(time.perf_counter() - began, batch)
        return batch

    def _started(self, found: worker_count.WorkerDecision, *, taken: int = 0, **changes: Any) -> bool:
        """Start workers; whether that was possible. Arguments as those of `several_processes`."""
        count = loader_settings.WorkerCount(found.workers, taken=taken)
        try:
            self._workers = several_processes(self._loader, count, self._seeds, **changes)
        except Exception as failure:  # whatever it is, batches can be had without
            self._statistics.refuse(f"workers could not be started: {type(failure).__name__}: {failure}")
            return False
        self._statistics.workers = found.workers
        self._statistics.tell(found.workers, found.reason)
        return True


def in_words(failure: Exception) -> str:
    """An exception of a worker, without its frames: they refer to the pass, and the cycle would keep the workers."""
    return f"{type(failure).__name__}: {str(failure).strip().rpartition(chr(10))[2]}"


class ManagedEpoch(ChangingHands):
    """The batches of one pass over a managed loader."""

    def __init__(self, loader: Any, images: ImageBytes | None = None) -> None:
        """images: what lets them come as bytes."""
        super().__init__(loader)
        self._images: Final = images
        # where workers that serve later passes are kept: those that send bytes must not serve a loop over the loader
        self._keeper: Final = vars(loader) if images is None else images.keeper
        if images is not None:
            images.serve(self._single)
        self._order: Final = Order(self._single._sampler_iter, generators_of(loader))  # noqa: SLF001
        self._single._sampler_iter = self._order  # noqa: SLF001
        self._fetcher: Final = background_fetch.BackgroundFetcher.of(self._single, self._statistics.rng_use)
        self._machine: worker_count.Machine | None = None
        self._begun = False
        self._active = True
        self._statistics.trial.discard_iteration()  # the iteration in progress began in another pass

    def __next__(self) -> Any:
        self._begin()
        if self._workers is not None:
            batch = self._by_workers()
        else:
            if not self._statistics.begin():
                return self._plainly()
            batch = self._here()
        if self._workers is None and self._statistics.count >= self._statistics.next:
            self._decide()
        if self._workers is None:
            self._look_ahead()
            self._steps.begin()
        return batch

    def __del__(self) -> None:
        if getattr(self, "_active", False) and not sys.is_finalizing():  # not if making the iterator failed
            self._order.rewind()

    def left(self, unused: int) -> None:
        """The loop was left while somebody looked ahead: it never got the last `unused` batches, nor asked for more."""
        self._active = False
        self._order.rewind(unused)

    # ------------------------------------------------------------ the training process

    def _here(self) -> Any:
        return self._fetched(self._plainly, by_thread=self._fetcher.pending)

    def _plainly(self) -> Any:
        try:
            return next(self._single)
        finally:
            if self._order.under_way:
                self._order.arrived()
            else:
                self._end()

    def _end(self) -> None:
        self._active = False
        self._fetcher.close()
        self._statistics.trial.discard_iteration()
        serving = self._statistics.serving
        if serving is not None and serving() is self:
            self._statistics.serving = None

    def _look_ahead(self) -> None:
        statistics = self._statistics
        if statistics.trial.state is TrialState.REJECTED or not (self._fetcher.possible and self._may_look_ahead()):
            return
        if statistics.trial.next_iteration() and background_fetch.is_plain_context():
            self._fetcher.begin(self._order)
            statistics.tell("trying", "iterations with a thread that fetches ahead are timed")
        if statistics.trial.state is not TrialState.UNDECIDED:
            adopted = statistics.trial.state is TrialState.ADOPTED
            how = f"{statistics.trial.ratio:.2f}x as fast" if statistics.trial.ratio else statistics.trial.why
            over = f"over {statistics.trial.measured} iterations" if adopted else f"({statistics.trial.why})"
            statistics.tell("thread" if adopted else 0, f"with a thread that fetches ahead iterations are {how} {over}")

    def _may_look_ahead(self) -> bool:
        statistics = self._statistics
        if not statistics.worth or statistics.rng_use.seen or disabled("prefetch"):
            return False
        return foreseeable(self._loader) and _quiet(self._loader.sampler)

    # ------------------------------------------------------------ workers

    def _begin(self) -> None:
        """Before the first batch: workers, if there are some or if it is known already that they pay."""
        if self._begun:
            return
        self._begun = True
        kept, serving = self._keeper["_iterator"], self._statistics.serving
        if kept is not None and (serving is None or serving() is None):
            self._statistics.serving = weakref.ref(self)
            self._workers = kept
            try:
                resume(self._loader, kept, self._order)
            except Exception as failure:  # some have died since the last pass
                self._dismiss()
                self._order.put_back()
                self._statistics.refuse(f"workers failed: {type(failure).__name__}")
        else:
            self._decide()

    def _decide(self) -> None:
        loader, statistics = self._loader, self._statistics
        if statistics.may_decide(loader):
            self._machine = self._machine or loader_settings.machine()
            keep = bool(loader.persistent_workers) and self._keeper["_iterator"] is None
            found = statistics.workers_that_pay(loader, self._left(), self._machine, statistics.waited, kept=keep)
            if found is not None:
                self._start(found, keep)

    def _left(self) -> int | None:
        try:
            return len(self._loader) - self._order.taken
        except (TypeError, NotImplementedError):
            return None

    def _start(self, found: worker_count.WorkerDecision, keep: bool) -> None:
        self._fetcher.close()
        changes: dict[str, Any] = {"sampler" if self._loader.batch_sampler is None else "batch_sampler": self._order}
        if self._images is not None and (dataset := self._images.dataset()) is not None:
            changes["dataset"] = dataset
        if not self._started(found, keep=keep, **changes):
            self._order.put_back()
            return
        if self._images is not None:
            self._images.serve(self._workers)
        if keep:
            self._keeper["_iterator"] = self._workers
            self._statistics.serving = weakref.ref(self)

    def _by_workers(self) -> Any:
        began = time.perf_counter()
        failure = ""
        try:
            batch = next(self._workers)
        except StopIteration:
            if not self._order.under_way:
                return self._after_workers()
        except Exception as raised:  # the training process tries itself
            failure = in_words(raised)
        else:
            self._order.arrived()
            self._judge(time.perf_counter() - began)
            return batch
        return self._instead_of_workers(failure)

    def _after_workers(self) -> Any:
        """They have fetched all they were given: the pass is over, unless they were given no more."""
        if self._statistics.refused:  # or they are kept, and wait for the next pass
            self._dismiss()
        self._workers = None
        return self._here()

    def _instead_of_workers(self, failure: str) -> Any:
        """A sample is bad, and fetching it here raises as without workers. Or it is the workers that do not work."""
        self._dismiss()
        self._order.put_back()
        batch = self._here()
        self._statistics.refuse(f"workers failed: {failure}")
        return batch

    def _dismiss(self) -> None:
        if self._keeper["_iterator"] is self._workers:
            self._keeper["_iterator"] = None
        shut_down(self._workers)
        self._workers = None

    def _judge(self, wait: float) -> None:
        if self._statistics.is_too_late(wait):
            drain(self._workers)
            if self._keeper["_iterator"] is self._workers:
                self._keeper["_iterator"] = None  # no later pass finds them


def _quiet(sampler: Any) -> bool:
    """Whether a sampler draws when its iteration begins, and not from a generator of the program's while it lasts."""
    return not (isinstance(sampler, data.RandomSampler) and sampler.replacement and sampler.generator is not None)
