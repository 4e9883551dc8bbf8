from __future__ import annotations

import dataclasses
import math

import pytest

from autoaccel.measure.benching.report import BreakEven, Interval
from autoaccel.reports.benchmark.summary import (
    SpeedVerdict,
    course_of,
    explanation,
    headline,
    paying_off,
    verdict,
)

from .sample import BARE, NOTHING, RICH, SAME, column, replaced, without


@pytest.mark.parametrize(
    ("speedup", "again", "expected"),
    [
        ((1.84, 1.79, 1.90), (1.0, 0.99, 1.01), SpeedVerdict.FASTER),
        ((0.71, 0.68, 0.73), (1.0, 0.99, 1.01), SpeedVerdict.SLOWER),
        ((1.01, 0.99, 1.03), (1.0, 0.999, 1.001), SpeedVerdict.SAME),
        ((1.03, 1.01, 1.05), (1.0, 0.97, 1.02), SpeedVerdict.NOISE),
        ((1.03, 1.01, 1.05), (0.98, 0.97, 0.99), SpeedVerdict.NOISE),  # noise is noise whichever way it went
        ((0.97, 0.96, 0.98), (1.02, 1.01, 1.03), SpeedVerdict.NOISE),
        ((1.03, 1.02, 1.05), (1.0, 0.99, 1.01), SpeedVerdict.FASTER),
        ((math.nan, math.nan, math.nan), (1.0, 0.99, 1.01), SpeedVerdict.UNKNOWN),
        ((1.84, 1.79, math.inf), (1.0, 0.99, 1.01), SpeedVerdict.UNKNOWN),
        ((1.84, 1.79, 1.90), (math.nan, math.nan, math.nan), SpeedVerdict.FASTER),
    ],
)
def test_verdicts(
    speedup: tuple[float, float, float], again: tuple[float, float, float], expected: SpeedVerdict
) -> None:
    report = replaced(replaced(RICH, "rewritten", speedup=Interval(*speedup)), "again", speedup=Interval(*again))
    assert verdict(report) is expected


def test_without_an_a_a_column_the_interval_alone_decides() -> None:
    slight = replaced(RICH, "rewritten", speedup=Interval(1.02, 1.01, 1.03))
    assert verdict(without(slight, "again")) is SpeedVerdict.FASTER


@pytest.mark.parametrize(
    ("speedup", "title", "sentence"),
    [
        (
            Interval(1.84, 1.79, 1.90),
            "1.84 times as fast after rewriting",
            (
                "The speed-up lies between 1.79 and 1.90 (99 % interval). "
                "The original measured against itself gives 1.00 (0.99 to 1.01)."
            ),
        ),
        (
            Interval(0.71, 0.68, 0.73),
            "Slower after rewriting: 0.71 times as fast",
            (
                "The speed-up lies between 0.68 and 0.73 (99 % interval). "
                "The original measured against itself gives 1.00 (0.99 to 1.01)."
            ),
        ),
        (
            Interval(1.01, 0.99, 1.02),
            "No difference measured",
            (
                "The speed-up is 1.01, and its 99 % interval, 0.99 to 1.02, contains 1. "
                "The original measured against itself gives 1.00 (0.99 to 1.01)."
            ),
        ),
        (
            Interval(1.011, 1.005, 1.02),
            "No difference measured",
            (
                "The speed-up is 1.01 (99 % interval 1.00 to 1.02), which is within the noise. "
                "The original measured against itself gives 1.00 (0.99 to 1.01)."
            ),
        ),
    ],
)
def test_what_is_said(speedup: Interval, title: str, sentence: str) -> None:
    report = replaced(RICH, "rewritten", speedup=speedup)
    assert (headline(report), explanation(report)) == (title, sentence)


def test_a_rewritten_script_that_was_not_measured() -> None:
    assert headline(BARE) == headline(NOTHING) == "The rewritten script was not measured"
    assert (explanation(BARE), explanation(NOTHING)) == ("The notes say why.", "")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (BreakEven(None, measured=False), "The rewritten script does not make up for what it spends at the start."),
        (BreakEven(0, measured=True), "The rewritten script is ahead from the first step on."),
        (BreakEven(1, measured=True), "After 1 step the rewritten script has made up for what it spends at the start."),
        (
            BreakEven(1412, measured=False),
            (
                "After about 1,412 steps the rewritten script will have made up for what it spends at the start, "
                "if both go on as measured."
            ),
        ),
    ],
)
def test_what_is_said_of_the_break_even(found: BreakEven, text: str) -> None:
    assert paying_off(dataclasses.replace(RICH, break_even=found)) == text


def test_a_course_begins_with_the_first_step_and_ends_with_the_last() -> None:
    one = column("original", 0.0149, start=3.1)
    course = course_of(one)
    assert course is not None and course.measured == one.total_steps == 260
    assert course.at(0) == 0
    assert course.at(1) == 3.1
    assert course.at(260) == pytest.approx(one.total_seconds)
    assert course.at(260) - course.at(259) == pytest.approx(one.step_times[-1])
    assert course.at(1260) == pytest.approx(one.total_seconds + 1000 * 0.0149)


def test_warm_up_steps_share_what_was_not_timed() -> None:
    course = course_of(column("original", 0.01, start=3.0, count=5))
    assert course is not None
    assert [round(course.at(step + 1) - course.at(step), 6) for step in (1, 2, 19)] == [
        round((course.at(20) - course.at(1)) / 19, 6)
    ] * 3


@pytest.mark.parametrize("changes", [{"total_steps": 0}, {"first_step_seconds": math.nan}])
def test_no_course_without_steps(changes: dict[str, float]) -> None:
    assert course_of(dataclasses.replace(column("original", 0.01), **changes)) is None  # type: ignore[arg-type]


def test_one_step_is_a_course() -> None:
    one = dataclasses.replace(column("original", 0.01), step_times=(), steps=0, total_steps=1, total_seconds=3.1)
    course = course_of(one)
    assert course is not None and (course.measured, course.at(1), course.at(2)) == (1, 3.1, 3.11)


def test_what_made_no_difference_cannot_pay_off() -> None:
    assert paying_off(SAME) == "No gain was measured that could make up for a slower start."
    assert paying_off(RICH).startswith("After about 412 steps")
