"""From turns to figures: what a contender took for the very steps that the original took so long for."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from autoaccel.measure.benching import statistics
from autoaccel.measure.benching.report import BreakEven, Column, Interval
from autoaccel.measure.benching.rounds import Rounds, Series
from autoaccel.measure.observing.record import Decision, RunRecord
from autoaccel.measure.observing.turns import Turn

FEWEST_BLOCKS = 6
"""With fewer blocks the steps of a short run are looked at one by one, or a few at a time."""
_MOST_PIECES = 20
_FIRST_STEPS = 2  # of a short run: they are slower than the rest, in every script


class TooShortError(ValueError):
    """A script that made too few steps for any figure."""


@dataclass(frozen=True, slots=True)
class Block:
    """The same steps of the original and of a contender, in seconds."""

    steps: int
    original: float
    contender: float


@dataclass(frozen=True, slots=True)
class Timed:
    """What is compared of a contender."""

    blocks: tuple[Block, ...]
    turns: tuple[Turn, ...]
    """That these blocks are from."""
    ratios: tuple[float, ...]

    @property
    def speedup(self) -> Interval:
        return statistics.interval(self.ratios)


def timed(rounds: Rounds, series: Series) -> Timed:
    """The blocks that a contender has in common with the original. Raises `TooShortError`."""
    original = rounds.series[0]
    pairs = list(zip(original.turns, series.turns, strict=False))
    warm = [pair for pair in pairs[rounds.warm_up :] if len(pair[0].times) == len(pair[1].times)]
    if len(warm) >= FEWEST_BLOCKS:
        blocks = [Block(len(one.times), sum(one.times), sum(other.times)) for one, other in warm]
    else:
        warm = pairs
        blocks = _pieces([one for one, _ in pairs], [other for _, other in pairs])
    if len(blocks) < statistics.FEWEST:
        steps = min(original.steps, series.steps)
        raise TooShortError(f"made {steps} step{'s' * (steps != 1)}: too few to time anything")
    ratios = statistics.ratios([each.original for each in blocks], [each.contender for each in blocks])
    return Timed(tuple(blocks), tuple(other for _, other in warm), tuple(ratios))


def _pieces(original: Sequence[Turn], contender: Sequence[Turn]) -> list[Block]:
    """A short run in pieces of a few steps each."""
    one = [seconds for turn in original for seconds in turn.times][_FIRST_STEPS - 1 :]
    other = [seconds for turn in contender for seconds in turn.times][_FIRST_STEPS - 1 :]
    count = min(len(one), len(other))
    size = max(1, count // _MOST_PIECES)
    starts = range(0, count - size + 1, size)
    return [Block(size, sum(one[at : at + size]), sum(other[at : at + size])) for at in starts]


def column(
    series: Series,
    rounds: Rounds,
    *,
    changes: int,
    record: RunRecord | None,
    busy: float | None = None,
    noise: float = 1.0,
) -> Column:
    """All figures of one contender; `noise` is the factor that two processes of one program differed by.

    Raises `TooShortError`.
    """
    found = timed(rounds, series)
    per_step = [block.contender / block.steps for block in found.blocks]
    times = tuple(seconds for turn in found.turns for seconds in turn.times)
    seconds = sum(turn.seconds for turn in found.turns)
    step_seconds = statistics.interval(per_step)
    samples = sum(turn.samples for turn in found.turns) / len(times)
    is_original = series is rounds.series[0]
    last = series.turns[-1]
    return Column(
        name=series.name,
        changes=changes,
        steps=len(times),
        step_times=times,
        samples_per_second=_rate(step_seconds, samples) if samples else None,
        step_seconds=step_seconds,
        speedup=Interval(1.0, 1.0, 1.0) if is_original else statistics.widened(found.speedup, noise),
        first_step_seconds=series.first,
        total_seconds=series.first + sum(turn.seconds for turn in series.turns),
        total_steps=series.steps,
        loader_share=min(1.0, sum(turn.loader for turn in found.turns) / seconds) if seconds else 0.0,
        host_memory=last.host_memory,
        device_memory=last.device_memory,
        device_busy=busy,
        losses=tuple(series.losses),
        decisions=_decisions(record),
        blocks=tuple(per_step),
    )


def _rate(step: Interval, samples: float) -> Interval:
    return Interval(samples / step.median, samples / step.high, samples / step.low)


def _decisions(record: RunRecord | None) -> tuple[Decision, ...]:
    return () if record is None else record.decisions


# -- after how many steps a contender has made up for what its start costs: imports, compilation, capture


AT_ONCE = BreakEven(0, True)
NEVER = BreakEven(None, False)


def break_even(
    original: Sequence[float], contender: Sequence[float], *, speedup: Interval, step: tuple[float, float], start: float
) -> BreakEven:
    """Of the seconds of each step, the start of the process being part of the first.

    `step` are the seconds of a step once everything is warm, of the original and of the contender; a head start of
    less than `start` seconds is chance. Seen where the run was long enough, else computed: never where no gain was
    measured.
    """
    head_starts = list(itertools.accumulate(map(operator.sub, contender, original)))
    if not head_starts or speedup.low <= 1:
        return NEVER
    if max(head_starts) <= start:
        return AT_ONCE
    behind = [number for number, seconds in enumerate(head_starts, 1) if seconds > start]
    if behind[-1] < len(head_starts):
        return BreakEven(behind[-1] + 1, True)
    gain = step[0] - step[1]
    if gain <= 0:
        return NEVER
    return BreakEven(len(head_starts) + math.ceil(head_starts[-1] / gain), False)
