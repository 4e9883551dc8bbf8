from __future__ import annotations

import dataclasses
import math

import pytest

from autoaccel.measure.benching.report import BreakEven
from autoaccel.reports.benchmark.breaking_even import _meeting, _stops, breaking_even, course_of, outcome, sentence

from .reading import words
from .sample import FEW, RICH, SAME, column, replaced


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
def test_what_is_said(found: BreakEven, text: str) -> None:
    assert sentence(found) == text


def test_a_course_begins_with_the_first_step_and_ends_with_the_last() -> None:
    one = column("original", 0.0149, start=3.1)
    course = course_of(one)
    assert course is not None and course.measured == one.total_steps == 260
    assert course.at(0) == 0
    assert course.at(1) == 3.1
    assert course.at(260) == pytest.approx(one.total_seconds)
    assert course.at(260) - course.at(259) == pytest.approx(one.step_times[-1])
    assert course.at(1260) == pytest.approx(one.total_seconds + 1000 * 0.0149)
    assert course.at(1.5) == pytest.approx((course.at(1) + course.at(2)) / 2)


def test_warm_up_steps_share_what_was_not_timed() -> None:
    course = course_of(column("original", 0.01, start=3.0, count=5))
    assert course is not None
    assert [round(course.at(step + 1) - course.at(step), 6) for step in (1, 2, 19)] == [
        round((course.at(20) - course.at(1)) / 19, 6)
    ] * 3


@pytest.mark.parametrize("changes", [{"total_steps": 0}, {"first_step_seconds": math.nan}])
def test_no_course_without_steps(changes: dict[str, float]) -> None:
    assert course_of(dataclasses.replace(column("original", 0.01), **changes)) is None  # type: ignore[arg-type]


def test_one_step_is_acourse_of() -> None:
    one = dataclasses.replace(column("original", 0.01), step_times=(), steps=0, total_steps=1, total_seconds=3.1)
    course = course_of(one)
    assert course is not None and (course.measured, course.at(1), course.at(2)) == (1, 3.1, 3.11)


def test_lines_go_on_so_that_they_meet_where_the_report_says() -> None:
    courses = [course for each in (RICH.columns[0], RICH.columns[2]) if (course := course_of(each))]
    original, rewritten = _meeting(courses, BreakEven(412, measured=False))
    assert original.at(412) == pytest.approx(rewritten.at(412))
    assert original.at(411) < rewritten.at(411) and original.at(413) > rewritten.at(413)


def test_a_crossing_that_was_seen_changes_no_line() -> None:
    courses = [course for each in (RICH.columns[0], RICH.columns[2]) if (course := course_of(each))]
    assert _meeting(courses, BreakEven(100, measured=True)) == courses


def test_what_lies_beyond_the_measured_is_dashed_and_said_to_be() -> None:
    beyond, seen = breaking_even(RICH), breaking_even(dataclasses.replace(RICH, break_even=BreakEven(100, True)))
    assert "Dashed" in beyond and "dashed" in beyond
    assert "ashed" not in seen


def test_what_made_no_difference_cannot_pay_off() -> None:
    assert outcome(SAME) == "No gain was measured that could make up for a slower start."
    assert outcome(RICH) == sentence(RICH.break_even)


def test_no_promise_where_no_difference_was_measured() -> None:
    assert "At the measured rates 10,000 steps take" in words(breaking_even(RICH))
    assert "At the measured rates" not in words(breaking_even(SAME))


def test_the_axis_begins_later_where_starts_take_nearly_all_the_time() -> None:
    late = RICH
    for name, seconds in (("original", 40.0), ("rewritten", 42.0)):
        one = late.column(name)
        assert one is not None
        more = seconds - one.first_step_seconds
        late = replaced(late, name, first_step_seconds=seconds, total_seconds=one.total_seconds + more)
    assert "The axis does not begin at 0." in words(breaking_even(late))
    assert "begin at 0" not in words(breaking_even(RICH))


def test_a_later_start_that_is_within_the_noise_is_said_to_be() -> None:
    text = "That its first step came later is within what starts of the same script differ by."
    assert text in words(breaking_even(dataclasses.replace(RICH, break_even=BreakEven(0, True))))
    assert text not in words(breaking_even(FEW)) and text not in words(breaking_even(RICH))


def test_a_column_without_steps() -> None:
    text = words(breaking_even(replaced(FEW, "rewritten", total_steps=0)))
    assert text == "It cannot be said: not both were measured."


def test_lines_of_the_table_are_round_steps_the_first_and_the_last() -> None:
    assert _stops(260) == [1, 2, 5, 10, 20, 50, 100, 200, 260]
    assert _stops(12_100) == [1, 100, 200, 500, 1000, 2000, 5000, 10_000, 12_100]
    assert _stops(1) == [1]
