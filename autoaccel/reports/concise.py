"""`lint --output-format concise`: a line for each finding."""

from __future__ import annotations

from collections.abc import Sequence

import click

from autoaccel.reports.context import Context, shown
from autoaccel.rewriting.record import Record, Report


def render(reports: Sequence[Report], context: Context) -> str:
    return "".join(headline(report.path, each) + "\n" for report in reports for each in report.findings)


def headline(path: str, finding: Record, colour: str = "red") -> str:
    """The line that says where, which rule, what and how exact."""
    return f"{_about(path, finding, colour)}: {shown(finding.message)} {click.style(f'[{finding.tier}]', dim=True)}"


def left_alone(path: str, skipped: Record) -> str:
    """The same of an opportunity that was skipped, with the reason."""
    return f"{_about(path, skipped, 'yellow')}: {click.style('left alone', fg='yellow')}: {shown(skipped.message)}"


def _about(path: str, record: Record, colour: str) -> str:
    # To CI systems a line that begins with colons is a command (`::error::`).
    name = f"./{shown(path)}" if path.startswith(":") else shown(path)
    place = click.style(f"{name}:{record.place}:", bold=True)
    return f"{place} {click.style(f'{record.code} {record.name}', fg=colour)}"
