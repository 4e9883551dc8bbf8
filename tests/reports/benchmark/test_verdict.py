from __future__ import annotations

import math

import pytest

from autoaccel.measure.benching.report import Interval
from autoaccel.reports.benchmark.verdict import Verdict, explanation, headline, verdict

from .sample import BARE, NOTHING, RICH, replaced, without


@pytest.mark.parametrize(
    ("speedup", "again", "expected"),
    [
        ((1.84, 1.79, 1.90), (1.0, 0.99, 1.01), Verdict.FASTER),
        ((0.71, 0.68, 0.73), (1.0, 0.99, 1.01), Verdict.SLOWER),
        ((1.01, 0.99, 1.03), (1.0, 0.999, 1.001), Verdict.SAME),
        ((1.03, 1.01, 1.05), (1.0, 0.97, 1.02), Verdict.NOISE),
        ((1.03, 1.01, 1.05), (0.98, 0.97, 0.99), Verdict.NOISE),  # noise is noise whichever way it went
        ((0.97, 0.96, 0.98), (1.02, 1.01, 1.03), Verdict.NOISE),
        ((1.03, 1.02, 1.05), (1.0, 0.99, 1.01), Verdict.FASTER),
        ((math.nan, math.nan, math.nan), (1.0, 0.99, 1.01), Verdict.UNKNOWN),
        ((1.84, 1.79, math.inf), (1.0, 0.99, 1.01), Verdict.UNKNOWN),
        ((1.84, 1.79, 1.90), (math.nan, math.nan, math.nan), Verdict.FASTER),
    ],
)
def test_verdicts(speedup: tuple[float, float, float], again: tuple[float, float, float], expected: Verdict) -> None:
    report = replaced(replaced(RICH, "rewritten", speedup=Interval(*speedup)), "again", speedup=Interval(*again))
    assert verdict(report) is expected


def test_without_an_a_a_column_the_interval_alone_decides() -> None:
    slight = replaced(RICH, "rewritten", speedup=Interval(1.02, 1.01, 1.03))
    assert verdict(without(slight, "again")) is Verdict.FASTER


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
