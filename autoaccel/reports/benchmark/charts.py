"""What the charts of the page show: figures of a report made into lines and rows, with what is to be said of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from autoaccel.measure.benching.report import BenchReport, Column, Interval
from autoaccel.reports.benchmark.plotting import ChartRow, Line, line_chart, row_chart
from autoaccel.reports.benchmark.quantities import (
    Unit,
    axis_unit,
    digits,
    duration,
    number,
    percent,
    ratio,
    ratios,
    steps,
    unit,
)
from autoaccel.reports.benchmark.summary import (
    AGAIN,
    ORIGINAL,
    REWRITTEN,
    SpeedVerdict,
    course_of,
    known,
    paying_off,
    verdict,
)

_FAR, _WIDE = 8.0, 50.0  # from smallest to largest step time and loss: from there an axis is logarithmic
_NEAR = 1.5  # times the 95th percentile: what is not far out


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A chart, and what is said above and below it."""

    said: str = ""
    chart: str = ""
    caption: str = ""


def intervals(report: BenchReport) -> Markup:
    """Where the speed-up lies, and where the original measured against itself lies; empty where none is known."""
    rewritten, again = report.column(REWRITTEN), report.column(AGAIN)
    if rewritten is None or not known(rewritten.speedup):
        return Markup()
    rows = [_row(REWRITTEN, REWRITTEN, rewritten.speedup)]
    rows += [_row("original again", AGAIN, again.speedup)] if again and known(again.speedup) else []
    return _speedups("intervals", "Speed-up with its interval, and the noise", rows)


def rules(report: BenchReport) -> Markup:
    """The speed-up with each rule alone, and with all of them; empty where none was measured."""
    rows = [
        _row(f"{each.code} {each.name}", "alone", each.alone)
        for each in report.contributions  # by their worth
        if each.alone and known(each.alone)
    ]
    rewritten = report.column(REWRITTEN)
    if not rows or rewritten is None or not known(rewritten.speedup):
        return Markup()
    return _speedups("rules", "Speed-up by rule", [*rows, _row("all together", REWRITTEN, rewritten.speedup)])


def _row(label: str, kind: str, found: Interval) -> ChartRow:
    return ChartRow(label, f"{ratio(found.median)} ({ratios(found)})", kind, found.median, (found.low, found.high))


def _speedups(name: str, title: str, rows: Sequence[ChartRow]) -> Markup:
    words = "; ".join(f"{each.label} {each.value}" for each in rows)
    times = Unit("times as fast as the original")
    return row_chart(name, title, f"Times as fast as the original: {words}.", rows, times, reference=1.0)


# -- step times


def distribution(report: BenchReport) -> Exhibit:
    """All step times in order of size, those far out in words."""
    found = {
        each.name: times
        for name in (ORIGINAL, REWRITTEN)
        if (each := report.column(name))
        and (times := sorted(time for time in each.step_times if math.isfinite(time) and time > 0))
    }
    if not found:
        return Exhibit("No steps were timed.")
    usual = max(quantile(times, 0.95) for times in found.values())
    high = max(time for times in found.values() for time in times if time <= _NEAR * usual)
    counts = " and ".join(dict.fromkeys(steps(len(times)) for times in found.values()))
    caption = [f"All times of {counts} from the fastest to the slowest: half of the steps took no longer than at 50 %."]
    if bent := high > _FAR * min(times[0] for times in found.values()):
        caption.append("The axis is logarithmic.")
    lines, said = [], []
    for name, times in found.items():
        drawn = [(100 * (place + 0.5) / len(times), time) for place, time in enumerate(times) if time <= high]
        lines.append(Line(name, drawn))
        if far := times[len(drawn) :]:
            caption.append(f"Not drawn: {steps(len(far))} of the {name} script, up to {duration(far[-1])}.")
        middle = f", half of them between {duration(quantile(times, 0.25))} and {duration(quantile(times, 0.75))}"
        said.append(f"{name}: median {duration(statistics.median(times))}{middle if len(times) > 3 else ''}")
    words = f"Times of a step, {'; '.join(said)}."
    scale = Unit(f"{unit(usual).name} per step", unit(usual).size)
    chart = line_chart("distribution", "Step times in order", words, lines, "% of steps", scale, logarithmic=bent)
    return Exhibit(words, chart, " ".join(caption))


def quantile(times: Sequence[float], part: float) -> float:
    """The nearest time that was measured, not one between two, of `times` in order."""
    return times[min(max(math.ceil(part * len(times)) - 1, 0), len(times) - 1)]


