"""What the charts of the page show: figures of a report made into lines and rows, with what is to be said of them."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from autoaccel.measure.benching.report import BreakEven
from autoaccel.reports.benchmark.plotting import Line, Row, line_chart, row_chart
from autoaccel.reports.benchmark.quantities import (
    Unit,
    alike,
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
    Course,
    Verdict,
    course_of,
    known,
    paying_off,
    verdict,
)

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Column, Contribution, Interval, Report

_FAR, _WIDE = 8.0, 50.0  # from smallest to largest step time and loss: from there an axis is logarithmic
_NEAR = 1.5  # times the 95th percentile: what is not far out
_LONG = 0.6  # of all the time: starts that leave little room for steps
_TURNS = 6  # losses that a script may compute in turn, such as those of a generator and a discriminator
_ALIKE = 0.35  # the share of neighbours' distance that counts as far more alike
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A chart, what is said above and below it, and its figures as a table for those who ask for it."""

    said: str = ""
    chart: str = ""
    caption: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def intervals(report: Report) -> Markup:
    """Where the speed-up lies, and where the original measured against itself lies; empty where none is known."""
    rewritten, again = report.column(REWRITTEN), report.column(AGAIN)
    if rewritten is None or not known(rewritten.speedup):
        return Markup()
    found = [(REWRITTEN, rewritten)]
    found += [("original again", again)] if again and known(again.speedup) else []
    rows = [
        Row(
            label,
            f"{ratio(each.speedup.median)} ({ratios(each.speedup)})",
            each.name,
            point=each.speedup.median,
            interval=(each.speedup.low, each.speedup.high),
        )
        for label, each in found
    ]
    words = "; ".join(f"{each.label} {each.value}" for each in rows)
    times = Unit("times as fast as the original")
    title = "Speed-up with its interval, and the noise"
    return row_chart("intervals", title, f"Times as fast as the original: {words}.", rows, times, reference=1.0)


# -- step times


def distribution(report: Report) -> Exhibit:
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
        lines.append(Line(name, name, drawn))
        if far := times[len(drawn) :]:
            most = f"up to {duration(far[-1])}" if len(far) > 1 else f"it took {duration(far[0])}"
            many = f"{steps(len(far))} of {number(len(times))} of the {name} script"
            caption.append(f"Not drawn: {many} beyond {duration(high)}, {most}.")
        middle = f", half of them between {duration(quantile(times, 0.25))} and {duration(quantile(times, 0.75))}"
        said.append(f"{name}: median {duration(statistics.median(times))}{middle if len(times) > 3 else ''}")
    words = f"Times of a step, {'; '.join(said)}."
    scale = _per_step(unit(usual))
    names = {0.0: "fastest", 0.5: "median", 1.0: "slowest"}
    rows = [
        (names.get(part, percent(part)), *(duration(quantile(times, part)) for times in found.values()))
        for part in _QUANTILES
    ]
    chart = line_chart("distribution", "Step times in order", words, lines, "% of steps", scale, logarithmic=bent)
    return Exhibit(words, chart, " ".join(caption), ("", *found), rows)


def quantile(times: Sequence[float], part: float) -> float:
    """The nearest time that was measured, not one between two, of `times` in order."""
    return times[min(max(math.ceil(part * len(times)) - 1, 0), len(times) - 1)]


def _per_step(time: Unit) -> Unit:
    return Unit(f"{time.name} per step", time.size)


# -- break-even


