"""`lint --output-format full`: each finding with the code that it speaks of and what would become of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from autoaccel.reports.concise import headline
from autoaccel.reports.excerpt import excerpt
from autoaccel.rewriting.places import split_lines

if TYPE_CHECKING:
    from autoaccel.reports.context import Context
    from autoaccel.rewriting.record import Record, Report


def render(reports: Sequence[Report], context: Context) -> str:
    blocks = []
    for report in reports:
        lines = split_lines(context.text(report.path)) if report.findings else []
        blocks += ["".join(line + "\n" for line in _lines(report.path, each, lines)) for each in report.findings]
    return "\n".join(blocks)


def _lines(path: str, finding: Record, lines: Sequence[str]) -> Iterator[str]:
    yield headline(path, finding)
    number = str(finding.line)
    margin = " " * len(number)
    if finding.line <= len(lines):
        yield _framed(margin, "|")
        line = lines[finding.line - 1]
        end = finding.end_column if finding.end_line == finding.line else len(line) + 1
        code, marks = excerpt(line, finding.column - 1, end - 1)
        yield f"{_framed(number, '|')} {code}".rstrip()
        yield f"{_framed(margin, '|')} {click.style(marks, fg='red', bold=True)}"
    for line in finding.fix:
        yield f"{_framed(margin, '=')} {click.style('fix:', bold=True)} {line}"


def _framed(left: str, right: str) -> str:
    return click.style(f"{left} {right}", fg="blue", bold=True)
