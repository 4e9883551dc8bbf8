"""From values to places on a picture, and the round numbers in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `low` to `high` lie between the pixels `start` and `end`, which may run either way."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (self._bent(each) for each in (self.low, self.high, value))
        part = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def _bent(self, value: float) -> float:
        return math.log(max(value, self.low)) if self.logarithmic else value

    def ticks(self, most: int) -> tuple[float, ...]:
        """At most so many round numbers."""
        return _decades(self.low, self.high, most) if self.logarithmic else _multiples(self.low, self.high, most)

    def labelled(self, most: int) -> tuple[tuple[float, str], ...]:
        """The ticks with what is written at each; those at powers of ten have digits of their own."""
        values = self.ticks(most)
        gaps = {round((after - before) / (self.high or 1.0), 9) for before, after in pairwise(values)}
        alone = self.logarithmic and len(gaps) > 1
        labels = [tick_labels((value,))[0] for value in values] if alone else tick_labels(values)
        return tuple(zip(values, labels, strict=True))


def _multiples(low: float, high: float, most: int) -> tuple[float, ...]:
    if not high > low:
        return (low,)
    least = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(least))
    for stride in (power * each for each in (*_ROUND, 20.0, 25.0, 50.0, 100.0)):
        first, last = math.ceil(low / stride - 1e-9), math.floor(high / stride + 1e-9)
        if last - first + 1 <= most:
            return tuple(stride * each for each in range(first, last + 1))
    return ()


def _decades(low: float, high: float, most: int) -> tuple[float, ...]:
    """Powers of ten with as many in between as there is room for."""
    for steps in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
        if 2 < len(found := _within(low, high, steps)) <= most:
            return found
    powers = _within(low, high, (1,))
    return powers[:: math.ceil(len(powers) / most)] if len(powers) > 2 else _multiples(low, high, most)


def _within(low: float, high: float, steps: Sequence[int]) -> tuple[float, ...]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = (each * 10.0**power for power in range(first, last + 1) for each in steps)
    return tuple(value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9))


def tick_labels(values: Sequence[float]) -> tuple[str, ...]:
    """As many decimals as the values need, the same for all; very small and very large ones as powers."""
    largest = max((abs(value) for value in values), default=0.0)
    if largest and not 1e-4 <= largest < 1e7:
        return next(
            labels
            for digits in range(2, 18)
            if len(set(labels := tuple(_power(value, digits) for value in values))) == len(values) or digits == 17
        )
    decimals = next(each for each in range(10) if all(_said(value, each, largest) for value in values) or each == 9)
    return tuple(f"{value:,.{decimals}f}".replace("-", "−") if value else "0" for value in values)


def _said(value: float, decimals: int, largest: float) -> bool:
    return abs(round(value, decimals) - value) <= largest * 1e-6


def _power(value: float, digits: int) -> str:
    return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e").replace("-", "−") if value else "0"