def break_even(report: Report) -> Exhibit:
    """Time from the start of the process over steps, and where the rewritten script has caught up."""
    courses = [course for name in (ORIGINAL, REWRITTEN) if (course := course_of(report.column(name)))]
    if len(courses) < 2:
        return Exhibit("It cannot be said: not both were measured.")
    differ = verdict(report) in (Verdict.FASTER, Verdict.SLOWER)
    found = report.break_even if differ else BreakEven(None, False)
    original, rewritten = courses = meeting(courses, found)
    measured = [each.measured for each in courses]
    last = max(*measured, math.ceil(1.35 * (found.steps or 0)))  # some way beyond the crossing
    starts, latest = [each.at(1) for each in courses], max(each.at(last) for each in courses)
    first = 0 if min(starts) < _LONG * latest else 1  # or nothing but the starts could be told apart
    lines = []
    for each in courses:
        ahead = [(step, each.at(step)) for step in (each.measured, last)] if last > each.measured else []
        lines.append(Line(each.name, each.name, list(enumerate(each.seconds))[first:], ahead))
    mark = None
    if found.steps:
        height = statistics.fmean(each.at(found.steps) for each in courses)
        mark = (found.steps, height), f"even after {steps(found.steps)}"
    caption = ["Time runs from the start of the process: imports, compilation and warm-up are in it."]
    if first:
        caption.append("The axis does not begin at 0.")
    if last > min(measured):
        caption.append("Dashed: beyond what was measured, at the measured rates.")
    if found.steps == 0 and starts[1] > starts[0]:
        caption.append("That its first step came later is within what starts of the same script differ by.")
    far = 10 ** math.ceil(math.log10(3 * last))
    before, after = alike(original.at(far), rewritten.at(far))
    if differ and before != after:
        caption.append(f"At the measured rates {number(far)} steps take {after} instead of {before}.")
    said = paying_off(report)
    scale = axis_unit(latest)
    up = Unit(f"time in {scale.name}", scale.size)
    chart = line_chart("break-even", "Time from the start over steps", said, lines, "steps", up, mark=mark)
    rows = [(number(step), *(duration(each.at(step)) for each in courses)) for step in stops(last)]
    return Exhibit(said, chart, " ".join(caption), ("step", *(each.name for each in courses)), rows)


def meeting(courses: Sequence[Course], found: BreakEven) -> list[Course]:
    """The same, the rewritten one at the rate at which it meets the original where the report says so."""
    original, rewritten = courses
    beyond = (found.steps or 0) - rewritten.measured
    if found.measured or beyond <= 0:
        return list(courses)
    rate = (original.at(found.steps or 0) - rewritten.seconds[-1]) / beyond
    return [original, dataclasses.replace(rewritten, rate=rate) if rate > 0 else rewritten]


def stops(last: int) -> list[int]:
    """Steps worth a line of a table: the first, round ones, and the last."""
    round_ones = [each * 10**power for power in range(10) for each in (1, 2, 5) if each * 10**power < last]
    return sorted({1, *round_ones[-7:], last})


# -- rules


def waterfall(report: Report) -> Exhibit:
    """From the original to the rewritten script, rule by rule.

    Speed-ups of rules do not add up: what each saves alone is drawn, and what they save (or lose) beyond that by being
    together is a bar of its own. A rule that cannot stand alone is drawn by what is lost without it.
    """
    original, rewritten = report.column(ORIGINAL), report.column(REWRITTEN)
    if not report.contributions or original is None or rewritten is None:
        return Exhibit()
    before, speedup = original.step_seconds, rewritten.speedup
    if not known(before) or not known(speedup):
        return Exhibit()
    rows = bars(before.median, speedup.median, report.contributions)
    caption = ["A bar is what a rule saves when it is the only one; the thin line is its interval."]
    if any(each.kind == "unclear" for each in rows):
        caption.append("Pale: the interval leaves open whether it saves anything.")
    if lacking := [each.code for each in report.contributions if each.alone is None and each.without is not None]:
        verb = "needs others and is" if len(lacking) == 1 else "need others and are"
        caption.append(f"{', '.join(lacking)} {verb} drawn by what is lost without it.")
    for each in rows:
        if each.kind == "together":
            caption.append(_together(_change(each), _doubt(rows, before.median, speedup)))
    return Exhibit(
        chart=row_chart(
            "waterfall",
            "Time of a step, from the original to the rewritten script by rule",
            "; ".join(f"{each.label} {each.value}" for each in rows) + ".",
            rows,
            _per_step(unit(max(edge for each in rows for edge in (*(each.bar or ()), *(each.interval or ()))))),
        ),
        caption=" ".join(caption),
    )


