"""Contenders of which every second is known beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from autoaccel.measure.observing import turns
from autoaccel.measure.observing.run_record import FAILED, FINISHED, Decision, RunFailure, RunRecord
from autoaccel.measure.observing.turns import Turn

NO_LUCK = RunFailure("RuntimeError", "no luck")


@dataclass
class Played:
    """Makes steps that take what `seconds` says of their number, from 1; writes down when it had its turn."""

    name: str
    seconds: Callable[[int], float]
    diary: list[tuple[str, int]] = field(default_factory=list)
    steps: int | None = None
    """After which the script ends by itself."""
    fails_after: int | None = None
    failure: RunFailure = NO_LUCK
    diverges_after: int | None = None
    device: str = "cpu"
    made: int = 0

    def start(self) -> Turn:
        return self.run(1)

    def run(self, steps: int, *, busy: bool = False) -> Turn:
        self.diary.append((self.name, steps))
        times: list[float] = []
        for _ in range(steps):
            if self.made == self.fails_after:
                return Turn(FAILED, sum(times), tuple(times), failure=self.failure)
            if self.made == self.steps:
                return self._turn(FINISHED, times)
            self.made += 1
            times.append(self.seconds(self.made))
        return self._turn(turns.WAITING, times, 0.5 if busy else None)

    def end(self) -> RunRecord | None:
        self.diary.append((self.name, 0))
        return RunRecord("stopped", decisions=(Decision("amp", "off", "no accelerator"),))

    def _turn(self, state: str, times: list[float], busy: float | None = None) -> Turn:
        first = self.made - len(times) + 1
        losses = tuple((step, self._loss(step)) for step in range(first, first + len(times)))
        return Turn(
            state,
            sum(times),
            tuple(times),
            loader=sum(times) / 4,
            samples=32 * len(times),
            losses=losses,
            host_memory=1 << 20,
            busy=busy,
            device=self.device,
        )

    def _loss(self, step: int) -> float:
        return 1 / step if self.diverges_after is None or step <= self.diverges_after else math.nan


def steady(seconds: float, *, start: float = 1.0) -> Callable[[int], float]:
    """Every step takes as long as every other, but for the first."""
    return lambda step: start if step == 1 else seconds
