"""One script in all its columns: a process of each, in turns, for as long as there is time.

Every process warms up for itself, until the runtime has nothing more to try. Then come rounds: each process has one
block of steps of about the same length in seconds, one after the other, and the order rotates. What disturbs the
machine for longer than a block disturbs all of them.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from autoaccel.measure.observing.run_record import FAILED, FINISHED, RunFailure, RunRecord
from autoaccel.measure.observing.turns import Turn
from benchmarks.suite.candidates import ENDLESS, Candidate
from benchmarks.suite.catalogue import AGAIN, COMPILED, DEFAULT, EXACT, ORIGINAL, PAIRED, WRITTEN

Clock = Callable[[], float]


class Contender(Protocol):
    """A process that runs when it is told to."""

    def start(self) -> Turn: ...
    def run(self, steps: int) -> Turn: ...
    def end(self) -> RunRecord | None: ...


Open = Callable[[Candidate], AbstractContextManager[Contender]]
"""A contender for a candidate, which is gone when its context is left."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in seconds."""

    block: float = 0.2
    warm: float = 0.4
    """Of a process's own time before anything counts."""
    settling: float = 12.0
    """That the runtime may try for, at most."""
    after: float = 2.5
    """Once it has decided: what it tried may cost something for a while."""
    steps: int = 16
    """Made at least, of columns whose losses are compared."""
    rounds: int = 7
    fewest: int = 3
    """Rounds, whatever the time."""
    repetitions: int = 4
    """Of runs that are timed whole."""
    together: bool = False
    """Whether columns that are files of their own start at the same time: what they compile takes long."""


SMALL = Pace()
FULL = Pace(block=0.4, warm=1.0, settling=60.0, steps=100, rounds=6, together=True)

_LOWER = ("bfloat16", "float16")
LATE = "late"
"""The kind of failure of what was not started any more."""


@dataclass(slots=True)
class Series:
    """What one process did."""

    candidate: Candidate
    first: float = 0.0
    """Seconds from the fork to the end of the first step."""
    times: list[float] = field(default_factory=list)
    """Seconds of all steps but the first."""
    block: int = 1
    """Steps of a block."""
    blocks: list[float] = field(default_factory=list)
    """Seconds per step; for runs that are timed whole, seconds of a run."""
    samples: int = 0
    """Handed out by loaders in the steps of `blocks`."""
    counted: int = 0
    """Those steps."""
    losses: list[float] = field(default_factory=list)
    host_memory: int = 0
    device_memory: int = 0
    device_name: str = ""
    settled: bool = True
    decisions: tuple[tuple[str, str, str], ...] = ()
    failure: RunFailure | None = None
    finished: bool = False

    @property
    def column(self) -> str:
        return self.candidate.column

    @property
    def steps(self) -> int:
        """Made so far."""
        return 1 + len(self.times) if self.first else 0

    @property
    def over(self) -> bool:
        return self.finished or self.failure is not None

    def add(self, turn: Turn) -> None:
        self.times += turn.times
        self.losses += [loss for _, loss in turn.losses]
        self.host_memory = max(self.host_memory, turn.host_memory)
        self.device_memory = max(self.device_memory, turn.device_memory)
        self.device_name = turn.device_name or self.device_name
        self.settled = turn.settled
        self.finished = turn.state == FINISHED
        self.failure = turn.failure or RunFailure("died", "it is gone") if turn.state == FAILED else None


def side_by_side(
    candidates: Sequence[Candidate],
    open_: Open,
    *,
    pace: Pace,
    seconds: float,
    latest: float = math.inf,
    aligned: bool = False,
    clock: Clock = time.monotonic,
) -> list[Series]:
    """One process of each candidate, the original first; all is over after about `seconds`, or when the original is.

    After `latest`, by the clock, nothing but the original is started. With `aligned` the blocks of a round are the very
    same steps of the script, else of about the same time.
    """
    until = clock() + seconds
    with ExitStack() as stack:
        running = [(Series(each), stack.enter_context(open_(each))) for each in candidates]
        if pace.together:
            _start_together([each for each in running if each[0].column in (*WRITTEN, COMPILED)])
        original = running[0][0]
        for series, contender in running:
            if not series.steps and series is not original and clock() > latest:
                series.failure = series.failure or RunFailure(LATE, "no time was left")
            if series.failure is not None:
                continue
            if not series.steps:
                _start(series, contender)
            _warm_up(series, contender, pace)
            if original.over:
                break
        if aligned:
            _align(running)
        for number in range(pace.rounds):
            if original.over or (number >= pace.fewest and clock() > until):
                break
            _round(running, number)
        for series, contender in running:
            _end(series, contender)
    return [series for series, _ in running]


