"""What a benchmark says about speed: faster, slower, or that no difference was measured."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

from autoaccel.reports.benchmark.quantities import known_ratio, percent, ratio, ratios

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Interval, Report

ORIGINAL, AGAIN, REWRITTEN = "original", "again", "rewritten"


class Verdict(enum.Enum):
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "the interval contains 1"
    NOISE = "the difference is no larger than the noise"
    UNKNOWN = "not measured"


def verdict(report: Report) -> Verdict:
    rewritten, again = report.column(REWRITTEN), report.column(AGAIN)
    if rewritten is None or not known(rewritten.speedup):
        return Verdict.UNKNOWN
    speedup = rewritten.speedup
    if speedup.contains(1.0):
        return Verdict.SAME
    if again is not None and known(again.speedup):
        noise = noise_factor(again.speedup)
        if speedup.low <= noise and speedup.high >= 1 / noise:
            return Verdict.NOISE
    return Verdict.FASTER if speedup.median > 1 else Verdict.SLOWER


def known(interval: Interval) -> bool:
    return all(math.isfinite(each) and each > 0 for each in (interval.low, interval.median, interval.high))


def noise_factor(again: Interval) -> float:
    """How far from 1 the original is when it is measured against itself, whichever way."""
    return max(again.high, 1 / again.low)


def level(report: Report) -> str:
    """How sure the intervals are."""
    return percent(report.level)


def headline(report: Report) -> str:
    match verdict(report):
        case Verdict.UNKNOWN:
            return "The rewritten script was not measured"
        case Verdict.SAME | Verdict.NOISE:
            return "No difference measured"
    rewritten = report.column(REWRITTEN)
    assert rewritten is not None  # the verdict says so
    speed = f"{known_ratio(rewritten.speedup)} times as fast"
    return f"{speed} after rewriting" if rewritten.speedup.median > 1 else f"Slower after rewriting: {speed}"


def explanation(report: Report) -> str:
    """The sentence below the headline: interval and noise in plain words."""
    rewritten, again = report.column(REWRITTEN), report.column(AGAIN)
    outcome = verdict(report)
    if rewritten is None or outcome is Verdict.UNKNOWN:
        return "The notes say why." if report.notes else ""
    found, sure = rewritten.speedup, f"{level(report)} interval"
    noise = (
        ""
        if again is None or not known(again.speedup)
        else f" The original measured against itself gives {ratio(again.speedup.median)} ({ratios(again.speedup)})."
    )
    if outcome is Verdict.SAME:
        return f"The speed-up is {ratio(found.median)}, and its {sure}, {ratios(found)}, contains 1.{noise}"
    if outcome is Verdict.NOISE:
        return f"The speed-up is {ratio(found.median)} ({sure} {ratios(found)}), which is within the noise.{noise}"
    return f"The speed-up lies between {ratio(found.low)} and {ratio(found.high)} ({sure}).{noise}"
