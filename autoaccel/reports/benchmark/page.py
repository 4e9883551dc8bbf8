"""A benchmark as one HTML page that needs nothing else: no network, no scripts, no fonts.

It is read from top to bottom: what was gained, what binds, the figures, and then how and on what they were measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING

from autoaccel import HOME, __version__
from autoaccel.measure.benching.report import Column
from autoaccel.reports.benchmark.breaking_even import breaking_even, course_of
from autoaccel.reports.benchmark.distribution import distribution
from autoaccel.reports.benchmark.intervals import intervals
from autoaccel.reports.benchmark.losses import losses
from autoaccel.reports.benchmark.markup import Markup, element, joined, paragraph
from autoaccel.reports.benchmark.quantities import (
    MISSING,
    TIMES,
    duration,
    durations,
    memory,
    number,
    percent,
    ratio,
    ratios,
    throughput,
)
from autoaccel.reports.benchmark.shares import shares
from autoaccel.reports.benchmark.tables import command, table
from autoaccel.reports.benchmark.verdict import AGAIN, ORIGINAL, REWRITTEN, explanation, headline, known, level
from autoaccel.reports.benchmark.waterfall import waterfall

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Diagnosis, Report

# Nothing is loaded or run, whatever a script may be called.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_METHOD = (  # three sentences, of which the second says how sure the interval is
    "Each contender ran in a process of its own, and they took turns over the very same steps of the script with the "
    "same seeds; while one ran, the others stood still. "
    "The speed-up is the median of the ratios of paired blocks of steps, warm-up left out, and its {level} interval "
    "is a bootstrap's over those blocks. "
    "The original ran once more beside itself (“again”): what differs between those two is noise."
)


def page(report: Report) -> str:
    name = PurePath(report.script).name or report.script
    return (
        "<!DOCTYPE html>\n"
        + element(
            "html",
            element(
                "head",
                element("meta", charset="utf-8"),
                element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
                element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                element("meta", name="color-scheme", content="light dark"),
                element("meta", name="generator", content=f"autoaccel {__version__}"),
                element("link", rel="icon", href="data:,"),
                element("title", f"{name}: {headline(report)}"),
                element("style", Markup(_style())),
            ),
            element("body", _top(report), element("main", *_sections(report)), _foot()),
            lang="en",
        )
        + "\n"
    )


def _style() -> str:
    return resources.files(__package__).joinpath("page.css").read_text("utf-8")


def _top(report: Report) -> Markup:
    return element(
        "header",
        element("p", "Benchmark of ", element("code", report.script), class_="over"),
        element("h1", headline(report)),
        paragraph(*_in_steps(report), explanation(report), kind="lede"),
        intervals(report),
    )


def _in_steps(report: Report) -> list[str]:
    """What the speed-up is in milliseconds."""
    original, rewritten = report.column(ORIGINAL), report.column(REWRITTEN)
    if original is None or rewritten is None or not all(known(each.step_seconds) for each in (original, rewritten)):
        return []
    before, after = (duration(each.step_seconds.median) for each in (original, rewritten))
    changes = f"{rewritten.changes} change" if rewritten.changes == 1 else f"{rewritten.changes} changes"
    if before == after:
        return [f"With {changes} a step takes {after}, as before."]
    return [f"With {changes} a step takes {after} instead of {before}."]


def _sections(report: Report) -> list[Markup]:
    rewritten = report.column(REWRITTEN)
    notes = _section("Notes", *_notes(report.notes))
    pair = [each for name in (ORIGINAL, REWRITTEN) if (each := report.column(name))]
    both = [
        _section("When it pays off", breaking_even(report)),
        _section("Rule by rule", waterfall(report)),
    ]
    return [
        *([notes] if rewritten is None else []),
        _section("What binds", _diagnosis(report.diagnosis)),
        _section("Figures", _figures(report)),
        _section("How long steps take", distribution(pair) or paragraph("No steps were timed.")),
        *(both if rewritten else []),
        _section("Loss", losses(report)),
        *([_section("What the runtime decided", _decisions(rewritten)), notes] if rewritten else []),
        _section("How it was measured", paragraph(_METHOD.format(level=level(report)))),
        _section("Machine", _machine(report.machine)),
        _section("Repeat it", command(report.command)),
    ]


def _section(title: str, *content: str) -> Markup:
    return element("section", element("h2", title), *content) if any(content) else Markup()


def _diagnosis(found: Diagnosis | None) -> Markup:
    if found is None:
        return paragraph("What binds the original script was not measured.")
    codes = joined(*(element("code", each, class_="word") for each in found.rules), between=", ")
    said = not found.rules or any(each in found.sentence for each in found.rules)
    rules = Markup() if said else element("p", "Rules that address it: ", codes)
    return joined(paragraph(found.sentence), rules, shares(found.shares))


def _figures(report: Report) -> Markup:
    columns = [each for name in (ORIGINAL, AGAIN, REWRITTEN) if (each := report.column(name))]
    if not columns:
        return paragraph("Nothing was measured.")
    gain = _GAIN if len(columns) > 1 else ()
    rows = [
        (name, [value(each) for each in columns]) for name, value in (*_RATES, *gain, _START, _until(columns), *_COSTS)
    ]
    return table(
        ("", *(_HEADS[each.name] for each in columns)),
        [(name, *(cell or MISSING for cell in cells)) for name, cells in rows if any(cells)],
        caption="Times of a step and rates are medians over blocks of steps, with their interval below.",
        kind="stacks",
    )


_HEADS = {ORIGINAL: "original", AGAIN: "original again", REWRITTEN: "rewritten"}


def _with_interval(typical: str, interval: str) -> Markup:
    return joined(typical, element("small", interval))


def _step(column: Column) -> str:
    found = column.step_seconds
    return _with_interval(duration(found.median), durations(found)) if known(found) else ""


def _rate(column: Column) -> str:
    found = column.samples_per_second
    if found is None or not known(found):
        return ""
    return _with_interval(throughput(found.median), f"{throughput(found.low)} to {throughput(found.high)}")


def _speedup(column: Column) -> str:
    found = column.speedup
    if column.name == ORIGINAL:
        return f"1{TIMES}"
    return _with_interval(f"{ratio(found.median)}{TIMES}", ratios(found)) if known(found) else ""


def _until(columns: Sequence[Column]) -> _Row:
    """The row for the last step that all have made."""
    courses = {each.name: course for each in columns if (course := course_of(each))}
    last = min((course.measured for course in courses.values()), default=0)
    return (
        f"Start to step {number(last)}",
        lambda column: duration(courses[column.name].at(last)) if column.name in courses and last > 1 else "",
    )


def _busy(column: Column) -> str:
    return "" if column.device_busy is None else percent(column.device_busy)


def _first(column: Column) -> str:
    return duration(column.first_step_seconds) if math.isfinite(column.first_step_seconds) else ""


_Row = tuple[str, Callable[[Column], str]]
_RATES: Sequence[_Row] = (("Time of a step", _step), ("Samples per second", _rate))
_GAIN: Sequence[_Row] = (("Speed-up", _speedup),)
_START: _Row = ("Start to first step", _first)
_COSTS: Sequence[_Row] = (
    ("Peak memory, host", lambda column: memory(column.host_memory) if column.host_memory else ""),
    ("Peak memory, device", lambda column: memory(column.device_memory) if column.device_memory else ""),
    ("Waiting for the loader", lambda column: percent(column.loader_share)),
    ("Device busy", _busy),
)


def _decisions(rewritten: Column) -> Markup:
    if not rewritten.decisions:
        return paragraph("No decisions were seen.")
    rows = [(each.topic.replace("_", " "), each.value, each.reason) for each in rewritten.decisions]
    return table(("What", "decision", "why"), rows, numbers=False)


def _notes(notes: Sequence[str]) -> list[Markup]:
    return [element("ul", *(element("li", each) for each in notes))] if notes else []


def _machine(machine: dict[str, str]) -> Markup:
    if not machine:
        return paragraph("Not known.")
    return element(
        "dl", *(joined(element("dt", name), element("dd", value)) for name, value in machine.items()), class_="facts"
    )


def _foot() -> Markup:
    return element("footer", element("p", element("a", "autoaccel", href=HOME), f" {__version__}"))
