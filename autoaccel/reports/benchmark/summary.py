"""What a benchmark says in words and figures, whoever shows it: the terminal or the page."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from autoaccel.measure.benching.report import BenchReport, Column, Contribution, Interval
from autoaccel.reports.benchmark.quantities import (
    MISSING,
    TIMES,
    duration,
    durations,
    known_ratio,
    memory,
    number,
    percent,
    ratio,
    ratios,
    steps,
    throughput,
)

ORIGINAL, AGAIN, REWRITTEN = "original", "again", "rewritten"


# -- the verdict


class SpeedVerdict(enum.Enum):
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "the interval contains 1"
    NOISE = "the difference is no larger than the noise"
    UNKNOWN = "not measured"


def verdict(report: BenchReport) -> SpeedVerdict:
    """Faster, slower, or that no difference was measured."""
    rewritten, again = report.column(REWRITTEN), report.column(AGAIN)
    if rewritten is None or not known(rewritten.speedup):
        return SpeedVerdict.UNKNOWN
    speedup = rewritten.speedup
    if speedup.contains(1.0):
        return SpeedVerdict.SAME
    if again is not None and known(again.speedup):
        noise = max(again.speedup.high, 1 / again.speedup.low)  # whichever way it went
        if speedup.low <= noise and speedup.high >= 1 / noise:
            return SpeedVerdict.NOISE
    return SpeedVerdict.FASTER if speedup.median > 1 else SpeedVerdict.SLOWER


def known(interval: Interval) -> bool:
    return all(math.isfinite(each) and each > 0 for each in (interval.low, interval.median, interval.high))


def headline(report: BenchReport) -> str:
    match verdict(report):
        case SpeedVerdict.UNKNOWN:
            return "The rewritten script was not measured"
        case SpeedVerdict.SAME | SpeedVerdict.NOISE:
            return "No difference measured"
    rewritten = report.column(REWRITTEN)
    assert rewritten is not None  # the verdict says so
    speed = f"{known_ratio(rewritten.speedup)} times as fast"
    return f"{speed} after rewriting" if rewritten.speedup.median > 1 else f"Slower after rewriting: {speed}"


def explanation(report: BenchReport) -> str:
    """The sentence below the headline: interval and noise in plain words."""
    rewritten, again = report.column(REWRITTEN), report.column(AGAIN)
    outcome = verdict(report)
    if rewritten is None or outcome is SpeedVerdict.UNKNOWN:
        return "The notes say why." if report.notes else ""
    found, sure, noise = rewritten.speedup, f"{percent(report.level)} interval", ""
    if again is not None and known(again.speedup):
        noise = f" The original measured against itself gives {ratio(again.speedup.median)} ({ratios(again.speedup)})."
    if outcome is SpeedVerdict.SAME:
        return f"The speed-up is {ratio(found.median)}, and its {sure}, {ratios(found)}, contains 1.{noise}"
    if outcome is SpeedVerdict.NOISE:
        return f"The speed-up is {ratio(found.median)} ({sure} {ratios(found)}), which is within the noise.{noise}"
    return f"The speed-up lies between {ratio(found.low)} and {ratio(found.high)} ({sure}).{noise}"


def in_steps(report: BenchReport) -> str:
    """What the speed-up is in milliseconds."""
    original, rewritten = report.column(ORIGINAL), report.column(REWRITTEN)
    if original is None or rewritten is None or not all(known(each.step_seconds) for each in (original, rewritten)):
        return ""
    before, after = (duration(each.step_seconds.median) for each in (original, rewritten))
    changes = f"{rewritten.changes} change" if rewritten.changes == 1 else f"{rewritten.changes} changes"
    return f"With {changes} a step takes {after}{f' instead of {before}' if after != before else ', as before'}."


# -- the break-even


def paying_off(report: BenchReport) -> str:
    """When the rewritten script has made up for a slower start."""
    if verdict(report) in (SpeedVerdict.SAME, SpeedVerdict.NOISE):
        return "No gain was measured that could make up for a slower start."
    count, spent = report.break_even.steps, "for what it spends at the start"
    if count is None:
        return f"The rewritten script does not make up {spent}."
    if count == 0:
        return "The rewritten script is ahead from the first step on."
    if report.break_even.measured:
        return f"After {steps(count)} the rewritten script has made up {spent}."
    return f"After about {steps(count)} the rewritten script will have made up {spent}, if both go on as measured."


@dataclass(frozen=True, slots=True)
class Course:
    """When a contender had made how many steps, and how fast it goes on."""

    name: str
    seconds: tuple[float, ...]
    """From the start of the process to the end of each step; 0 before the first."""
    rate: float
    """Seconds a step beyond those."""

    @property
    def measured(self) -> int:
        return len(self.seconds) - 1

    def at(self, step: int) -> float:
        """Seconds to the end of a step, also beyond what was measured."""
        return self.seconds[min(step, self.measured)] + max(step - self.measured, 0) * self.rate


def course_of(column: Column | None) -> Course | None:
    """Warm-up steps, whose own times are not kept, share evenly what is left between the first and the timed ones."""
    if column is None or column.total_steps < 1 or not math.isfinite(column.first_step_seconds):
        return None
    start, later = column.first_step_seconds, column.total_steps - 1
    timed = column.step_times[max(len(column.step_times) - later, 0) :]
    warm_up, rest = later - len(timed), max(column.total_seconds - start - sum(timed), 0.0)
    times = [0.0, start, *[rest / max(warm_up, 1)] * warm_up, *timed]
    rate = column.step_seconds.median
    return Course(column.name, tuple(accumulate(times)), rate if math.isfinite(rate) else times[-1])


# -- figures


@dataclass(frozen=True, slots=True)
class TableCell:
    """A figure with its interval, where it has one."""

    text: str = MISSING
    interval: str = ""


@dataclass(frozen=True, slots=True)
class ContenderFigures:
    """What was measured of each contender."""

    name: str
    short: str
    """Its name at the head of a narrow column."""
    cells: tuple[TableCell, ...]


def figures(columns: Sequence[Column]) -> list[ContenderFigures]:
    """All that was measured of at least one of the columns."""
    courses = {each.name: course for each in columns if (course := course_of(each))}
    last = min((each.measured for each in courses.values()), default=0)
    itself = TableCell(f"1{TIMES}") if len(columns) > 1 else TableCell()
    measures: list[tuple[str, str, Callable[[Column], TableCell]]] = [
        ("Time of a step", "step", lambda each: _cell(each.step_seconds, duration, durations)),
        ("Samples per second", "samples/s", lambda each: _cell(each.samples_per_second, throughput, _throughputs)),
        ("Speed-up", "speed-up", lambda each: itself if each.name == ORIGINAL else speedup(each.speedup)),
        ("Start to first step", "first step", lambda each: TableCell(duration(each.first_step_seconds))),
        (
            f"Start to step {number(last)}",  # the last that all have made
            steps(last),
            lambda each: (
                TableCell(duration(courses[each.name].at(last))) if each.name in courses and last > 1 else TableCell()
            ),
        ),
        ("Waiting for the loader", "loader", lambda each: TableCell(percent(each.loader_share))),
        ("Peak memory, host", "memory", lambda each: TableCell(memory(each.host_memory))),
        ("Peak memory, device", "device memory", lambda each: TableCell(memory(each.device_memory))),
        ("Device busy", "busy", lambda each: TableCell(percent(each.device_busy))),
    ]
    found = [ContenderFigures(name, short, tuple(map(cell, columns))) for name, short, cell in measures]
    return [each for each in found if any(cell.text != MISSING for cell in each.cells)]


def contribution(rule: Contribution) -> tuple[str, str, TableCell, TableCell]:
    """Name of a rule, its changes, and the speed-ups with it alone and without it."""
    return f"{rule.code} {rule.name}", str(rule.changes), speedup(rule.alone), speedup(rule.without)


def speedup(found: Interval | None) -> TableCell:
    return _cell(found, lambda value: f"{ratio(value)}{TIMES}", ratios)


def _cell(found: Interval | None, typical: Callable[[float], str], between: Callable[[Interval], str]) -> TableCell:
    return TableCell(typical(found.median), between(found)) if found and known(found) else TableCell()


def _throughputs(found: Interval) -> str:
    return f"{throughput(found.low)} to {throughput(found.high)}"
