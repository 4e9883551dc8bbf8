"""When a slower start is made up for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.measure.benching.figures import break_even
from autoaccel.measure.benching.report import BreakEven, Interval

TWICE = Interval(2.0, 1.9, 2.1)
NO_GAIN = Interval(1.01, 0.98, 1.04)


def course(start: float, step: float, count: int) -> list[float]:
    return [start, *[step] * (count - 1)]


def found(start: float, *, steps: int = 100, speedup: Interval = TWICE, chance: float = 0.05) -> BreakEven:
    """The original starts in 3 s and needs 0.1 s a step; the other one 0.05 s."""
    return break_even(
        course(3.0, 0.1, steps), course(start, 0.05, steps), speedup=speedup, step=(0.1, 0.05), start=chance
    )


def test_seen() -> None:
    # 4 s behind after the first step, 0.05 s less with each: even after 80 more, but for the 0.05 s that are chance.
    assert found(7.001) == BreakEven(81, measured=True)


def test_computed() -> None:
    assert found(13.0) == BreakEven(201, measured=False)


@pytest.mark.parametrize("start", [2.0, 3.0, 3.04])
def test_ahead_at_once(start: float) -> None:
    assert found(start) == BreakEven(0, measured=True)


@pytest.mark.parametrize("start", [2.0, 3.0, 4.0])
def test_never_without_a_gain(start: float) -> None:
    assert found(start, speedup=NO_GAIN) == BreakEven(None, measured=False)


def test_never_where_it_is_slower() -> None:
    slower = break_even(
        course(3, 0.05, 100), course(9, 0.1, 100), speedup=Interval(0.5, 0.4, 0.6), step=(0.05, 0.1), start=0.0
    )
    assert slower == BreakEven(None, measured=False)


def test_falling_behind_later_counts() -> None:
    """A recompilation in the middle: what was ahead has to catch up again."""
    contender = course(3.0, 0.05, 100)
    contender[20] = 3.0
    seen = break_even(course(3.0, 0.1, 100), contender, speedup=TWICE, step=(0.1, 0.05), start=0.0)
    assert seen.measured
    assert seen.steps is not None
    assert seen.steps == pytest.approx(60, abs=1)


def test_nothing_measured() -> None:
    assert break_even([], [], speedup=TWICE, step=(1, 1), start=0) == BreakEven(None, measured=False)


@given(st.floats(3.2, 100), st.integers(2, 300))
def test_measuring_longer_does_not_move_it(start: float, steps: int) -> None:
    short, long = found(start, steps=steps), found(start, steps=4000)
    assert short.steps is not None
    assert long.steps is not None
    # Chance is worth one step here: what is computed goes to the very end, what is seen stops short of it.
    assert abs(short.steps - long.steps) <= 2
