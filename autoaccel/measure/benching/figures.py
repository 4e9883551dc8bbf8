"""From turns to figures: what a contender took for the very steps that the original took so long for."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from autoaccel.measure.benching import medians
from autoaccel.measure.benching.report import BreakEven, Column, Interval
from autoaccel.measure.benching.rounds import Rounds, Series
from autoaccel.measure.observing.turns import Turn
from autoaccel.reports.counting import counted

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


def _compared(rounds: Rounds, series: Series) -> tuple[list[Block], list[Turn]]:
    """The blocks that a contender has in common with the original, and its turns that they are from. Raises
    `TooShortError`."""
    original = rounds.series[0]
    pairs = list(zip(original.turns, series.turns, strict=False))
    warm = [pair for pair in pairs[rounds.warm_up :] if len(pair[0].times) == len(pair[1].times)]
    if len(warm) >= FEWEST_BLOCKS:
        blocks = [Block(len(one.times), sum(one.times), sum(other.times)) for one, other in warm]
    else:
        warm = pairs
        blocks = _pieces([one for one, _ in pairs], [other for _, other in pairs])
    if len(blocks) < medians.FEWEST:
        steps = min(original.steps, series.steps)
        raise TooShortError(f"made {counted(steps, 'step')}: too few to time anything")
    return blocks, [other for _, other in warm]


def _pieces(original: Sequence[Turn], contender: Sequence[Turn]) -> list[Block]:
    """A short run in pieces of a few steps each."""
    both = (original, contender)
    one, other = ([seconds for turn in turns for seconds in turn.times][_FIRST_STEPS - 1 :] for turns in both)
    count = min(len(one), len(other))
    size = max(1, count // _MOST_PIECES)
    starts = range(0, count - size + 1, size)
    return [Block(size, sum(one[at : at + size]), sum(other[at : at + size])) for at in starts]


def column(series: Series, rounds: Rounds, *, noise: float = 1.0) -> Column:
    """All figures of one contender; `noise` is the factor that two processes of one program differed by.

    Raises `TooShortError`.
    """
    blocks, turns = _compared(rounds, series)
    per_step = [block.contender / block.steps for block in blocks]
    times = tuple(seconds for turn in turns for seconds in turn.times)
    seconds = sum(turn.seconds for turn in turns)
    step = medians.interval(per_step)
    samples = sum(turn.samples for turn in turns) / len(times)
    rate = Interval(samples / step.median, samples / step.high, samples / step.low) if samples else None
    if series is rounds.series[0]:
        speedup = Interval(1.0, 1.0, 1.0)
    else:
        # How many times faster it was, block by block: the same steps, one right after the other.
        ratios = medians.interval([block.original / block.contender for block in blocks])
        speedup = medians.widened(ratios, noise)
    last = series.turns[-1]
    return Column(
        name=series.name,
        changes=series.changes,
        steps=len(times),
        step_times=times,
        samples_per_second=rate,
        step_seconds=step,
        speedup=speedup,
        first_step_seconds=series.first,
        total_seconds=series.first + sum(turn.seconds for turn in series.turns),
        total_steps=series.steps,
        loader_share=min(1.0, sum(turn.loader for turn in turns) / seconds) if seconds else 0.0,
        host_memory=last.host_memory,
        device_memory=last.device_memory,
        device_busy=series.busy,
        losses=tuple(series.losses),
        decisions=series.record.decisions if series.record else (),
        blocks=tuple(per_step),
    )


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
