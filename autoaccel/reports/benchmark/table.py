"""A benchmark on a terminal, in the order of the page: what was gained, what binds, the figures, and what to know.

The figures are a plain grid, or `rich`'s where that is installed.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from autoaccel.reports.benchmark.breaking_even import outcome
from autoaccel.reports.benchmark.quantities import (
    MISSING,
    TIMES,
    digits,
    duration,
    memory,
    percent,
    ratio,
    steps,
    throughput,
)
from autoaccel.reports.benchmark.verdict import ORIGINAL, REWRITTEN, Verdict, explanation, headline, known, verdict
from autoaccel.reports.context import shown

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Column, Contribution, Diagnosis, Interval, Report

Rows = Sequence[Sequence[str]]
"""Cells of a grid, its head first."""
Grid = Callable[[Rows], str]

_WIDTH = 100


def render(report: Report, *, grid: Grid | None = None) -> str:
    """The text, with terminal colours in it; `grid` draws rows, by default as nicely as can be had."""
    parts = [_top(report), _diagnosis(report.diagnosis), _figures(report, grid or best_grid())]
    parts += [_break_even(report), _contributions(report, grid or best_grid()), _decisions(report), _notes(report)]
    return "\n".join(part for part in parts if part)


# -- grids


def best_grid() -> Grid:
    try:
        import rich  # noqa: F401 - only whether it is there
    except ImportError:
        return plain_grid
    return rich_grid


def plain_grid(rows: Rows) -> str:
    """Columns side by side: the first flush left, the others, numbers, flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        line = "   ".join([row[0].ljust(widths[0]), *cells]).rstrip()
        lines.append(click.style(line, dim=True) if number == 0 else line)
    return "\n".join(lines) + "\n"


def rich_grid(rows: Rows) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(rows[0]):
        table.add_column(Text(title, "bold"), justify="right" if number else "left", no_wrap=True)
    for row in rows[1:]:
        style = {REWRITTEN: "bold", ORIGINAL: ""}.get(row[0], "dim" if row[0] == "again" else "")
        table.add_row(*(Text(cell) for cell in row), style=style)
    out = io.StringIO()
    # Never narrower than the table: a line that wraps is easier to read than cells cut off.
    console = Console(file=out, force_terminal=True, color_system="standard", width=400, legacy_windows=False)
    console.print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n")) + "\n"


# -- parts


def _top(report: Report) -> str:
    colour = {Verdict.FASTER: "green", Verdict.SLOWER: "red"}.get(verdict(report))
    title = click.style(f"{shown(report.script)}: {headline(report)}", bold=True, fg=colour)
    return f"{title}\n{_filled(explanation(report))}"


def _diagnosis(found: Diagnosis | None) -> str:
    if found is None:
        return ""
    shares = "   ".join(f"{each.name} {percent(each.share)}" for each in found.shares if each.share >= 0.005)
    return _section("What binds", f"{_filled(found.sentence)}{click.style(shares, dim=True)}\n")


def _figures(report: Report, grid: Grid) -> str:
    if not report.columns:
        return ""
    last = _common_step(report.columns)
    devices = any(each.device_memory for each in report.columns)
    busy = any(each.device_busy is not None for each in report.columns)
    rates = any(each.samples_per_second for each in report.columns)
    head = ["", "ms/step", *(["samples/s"] * rates), "speed-up", f"{_percent_of(report)} interval", "first step"]
    head += [steps(last) if last else "", "loader", "memory", *(["device memory"] * devices), *(["busy"] * busy)]
    rows = [head]
    for each in report.columns:
        row = [each.name, _milliseconds(each), *([_rate(each)] * rates), *_speedup(each)]
        row += [duration(each.first_step_seconds), _time_to(each, last), percent(each.loader_share)]
        row += [memory(each.host_memory), *([memory(each.device_memory)] * devices), *([_busy(each)] * busy)]
        rows.append(row)
    kept = [at for at, title in enumerate(head) if title or at == 0]
    return _section("Figures", grid([[row[at] for at in kept] for row in rows]))


def _break_even(report: Report) -> str:
    if report.column(REWRITTEN) is None:
        return ""
    return _section("Break-even", _filled(outcome(report)))


def _contributions(report: Report, grid: Grid) -> str:
    if not report.contributions:
        return ""
    rows = [["", "changes", "alone", "interval", "all but it", "interval"]]
    rows += [_contribution(each) for each in report.contributions]
    return _section("Rule by rule", grid(rows))


def _contribution(each: Contribution) -> list[str]:
    return [f"{each.code} {each.name}", str(each.changes), *_factor(each.alone), *_factor(each.without)]


def _decisions(report: Report) -> str:
    rewritten = report.column(REWRITTEN)
    if rewritten is None or not rewritten.decisions:
        return ""
    width = max(len(each.topic) for each in rewritten.decisions)
    lines = [f"{each.topic:<{width}}  {each.value} ({each.reason})\n" for each in rewritten.decisions]
    return _section("What the runtime decided", "".join(lines))


def _notes(report: Report) -> str:
    return _section("Notes", "".join(_filled(f"- {each}", "  ") for each in report.notes)) if report.notes else ""


# -- cells


def _milliseconds(column: Column) -> str:
    found = column.step_seconds
    return digits(found.median * 1000) if known(found) else MISSING


def _rate(column: Column) -> str:
    found = column.samples_per_second
    return MISSING if found is None else throughput(found.median)


def _speedup(column: Column) -> tuple[str, str]:
    return ("1", "") if column.name == ORIGINAL else _factor(column.speedup)


def _factor(found: Interval | None) -> tuple[str, str]:
    """A speed-up, and where it lies."""
    if found is None or not known(found):
        return MISSING, ""
    return f"{ratio(found.median)}{TIMES}", f"{ratio(found.low)}–{ratio(found.high)}"


def _busy(column: Column) -> str:
    return MISSING if column.device_busy is None else percent(column.device_busy)


def _time_to(column: Column, step: int) -> str:
    """From the start of the process to the end of a step, of which the last ones were timed one by one."""
    after = column.total_steps - step
    if not step or not 0 <= after <= len(column.step_times):
        return MISSING
    return duration(column.total_seconds - sum(column.step_times[len(column.step_times) - after :]))


def _common_step(columns: Sequence[Column]) -> int:
    """The last step that all have made."""
    return min(each.total_steps for each in columns)


def _percent_of(report: Report) -> str:
    return f"{report.level * 100:g} %"


def _section(title: str, content: str) -> str:
    return f"{click.style(title, bold=True)}\n{''.join(_indented(content))}" if content.strip() else ""


def _indented(content: str) -> Iterator[str]:
    for line in content.splitlines():
        yield f"  {line}\n" if line.strip() else "\n"


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False) + "\n"
