"""Launches of ranks: forks of a process that has imported torch, with the environment that `torchrun` gives them."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoaccel.measure.launching import free_port, rank_environment

LIMIT = 200.0  # seconds for a launch; what takes longer hangs
_GRACE = 20.0  # seconds in which what ranks have started ends, as workers of loaders do, which look every five


@dataclass(frozen=True, slots=True)
class Launch:
    """How a launch ended."""

    statuses: Mapping[int, int | None]
    """By rank its exit status; None where it hung, and was ended."""
    seconds: float
    orphans: int
    """Of how many ranks a process was left behind."""
    limit: float = LIMIT

    @property
    def hung(self) -> tuple[int, ...]:
        return tuple(rank for rank, status in self.statuses.items() if status is None)

    @property
    def problem(self) -> str:
        """What went wrong, in one line."""
        said = [f"rank {rank}: over {self.limit:g} s" for rank in self.hung]
        said += [f"rank {rank}: exit status {status}" for rank, status in self.statuses.items() if status]
        return "; ".join(said + ([f"{self.orphans} processes left behind"] if self.orphans else []))


def launch(
    ranks: int,
    be_a_rank: Callable[[int], None],
    results: Path,
    *,
    limit: float = LIMIT,
) -> Launch:
    """Run a function as each of some ranks; one rank is a process by itself, that knows of no others.

    Args:
        ranks: How many.
        be_a_rank: Gets the rank. What it raises ends the process as it ends a program.
        results: A folder for what each rank prints: `out.0`, `err.0` and so on.
        limit: Seconds after which a rank hangs.
    """
    results.mkdir(parents=True, exist_ok=True)
    port, began = free_port(), time.monotonic()
    living: dict[int, int] = {}
    for rank in range(ranks):
        if pid := os.fork():
            living[pid] = rank
        else:
            os.setsid()
            os.environ.update(rank_environment(rank, ranks, port) if ranks > 1 else {})
            _be_a_program(lambda rank=rank: be_a_rank(rank), rank, results)  # type: ignore[misc]
    groups = tuple(living)
    ended: dict[int, int | None] = dict.fromkeys(range(ranks))
    while living and time.monotonic() - began < limit:
        waited = [os.waitpid(pid, os.WNOHANG) for pid in living]  # this process may have other children
        for pid, status in waited:
            if pid:
                ended[living.pop(pid)] = os.waitstatus_to_exitcode(status)
        if living:
            time.sleep(0.005)
    seconds = time.monotonic() - began
    for pid in living:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return Launch(ended, seconds, sum(left_behind(group) for group in groups), limit)


def left_behind(group: int) -> bool:
    """Whether a group of processes does not come to its end; it is ended then."""
    end = time.monotonic() + _GRACE
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    return True


def _be_a_program(run: Callable[[], None], rank: int, results: Path) -> None:
    """In a fork: its output, its traceback, its handlers at exit, its status."""
    atexit._clear()  # noqa: SLF001 - those of the process that this one is a fork of
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(results / f"{name}.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    status = 0
    try:
        run()
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException as problem:
        sys.excepthook(type(problem), problem, problem.__traceback__)
        status = 1
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()  # noqa: SLF001 - as at any other end
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
