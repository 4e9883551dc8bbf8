"""Intervals hold: against disturbances of many kinds, for few values, whichever way a ratio is taken."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.measure.benching import medians
from autoaccel.measure.benching.medians import FEWEST, RESOLUTION, independent, interval, ranks, widened
from autoaccel.measure.benching.report import Interval

Noise = Callable[[random.Random, int], list[float]]

positive = st.lists(st.floats(1e-6, 1e6), min_size=FEWEST, max_size=60)


def calm(draw: random.Random, count: int) -> list[float]:
    return [draw.gauss(0, 0.03) for _ in range(count)]


def slow_waves(draw: random.Random, count: int) -> list[float]:
    """What disturbs one block disturbs the next: autocorrelation 0.5."""
    value, found = draw.gauss(0, 0.03), []
    for _ in range(count):
        value = 0.5 * value + math.sqrt(1 - 0.25) * draw.gauss(0, 0.03)
        found.append(value)
    return found


def heavy_tails(draw: random.Random, count: int) -> list[float]:
    """One in seven is far out, on either side."""
    far = [draw.choice((-1, 1)) * draw.expovariate(2.5) * (draw.random() < 0.15) for _ in range(count)]
    return [draw.gauss(0, 0.02) + each for each in far]


def bursts(draw: random.Random, count: int) -> list[float]:
    """Now and then some blocks in a row, all on the same side."""
    found: list[float] = []
    while len(found) < count:
        if draw.random() < 0.1:
            level = draw.gauss(0, 0.2)
            found += [level + draw.gauss(0, 0.01) for _ in range(draw.randrange(1, 5))]
        found.append(draw.gauss(0, 0.01))
    return found[:count]


@pytest.mark.parametrize("count", [6, 10, 20, 40])
@pytest.mark.parametrize("noise", [calm, slow_waves, heavy_tails, bursts])
def test_coverage(noise: Noise, count: int) -> None:
    """Of two equally fast programs the interval contains 1: in 99 % of the runs, less where little can be known."""
    draw = random.Random(f"{noise.__name__} {count}")
    runs = 400
    hits = sum(interval([math.exp(each) for each in noise(draw, count)]).contains(1.0) for _ in range(runs))
    # By chance alone 400 runs at 99 % give less than 0.975 once in a hundred times; the seeds are fixed.
    least = {6: 0.91, 10: 0.95} if noise is slow_waves else {6: 0.96}
    assert hits / runs >= least.get(count, 0.97)


@pytest.mark.parametrize("noise", [calm, slow_waves, heavy_tails, bursts])
def test_power(noise: Noise) -> None:
    """The interval is not honest by being useless: a gain of 20 % is seen in forty blocks."""
    draw = random.Random(1)
    runs = [[math.exp(each) * 1.2 for each in noise(draw, 40)] for _ in range(100)]
    assert sum(interval(run).low > 1 for run in runs) >= 95


def test_one_wild_value_does_not_matter() -> None:
    values = [1.0 + 0.001 * (number % 7) for number in range(30)]
    wild = [*values[:12], 50.0, *values[13:]]
    assert interval(wild).high < 1.02


@given(positive)
def test_the_median_is_inside(values: list[float]) -> None:
    found = interval(values)
    assert found.low <= found.median * (1 + 1e-12)
    assert found.median <= found.high * (1 + 1e-12)


@given(positive)
def test_upside_down(values: list[float]) -> None:
    there, back = interval(values), interval([1 / each for each in values])
    expected = [1 / each for each in (there.high, there.median, there.low)]
    assert [back.low, back.median, back.high] == pytest.approx(expected)


@given(positive, st.floats(0.01, 100))
def test_units_do_not_matter(values: list[float], factor: float) -> None:
    before, after = interval(values), interval([each * factor for each in values])
    expected = [each * factor for each in (before.median, before.low, before.high)]
    assert [after.median, after.low, after.high] == pytest.approx(expected)


@given(positive)
def test_the_same_figures_give_the_same_interval(values: list[float]) -> None:
    assert interval(values) == interval(list(values))


def test_equal_values() -> None:
    found = interval([2.0] * 10)
    assert (found.low, found.median, found.high) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize("count", range(FEWEST))
def test_too_few(count: int) -> None:
    with pytest.raises(ValueError, match="no interval"):
        interval([1.0] * count)


def test_dependent_values_are_worth_fewer() -> None:
    alternating = [1.0, 2.0] * 20
    rising = [float(each) for each in range(40)]
    assert independent(alternating) == 40
    assert independent(rising) <= 3


def test_level_widens() -> None:
    draw = random.Random(3)
    values = [math.exp(each) for each in calm(draw, 25)]
    wide, narrow = interval(values), interval(values, level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_ranks_of_equal_values() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [2.5, 0.0, 2.5, 1.0]


def test_autocorrelation_of_what_never_changes() -> None:
    assert medians.autocorrelation([1.0, 1.0, 1.0]) == 0


@pytest.mark.parametrize(("noise", "factor"), [(1.1, 1.1), (1 / 1.1, 1.1), (1.0, RESOLUTION), (1.001, RESOLUTION)])
def test_widened(noise: float, factor: float) -> None:
    found = widened(Interval(2.0, 1.9, 2.1), noise)
    assert (found.low, found.median, found.high) == pytest.approx((1.9 / factor, 2.0, 2.1 * factor))
