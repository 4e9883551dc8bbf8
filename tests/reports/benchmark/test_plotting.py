from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.reports.benchmark.plotting import Axis, gathered, tick_labels


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0, 14.9, 7, ("0", "2.5", "5.0", "7.5", "10.0", "12.5")),
        (7.4, 18.3, 9, ("8", "10", "12", "14", "16", "18")),
        (0, 12_100, 8, ("0", "2,000", "4,000", "6,000", "8,000", "10,000", "12,000")),
        (0.988, 1.021, 5, ("0.99", "1.00", "1.01", "1.02")),
        (-1, 1, 5, ("−1.0", "−0.5", "0", "0.5", "1.0")),
        (0, 4, 8, ("0", "1", "2", "3", "4")),
        (3, 3, 5, ("3",)),
    ],
)
def test_ticks_are_round(low: float, high: float, most: int, labels: tuple[str, ...]) -> None:
    assert tuple(label for _, label in Axis(low, high, 0, 100).labelled(most)) == labels


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.5, 20, ("0.5", "1", "2", "5", "10", "20")),
        (0.001, 1000, ("0.001", "0.01", "0.1", "1", "10", "100", "1,000")),
        (3, 4, ("3.0", "3.2", "3.4", "3.6", "3.8", "4.0")),
    ],
)
def test_logarithmic_ticks(low: float, high: float, labels: tuple[str, ...]) -> None:
    assert tuple(label for _, label in Axis(low, high, 0, 100, logarithmic=True).labelled(8)) == labels


@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e5), st.integers(2, 9), st.booleans())
def test_ticks_lie_on_the_axis_and_can_be_told_apart(low: float, factor: float, most: int, logarithmic: bool) -> None:
    axis = Axis(low, low * factor, 10, 90, logarithmic=logarithmic)
    ticks = axis.labelled(most)
    assert len(ticks) <= most
    assert all(low * (1 - 1e-6) <= value <= low * factor * (1 + 1e-6) for value, _ in ticks)
    assert len({label for _, label in ticks}) == len(ticks)
    assert all(axis(before) < axis(after) for (before, _), (after, _) in itertools.pairwise(ticks))


def test_places_beyond_the_axis_are_at_its_ends() -> None:
    axis = Axis(0, 10, 100, 0)
    assert (axis(-3), axis(0), axis(5), axis(99)) == (100, 100, 50, 0)


def test_very_small_and_very_large_ticks_are_powers() -> None:
    assert tick_labels((0, 2e-9)) == ("0", "2e-9".replace("-", "−"))
    assert tick_labels((0, 2.5e9)) == ("0", "2.5e9")


def test_points_that_are_gathered_lose_no_spike() -> None:
    points = [(each / 10, 1.0) for each in range(1000)]
    points[517] = (51.7, 9.0)
    found = list(gathered(points))
    assert len(found) == 34
    assert max(high for *_, (_, high) in found) == 9.0
    assert {middle for (_, middle), *_ in found} == {1.0}
