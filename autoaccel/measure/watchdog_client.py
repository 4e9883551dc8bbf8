"""The tool's side of the watchdog, which ends and removes what is left when this process is gone."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import subprocess
import sys
from pathlib import Path

from autoaccel.measure import watchdog

NAME = f"{os.getpid()}-{secrets.token_hex(4)}."
"""With which the names of all runs of this process begin."""


def name_of(number: int) -> str:
    """A name of a run, as long as that of any other one."""
    return f"{NAME}{number:06}."


class Watchdog:
    """Writes to the watchdog, which acts when this process is no more."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", watchdog.__file__, NAME]
        # A session of its own: what a terminal sends to this process does not reach it.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def tell(self, kind: str, value: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{kind} {value}\n".encode())
            self._process.stdin.flush()


@functools.cache
def watchdog_of_this_process() -> Watchdog:
    return Watchdog()


def remember(folder: Path) -> None:
    """A temporary folder that is removed even if this process is killed."""
    watchdog_of_this_process().tell("folder", folder)


def forget(folder: Path) -> None:
    """It is gone."""
    watchdog_of_this_process().tell("gone", folder)
