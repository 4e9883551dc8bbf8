"""Shards, and the processes that work on them: all results, whoever dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from autoaccel.jobs import pool, processes

pytestmark = pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="functions of tests are inherited")


def test_shards_are_neighbours() -> None:
    names = ["a/1", "a/2", "a/3", "b/1", "a/4"]
    assert pool.shards(names, lambda name: name[0], 2) == [["a/1", "a/2"], ["a/3"], ["b/1"], ["a/4"]]
    assert pool.shards([], str, 2) == []


def squares() -> Callable[[int], tuple[int, int]]:
    return lambda number: (number * number, os.getpid())


def lost(number: int) -> tuple[int, int]:
    return -number, 0


def results(work: list[list[int]], prepare: pool.Prepare[int, tuple[int, int]], jobs: int) -> list[list[int]]:
    found = dict(pool.run(work, prepare, lost, jobs=jobs))
    assert sorted(found) == list(range(len(work)))
    return [[value for value, _ in found[number]] for number in range(len(work))]


WORK = [[1, 2, 3], [4], [], [5, 6], [7]]
SQUARES = [[1, 4, 9], [16], [], [25, 36], [49]]


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_all_results(jobs: int) -> None:
    assert results(WORK, squares, jobs) == SQUARES


def test_who_works() -> None:
    here = {process for _, found in pool.run(WORK, squares, lost, jobs=1) for _, process in found}
    there = {process for _, found in pool.run(WORK, squares, lost, jobs=2) for _, process in found}
    assert here == {os.getpid()}
    assert os.getpid() not in there and 1 <= len(there) <= 2


def murderous(guilty: set[int]) -> Callable[[int], tuple[int, int]]:
    def function(number: int) -> tuple[int, int]:
        if number in guilty:
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number, 0

    return function


def test_the_guilty_are_lost_alone() -> None:
    assert results(WORK, partial(murderous, {2, 5}), 2) == [[1, -2, 9], [16], [], [-5, 36], [49]]


def test_one_death_from_outside_loses_nothing(tmp_path: Path) -> None:
    """As when the system runs out of memory for a moment."""

    def once() -> Callable[[int], tuple[int, int]]:
        def function(number: int) -> tuple[int, int]:
            if number == 4 and not (tmp_path / "dead").exists():
                (tmp_path / "dead").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return number * number, 0

        return function

    assert results(WORK, once, 2) == SQUARES


def test_when_everybody_dies_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_MOST_DEATHS", 2)
    work = [[number] for number in range(1, 30)]
    begun = time.monotonic()
    assert results(work, partial(murderous, set(range(30))), 2) == [[-number] for number in range(1, 30)]
    assert time.monotonic() - begun < 60


def failing() -> Callable[[int], tuple[int, int]]:
    def function(number: int) -> tuple[int, int]:
        if number == 5:
            raise LookupError("five")
        return number, 0

    return function


@pytest.mark.parametrize("jobs", [1, 2])
def test_exceptions_end_the_run_and_its_processes(jobs: int) -> None:
    with pytest.raises(LookupError, match="five"):
        list(pool.run(WORK, failing, lost, jobs=jobs))
    assert multiprocessing.active_children() == []


def unprepared() -> Callable[[int], tuple[int, int]]:
    raise LookupError("no rules")


@pytest.mark.parametrize("jobs", [1, 2])
def test_exceptions_of_the_preparation_are_no_deaths(jobs: int) -> None:
    with pytest.raises(LookupError, match="no rules"):
        list(pool.run(WORK, unprepared, lost, jobs=jobs))


def test_a_run_that_is_left_leaves_no_process() -> None:
    run = pool.run([[number] for number in range(100)], squares, lost, jobs=2)
    next(run)
    run.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("error", [OSError("no semaphores"), ImportError("no _multiprocessing"), NotImplementedError()])
def test_without_processes_it_works_here(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def none(*_: object, **__: object) -> Iterator[None]:
        raise error

    monkeypatch.setattr(processes, "ProcessPoolExecutor", none)
    assert results(WORK, squares, 2) == SQUARES


def test_processes_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(ProcessPoolExecutor):
        def submit(self, *_: object, **__: object) -> None:  # type: ignore[override]
            raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(processes, "ProcessPoolExecutor", Full)
    assert results(WORK, squares, 2) == SQUARES
