"""`lint --output-format concise`: a line for each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from autoaccel.reports.context import shown

if TYPE_CHECKING:
    from autoaccel.reports.context import Context
    from autoaccel.rewriting.record import Record, Report


def render(reports: Sequence[Report], context: Context) -> str:
    return "".join(line + "\n" for report in reports for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    return (headline(report.path, each) for each in report.findings)


def headline(path: str, finding: Record) -> str:
    """The line that says where, which rule, what and how exact."""
    place = click.style(f"{shown(path)}:{finding.line}:{finding.column}:", bold=True)
    rule = click.style(f"{finding.code} {finding.name}", fg="red")
    return f"{place} {rule}: {shown(finding.message)} {click.style(f'[{finding.tier}]', dim=True)}"
