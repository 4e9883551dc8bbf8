"""The lines that the script prints: its file descriptor goes to a file, so that nothing of it is missed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autoaccel.measure.observing.observation import Observation

_MOST = 8 * 2**20  # bytes that are kept, from the start


class Printing:
    """Standard output of the process and of what it starts, in order, whoever writes it and however."""

    def install(self, observation: Observation) -> None:
        self._path = observation.exchange.stdout
        flush()
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, 1)
        os.close(file)

    def contribute(self) -> dict[str, Any]:
        flush()
        with self._path.open("rb") as file:
            return {"printed": lines(file.read(_MOST).decode("utf-8", "replace"))}


def flush() -> None:
    """Bring everything that is still in a buffer to the file: of Python and of the C library."""
    streams: list[Any] = [sys.stdout, sys.__stdout__, sys.stderr]
    for stream in streams:
        with contextlib.suppress(Exception):  # closed, replaced by something else, or gone
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def lines(text: str) -> tuple[str, ...]:
    """As a terminal shows them: what a line was overwritten with after a carriage return is what it says."""
    found = text.split("\n")
    if not found[-1]:
        found.pop()
    return tuple(line.rstrip("\r").rpartition("\r")[2] for line in found)