def whole_runs(candidates: Sequence[Candidate], open_: Open, *, pace: Pace) -> list[Series]:
    """Runs from their start to their end, one after the other: a block is a run."""
    found = [Series(each) for each in candidates]
    for number in range(pace.repetitions):
        for place in range(len(found)):
            series = found[(place + number) % len(found)]
            if series.failure is None:
                _whole_run(series, open_, first=number == 0)
    return found


def _whole_run(series: Series, open_: Open, *, first: bool) -> None:
    run = Series(series.candidate)
    with open_(series.candidate) as contender:
        _start(run, contender)
        rest = 0.0
        if not run.over:
            turn = contender.run(ENDLESS)
            run.add(turn)
            rest = turn.seconds
        if run.failure is None:
            series.blocks.append(run.first + rest)
        _end(run, contender)
    series.failure = run.failure
    if first:
        series.first, series.times, series.losses, series.decisions = run.first, run.times, run.losses, run.decisions
        series.device_name = run.device_name
    series.host_memory = max(series.host_memory, run.host_memory)
    series.device_memory = max(series.device_memory, run.device_memory)


def losses(candidate: Candidate, open_: Open, steps: int) -> list[float]:
    """Of the first steps of a run that nothing is timed of; none where it fails."""
    series = Series(candidate)
    with open_(candidate) as contender:
        _start(series, contender)
        if not series.over and steps > 1:
            series.add(contender.run(steps - 1))
    return [] if series.failure else series.losses


def lowered(series: Series) -> Candidate | None:
    """The same in the lower precision that the runtime adopted, from the first step on; None where it adopted none."""
    dtypes = (value for topic, value, _ in series.decisions if topic.startswith("autocast ") and value in _LOWER)
    dtype = next(dtypes, None)
    if dtype is None:
        return None
    return replace(series.candidate, environment={**series.candidate.environment, "AUTOACCEL_AMP_DTYPE": dtype})


def _start_together(running: Sequence[tuple[Series, Contender]]) -> None:
    if running:
        with ThreadPoolExecutor(len(running)) as threads:
            list(threads.map(lambda each: _start(*each), running))


def _start(series: Series, contender: Contender) -> None:
    turn = contender.start()
    series.first = turn.seconds
    series.add(turn)
    series.times.clear()  # the first step is part of the start


def _warm_up(series: Series, contender: Contender, pace: Pace) -> None:
    """Until a block is as long as it should be, everything is warm, and the runtime has decided."""
    spent, tried, steps = 0.0, -math.inf, 1
    while not series.over:
        turn = contender.run(steps)
        series.add(turn)
        spent += turn.seconds
        if not series.settled:
            tried = spent
        series.block = max(1, round(steps * pace.block / max(turn.seconds, 1e-6)))
        found = turn.seconds >= pace.block / 2 or steps >= series.block
        enough = spent >= pace.warm and (series.steps >= pace.steps or series.column not in PAIRED)
        if found and enough and (spent >= tried + pace.after or spent >= pace.settling):
            return
        steps = min(series.block, steps * 8)


def _align(running: Sequence[tuple[Series, Contender]]) -> None:
    """Bring all to the same step."""
    furthest = max(series.steps for series, _ in running)
    for series, contender in running:
        if not series.over and series.steps < furthest:
            series.add(contender.run(furthest - series.steps))
        series.block = running[0][0].block


def _round(running: Sequence[tuple[Series, Contender]], number: int) -> None:
    for place in range(len(running)):
        series, contender = running[(place + number) % len(running)]
        if series.over:
            continue
        turn = contender.run(series.block)
        series.add(turn)
        # A round without a block of the original, or of a contender, counts for no ratio.
        series.blocks.append(sum(turn.times) / len(turn.times) if len(turn.times) == series.block else math.nan)
        series.samples += turn.samples
        series.counted += len(turn.times)


def _end(series: Series, contender: Contender) -> None:
    record = contender.end() if series.failure is None else None
    if record is not None:
        series.decisions = tuple((each.topic, each.value, each.reason) for each in record.decisions)


def ratios(original: Series, other: Series) -> tuple[float, ...]:
    """How many times faster, round by round."""
    pairs = zip(original.blocks, other.blocks, strict=False)
    return tuple(one / another for one, another in pairs if one > 0 and another > 0)


def steady(series: Sequence[Series]) -> float:
    """Seconds per step: the median over processes of medians over blocks; NaN where none was measured."""
    medians = [statistics.median(found) for each in series if (found := [block for block in each.blocks if block > 0])]
    return statistics.median(medians) if medians else math.nan


def sequence(columns: Sequence[str]) -> list[str]:
    """The order in which processes start: what is compared closest stands closest."""
    first = [each for each in (ORIGINAL, AGAIN, DEFAULT, EXACT) if each in columns]
    return first + [each for each in columns if each not in first]