# -- break-even


def break_even(report: BenchReport) -> Exhibit:
    """Time from the start of the process over steps, and where the rewritten script has caught up."""
    courses = [course for name in (ORIGINAL, REWRITTEN) if (course := course_of(report.column(name)))]
    if len(courses) < 2:
        return Exhibit("It cannot be said: not both were measured.")
    even = report.break_even.steps if verdict(report) in (SpeedVerdict.FASTER, SpeedVerdict.SLOWER) else None
    measured = [each.measured for each in courses]
    last = max(*measured, math.ceil(1.35 * (even or 0)))  # some way beyond the crossing
    lines = []
    for each in courses:
        ahead = [(step, each.at(step)) for step in (each.measured, last)] if last > each.measured else []
        lines.append(Line(each.name, list(enumerate(each.seconds)), ahead))
    mark = None
    if even:
        mark = (even, statistics.fmean(each.at(even) for each in courses)), f"even after {steps(even)}"
    caption = "Time runs from the start of the process: imports, compilation and warm-up are in it."
    if last > min(measured):
        caption += " Dashed: beyond what was measured, at the measured rates."
    said = paying_off(report)
    scale = axis_unit(max(each.at(last) for each in courses))
    up = Unit(f"time in {scale.name}", scale.size)
    chart = line_chart("break-even", "Time from the start over steps", said, lines, "steps", up, mark=mark)
    return Exhibit(said, chart, caption)


# -- losses


def losses(report: BenchReport) -> Exhibit:
    """The losses of both columns on top of each other."""
    columns = [each for name in (ORIGINAL, REWRITTEN) if (each := report.column(name)) and each.losses]
    if not columns:
        return Exhibit("No losses were seen.")
    said = " ".join(filter(None, (_agreement(columns), *map(_lost, columns))))
    finite = [value for each in columns for _, value in each.losses if math.isfinite(value)]
    if not finite:
        return Exhibit(said)
    lines = [Line(each.name, each.losses) for each in columns]
    bent = min(finite) > 0 and max(finite) > _WIDE * min(finite)
    chart = line_chart("losses", "Loss over steps", said, lines, "step", Unit("loss"), logarithmic=bent)
    caption = []
    if len(columns) > 1:
        caption.append("The rewritten script's line lies on top of the original's, which is the broad one.")
    if 'class="band' in chart:
        caption.append("Where losses are many, lines are medians, and bands go from the smallest to the largest.")
    if bent:
        caption.append("The axis is logarithmic.")
    return Exhibit(said, chart, " ".join(caption))


def _agreement(columns: Sequence[Column]) -> str:
    """How far the rewritten script's losses are from the original's."""
    if len(columns) < 2:
        return f"Only the losses of the {columns[0].name} script were seen."
    pairs = [(step, one, other) for (step, one), (_, other) in zip(columns[0].losses, columns[1].losses, strict=False)]
    # Two that are no numbers are equal here.
    odd = [at for at, (_, one, other) in enumerate(pairs) if one != other and not math.isnan(one) & math.isnan(other)]
    if not odd:
        return f"All {number(len(pairs))} losses that both scripts computed are equal to the last bit."
    start = "The losses differ from the first on"
    if odd[0]:
        equal = "first loss is" if odd[0] == 1 else f"first {number(odd[0])} losses are"
        start = f"The {equal} equal to the last bit; after that they differ"
    finite = (each for each in pairs if math.isfinite(each[1]) and math.isfinite(each[2]) and each[1] != each[2])
    apart = [(abs(other - one) / max(abs(one), abs(other)), step) for step, one, other in finite]
    if not apart:
        return f"{start}."
    typical, (largest, where) = statistics.median(part for part, _ in apart), max(apart)
    return f"{start}, by {_slight(typical)} in the median and {_slight(largest)} at most (step {number(where)})."


def _slight(part: float) -> str:
    """A percentage of which also small ones say something."""
    return "<0.0001 %" if part < 1e-6 else f"{digits(part * 100, 2)} %" if part < 0.01 else percent(part)


def _lost(column: Column) -> str:
    odd = [number(step) for step, value in column.losses if not math.isfinite(value)]
    if not odd:
        return ""
    many = "1 loss" if len(odd) == 1 else f"{number(len(odd))} losses"
    return f"Infinite or not a number in the {column.name} script: {many}, the first at step {odd[0]}."
