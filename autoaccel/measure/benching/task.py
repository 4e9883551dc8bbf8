"""What a benchmark is asked for, what it needs to run, and how it gives up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from autoaccel.measure.benching.rounds import Contender
from autoaccel.measure.observing.record import Failure, RunRecord
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.turns import Turn


class BenchError(ValueError):
    """A script that cannot be measured; the message is one line."""

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Task:
    """What to measure, and for how long."""

    request: Request
    """The original."""
    command: str
    python: str
    """For messages: the interpreter that the script is run with."""
    seconds: float
    """Of each contender's own time, warm-up excluded."""
    steps: int | None = None
    ablate: bool = False


class Run(Contender, Protocol):
    """A contender in earnest."""

    def run(self, steps: int, *, busy: bool = False) -> Turn:
        """With `busy` the turn says how busy the device was; it is slower then."""

    def end(self) -> RunRecord | None:
        """End the script, and return what was seen of it; None where it left nothing."""


class Runs(Protocol):
    """Starts runs of the script."""

    def observe(self, request: Request) -> RunRecord: ...

    def contender(self, name: str, request: Request) -> AbstractContextManager[Run]: ...


Tell = Callable[[str, float | None], None]
"""Gets what is going on and, where it is known, how much of it is done."""
