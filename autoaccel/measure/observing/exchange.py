"""The files by which an observed process and the one that started it talk; one folder for each run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# What an entry of `Exchange.created` speaks of: a file or folder that goes after the run, or one that stays.
CREATED, DOWNLOADED = "created", "downloaded"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Where they are. All but `request`, `stdout` and `stderr` may be missing: a process can die at any moment."""

    folder: Path

    @classmethod
    def of(cls, result: str) -> Exchange:
        """The exchange that a result belongs to."""
        return cls(Path(result).parent)

    @property
    def request(self) -> Path:
        return self.folder / "request.json"

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def steps(self) -> Path:
        """How many steps were made, as digits: rewritten in place, see `Beat`."""
        return self.folder / "steps"

    @property
    def created(self) -> Path:
        """What the run creates: kind and path as a line of JSON for each, appended by all of its processes."""
        return self.folder / "created.jsonl"

    @property
    def failure(self) -> Path:
        """Why a worker process ended the run, as JSON."""
        return self.folder / "failure.json"

    @property
    def stdout(self) -> Path:
        return self.folder / "stdout"

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr"

    def write_result(self, text: str) -> None:
        """The result, whole or not at all."""
        write_whole(self.result, text)

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
