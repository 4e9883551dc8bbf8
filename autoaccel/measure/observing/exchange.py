"""The files by which an observed process and the one that started it talk; one folder for each run."""

from __future__ import annotations

import os
from pathlib import Path

# What an entry of `Exchange.created` speaks of: a file or folder that goes after the run, or one that stays.
CREATED, DOWNLOADED = "created", "downloaded"


class Exchange:
    """Where they are. All but `request`, `stdout` and `stderr` may be missing: a process can die at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.request = folder / "request.json"
        self.result = folder / "result.json"
        self.steps = folder / "steps"
        """How many steps were made, as digits: rewritten in place, see `Beat`."""
        self.created = folder / "created.jsonl"
        """What the run creates: kind and path as a line of JSON for each, appended by all of its processes."""
        self.failure = folder / "failure.json"
        """Why a worker process ended the run, as JSON."""
        self.stdout = folder / "stdout"
        self.stderr = folder / "stderr"

    def count(self) -> int:
        """How many steps were made so far."""
        try:
            return int(self.steps.read_bytes() or 0)
        except (OSError, ValueError):
            return 0


class Beat:
    """Tells how many steps were made. It is cheap enough for every step: one call of the system, no new file."""

    def __init__(self, exchange: Exchange) -> None:
        self._file = os.open(exchange.steps, os.O_WRONLY | os.O_CREAT, 0o600)

    def __call__(self, steps: int) -> None:
        os.pwrite(self._file, b"%d" % steps, 0)


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears with all of its text."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
