"""Whoever fetches, the loop sees what the loader without workers would give it, and so do all random numbers."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import multiprocessing
import os
import random
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

from autoaccel import runtime as accel
from autoaccel.runtime import devices, environment
from autoaccel.runtime.loading import loader_settings, loader_statistics, managed_epoch, torch_iterators, worker_count
from autoaccel.runtime.loading.loader_settings import WorkerCount
from autoaccel.runtime.loading.managed_epoch import ManagedEpoch
from autoaccel.runtime.loading.prefetcher import Prefetched
from autoaccel.runtime.loading.worker_count import LoaderMeasurements, Machine, WorkerDecision
from autoaccel.runtime.trial.ab_trial import TrialState
from autoaccel.runtime.trial.clocks import HostClock

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine of two CPUs


class Numbers(Dataset[torch.Tensor]):
    """Each sample is its own number; it also says which process made it."""

    def __init__(self, count: int = 22, bad: int = -1) -> None:
        self.count, self.bad = count, bad

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.bad:
            raise UnreadableError(index, "no such picture")
        return torch.tensor([float(index), float(os.getpid())], dtype=torch.float64)


class UnreadableError(Exception):
    """One that worker processes cannot hand on as it is."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(index, why)


class Choice:
    """Decides instead of the policy: how many workers, from how many measured batches on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.workers = 0
        self.asked: list[LoaderMeasurements] = []
        self.better = True
        monkeypatch.setattr(worker_count, "decide_workers", self._plan)
        monkeypatch.setattr(worker_count, "helps", lambda fetch, wait: self.better)

    def _plan(self, measured: LoaderMeasurements, machine: Machine) -> WorkerDecision:
        self.asked.append(measured)
        return WorkerDecision(self.workers, "chosen by the test", yet=True)


@pytest.fixture
def choice(monkeypatch: pytest.MonkeyPatch) -> Choice:
    """A machine with an accelerator, on which the test decides."""
    monkeypatch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(loader_settings, "machine", lambda: Machine(16.0, math.inf, math.inf))
    return Choice(monkeypatch)


def states(loader: DataLoader[Any]) -> tuple[Any, ...]:
    """Of every stream of random numbers that a program shares."""
    return (
        hash(tuple(torch.get_rng_state().tolist())),
        random.getstate()[1][-1],
        np.random.get_state(legacy=False)["state"]["pos"],
    )


def own(loader: DataLoader[Any]) -> Any:
    """The state of the loader's own generator."""
    return None if loader.generator is None else hash(tuple(loader.generator.get_state().tolist()))


def seed() -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def body() -> None:
    """A loop draws, too."""
    torch.rand(1)
    random.random()
    np.random.rand()


def story(
    loader: DataLoader[Any], wrap: Callable[[Any], Any], epochs: int = 4, leave: int = -1, draws: bool = True
) -> list[Any]:
    """All that a program could notice of some passes over a loader: batches, and the streams at each of them."""
    seed()
    found: list[Any] = []
    for _ in range(epochs):
        for number, batch in enumerate(wrap(loader)):
            found.append(batch[..., 0].tolist())
            found.append(states(loader))
            if draws:
                body()
            if number == leave:
                break
        found.append((states(loader), own(loader)))
    return found


def makers(batches: list[Any]) -> set[int]:
    """The processes that fetched."""
    return {int(pid) for batch in batches for pid in batch[..., 1].flatten().tolist()}


OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"batch_size": 3},
    "shuffled": lambda: {"batch_size": 3, "shuffle": True},
    "own generator": lambda: {"batch_size": 3, "shuffle": True, "generator": torch.Generator().manual_seed(5)},
    "last dropped": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "unbatched": lambda: {"batch_size": None},
    "drawn again and again": lambda: {"batch_size": 2, "sampler": RandomSampler(Numbers(), True, 40)},
    "batch sampler": lambda: {"batch_sampler": BatchSampler(SequentialSampler(Numbers()), 4, False)},
}


# ---------------------------------------------------------------- workers


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_workers_that_come_in_the_middle_change_nothing(choice: Choice, options: str, kept: bool) -> None:
    choice.workers = 2
    loader = DataLoader(Numbers(), num_workers=WorkerCount(2), persistent_workers=kept, **OPTIONS[options]())
    epochs = 4 if kept else 2
    want = story(DataLoader(Numbers(), **OPTIONS[options]()), lambda loader: loader, epochs)
    assert story(loader, accel.prefetch, epochs) == want
    assert (loader._iterator is not None) is kept


