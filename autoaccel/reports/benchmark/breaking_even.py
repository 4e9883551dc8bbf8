"""Time from the start of the process over steps, and where the rewritten script has caught up."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from autoaccel.measure.benching.report import BreakEven
from autoaccel.reports.benchmark.drawing import Drawing, Frame, apart, below, beside, dot, picture, polyline, text
from autoaccel.reports.benchmark.markup import Markup, joined, paragraph
from autoaccel.reports.benchmark.quantities import alike, axis_unit, duration, number, steps
from autoaccel.reports.benchmark.scales import Axis
from autoaccel.reports.benchmark.tables import hidden_table
from autoaccel.reports.benchmark.verdict import ORIGINAL, REWRITTEN, Verdict, verdict

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Column, Report

_POINTS = 300
_LONG = 0.6  # of all the time: starts that leave little room for steps
_HEIGHT = 250.0


@dataclass(frozen=True, slots=True)
class Course:
    """When a column had made how many steps, and how fast it goes on."""

    name: str
    seconds: tuple[float, ...]
    """After each step from the first on."""
    rate: float
    """Seconds a step beyond those."""

    @property
    def measured(self) -> int:
        return len(self.seconds)

    def at(self, step: float) -> float:
        """The time at a step, also between and beyond what was measured."""
        if step >= self.measured:
            return self.seconds[-1] + (step - self.measured) * self.rate
        if step <= 1:
            return self.seconds[0] * step
        whole = int(step)
        before, after = self.seconds[whole - 1], self.seconds[min(whole, self.measured - 1)]
        return before + (after - before) * (step - whole)


def breaking_even(report: Report) -> Markup:
    courses = [course for name in (ORIGINAL, REWRITTEN) if (course := course_of(report.column(name)))]
    if len(courses) < 2:
        return paragraph("It cannot be said: not both were measured.")
    found = report.break_even if verdict(report) in (Verdict.FASTER, Verdict.SLOWER) else BreakEven(None, False)
    courses = _meeting(courses, found)
    last = _last(courses, found)
    said = outcome(report)
    return joined(
        paragraph(said),
        picture(
            "break-even",
            "Time from the start over steps",
            f"{said} {_ends(courses)}",
            lambda frame: _draw(frame, courses, found, last),
        ),
        paragraph(*_caption(courses, last, found, verdict(report)), kind="caption"),
        hidden_table(
            "The figures of this picture",
            ("step", *(each.name for each in courses)),
            [(number(step), *(duration(each.at(step)) for each in courses)) for step in _stops(last)],
        ),
    )


def outcome(report: Report) -> str:
    """What is to be said of the break-even of a benchmark."""
    if verdict(report) in (Verdict.SAME, Verdict.NOISE):
        return "No gain was measured that could make up for a slower start."
    return sentence(report.break_even)


def sentence(found: BreakEven) -> str:
    match found.steps, found.measured:
        case None, _:
            return "The rewritten script does not make up for what it spends at the start."
        case 0, _:
            return "The rewritten script is ahead from the first step on."
        case count, True:
            return f"After {steps(count)} the rewritten script has made up for what it spends at the start."
        case count, _:
            return (
                f"After about {steps(count)} the rewritten script will have made up for what it spends at the start, "
                "if both go on as measured."
            )


def _ends(courses: Sequence[Course]) -> str:
    return " ".join(f"{each.name}: {duration(each.seconds[-1])} for {steps(each.measured)}." for each in courses)


def course_of(column: Column | None) -> Course | None:
    """Warm-up steps, whose own times are not kept, share evenly what is left between the first and the timed ones."""
    if column is None or column.total_steps < 1 or not math.isfinite(column.first_step_seconds):
        return None
    start, later = column.first_step_seconds, column.total_steps - 1
    timed = column.step_times[max(len(column.step_times) - later, 0) :]
    warm_up, rest = later - len(timed), max(column.total_seconds - start - sum(timed), 0.0)
    times = [start, *[rest / max(warm_up, 1)] * warm_up, *timed]
    rate = column.step_seconds.median
    return Course(column.name, tuple(accumulate(times)), rate if math.isfinite(rate) else times[-1])


def _meeting(courses: Sequence[Course], found: BreakEven) -> list[Course]:
    """The same, the rewritten one at the rate at which it meets the original where the report says so."""
    original, rewritten = courses
    beyond = (found.steps or 0) - rewritten.measured
    if found.measured or beyond <= 0:
        return list(courses)
    rate = (original.at(found.steps or 0) - rewritten.seconds[-1]) / beyond
    return [original, dataclasses.replace(rewritten, rate=rate) if rate > 0 else rewritten]


def _last(courses: Sequence[Course], found: BreakEven) -> float:
    """The step at which the picture ends: some way beyond the crossing where that was not seen."""
    measured = max(each.measured for each in courses)
    return max(measured, 1.35 * found.steps) if found.steps else measured


def _stops(last: float) -> list[int]:
    """Steps worth a line of a table: the first, round ones, and the last."""
    stops = [each * 10**power for power in range(10) for each in (1, 2, 5) if each * 10**power < last]
    return sorted({1, *stops[-7:], round(last)})


def _caption(courses: Sequence[Course], last: float, found: BreakEven, outcome: Verdict) -> list[str]:
    sentences = ["Time runs from the start of the process: imports, compilation and warm-up are in it."]
    if _lowest(courses, max(each.at(last) for each in courses)):
        sentences.append("The axis does not begin at 0.")
    if last > min(each.measured for each in courses):
        sentences.append("Dashed: beyond what was measured, at the measured rates.")
    if found.steps == 0 and courses[1].at(1) > courses[0].at(1):
        sentences.append("That its first step came later is within what starts of the same script differ by.")
    if outcome in (Verdict.FASTER, Verdict.SLOWER):
        far = 10 ** math.ceil(math.log10(3 * last))
        before, after = alike(*(each.at(far) for each in courses))
        if after != before:
            sentences.append(f"At the measured rates {number(far)} steps take {after} instead of {before}.")
    return sentences


def _draw(frame: Frame, courses: Sequence[Course], found: BreakEven, last: float) -> Drawing:
    latest = max(each.at(last) for each in courses)
    scale = axis_unit(latest)
    names = max(frame.room(each.name) for each in courses)
    left, right, top, bottom = 46.0, frame.width - names - 8, 30.0, 30 + _HEIGHT
    across = Axis(0, last, left, right)
    first = _lowest(courses, latest)
    up = Axis(first / scale.size, (latest + (latest - first) * 0.04) / scale.size, bottom, top)
    parts = [
        beside(up, left, right, scale.full),
        below(across, top, bottom, frame, "steps", most=4 if frame.narrow else 8),
    ]
    heights = apart([up(each.at(last) / scale.size) + 4 for each in courses], 17, top, bottom)
    for course, height in zip(courses, heights, strict=True):
        seen = min(course.measured, last)
        points = [(across(step), up(course.at(step) / scale.size)) for step in _samples(1 if first else 0, seen)]
        parts.append(polyline(points, f"curve {course.name}"))
        if last > seen:
            ahead = [(across(step), up(course.at(step) / scale.size)) for step in (seen, last)]
            parts.append(polyline(ahead, f"curve {course.name} dashed"))
        parts.append(text(right + 8, height, course.name, kind=f"name {course.name}"))
    if found.steps:
        y = statistics.fmean(up(each.at(found.steps) / scale.size) for each in courses)
        parts.append(_crossing(frame, across, y, found))
    return Drawing(bottom + 42, joined(*parts))


def _crossing(frame: Frame, across: Axis, y: float, found: BreakEven) -> Markup:
    """A dot where the lines meet, and its step on that side where the lines are not."""
    x = across(found.steps or 0)
    label = f"even after {steps(found.steps or 0)}"
    room = frame.room(label)
    if x + 10 + room <= across.end:
        place = text(x + 10, min(y + 22, 30 + _HEIGHT - 8), label, kind="halo")
    else:
        place = text(max(x - 10, across.start + room), max(y - 14, 44), label, anchor="end", kind="halo")
    return joined(dot(x, y, 5, "crossing"), place)


def _lowest(courses: Sequence[Course], latest: float) -> float:
    """Where the axis of seconds begins: at 0, unless starts take so long that nothing else could be told apart."""
    starts = [each.at(1) for each in courses]
    if min(starts) < _LONG * latest:
        return 0.0
    return max(min(starts) - 0.25 * (latest - min(starts)), 0.0)


def _samples(first: float, last: float) -> list[float]:
    """Steps that draw the line: all, or evenly chosen ones. Sums only grow: nothing is hidden between."""
    count = min(max(int(last), 1), _POINTS)
    return sorted({first, 1.0, *(last * each / count for each in range(1, count + 1) if last * each / count >= 1)})
