"""A benchmark as text: for people on a terminal, in the order of the page, and for programs as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import click

from autoaccel.measure.benching.report import BenchReport
from autoaccel.reports.aligned_columns import aligned
from autoaccel.reports.benchmark.quantities import percent
from autoaccel.reports.benchmark.summary import (
    AGAIN,
    REWRITTEN,
    SpeedVerdict,
    contribution,
    explanation,
    figures,
    headline,
    paying_off,
    verdict,
)
from autoaccel.reports.context import shown
from autoaccel.reports.json import dumped, plain

Rows = Sequence[Sequence[str]]
"""Cells of a grid, its head first."""

FORMAT = 1
"""Of the JSON; grows when a key goes or changes its meaning."""

_WIDTH = 100


def json(report: BenchReport) -> str:
    """The report as it is, all times in seconds and all memory in bytes."""
    return dumped({"format": FORMAT, **plain(report)})


def table(report: BenchReport) -> str:
    """For a terminal, with colours: what was gained, what binds, the figures, and what to know."""
    rewritten, found = report.column(REWRITTEN), report.diagnosis
    colour = {SpeedVerdict.FASTER: "green", SpeedVerdict.SLOWER: "red"}.get(verdict(report))
    title = click.style(f"{shown(report.script)}: {headline(report)}", bold=True, fg=colour)
    parts = [f"{title}\n{_filled(explanation(report))}"]
    if found:
        shares = "   ".join(f"{each.name} {percent(each.share)}" for each in found.shares if each.share >= 0.005)
        parts.append(_section("What binds", f"{_filled(found.sentence)}{click.style(shares, dim=True)}\n"))
    if report.columns:
        parts.append(_section("Figures", _grid(_figures(report))))
    if rewritten:
        parts.append(_section("Break-even", _filled(paying_off(report))))
    if report.contributions:
        parts.append(_section("Rule by rule", _grid(_contributions(report))))
    if rewritten and rewritten.decisions:
        rows = [(each.topic, f"{each.value} ({each.reason})") for each in rewritten.decisions]
        parts.append(_section("What the runtime decided", "\n".join(aligned(rows, "<<", "  ")) + "\n"))
    parts.append(_section("Notes", "".join(_filled(f"- {each}", "  ") for each in report.notes)))
    return "\n".join(part for part in parts if part)


def _figures(report: BenchReport) -> Rows:
    """A contender a row; of the intervals only that of the speed-up, or lines would be too long."""
    columns = [["", *(each.name for each in report.columns)]]
    for figure in figures(report.columns):
        columns.append([figure.short, *(cell.text for cell in figure.cells)])
        if figure.short == "speed-up":
            columns.append([f"{percent(report.level)} interval", *(cell.interval for cell in figure.cells)])
    return list(zip(*columns, strict=True))


def _contributions(report: BenchReport) -> Rows:
    rows = [["", "changes", "alone", "interval", "all but it", "interval"]]
    for each in report.contributions:
        name, changes, alone, without = contribution(each)
        rows.append([name, changes, alone.text, alone.interval, without.text, without.interval])
    return rows


def _section(title: str, content: str) -> str:
    return f"{click.style(title, bold=True)}\n{textwrap.indent(content, '  ')}" if content.strip() else ""


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False) + "\n"


def _grid(rows: Rows) -> str:
    lines = [
        click.style(line, dim=row is rows[0] or row[0] == AGAIN, bold=row[0] == REWRITTEN)
        for row, line in zip(rows, aligned(rows, "<" + ">" * (len(rows[0]) - 1)), strict=True)
    ]
    return "\n".join(lines) + "\n"
