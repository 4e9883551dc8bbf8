"""`lint --output-format full`: each finding with the code that it speaks of and what would become of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import click

from autoaccel.reports.concise import headline
from autoaccel.reports.context import Context, shown
from autoaccel.reports.excerpt import excerpt
from autoaccel.rewriting.record import AMONG_IMPORTS, Record, Report


def render(reports: Sequence[Report], context: Context) -> str:
    blocks = []
    for report in reports:
        for each in _imports_once(report.findings):
            lines = context.lines(report.path, each.cell)
            blocks.append("".join(line + "\n" for line in _lines(report.path, each, lines)))
    return "\n".join(blocks)


def _imports_once(findings: Iterable[Record]) -> Iterator[Record]:
    """What every finding of a file would import is said at the first."""
    said: set[str] = set()
    for finding in findings:
        fix = tuple(line for line in finding.fix if line not in said)
        said.update(line for line in fix if line.endswith(AMONG_IMPORTS))
        yield dataclasses.replace(finding, fix=fix)


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
        yield f"{_framed(margin, '=')} {click.style('fix:', bold=True)} {shown(line)}"


def _framed(left: str, right: str) -> str:
    return click.style(f"{left} {right}", fg="blue", bold=True)