def test_the_first_batches_are_the_measured_ones(choice: Choice) -> None:
    choice.workers = 2
    loader = DataLoader(Numbers(), batch_size=2, num_workers=WorkerCount(3), persistent_workers=True)
    batches = list(accel.prefetch(loader))
    assert makers(batches[:3]) == {os.getpid()}
    assert len(makers(batches[3:])) == 2
    assert os.getpid() not in makers(batches[3:])
    [measured] = choice.asked
    assert (measured.batch, measured.ahead, measured.left, measured.kept) == (32, 2, 8, True)
    assert 0 < measured.fetch <= measured.waited
    assert os.getpid() not in makers(list(accel.prefetch(loader))), "later passes find the workers there"
    assert len(choice.asked) == 1


def test_the_loader_keeps_its_settings(choice: Choice) -> None:
    choice.workers = 1
    loader = DataLoader(Numbers(), shuffle=True, batch_size=2, num_workers=WorkerCount(3), persistent_workers=True)
    before = {name: value for name, value in vars(loader).items() if name != "_iterator"}
    for number, _ in enumerate(accel.prefetch(loader)):
        assert {name: value for name, value in vars(loader).items() if name != "_iterator"} == before
        if number == 5:
            break
    assert len(list(loader)) == 11, "a loop over the loader itself uses the same workers, and gets everything"


@pytest.mark.parametrize("leave", [2, 5, 7])
@pytest.mark.parametrize("options", ["shuffled", "own generator"])
@pytest.mark.parametrize("kept", [True, False])
def test_leaving_in_the_middle_changes_nothing(choice: Choice, leave: int, options: str, kept: bool) -> None:
    """Workers have asked the sampler for more by then, which draws once more when it has given everything."""
    choice.workers = 2
    loader = DataLoader(Numbers(), num_workers=WorkerCount(2), persistent_workers=kept, **OPTIONS[options]())
    want = story(DataLoader(Numbers(), **OPTIONS[options]()), lambda loader: loader, 2, leave)
    assert story(loader, accel.prefetch, 2, leave) == want


@pytest.mark.parametrize("kept", [True, False])
def test_passes_inside_passes(choice: Choice, kept: bool) -> None:
    choice.workers = 1

    def run(loader: Any, wrap: Callable[[Any], Any]) -> list[Any]:
        seed()
        pairs: list[Any] = []
        for _ in range(2):
            for a, b in zip(wrap(loader), wrap(loader), strict=True):
                pairs.append((a[:, 0].tolist(), b[:, 0].tolist(), states(loader)))
                body()
            for a in wrap(loader):
                pairs += [(a[:, 0].tolist(), b[:, 0].tolist(), states(loader)) for b in wrap(loader)]
        return pairs

    loader = DataLoader(Numbers(10), 2, shuffle=True, num_workers=WorkerCount(1), persistent_workers=kept)
    assert run(loader, accel.prefetch) == run(DataLoader(Numbers(10), 2, shuffle=True), lambda loader: loader)


def test_two_loaders_side_by_side_draw_in_turn(choice: Choice) -> None:
    """With workers of torch's own, the first loader's sampler would draw before the second loader's seed."""
    choice.workers = 1

    def run(count: int, wrap: Callable[[Any], Any]) -> list[Any]:
        seed()
        options: dict[str, Any] = {"num_workers": WorkerCount(1), "persistent_workers": True} if count else {}
        both = [DataLoader(Numbers(12), 2, shuffle=True, **options) for _ in range(2)]
        return [
            (a[:, 0].tolist(), b[:, 0].tolist(), states(both[0]))
            for _ in range(3)
            for a, b in zip(*map(wrap, both), strict=True)
        ]

    assert run(1, accel.prefetch) == run(0, lambda loader: loader)


@pytest.mark.parametrize("bad", [0, 7, 13, 20])
@pytest.mark.parametrize("count", [0, 2])
def test_a_bad_sample_raises_its_own_exception_at_its_own_batch(choice: Choice, bad: int, count: int) -> None:
    choice.workers = count

    def run(loader: Any) -> list[Any]:
        found: list[Any] = []
        batches = iter(loader)
        while True:
            try:
                found.append(next(batches)[:, 0].tolist())
            except StopIteration:
                return found
            except UnreadableError as failure:
                found.append(failure.args)

    loader = DataLoader(Numbers(bad=bad), 2, num_workers=WorkerCount(2), persistent_workers=True)
    for _ in range(2):
        assert run(accel.prefetch(loader)) == run(DataLoader(Numbers(bad=bad), 2))


