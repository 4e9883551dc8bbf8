from __future__ import annotations

import dataclasses
import itertools
import math
import re

import pytest

from autoaccel.measure.benching.report import BenchReport, BreakEven, Contribution, Interval
from autoaccel.reports.benchmark.charts import (
    Exhibit,
    break_even,
    distribution,
    losses,
    rules,
)

from .reading import drawings
from .sample import BARE, CONTRIBUTIONS, FEW, HUGE, NOTHING, RICH, replaced, without


def said(exhibit: Exhibit) -> str:
    """The words above and below a chart."""
    return f"{exhibit.said} {exhibit.caption}".strip()


def points(exhibit: Exhibit, kind: str) -> list[tuple[float, float]]:
    """The pixels of a line."""
    paths = [each for each in drawings(exhibit.chart)[0].iter("path") if each.get("class") == kind]
    pairs = (pair.split(",") for each in paths for pair in (each.get("d") or "").strip("M").split(" "))
    return [(float(x), float(y)) for x, y in pairs]


# -- step times


def test_medians_are_named_and_outliers_said_in_words() -> None:
    usual = tuple(0.01 + each * 1e-5 for each in range(198))
    one = replaced(replaced(RICH, "original", step_times=(*usual, 0.3, 0.5)), "rewritten", step_times=usual)
    text = said(distribution(one))
    assert "original: median 11.0 ms" in text and "rewritten: median 11.0 ms" in text
    assert "Not drawn: 2 steps of the original script, up to 500 ms." in text
    assert "of the rewritten script" not in text


def test_every_step_that_is_not_an_outlier_is_on_the_line_in_order() -> None:
    exhibit = distribution(RICH)
    for each in (RICH.columns[0], RICH.columns[2]):
        line = points(exhibit, f"curve {each.name}")
        missing = re.search(rf"Not drawn: (\d+) steps of the {each.name} script", said(exhibit))
        assert len(line) + int(missing[1] if missing else 0) == each.steps == 240
        assert line == sorted(line, key=lambda place: (place[0], -place[1]))  # upwards, pixels become fewer
        assert all(after[1] <= before[1] for before, after in itertools.pairwise(line))


def test_columns_far_from_each_other_share_a_logarithmic_axis() -> None:
    assert "The axis is logarithmic." in said(distribution(HUGE))
    assert "logarithmic" not in said(distribution(RICH))


def test_few_steps_are_a_line_too_and_one_a_dot() -> None:
    exhibit = distribution(FEW)
    assert len(points(exhibit, "curve original")) == len(points(exhibit, "curve rewritten")) == 3
    assert "All times of 3 steps" in said(exhibit)
    one = distribution(replaced(FEW, "original", step_times=(3.0,)))
    assert [each.get("class") for each in drawings(one.chart)[0].iter("circle")] == ["point original"]
    assert "All times of 1 step and 3 steps" in said(one)


@pytest.mark.parametrize("step_times", [(), (0.0,), (float("nan"),)], ids=str)
def test_no_steps(step_times: tuple[float, ...]) -> None:
    untimed = Exhibit("No steps were timed.")
    assert distribution(BARE) == distribution(NOTHING) == untimed
    assert distribution(replaced(without(RICH, "rewritten"), "original", step_times=step_times)) == untimed


def test_steps_that_all_take_the_same() -> None:
    one = replaced(without(RICH, "rewritten"), "original", step_times=(0.01,) * 50)
    assert "original: median 10.0 ms" in said(distribution(one))


# -- break-even


def test_what_lies_beyond_the_measured_is_dashed_and_said_to_be() -> None:
    beyond, seen = break_even(RICH), break_even(dataclasses.replace(RICH, break_even=BreakEven(100, True)))
    assert "Dashed" in beyond.caption and "dashed" in beyond.chart
    assert "ashed" not in seen.caption + seen.chart


def test_a_column_without_steps() -> None:
    text = said(break_even(replaced(FEW, "rewritten", total_steps=0)))
    assert text == "It cannot be said: not both were measured."


# -- rules


