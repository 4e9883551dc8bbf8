"""What is known of a loader: what a batch costs the training process, how long steps take, what was decided for it."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, Final

import torch
from torch.utils import data

from .. import devices
from ..environment import Decision, note
from ..trial.ab_trial import ABTrial, TrialPolicy, TrialState
from ..trial.clocks import Clock, HostClock, clock_of
from . import background_fetch, loader_settings, worker_count
from .rebuild_batch import rebuild
from .worker_count import Machine, WorkerDecision

FIRST: Final = 3  # batches that the training process fetches before anything is decided
JUDGED: Final = 8  # batches from workers after which they stay or go
_MEASURED: Final = 64  # batches that are measured in any case
_RECENT: Final = 9


def named(loader: Any) -> str:
    """A loader in one word, for the log: `CIFAR10[50000]`."""
    if not isinstance(loader, data.DataLoader):
        return type(loader).__name__
    dataset: Any = loader.dataset
    try:
        length = f"[{len(dataset)}]" if not isinstance(dataset, data.IterableDataset) else ""
    except (TypeError, NotImplementedError):
        length = ""
    return f"{type(dataset).__name__}{length}"


class LoaderStatistics:
    """What is known of a loader from all its passes so far."""

    def __init__(self, loader: Any) -> None:
        self.topic: Final = f"num_workers {named(loader)}"
        self.count = 0  # batches that the training process has taken
        self.next = 0  # of these, when workers are thought about again
        self.waited = 0.0  # seconds spent fetching by the training process
        self.batch: int | None = None  # bytes
        self.refused = ""  # why there are no workers, whatever is measured
        self.waits: list[float] | None = []  # for batches of workers, in seconds; None when these are judged
        self.workers = 0
        self.rng_use = background_fetch.RngUseDetector()
        self.serving: weakref.ref[Any] | None = None  # the pass that the kept workers serve
        self.trial = ABTrial(HostClock(), TrialPolicy(gain=1.03))  # of the thread
        self._fetches: deque[float] = deque(maxlen=_RECENT)
        self._steps: deque[float] = deque(maxlen=_RECENT)
        self._hosts: deque[float] = deque(maxlen=_RECENT)
        self._told = ""
        self._idle = False

    @property
    def known(self) -> bool:
        """Whether enough batches were fetched by the training process to decide anything."""
        return len(self._fetches) >= FIRST and bool(self._steps)

    @property
    def worth(self) -> bool:
        """Whether fetching takes so long that it is worth hiding."""
        return self.known and self.fetch >= max(worker_count.CHEAP, worker_count.FAR_BELOW * self.step)

    def begin(self) -> bool:
        """Another batch is to be fetched by the training process: whether it is measured.

        Where there is nothing to gain, measuring each would take longer than it could ever save.
        """
        self.count += 1
        self.rng_use.asked = not self._idle or not self.count % 32
        return self.rng_use.asked

    @property
    def fetch(self) -> float:
        """Seconds that it takes to fetch a batch, in the training process."""
        return middle(self._fetches)

    @property
    def step(self) -> float:
        """Seconds that a step takes, on the host or on the device, whichever is longer."""
        return _steady(self._steps)

    @property
    def host(self) -> float:
        """Seconds that the host is busy with a step, or waits in it."""
        return _steady(self._hosts)

    def fetched(self, seconds: float, batch: Any) -> None:
        """Account for a batch that the training process fetched."""
        self._fetches.append(seconds)
        self.waited += seconds
        if self.batch is None:
            self.batch = size(batch)
        undecided = not self.refused or (self.trial.state is not TrialState.REJECTED and not self.rng_use.seen)
        self._idle = self.count > _MEASURED and not (undecided and self.worth)

    def stepped(self, host: float, device: float) -> None:
        """Account for the time between two fetches, as the host and as the device saw it."""
        self._hosts.append(host)
        self._steps.append(max(host, device))

    def may_decide(self, loader: Any) -> bool:
        """Whether workers are to be thought about now; the next time comes later."""
        self.next = self.count + max(1, self.count // 4)
        return not self.refused and self.known and loader_settings.may_have_workers(loader)

    def workers_that_pay(
        self, loader: Any, left: int | None, machine: Machine, waited: float = 0.0, *, kept: bool = False
    ) -> WorkerDecision | None:
        """As many as pay; None where there are to be none, which is told."""
        factor = loader.prefetch_factor or 2
        measured = worker_count.LoaderMeasurements(
            self.fetch, self.step, self.host, self.batch or 0, factor, left, waited, kept
        )
        found = worker_count.decide_workers(measured, machine)
        if found.workers:
            return found
        if found.yet:
            self.tell(0, found.reason)
        else:
            self.refuse(found.reason)
        return None

    def is_too_late(self, wait: float) -> bool:
        """Account for the wait for a batch of workers; whether they are refused now, for the loop waits no less."""
        if self.waits is None:
            return False
        self.waits.append(wait)
        first = 2 * self.workers  # while they start
        if len(self.waits) < first + JUDGED:
            return False
        wait, self.waits = middle(self.waits[first:]), None
        if worker_count.helps(self.fetch, wait):
            return False
        took = f"{self.fetch * 1e3:.3g} ms"
        self.refuse(f"with workers the loop waited {wait * 1e3:.3g} ms for a batch, without {took}")
        return True

    def refuse(self, reason: str) -> None:
        """No workers for this loader any more."""
        self.refused = reason
        self.tell(0, reason)

    def tell(self, workers: int | str, reason: str) -> None:
        """Log a decision when it is another than before."""
        if self._told != str(workers):
            self._told = str(workers)
            note(self.topic, Decision(workers, reason))


class StepIntervals:
    """The time between two fetches: on the host, and on the device, which works later and may take longer."""

    def __init__(self) -> None:
        self._device: Final = _clock()
        self._began: float | None = None
        self._mark: Any = None
        self._late: deque[tuple[float, Any, Any]] = deque(maxlen=_RECENT)

    def begin(self) -> None:
        self._began, self._mark = time.perf_counter(), self._device.mark()

    def end(self) -> Iterator[tuple[float, float]]:
        """The step in progress is over; those whose times are known now, as the host and as the device saw them."""
        if self._began is not None:
            self._late.append((time.perf_counter() - self._began, self._mark, self._device.mark()))
            self._began = None
        while self._late:
            host, start, stop = self._late[0]
            seconds = None if start is None or stop is None else self._device.seconds(start, stop)
            if seconds is None and start is not None and stop is not None:
                return
            self._late.popleft()
            yield host, seconds or 0.0


def _clock() -> Clock:
    """The device's, if the program uses the device already: a first event would make it take memory there."""
    return clock_of(devices.in_use())


def _steady(steps: Collection[float]) -> float:
    """The first steps of a program take longer than those that follow."""
    return min(steps) if len(steps) < _RECENT // 2 else middle(steps)


def middle(values: Collection[float]) -> float:
    return sorted(values)[len(values) // 2]


def size(batch: Any) -> int:
    """Bytes of all the tensors in a batch."""
    seen: dict[int, int] = {}

    def count(tensor: torch.Tensor) -> torch.Tensor:
        seen[id(tensor)] = tensor.nbytes if tensor.layout is torch.strided else 0
        return tensor

    rebuild(batch, count)
    return sum(seen.values())
