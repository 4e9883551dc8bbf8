"""The thread that fetches: it hands on what it is given, and it never outlives or holds up anybody."""

from __future__ import annotations

import contextvars
import os
import random
import sys
import threading
import time
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autoaccel.runtime.loading import background_fetch
from autoaccel.runtime.loading.background_fetch import BackgroundFetcher, FetchThread, RngUseDetector
from autoaccel.runtime.loading.torch_iterators import Order
from tests.measure.forking import REPOSITORY, Forking


def test_it_hands_on_what_was_fetched_and_what_was_raised() -> None:
    thread = FetchThread()
    thread.begin(lambda: (threading.current_thread().name, 7))
    assert thread.take() == ("autoaccel-fetch", 7)

    def fail() -> None:
        raise KeyError("bad sample")

    thread.begin(fail)
    with pytest.raises(KeyError, match="bad sample"):
        thread.take()
    thread.begin(lambda: 8)
    assert thread.take() == 8
    thread.close()
    assert not thread._thread.is_alive()


def test_even_an_exit_is_raised_where_it_is_taken() -> None:
    thread = FetchThread()
    thread.begin(lambda: sys.exit(3))
    with pytest.raises(SystemExit):
        thread.take()


def test_a_thread_that_died_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_fetch, "_PATIENCE", 0.05)
    thread = FetchThread()
    thread.close()
    with pytest.raises(RuntimeError, match="has died"):
        thread.take()


def test_it_sees_the_variables_of_the_context() -> None:
    seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=0)
    seen.set(5)
    thread = FetchThread()
    thread.begin(seen.get)
    assert thread.take() == 5


def test_what_nobody_came_for_is_not_taken_for_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = FetchThread()
    thread.begin(lambda: 1)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(futures, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.take()
    thread.begin(lambda: 2)
    assert thread.take() == 2


def test_without_more_threads_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    order = Order(iter(range(3, 7)))
    fetcher = BackgroundFetcher(Squares(), RngUseDetector(), None)
    fetcher.begin(order)
    assert not fetcher.pending
    assert not fetcher.possible
    assert fetcher.fetch(next(order)) == 9


def test_closing_waits_for_the_fetch_in_progress() -> None:
    """A loop that is left may close the files that samples come from."""
    thread, done, inside = FetchThread(), list[int](), threading.Event()

    def slow() -> None:
        inside.set()
        time.sleep(0.1)
        done.append(1)

    thread.begin(slow)
    assert inside.wait(30)
    del thread
    assert done == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_for_the_fetch_in_progress() -> None:
    """Or the child would find locks taken by a thread that it does not have."""
    lock, thread = threading.Lock(), FetchThread()
    inside = threading.Event()

    def fetch() -> int:
        with lock:
            inside.set()
            time.sleep(0.1)
        return 1

    thread.begin(fetch)
    assert inside.wait(30)
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=2) and not thread.here else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert thread.here
    assert thread.take() == 1
    assert not background_fetch._held


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_sample_may_fork() -> None:
    thread = FetchThread()

    def fetch() -> int:
        child = os.fork()
        if child == 0:
            os._exit(0)
        return os.waitpid(child, 0)[1]

    thread.begin(fetch)
    assert thread.take() == 0


class Squares:
    """What torch has for a fetcher."""

    dataset = "squares"

    def __init__(self) -> None:
        self.threads: list[str] = []

    def fetch(self, index: int) -> int:
        self.threads.append(threading.current_thread().name)
        return index * index


def test_what_the_thread_has_is_not_fetched_again() -> None:
    genuine, order = Squares(), Order(iter(range(3, 7)))
    fetcher: Any = BackgroundFetcher(genuine, RngUseDetector(), None)
    assert fetcher.dataset == "squares"
    assert fetcher.fetch(next(order)) == 9
    fetcher.begin(order)
    assert fetcher.pending
    assert fetcher.fetch(next(order)) == 16
    assert not fetcher.pending
    assert genuine.threads == ["MainThread", "autoaccel-fetch"]
    fetcher.begin(order)
    fetcher.close()
    assert fetcher.fetch(next(order)) == 25, "fetched again, since it was not taken"
    next(order)
    fetcher.begin(order)  # nothing left
    assert not fetcher.pending


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_fetches_by_itself() -> None:
    genuine, order = Squares(), Order(iter(range(3, 7)))
    fetcher = BackgroundFetcher(genuine, RngUseDetector(), None)
    fetcher.begin(order)
    child = os.fork()
    if child == 0:
        os._exit(0 if fetcher.fetch(next(order)) == 9 and not fetcher.possible else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("draw", "seen"),
    [
        (lambda: torch.rand(1), True),
        (random.random, True),
        (np.random.rand, True),
        (lambda: torch.rand(1, generator=torch.Generator()), False),
        (lambda: np.random.default_rng(0).random(), False),
        (lambda: random.Random(0).random(), False),
    ],
)
def test_draws_from_what_the_program_shares_are_seen(draw: Any, seen: bool) -> None:
    rng_use = RngUseDetector()
    with rng_use.watched():
        draw()
    assert rng_use.seen is seen
    with rng_use.watched():
        torch.zeros(1)
    assert rng_use.seen is seen, "once is enough"


PROGRAM = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset
from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.loading import loader_statistics, managed_epoch, worker_count
from autoaccel.runtime.loading.loader_settings import WorkerCount

devices.accelerator = lambda: torch.device("cuda")
worker_count.CHEAP = worker_count.FAR_BELOW = 0.0

class Slow(Dataset):
    def __len__(self): return 100
    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.tensor(index)

class Always:
    state, ratio, why = None, None, ""
    def next_iteration(self): return True
    def discard_iteration(self): pass

loader = DataLoader(Slow(), num_workers=WorkerCount(0))
managed_epoch._statistics_of[loader] = loader_statistics.LoaderStatistics(loader)
managed_epoch._statistics_of[loader].trial = Always()
batches = iter(accel.prefetch(loader))
for _ in range(5): next(batches)
assert batches._fetcher.pending
print("here", flush=True)
{end}
"""


@pytest.mark.parametrize(("end", "status"), [("", 0), ("sys.exit(3)", 3), ("raise KeyError", 1)])
def test_a_program_ends_when_it_ends(end: str, status: int, forking: Forking, tmp_path: Path) -> None:
    done = forking.python(["-c", PROGRAM.format(end=end)], tmp_path, {**os.environ, "PYTHONPATH": str(REPOSITORY)})
    assert (done.returncode, done.stdout) == (status, "here\n"), done.stderr
    assert "Exception ignored" not in done.stderr
    assert ("KeyError" in done.stderr) is (status == 1)
