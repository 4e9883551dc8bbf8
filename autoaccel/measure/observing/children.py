"""The processes that a script has started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")
_ROUNDS = 50
_PAUSE = 0.01  # s


def end_all() -> None:
    """Kill what this process started and what those started; the one who waits for the run ends what is left."""
    own = os.getpid()
    for _ in range(_ROUNDS):  # it takes a moment, and what is killed may just have started another
        if not [child for child in _descendants(own) if _kill(child)]:
            return
        time.sleep(_PAUSE)


def _kill(process: int) -> bool:
    """Whether there was something to kill."""
    try:
        if _status(process)[0] == "Z":
            return False
        os.kill(process, signal.SIGKILL)
    except (OSError, ValueError, IndexError):
        return False
    return True


def _descendants(root: int) -> Iterator[int]:
    parents = {}
    with contextlib.suppress(OSError):  # not on macOS, where only the process group is left
        for entry in _PROCESSES.iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    parents[int(entry.name)] = int(_status(int(entry.name))[1])
    for process in parents:
        above = parents[process]
        while above in parents and above != root:
            above = parents[above]
        if above == root:
            yield process


def _status(process: int) -> list[str]:
    """State, parent …: what follows the name, which may hold anything."""
    return (_PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()