def bars(before: float, speedup: float, contributions: Sequence[Contribution]) -> list[Row]:
    """From `before`, seconds of a step of the original, down to what the rewritten script takes. The bar of a rule is
    `saved`, `lost`, or `unclear` where no change is possible as well; its interval is where it may end."""
    after = before / speedup
    savings = [(each, saving) for each in contributions if (saving := _saving(each, before, after))]
    rows, place = [Row(ORIGINAL, "", ORIGINAL, bar=(0.0, before))], before
    for rule, (least, typical, most) in sorted(savings, key=lambda pair: (-pair[1][1], pair[0].code)):
        kind = "unclear" if least <= 0 <= most else "saved" if typical > 0 else "lost"
        end, span = place - typical, (place - most, place - least)
        rows.append(Row(f"{rule.code} {rule.name}", "", kind, bar=(place, end), interval=span))
        place = end
    if len(savings) > 1:
        rows.append(Row("together", "", "together", bar=(place, after)))
    rows.append(Row(REWRITTEN, "", REWRITTEN, bar=(0.0, after)))
    values = alike(*map(_change, rows))
    whole = (ORIGINAL, REWRITTEN)
    return [
        dataclasses.replace(row, value=f"+{value}" if _change(row) > 0 and row.kind not in whole else value)
        for row, value in zip(rows, values, strict=True)
    ]


def _change(row: Row) -> float:
    start, end = row.bar or (0.0, 0.0)
    return end - start


def _saving(rule: Contribution, before: float, after: float) -> tuple[float, float, float] | None:
    """Seconds of a step that a rule saves: at least, typically, at most."""
    if (alone := rule.alone) and known(alone):
        return before - before / alone.low, before - before / alone.median, before - before / alone.high
    if (without := rule.without) and known(without):
        return before / without.high - after, before / without.median - after, before / without.low - after
    return None


def _together(change: float, doubt: float) -> str:
    if abs(change) <= doubt:
        return "What the rules do together beyond that is within the noise."
    if change < 0:
        return "Together the rules save that much more than each alone."
    return "Together the rules overlap: that much of what each saves alone is saved only once."


def _doubt(rows: Sequence[Row], before: float, speedup: Interval) -> float:
    """How far off the sum of bars may be: intervals of independent measurements add up like the sides of a box."""
    lengths = [each.interval[1] - each.interval[0] for each in rows if each.interval]
    return math.hypot(before / speedup.low - before / speedup.high, *lengths) / 2


# -- losses


def losses(report: Report) -> Exhibit:
    """The losses of both columns on top of each other."""
    columns = [each for name in (ORIGINAL, REWRITTEN) if (each := report.column(name)) and each.losses]
    if not columns:
        return Exhibit("No losses were seen.")
    said = " ".join(filter(None, (_agreement(columns), *map(_lost, columns))))
    finite = [value for each in columns for _, value in each.losses if math.isfinite(value)]
    if not finite:
        return Exhibit(said)
    count = turns([value for _, value in columns[0].losses])
    lines = [
        Line(f"{each.name} {loss + 1}" if count > 1 else each.name, each.name, each.losses[loss::count])
        for each in columns
        for loss in range(count)
    ]
    bent = min(finite) > 0 and max(finite) > _WIDE * min(finite)
    chart = line_chart("losses", "Loss over steps", said, lines, "step", Unit("loss"), logarithmic=bent)
    caption = []
    if len(columns) > 1:
        caption.append("The rewritten script's line lies on top of the original's, which is the broad one.")
    if count > 1:
        caption.append(f"The script computes {count} losses in turn; each is a line of its own.")
    if 'class="band' in chart:
        caption.append("Where losses are many, lines are medians, and bands go from the smallest to the largest.")
    if bent:
        caption.append("The axis is logarithmic.")
    shortest = min(len(each.losses) for each in columns)
    # A dozen, evenly chosen, the first and the last among them.
    chosen = sorted({round(place * (shortest - 1) / 11) for place in range(12)})
    rows = [(number(columns[0].losses[at][0]), *(digits(each.losses[at][1], 5) for each in columns)) for at in chosen]
    return Exhibit(said, chart, " ".join(caption), ("step", *(each.name for each in columns)), rows)


def turns(values: Sequence[float]) -> int:
    """How many losses take turns: the distance at which losses resemble each other far more than neighbours do."""
    seen = [value for value in values if math.isfinite(value)]
    if len(seen) < 4 * _TURNS:
        return 1
    rough = [
        statistics.median(abs(after - before) for before, after in zip(seen, seen[distance:], strict=False))
        for distance in range(1, _TURNS + 1)
    ]
    if min(rough) >= rough[0] * _ALIKE:
        return 1
    return next(distance for distance, each in enumerate(rough, start=1) if each <= 1.5 * min(rough))


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
    apart = [
        (abs(other - one) / max(abs(one), abs(other)), step)
        for step, one, other in pairs
        if math.isfinite(one) and math.isfinite(other) and one != other
    ]
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
