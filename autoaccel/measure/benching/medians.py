"""Medians of few, disturbed and dependent measurements, with intervals that hold.

The interval is that of the bootstrap of the median, whose distribution is known exactly: the chance that the median of
`m` draws is at most the k-th smallest of `n` values is a binomial tail (B. Efron, Bootstrap methods: another look at
the jackknife, Annals of Statistics 7, 1979, section 3). So nothing is drawn at random, and the same figures give the
same interval. Three things make it honest where the textbook's is too narrow:

- What disturbs one block of steps disturbs the next. Resamples of blocks of blocks are too alike when there are twenty;
  here the resamples are smaller (the m-out-of-n bootstrap): `m` is the number of independent values that these are
  worth, from the autocorrelation of their ranks, which outliers cannot hide, taken on the safe side.
- Few values understate the spread: the interval is wider by `20 / n²`, which is little from ten on.
- The level is 99 %: a reader looks at many figures and wants to be misled by none.

And what was measured are two processes, not two programs: where their memory happens to lie makes a lasting difference
(T. Mytkowicz and others, Producing wrong data without doing anything obviously wrong, ASPLOS 2009). It can be as large
as that of the original to itself, and one percent is taken for granted: `RESOLUTION`.

Of ratios the logarithms are taken: the interval of B/A is then that of A/B upside down.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Sequence

from autoaccel.measure.benching.report import Interval

LEVEL = 0.99
FEWEST = 3
"""Values that an interval can be made of."""
RESOLUTION = 1.01
"""The factor by which two processes may differ that run the same program."""
_SAFE = 0.5  # standard errors that the autocorrelation is taken higher than it is estimated
_HIGHEST = 0.9  # autocorrelation: above, so few values say nothing of it
_FEW = 20.0  # found by simulation: `tests/measure/benching/test_medians.py` asks for what it gives


def interval(values: Sequence[float], *, level: float = LEVEL) -> Interval:
    """The median of positive values in the order in which they were measured. Raises `ValueError` below `FEWEST`."""
    if len(values) < FEWEST:
        raise ValueError(f"{len(values)} values have no interval")
    logarithms = [math.log(value) for value in values]
    ordered = sorted(logarithms)
    median = statistics.median(ordered)
    first = _lowest(len(ordered), independent(logarithms), (1 - level) / 2)
    wider = 1 + _FEW / len(ordered) ** 2
    low = median - wider * (median - ordered[first])
    high = median + wider * (ordered[-1 - first] - median)
    return Interval(math.exp(median), math.exp(low), math.exp(high))


def widened(estimate: Interval, noise: float) -> Interval:
    """An interval that also covers what two processes of one program differ by: a factor, either way."""
    factor = max(noise, 1 / noise, RESOLUTION)
    return Interval(estimate.median, estimate.low / factor, estimate.high * factor)


def independent(values: Sequence[float]) -> int:
    """How many independent values these are worth: `n (1 - r) / (1 + r)`, r the autocorrelation of their ranks."""
    n = len(values)
    # The estimate is too low by one part in n, and known to one part in the root of n.
    known = autocorrelation(ranks(values)) + 1 / n + _SAFE / math.sqrt(n)
    kept = min(max(known, 0.0), _HIGHEST)
    return max(1, int(n * (1 - kept) / (1 + kept)))


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each in the order of all; equal ones share theirs."""
    places: dict[float, list[int]] = {}
    for place, value in enumerate(sorted(values)):
        places.setdefault(value, []).append(place)
    return [statistics.fmean(places[value]) for value in values]


def autocorrelation(values: Sequence[float]) -> float:
    """Of each with the next; 0 where all are the same."""
    mean = statistics.fmean(values)
    off = [value - mean for value in values]
    scale = sum(each * each for each in off)
    return sum(map(operator.mul, off, off[1:])) / scale if scale else 0.0


def _lowest(n: int, m: int, tail: float) -> int:
    """The index of the first of `n` ordered values that the median of `m` draws is at most with a chance > `tail`."""
    m -= 1 - m % 2  # of an even number of draws the median would lie between two values
    return next(index for index in range(n) if _at_most(m, (index + 1) / n) > tail)


def _at_most(m: int, share: float) -> float:
    """The chance that more than half of `m` draws come from the lowest `share` of the values."""
    more = range((m + 1) // 2, m + 1)
    return sum(math.comb(m, count) * share**count * (1 - share) ** (m - count) for count in more)
