"""`lint --output-format concise`: a line for each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from autoaccel.reports.context import Context
    from autoaccel.rewriting.record import Report


def render(reports: Sequence[Report], context: Context) -> str:
    return "".join(line + "\n" for report in reports for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    for each in report.findings:
        place = click.style(f"{report.path}:{each.line}:{each.column}:", bold=True)
        rule = click.style(f"{each.code} {each.name}", fg="red")
        yield f"{place} {rule}: {each.message} {click.style(f'[{each.tier}]', dim=True)}"
