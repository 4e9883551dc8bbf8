"""Contenders in interleaved turns over the same steps of the script: who runs when, for how long, and when it is over.

The original sets the pace: its first steps say how many make a block. In every round each contender runs the same
block, one after the other, and the order rotates, so that no one always follows the same other. What disturbs the
machine for longer than a block disturbs all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autoaccel.measure.observing.run_record import FAILED, FINISHED, RunFailure, RunRecord
from autoaccel.measure.observing.turns import Turn

BLOCK_SECONDS = 0.3
"""A block of the original takes at least so long: short ones drown in the noise of starting and stopping."""
FEWEST_ROUNDS = 5
"""Made even where the time is up: fewer say little."""
_GROWTH = 8  # a block is at most so many times longer than the one before: the first steps are slower than the rest


Tell = Callable[[str, int, float], None]


class Contender(Protocol):
    """A run of the script that moves only when it is told to."""

    name: str

    def start(self) -> Turn:
        """Run up to the end of the first step."""

    def run(self, steps: int, *, busy: bool = False) -> Turn:
        """Run so many steps more, or to the end of the script. With `busy` the turn says how busy the device was; it is
        slower then."""

    def end(self) -> RunRecord | None:
        """End the script, and return what was seen of it; None where it left nothing."""


@dataclass(slots=True)
class Series:
    """What one contender did."""

    name: str
    first: float = 0.0
    """Seconds from the start of the process to the end of the first step."""
    turns: list[Turn] = field(default_factory=list)
    """All turns but the first step."""
    device: str = "cpu"
    device_name: str = ""
    losses: list[tuple[int, float]] = field(default_factory=list)
    finished: bool = False
    failure: RunFailure | None = None
    changes: int = 0
    """How many findings are applied."""
    busy: float | None = None
    """The share of the time in which the device had work, where that is known."""
    record: RunRecord | None = None
    """What it left when it was ended."""

    @property
    def steps(self) -> int:
        return 1 + sum(len(turn.times) for turn in self.turns)

    @property
    def over(self) -> bool:
        return self.finished or self.failure is not None

    def add(self, turn: Turn) -> None:
        self.losses += turn.losses
        self.device, self.device_name = turn.device, turn.device_name
        self.finished = turn.state == FINISHED
        self.failure = turn.failure if turn.state == FAILED else None


@dataclass(frozen=True, slots=True)
class Rounds:
    """What all contenders did, the original first. The first `warm_up` turns of each are not for comparing."""

    series: tuple[Series, ...]
    warm_up: int
    block: int
    """Steps of a turn after the warm-up."""


def take_turns(
    contenders: Sequence[Contender],
    *,
    seconds: float,
    steps: int | None = None,
    needed: Collection[str] = (),
    tell: Tell | None = None,
) -> Rounds:
    """Let all run, each for about `seconds` after the warm-up, and for at most `steps` steps of the script.

    The first contender is the original: all is over when it is, or when one that is needed fails. Others that fail or
    end early drop out. `tell` gets the name of the contender that was last, how many steps it has made, and which share
    of the time is used.
    """
    pace = _Pace(contenders, steps, seconds, {contenders[0].name, *needed}, tell)
    pace.start()
    warm_up = pace.warm_up()
    pace.measure()
    return Rounds(tuple(pace.series), warm_up, pace.block)


@dataclass
class _Pace:
    contenders: Sequence[Contender]
    steps: int | None
    seconds: float
    needed: Collection[str]
    tell: Tell | None
    block: int = 1
    used: float = 0.0

    def __post_init__(self) -> None:
        self.series = [Series(each.name) for each in self.contenders]

    def start(self) -> None:
        for index, contender in enumerate(self.contenders):
            turn = contender.start()
            self.series[index].first = turn.seconds
            self.series[index].add(turn)
            self._told(self.series[index])
            if self._lost():
                return

    def warm_up(self) -> int:
        """Find the length of a block, then run one that does not count; how many turns that took."""
        rounds = 0
        while self._goes_on():
            self._round(self.block, rounds)
            rounds += 1
            if not self._goes_on():
                break
            wanted = self._wanted(self.series[0].turns[-1])
            if wanted <= self.block:
                break
            self.block = min(wanted, self.block * _GROWTH)
        if self._goes_on():
            self._round(self.block, rounds)
            rounds += 1
        return rounds

    def measure(self) -> None:
        rounds = 0
        while self._goes_on() and (self.used < self.seconds or rounds < FEWEST_ROUNDS):
            self._round(self.block, rounds)
            self.used += statistics.fmean(series.turns[-1].seconds for series in self.series if series.turns)
            rounds += 1

    def _wanted(self, turn: Turn) -> int:
        """How many steps make a block, by what this turn took."""
        if not turn.times or turn.seconds >= BLOCK_SECONDS:
            return self.block
        return max(self.block + 1, round(self.block * BLOCK_SECONDS / max(turn.seconds, 1e-9)))

    def _goes_on(self) -> bool:
        original = self.series[0]
        return not (self._lost() or original.finished) and (self.steps is None or original.steps < self.steps)

    def _lost(self) -> bool:
        """Whether there is nothing to compare."""
        return any(series.failure is not None and series.name in self.needed for series in self.series)

    def _round(self, steps: int, number: int) -> None:
        """One turn of everybody who still runs, in an order that rotates."""
        if self.steps is not None:
            steps = min(steps, self.steps - self.series[0].steps)
        count = len(self.contenders)
        for place in range(count):
            index = (place + number) % count
            series = self.series[index]
            if series.over:
                continue
            turn = self.contenders[index].run(steps)
            series.add(turn)
            if turn.times:
                series.turns.append(turn)
            self._told(series)

    def _told(self, series: Series) -> None:
        if self.tell is not None:
            self.tell(series.name, series.steps, min(1.0, self.used / self.seconds))
