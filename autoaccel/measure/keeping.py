"""The tool's side of the keeper, which ends and removes what is left when this process is gone."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from pathlib import Path

from autoaccel.measure import keeper

NAME = f"{os.getpid()}-{secrets.token_hex(4)}."
"""With which the names of all runs of this process begin."""


class Keeper:
    """Writes to the keeper, which acts when this process is no more."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", keeper.__file__, NAME]
        # A session of its own: what a terminal sends to this process does not reach it.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def tell(self, kind: str, value: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{kind} {value}\n".encode())
            self._process.stdin.flush()


_keepers: list[Keeper] = []


def keeper_of_this_process() -> Keeper:
    if not _keepers:
        _keepers.append(Keeper())
    return _keepers[0]


def remember(folder: Path) -> None:
    """A temporary folder that is removed even if this process is killed."""
    keeper_of_this_process().tell("folder", folder)


def forget(folder: Path) -> None:
    """It is gone."""
    keeper_of_this_process().tell("gone", folder)
