"""After how many steps a contender has made up for what its start costs: imports, compilation, capture."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

from autoaccel.measure.benching.report import BreakEven, Interval

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
