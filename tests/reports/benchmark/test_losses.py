from __future__ import annotations

import math
import random

import pytest

from autoaccel.reports.benchmark.losses import _gathered, losses, turns

from .reading import words
from .sample import ADVERSARIAL, HUGE, NOTHING, RICH, replaced, without


def _said(before: list[float], after: list[float]) -> str:
    report = replaced(
        replaced(RICH, "original", losses=tuple(enumerate(before))), "rewritten", losses=tuple(enumerate(after))
    )
    return words(losses(report).split("</p>")[0] + "</p>")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([2.0, 1.0], [2.0, 1.0], "Original and rewritten script agree in all 2 losses to the last bit."),
        ([2.0, 1.0], [2.0, 1.0, 0.5], "Original and rewritten script agree in the first 2 losses to the last bit."),
        (
            [2.0, 1.0],
            [2.0, math.nextafter(1.0, 2.0)],
            (
                "The first loss is equal to the last bit; those after it differ, "
                "by <0.0001 % in the median and <0.0001 % at most (step 1)."
            ),
        ),
        (
            [2.0, 1.0, 1.0, 0.5],
            [2.0, 1.0, 0.98, 0.4],
            (
                "The first 2 losses are equal to the last bit; those after them differ, "
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
                "The first loss is equal to the last bit; those after it differ. "
                "A loss of the rewritten script is infinite or not a number, at step 1."
            ),
        ),
        (
            [math.nan, math.inf],
            [math.nan, math.inf],
            (
                "Original and rewritten script agree in all 2 losses to the last bit. "
                "2 losses of the original script are infinite or not a number, the first at step 0. "
                "2 losses of the rewritten script are infinite or not a number, the first at step 0."
            ),
        ),
    ],
)
def test_how_far_they_agree(before: list[float], after: list[float], text: str) -> None:
    assert _said(before, after) == text


def test_losses_that_nobody_saw() -> None:
    assert words(losses(NOTHING)) == "No losses were seen."
    assert words(losses(replaced(without(RICH, "rewritten"), "original", losses=()))) == "No losses were seen."
    assert "Only the losses of the original script were seen." in words(losses(without(RICH, "rewritten")))


def test_losses_that_take_turns_are_lines_of_their_own() -> None:
    draw = random.Random(0)
    values = [level + 0.05 * draw.gauss(0, 1) for _ in range(50) for level in (0.7, 1.4, 2.1)]
    assert turns(values) == 3
    assert turns(values[::3]) == 1
    assert turns([2.0 * 0.99**each for each in range(100)]) == 1
    assert turns([draw.random() for _ in range(100)]) == 1
    assert turns([1.0, 2.0] * 3) == 1  # too few to say
    assert turns([1.0] * 100) == 1
    assert "The script computes 3 losses in turn; each is a line of its own." in words(losses(ADVERSARIAL))


def test_lines_break_where_losses_are_no_numbers() -> None:
    broken = tuple((step, math.nan if step == 50 else value) for step, value in RICH.columns[0].losses)
    whole, parts = losses(RICH), losses(replaced(RICH, "rewritten", losses=broken))
    assert whole.count('class="curve rewritten loss"') == 2
    assert parts.count('class="curve rewritten loss"') == 4


def test_many_losses_are_gathered_and_no_spike_is_lost() -> None:
    points = [(each / 10, 1.0) for each in range(1000)]
    points[517] = (51.7, 9.0)
    gathered = list(_gathered(points))
    assert len(gathered) == 34
    assert max(high for *_, (_, high) in gathered) == 9.0
    assert {middle for (_, middle), *_ in gathered} == {1.0}
    assert 'class="band rewritten"' in losses(HUGE) and 'class="band' not in losses(RICH)
    assert len(losses(HUGE)) < 60_000


def test_the_axis_is_logarithmic_where_losses_span_decades() -> None:
    fallen = tuple((step, 10.0 ** (-step / 50)) for step in range(200))
    text = words(losses(replaced(replaced(RICH, "original", losses=fallen), "rewritten", losses=fallen)))
    assert "The axis is logarithmic." in text and "logarithmic" not in words(losses(RICH))