def test_a_rule_is_a_point_with_its_interval_and_so_are_all_together() -> None:
    chart = drawings(rules(RICH))[0]
    labels = [each.text for each in chart.iter("text") if (each.get("class") or "").startswith("halo")]
    assert labels[labels.index("AA201 loader-workers") + 1] == "1.38 (1.33 to 1.43)"
    assert labels[-2:] == ["all together", "1.84 (1.79 to 1.90)"]
    alone = sum(each.alone is not None for each in CONTRIBUTIONS)
    assert len(list(chart.iter("circle"))) == alone + 1


def test_what_was_not_measured_alone_is_not_drawn() -> None:
    unknown = Contribution("AA999", "unmeasured", 1, None, Interval(1.0, 0.9, 1.1))
    assert "AA999" not in rules(dataclasses.replace(RICH, contributions=(*CONTRIBUTIONS, unknown)))
    assert not rules(dataclasses.replace(RICH, contributions=(unknown,)))


# -- losses


def _said(before: list[float], after: list[float]) -> str:
    report: BenchReport = replaced(
        replaced(RICH, "original", losses=tuple(enumerate(before))), "rewritten", losses=tuple(enumerate(after))
    )
    return losses(report).said


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([2.0, 1.0], [2.0, 1.0], "All 2 losses that both scripts computed are equal to the last bit."),
        ([2.0, 1.0], [2.0, 1.0, 0.5], "All 2 losses that both scripts computed are equal to the last bit."),
        (
            [2.0, 1.0],
            [2.0, math.nextafter(1.0, 2.0)],
            (
                "The first loss is equal to the last bit; after that they differ, "
                "by <0.0001 % in the median and <0.0001 % at most (step 1)."
            ),
        ),
        (
            [2.0, 1.0, 1.0, 0.5],
            [2.0, 1.0, 0.98, 0.4],
            (
                "The first 2 losses are equal to the last bit; after that they differ, "
                "by 11 % in the median and 20 % at most (step 3)."
            ),
        ),
        (
            [1.0, 1.0],
            [1.0001, 1.004],
            "The losses differ from the first on, by 0.20 % in the median and 0.40 % at most (step 1).",
        ),
        ([2.0], [1.0], "The losses differ from the first on, by 50 % in the median and 50 % at most (step 0)."),
        (
            [1.0, 1.0],
            [1.0, math.nan],
            (
                "The first loss is equal to the last bit; after that they differ. "
                "Infinite or not a number in the rewritten script: 1 loss, the first at step 1."
            ),
        ),
        (
            [math.nan, math.inf],
            [math.nan, math.inf],
            (
                "All 2 losses that both scripts computed are equal to the last bit. "
                "Infinite or not a number in the original script: 2 losses, the first at step 0. "
                "Infinite or not a number in the rewritten script: 2 losses, the first at step 0."
            ),
        ),
    ],
)
def test_how_far_they_agree(before: list[float], after: list[float], text: str) -> None:
    assert _said(before, after) == text


def test_losses_that_nobody_saw() -> None:
    assert losses(NOTHING) == Exhibit("No losses were seen.")
    assert losses(replaced(without(RICH, "rewritten"), "original", losses=())) == losses(NOTHING)
    assert "Only the losses of the original script were seen." in said(losses(without(RICH, "rewritten")))


def test_lines_break_where_losses_are_no_numbers() -> None:
    broken = tuple((step, math.nan if step == 50 else value) for step, value in RICH.columns[0].losses)
    whole, parts = losses(RICH).chart, losses(replaced(RICH, "rewritten", losses=broken)).chart
    assert whole.count('class="curve rewritten"') == 1
    assert parts.count('class="curve rewritten"') == 2


def test_many_losses_are_a_band_with_its_median() -> None:
    many, few = losses(HUGE), losses(RICH)
    assert 'class="band rewritten"' in many.chart and 'class="band' not in few.chart
    assert "bands go from the smallest to the largest" in many.caption and "bands" not in few.caption
    assert len(many.chart) < 60_000


def test_the_axis_is_logarithmic_where_losses_span_decades() -> None:
    fallen = tuple((step, 10.0 ** (-step / 50)) for step in range(200))
    text = said(losses(replaced(replaced(RICH, "original", losses=fallen), "rewritten", losses=fallen)))
    assert "The axis is logarithmic." in text and "logarithmic" not in said(losses(RICH))
