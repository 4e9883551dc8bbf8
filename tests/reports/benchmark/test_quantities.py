from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.measure.benching.report import Interval
from autoaccel.reports.benchmark.quantities import (
    bound,
    digits,
    duration,
    durations,
    known_ratio,
    memory,
    percent,
    ratio,
    steps,
    throughput,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (3.2e-8, "32.0 ns"),
        (0.00061, "610 µs"),
        (0.0009999, "1.00 ms"),
        (0.0149, "14.9 ms"),
        (0.9998, "1.00 s"),
        (1.494, "1.49 s"),
        (99.96, "100 s"),
        (119.0, "119 s"),
        (120.0, "2 min"),
        (185.4, "3 min 5 s"),
        (3600.0 * 2, "2 h"),
        (3600.0 * 41 + 61, "41 h 1 min"),
        (-0.0041, "−4.10 ms"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_durations_have_three_digits_and_a_fitting_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_unit_of_an_interval_is_said_once() -> None:
    assert durations(Interval(0.0149, 0.0147, 0.0152)) == "14.7 to 15.2 ms"
    assert durations(Interval(0.001, 0.00099, 0.00101)) == "0.990 to 1.01 ms"
    assert durations(Interval(1.0, math.nan, 1.0)) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (9.996, "10.0"), (99.96, "100"), (1234.5, "1,234"), (0.001234, "0.00123"), (-2, "−2.00")],
)
def test_digits(value: float, text: str) -> None:
    assert digits(value) == text


@given(st.floats(1e-9, 1e9))
def test_digits_stay_close_to_the_value(value: float) -> None:
    assert float(digits(value).replace(",", "")) == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.004, "1.00"), (1.84, "1.84"), (9.994, "9.99"), (9.996, "10.0"), (24.61, "24.6"), (123.4, "123")],
)
def test_speed_ups(value: float, text: str) -> None:
    assert ratio(value) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(1.84, 1.79, 1.90), "1.84"),
        (Interval(1.0, 1.0, 1.0), "1.00"),
        (Interval(7.602, 4.93, 10.6), "7.6"),
        (Interval(24.61, 23.1, 26.0), "24.6"),
        (Interval(48.7, 30.0, 81.0), "49"),
        (Interval(1.2, 1.19998, 1.20002), "1.20"),
    ],
)
def test_speed_ups_have_no_more_digits_than_are_known(interval: Interval, text: str) -> None:
    assert known_ratio(interval) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.0001, "<0.1 %"), (0.035, "3.5 %"), (0.0996, "10 %"), (0.41, "41 %"), (1.0, "100 %")],
)
def test_percentages(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "–"),
        (1000, "1,000 B"),
        (1 << 10, "1.00 KiB"),
        (812 << 20, "812 MiB"),
        (1433 << 20, "1.40 GiB"),
        (1 << 40, "1.00 TiB"),
    ],
)
def test_memory(size: int, text: str) -> None:
    assert memory(size) == text


def test_throughput_keeps_its_thousands() -> None:
    assert (throughput(9.87), throughput(7901.2), throughput(104_918.0)) == ("9.87", "7,901", "104,918")


def test_numbers_are_tied_to_their_units_and_to_nothing_else() -> None:
    assert bound("in 14.9 ms (41 %), 2 steps of 3 min") == "in 14.9\xa0ms (41\xa0%), 2\xa0steps of 3\xa0min"
    assert bound("at step 3 some more") == "at step\xa03 some more"
    assert (steps(1), steps(1200)) == ("1 step", "1,200 steps")
