"""How many times faster: the median over processes of medians over blocks, with an interval over both.

Two processes of one program differ for as long as they live, by what their memory's layout makes of them; blocks of one
pair of processes cannot show that. So there are several pairs, and a resample draws pairs first, then blocks of each
(T. Kalibera and R. Jones, Rigorous benchmarking in reasonable time, ISMM 2013). Few pairs understate how much pairs
differ: `RESOLUTION` is what is taken for granted.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from autoaccel.measure.benching.medians import LEVEL, RESOLUTION, widened
from autoaccel.measure.benching.report import Interval

_RESAMPLES = 2000

Pairs = Sequence[Sequence[float]]
"""Ratios by block of each pair of processes."""


def centre(pairs: Pairs) -> float:
    """The median over pairs of processes, of logarithms: so that it does not matter which of two is the original."""
    return math.exp(statistics.median(statistics.median(map(math.log, blocks)) for blocks in pairs if blocks))


def estimate(pairs: Pairs, *, level: float = LEVEL) -> Interval:
    """The ratio with its interval; the same figures give the same one. Raises `ValueError` where there is none."""
    logarithms = [[math.log(ratio) for ratio in blocks] for blocks in pairs if blocks]
    if not logarithms:
        raise ValueError("nothing was measured")
    draw = random.Random(0)
    found = sorted(_resampled(logarithms, draw) for _ in range(_RESAMPLES))
    tail = (1 - level) / 2
    low, high = found[int(tail * _RESAMPLES)], found[-1 - int(tail * _RESAMPLES)]
    return widened(Interval(centre(pairs), math.exp(low), math.exp(high)), RESOLUTION)


def _resampled(pairs: Sequence[Sequence[float]], draw: random.Random) -> float:
    chosen = draw.choices(pairs, k=len(pairs))
    return statistics.median(statistics.median(draw.choices(blocks, k=len(blocks))) for blocks in chosen)


def geometric_mean(values: Sequence[float]) -> float:
    """Raises `ValueError` where there are none."""
    if not values:
        raise ValueError("nothing was measured")
    return math.exp(statistics.fmean(map(math.log, values)))