class OnlyHere(Numbers):
    """Fails in workers, as what needs a device or a file does."""

    home = os.getpid()

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() != self.home:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
        return super().__getitem__(index)


class Dies(Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getpid() != OnlyHere.home:
            os._exit(1)
        return super().__getitem__(index)


@pytest.mark.parametrize("kind", [OnlyHere, Dies])
def test_what_workers_fail_to_do_is_done_without(
    choice: Choice, kind: type[Numbers], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: Any = torch.utils.data.dataloader._MultiProcessingDataLoaderIter._try_get_data
    monkeypatch.setattr(waits, "__defaults__", (0.2,))  # seconds after which torch looks whether workers live
    choice.workers = 2
    loader = DataLoader(kind(), 3, shuffle=True, num_workers=WorkerCount(2), persistent_workers=True)
    want = story(DataLoader(Numbers(), 3, shuffle=True), lambda loader: loader)
    assert story(loader, accel.prefetch) == want
    # On a busy machine torch hears of a death by a signal while it still starts the other worker.
    said = ["workers failed"] + (["workers could not be started"] if kind is Dies else [])
    assert managed_epoch._statistics_of[loader].refused.startswith(tuple(said))
    assert loader._iterator is None


def test_workers_that_died_between_two_passes(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: Any = torch.utils.data.dataloader._MultiProcessingDataLoaderIter._try_get_data
    monkeypatch.setattr(waits, "__defaults__", (0.2,))
    choice.workers = 2
    loader = DataLoader(Numbers(), 3, shuffle=True, num_workers=WorkerCount(2), persistent_workers=True)
    want = story(DataLoader(Numbers(), 3, shuffle=True), lambda loader: loader)
    seed()
    found = []
    for number in range(4):
        for batch in accel.prefetch(loader):
            found += [batch[:, 0].tolist(), states(loader)]
            body()
        found.append((states(loader), None))
        if number == 1:
            kept: Any = loader._iterator
            os.kill(kept._workers[1].pid, signal.SIGKILL)
    assert found == want
    assert "workers failed" in managed_epoch._statistics_of[loader].refused


def test_workers_that_do_not_help_are_not_there_in_the_next_pass(
    choice: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice.workers, choice.better = 1, False
    monkeypatch.setattr(loader_statistics, "JUDGED", 1)
    loader = DataLoader(Numbers(), 1, num_workers=WorkerCount(2), persistent_workers=True)
    for _ in accel.prefetch(loader):
        if managed_epoch._statistics_of[loader].refused:
            break
    assert makers(list(accel.prefetch(loader))) == {os.getpid()}


def test_workers_that_do_not_start_are_done_without(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> Any:
        raise OSError(12, "Cannot allocate memory")

    choice.workers = 2
    monkeypatch.setattr(torch.multiprocessing.Process, "start", start)
    loader = DataLoader(Numbers(), 3, shuffle=True, num_workers=WorkerCount(2), persistent_workers=True)
    want = story(DataLoader(Numbers(), 3, shuffle=True), lambda loader: loader)
    assert story(loader, accel.prefetch) == want
    assert "Cannot allocate memory" in managed_epoch._statistics_of[loader].refused


@pytest.mark.parametrize("kept", [True, False])
def test_workers_that_do_not_help_go_again(choice: Choice, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    choice.workers, choice.better = 1, False
    monkeypatch.setattr(loader_statistics, "JUDGED", 2)
    loader = DataLoader(Numbers(), 1, shuffle=True, num_workers=WorkerCount(2), persistent_workers=kept)
    want = story(DataLoader(Numbers(), 1, shuffle=True), lambda loader: loader)
    assert story(loader, accel.prefetch) == want
    assert "with workers the loop waited" in managed_epoch._statistics_of[loader].refused
    assert loader._iterator is None
    batches = list(accel.prefetch(loader))
    assert makers(batches) == {os.getpid()}


def test_on_linux_workers_are_forked_where_python_would_do_otherwise(
    choice: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.14: a loop over the loader itself must not start any, since the script may have no main guard."""
    monkeypatch.setattr(loader_settings, "start_method", lambda: "forkserver")
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: None)
    choice.workers = 1
    loader = DataLoader(
        Numbers(), 2, shuffle=True, num_workers=accel.num_workers(), collate_fn=lambda each: torch.stack(each)
    )
    assert loader.num_workers == 0
    assert makers(list(loader)) == {os.getpid()}
    want = story(DataLoader(Numbers(), 2, shuffle=True), lambda loader: loader, 2)
    assert story(loader, accel.prefetch, 2) == want
    assert len(makers(list(accel.prefetch(loader)))) == 1
    assert loader.multiprocessing_context is None
    for how, chosen in (("forkserver", "forkserver"), ("spawn", None)):  # the program's choice; Windows
        monkeypatch.setattr(loader_settings, "start_method", lambda how=how: how)
        monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False, chosen=chosen: chosen)
        assert not loader_settings.may_have_workers(DataLoader(Numbers(), num_workers=accel.num_workers()))


def test_workers_are_gone_with_the_pass(choice: Choice) -> None:
    choice.workers = 1
    loader = DataLoader(Numbers(), 2, num_workers=WorkerCount(1))
    batches = iter(accel.prefetch(loader))
    for _ in range(4):
        next(batches)
    assert isinstance(batches, ManagedEpoch)
    [worker] = batches._workers._workers
    assert worker.is_alive()
    del batches
    gc.collect()
    assert not worker.is_alive()


def test_nothing_is_kept_of_a_loader_that_is_gone(choice: Choice) -> None:
    choice.workers = 1
    loader = DataLoader(Numbers(), 2, num_workers=WorkerCount(1), persistent_workers=True)
    list(accel.prefetch(loader))
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None


class Streams(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


@pytest.mark.parametrize("count", [0, 1])
def test_a_number_from_the_environment_is_taken_at_once(
    choice: Choice, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", str(count))
    loader = DataLoader(Numbers(), 2, num_workers=accel.num_workers(), persistent_workers=count > 0)
    assert not managed_epoch.managed(loader)
    assert (os.getpid() in makers(list(accel.prefetch(loader)))) is (count == 0)
    assert choice.asked == []


def test_who_is_not_managed(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    here = WorkerCount(1)
    assert managed_epoch.managed(DataLoader(Numbers(), num_workers=here))
    assert managed_epoch.managed(DataLoader(Numbers(), num_workers=WorkerCount(0)))
    assert not managed_epoch.managed(DataLoader(Numbers(), num_workers=1)), "the script's own number"
    assert not managed_epoch.managed(DataLoader(Streams(), num_workers=here)), "workers would begin it again"
    assert not managed_epoch.managed(DataLoader(Numbers(), num_workers=here, in_order=False))
    assert not managed_epoch.managed([1, 2])

    class Own(DataLoader[Any]):
        def _get_iterator(self) -> Any:
            return super()._get_iterator()

    assert not managed_epoch.managed(Own(Numbers(), num_workers=here))
    with torch.device("meta"):
        assert not managed_epoch.managed(DataLoader(Numbers(), num_workers=here))
    monkeypatch.setenv("AUTOACCEL_DISABLE", "workers")
    assert not managed_epoch.managed(DataLoader(Numbers(), num_workers=here))
    monkeypatch.delenv("AUTOACCEL_DISABLE")
    monkeypatch.setattr(devices, "accelerator", lambda: None)
    loader = DataLoader(Numbers(), num_workers=WorkerCount(0))
    assert accel.prefetch(loader) is loader, "on a machine that trains on its CPUs"


def test_a_torch_that_is_made_otherwise_is_left_alone(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    loader: Any = DataLoader(Numbers(), num_workers=WorkerCount(1))
    assert managed_epoch.managed(loader)
    for name, method, uses in (
        ("_MultiProcessingDataLoaderIter", "_put_somehow", set[str]()),
        ("_BaseDataLoaderIter", "_next_index", {"_order"}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(torch_iterators, "_INSIDES", ((name, method, uses),))
            torch_iterators._iterators_are_known.cache_clear()
            assert not managed_epoch.managed(loader)
    torch_iterators._iterators_are_known.cache_clear()
    monkeypatch.delattr(loader, "prefetch_factor")
    assert not managed_epoch.managed(loader)


def test_decisions_are_told_with_their_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(loader_settings, "machine", lambda: Machine(1.0, math.inf, math.inf))
    monkeypatch.setattr(worker_count, "CHEAP", 0.0)
    monkeypatch.setattr(worker_count, "FAR_BELOW", 0.0)
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    list(accel.prefetch(DataLoader(Numbers(), 2, num_workers=WorkerCount(3))))
    said = [line for line in capsys.readouterr().err.splitlines() if "num_workers" in line]
    assert len(said) == 1
    assert "num_workers Numbers[22]: 0 (a batch takes" in said[0]
    assert "there are 1 CPUs, of which one trains" in said[0]
    environment._log.cache_clear()


def test_steps_count_as_long_as_the_device_takes(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host hands work over and goes on: its own clock would tell of a step of no time."""

    class Clock:
        now = 0.0

        def mark(self) -> float:
            self.now += 0.5  # from the end of a fetch to the next, and to the end of that
            return self.now

        def seconds(self, start: float, end: float) -> float | None:
            return end - start if end < self.now else None  # late

    monkeypatch.setattr(loader_statistics, "_clock", Clock)
    list(accel.prefetch(DataLoader(Numbers(), 2, num_workers=WorkerCount(1))))
    assert choice.asked[-1].step == 0.5
    assert choice.asked[-1].host < 0.5


def test_a_device_that_is_not_in_use_yet_is_not_woken(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.device] = []

    def clock_of(device: torch.device) -> HostClock:
        made.append(device)
        return HostClock()

    monkeypatch.setattr(loader_statistics, "clock_of", clock_of)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert isinstance(loader_statistics._clock(), HostClock)
    assert made == [torch.device("cpu")]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    loader_statistics._clock()
    assert made == [torch.device("cpu"), torch.device("cuda")]


# ---------------------------------------------------------------- a thread of the training process


class Laps:
    """A trial that goes the other way when it is told to."""

    state = TrialState.UNDECIDED
    ratio, why, measured = None, "", 0

    def __init__(self, turns: list[bool]) -> None:
        self.turns = itertools.cycle(turns)

    def next_iteration(self) -> bool:
        return next(self.turns)

    def discard_iteration(self) -> None:
        pass


@pytest.fixture
def threads(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> Callable[[DataLoader[Any], list[bool]], None]:
    """Lets a thread fetch for a loader, whatever that costs, in the laps that the test names."""
    monkeypatch.setattr(worker_count, "CHEAP", 0.0)
    monkeypatch.setattr(worker_count, "FAR_BELOW", 0.0)

    def let(loader: DataLoader[Any], turns: list[bool]) -> None:
        managed_epoch._statistics_of[loader] = statistics = loader_statistics.LoaderStatistics(loader)
        statistics.trial = Laps(turns)  # type: ignore[assignment]

    return let


class Where(Numbers):
    """Remembers which thread fetched each sample, and under which modes."""

    def __init__(self, count: int = 22, bad: int = -1) -> None:
        super().__init__(count, bad)
        self.threads: list[str] = []
        self.modes: list[tuple[bool, bool]] = []

    def __getitem__(self, index: int) -> torch.Tensor:
        self.threads.append(threading.current_thread().name)
        self.modes.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return super().__getitem__(index)


@given(
    count=some.integers(0, 23),
    size=some.integers(1, 5),
    shuffled=some.booleans(),
    leave=some.integers(-1, 6),
    turns=some.lists(some.booleans(), min_size=1, max_size=7),
    bad=some.integers(-1, 40),
    rng_use=some.booleans(),
)
@settings(max_examples=60)
def test_with_and_without_the_thread_a_program_notices_nothing(
    count: int, size: int, shuffled: bool, leave: int, turns: list[bool], bad: int, rng_use: bool
) -> None:
    """A loop that rng_use while the thread fetches cannot be told from samples that are drawn: the thread goes then."""

    def run(loader: Any, wrap: Callable[[Any], Any]) -> Any:
        try:
            return story(loader, wrap, leave=leave, draws=rng_use)
        except UnreadableError as failure:
            return failure.args, states(loader)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
        patch.setattr(worker_count, "CHEAP", 0.0)
        patch.setattr(worker_count, "FAR_BELOW", 0.0)
        options: dict[str, Any] = {"batch_size": size, "shuffle": shuffled and count > 0}
        loader = DataLoader(Numbers(count, bad), num_workers=WorkerCount(0), **options)
        managed_epoch._statistics_of[loader] = statistics = loader_statistics.LoaderStatistics(loader)
        statistics.trial = Laps(turns)  # type: ignore[assignment]
        assert run(loader, accel.prefetch) == run(DataLoader(Numbers(count, bad), **options), lambda loader: loader)


class Simulated(Numbers):
    """Time as on a machine whose loop waits for its device: what the thread does meanwhile takes none of it.

    hidden: the share of a fetch that the thread hides; less than nothing where it holds up the loop.
    """

    fetch, step = 0.03, 0.05

    def __init__(self, hidden: float) -> None:
        super().__init__(400)
        self.now, self.hidden = 0.0, hidden
        self.by_thread = 0

    def mark(self) -> float:
        return self.now

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def __getitem__(self, index: int) -> torch.Tensor:
        other = threading.current_thread() is not threading.main_thread()
        self.by_thread += other
        self.now += self.fetch * (1 - self.hidden * other)
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("hidden", "adopted"), [(1.0, True), (0.4, True), (0.0, False), (-0.5, False)], ids=["all", "some", "none", "worse"]
)
def test_the_thread_stays_only_if_laps_are_shorter(
    choice: Choice, hidden: float, adopted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_count, "CHEAP", 0.0)
    monkeypatch.setattr(worker_count, "FAR_BELOW", 0.0)
    dataset = Simulated(hidden)
    monkeypatch.setattr(loader_statistics, "HostClock", lambda: dataset)
    loader = DataLoader(dataset, 1, num_workers=WorkerCount(0))
    for _ in range(2):
        for _ in accel.prefetch(loader):
            dataset.now += dataset.step
    statistics = managed_epoch._statistics_of[loader]
    assert statistics.trial.state is (TrialState.ADOPTED if adopted else TrialState.REJECTED)
    assert dataset.by_thread > 600 if adopted else dataset.by_thread < 40


def test_the_thread_fetches_one_batch_ahead(threads: Any) -> None:
    dataset = Where()
    loader = DataLoader(dataset, 2, num_workers=WorkerCount(0))
    threads(loader, [True])
    batches = iter(accel.prefetch(loader))
    assert isinstance(batches, ManagedEpoch)
    for _ in range(5):
        next(batches)
    batches._fetcher._thread.busy.acquire()  # type: ignore[union-attr]
    batches._fetcher._thread.busy.release()  # type: ignore[union-attr]
    assert len(dataset.threads) <= 12
    assert set(dataset.threads[:6]) == {"MainThread"}
    assert set(dataset.threads[6:]) == {"autoaccel-fetch"}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_thread_is_in_the_modes_of_the_loop(threads: Any, mode: Any) -> None:
    dataset = Where()
    loader = DataLoader(dataset, 2, num_workers=WorkerCount(0))
    threads(loader, [True])
    with mode():
        want = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        batches = list(accel.prefetch(loader))
    assert set(dataset.modes) == {want}
    assert {batch.is_inference() for batch in batches} == {want[1]}
    assert "autoaccel-fetch" in dataset.threads


@pytest.mark.parametrize("mode", [lambda: torch.autocast("cpu"), lambda: torch.device("cpu")])
def test_no_thread_in_modes_that_it_would_not_be_in(threads: Any, mode: Any) -> None:
    dataset = Where()
    loader = DataLoader(dataset, 2, num_workers=WorkerCount(0))
    threads(loader, [True])
    batches = iter(accel.prefetch(loader))
    with mode():
        list(batches)
    assert set(dataset.threads) == {"MainThread"}


class RngUseDetector(Where):
    """RngUseDetector from one of the streams that a program shares, if only for late samples."""

    def __init__(self, draw: Callable[[], Any], since: int = 0) -> None:
        super().__init__()
        self.draw, self.since = draw, since

    def __getitem__(self, index: int) -> torch.Tensor:
        if index >= self.since:
            self.draw()
        return super().__getitem__(index)


@pytest.mark.parametrize(
    "draw", [lambda: torch.rand(1), random.random, np.random.rand], ids=["torch", "random", "numpy"]
)
def test_no_thread_where_samples_are_made_with_random_numbers(threads: Any, draw: Callable[[], Any]) -> None:
    dataset = RngUseDetector(draw)
    loader = DataLoader(dataset, 2, shuffle=True, num_workers=WorkerCount(0))
    threads(loader, [True])
    want = story(DataLoader(RngUseDetector(draw), 2, shuffle=True), lambda loader: loader)
    assert story(loader, accel.prefetch) == want
    assert set(dataset.threads) == {"MainThread"}


def test_the_thread_stops_at_the_first_random_number(threads: Any) -> None:
    dataset = RngUseDetector(random.random, since=12)
    loader = DataLoader(dataset, 2, num_workers=WorkerCount(0))
    threads(loader, [True])
    for _ in range(2):
        list(accel.prefetch(loader))
    by_thread = [at for at, name in enumerate(dataset.threads) if name == "autoaccel-fetch"]
    assert by_thread == [6, 7, 8, 9, 10, 11, 12, 13]


@pytest.mark.parametrize("how", ["no accelerator", "prefetch", "workers", "all", "own sampler", "cheap"])
def test_no_thread(threads: Any, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = Where()
    options: dict[str, Any] = {}
    match how:
        case "no accelerator":
            monkeypatch.setattr(devices, "accelerator", lambda: None)
        case "own sampler":
            options["sampler"] = type("Own", (SequentialSampler,), {})(dataset)
        case "cheap":
            monkeypatch.setattr(worker_count, "CHEAP", 1.0)
        case _:
            monkeypatch.setenv("AUTOACCEL_DISABLE", how)
    loader = DataLoader(dataset, 2, num_workers=WorkerCount(0), **options)
    threads(loader, [True])
    assert len(list(accel.prefetch(loader))) == 11
    assert set(dataset.threads) == {"MainThread"}


@pytest.mark.parametrize("end", ["break", "raise", "exhaustion", "drop"])
def test_the_thread_ends_with_the_pass(threads: Any, end: str) -> None:
    loader = DataLoader(Numbers(), 2, num_workers=WorkerCount(0))
    threads(loader, [True])
    batches: Any = iter(accel.prefetch(loader))
    for _ in range(5):
        next(batches)
    thread = batches._fetcher._thread._thread
    assert thread.is_alive()

    def loop(batches: Any) -> None:
        for _ in batches:
            if end == "break":
                break
            if end == "raise":
                raise KeyError

    if end != "drop":
        with contextlib.suppress(KeyError):
            loop(batches)
    gone = weakref.ref(batches)
    del batches
    assert gone() is None, "at once, not when garbage is collected"
    assert not thread.is_alive()


def test_the_loaders_fetcher_is_still_torchs(choice: Choice) -> None:
    """What watches torch's fetchers asks them what they have."""
    batches = iter(accel.prefetch(DataLoader(Numbers(), num_workers=WorkerCount(0))))
    assert isinstance(batches, ManagedEpoch)
    assert batches._fetcher.dataset is batches._fetcher._genuine.dataset
    assert isinstance(batches._single, torch.utils.data.dataloader._SingleProcessDataLoaderIter)


def test_looking_ahead_never_makes_the_training_process_fetch(choice: Choice) -> None:
    batches = ManagedEpoch(DataLoader(Numbers(), num_workers=WorkerCount(0)))
    next(batches)
    assert not batches.arrived()
    assert isinstance(accel.prefetch(DataLoader(Numbers(), num_workers=WorkerCount(0))), Prefetched)


def test_the_bytes_of_a_batch() -> None:
    x = torch.zeros(4, 2)
    assert (
        loader_statistics.size({"x": x, "again": x, "text": "t", "y": [torch.zeros(3, dtype=torch.int64)]}) == 32 + 24
    )
    assert loader_statistics.size("nothing") == 0


def test_indices_that_never_arrived_come_again() -> None:
    order = torch_iterators.Order(iter(range(6)))
    assert [next(order), next(order), next(order)] == [0, 1, 2]
    order.arrived()
    order.put_back()
    assert (order.peek(), order.taken) == (1, 1)
    assert list(order) == [1, 2, 3, 4, 5]
    assert order.under_way == 5


def test_a_dataset_in_memory() -> None:
    """What the first batches of one cost is next to nothing, so that there are no workers for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
        loader = DataLoader(TensorDataset(torch.zeros(40, 1)), 2, num_workers=WorkerCount(4), persistent_workers=True)
        list(accel.prefetch(loader))
    assert loader._iterator is None
