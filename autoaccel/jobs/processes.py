"""The processes of `pool.run`: whoever dies, the others' work is done, and none outlives the run.

They share nothing: `prepare` is sent to each of them once and makes the function that works on an item. It, and what
the function takes and returns, are plain data or names of functions, so any start method will do.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Any

from autoaccel.jobs.pool import Prepare, R, T, collecting_afterwards

# Shards that wait in the queue of the pool: enough to keep it busy, few enough to know who was at work when one died.
_AHEAD = 2

# So many deaths in a row are not the fault of single items.
_MOST_DEATHS = 20


class NoProcesses(Exception):  # noqa: N818 - a fact about the machine, not a defect
    """This machine lets no process be started, or gives them no way to talk."""


def in_processes(
    work: Sequence[Sequence[T]], prepare: Prepare[T, R], lost: Callable[[T], R], jobs: int
) -> Iterator[tuple[int, list[R]]]:
    waiting = deque(range(len(work)))
    suspects: list[int] = []
    deaths = 0
    while waiting and deaths < _MOST_DEATHS:
        at_work: dict[Future[list[R]], int] = {}
        try:
            with _executor(prepare, jobs) as executor:
                while waiting or at_work:
                    while waiting and len(at_work) < _AHEAD * jobs:
                        at_work[_submit(executor, work[waiting[0]])] = waiting[0]
                        waiting.popleft()
                    for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                        results = future.result()
                        yield at_work.pop(future), results
                        deaths = 0
        except BrokenProcessPool:
            deaths += 1
            for future, number in at_work.items():
                if future.done() and future.exception() is None:
                    yield number, future.result()
                else:
                    suspects.append(number)
    yield from _one_by_one(work, [*suspects, *waiting], prepare, lost)


def _one_by_one(
    work: Sequence[Sequence[T]], numbers: Iterable[int], prepare: Prepare[T, R], lost: Callable[[T], R]
) -> Iterator[tuple[int, list[R]]]:
    """Shards in whose company a process died: each item on its own, so that only the guilty are lost."""
    pending = deque((number, item) for number in numbers for item in work[number])
    results: dict[int, list[R]] = {}
    deaths = 0
    while pending and deaths < _MOST_DEATHS:
        try:
            with _executor(prepare, 1) as executor:
                while pending:
                    number, item = pending[0]
                    results.setdefault(number, []).extend(_submit(executor, [item]).result())
                    pending.popleft()
                    deaths = 0
        except BrokenProcessPool:
            number, item = pending.popleft()
            results.setdefault(number, []).append(lost(item))
            deaths += 1
    for number, item in pending:
        results.setdefault(number, []).append(lost(item))
    yield from results.items()


@contextlib.contextmanager
def _executor(prepare: Prepare[Any, Any], jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that are gone when the block is left, also by an exception or Ctrl-C."""
    others = set(multiprocessing.active_children())
    try:
        executor = ProcessPoolExecutor(jobs, initializer=_begin, initargs=(prepare,))
    except (ImportError, NotImplementedError, OSError) as error:
        raise NoProcesses from error
    try:
        yield executor
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _submit(executor: ProcessPoolExecutor, shard: Sequence[Any]) -> Future[list[Any]]:
    """Processes are started here, deaf to Ctrl-C from their first moment: it is this process that answers it."""
    try:
        with _without_interrupts():
            return executor.submit(_work, list(shard))
    except OSError as error:
        raise NoProcesses from error


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in the processes of the pool

_prepare: Prepare[Any, Any] | None = None
_function: Callable[[Any], Any] | None = None


def _begin(prepare: Prepare[Any, Any]) -> None:
    """What is prepared is kept for the life of the process; not here, where an exception would look like a death."""
    global _prepare
    _prepare = prepare
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """Nobody collects the results of a process whose parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _work(shard: Sequence[Any]) -> list[Any]:
    global _function
    if _function is None:
        assert _prepare is not None
        _function = _prepare()
    with collecting_afterwards():
        return [_function(item) for item in shard]
