"""`lint --statistics`: how often each rule found something, the most frequent first, like ruff's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from autoaccel.reports.aligned_columns import aligned
from autoaccel.reports.json import dumped
from autoaccel.rewriting.record import Record, Report

_Rule = tuple[str, str]


def render(reports: Sequence[Report]) -> str:
    """A line for each rule: how often, code, name, and how exact."""
    from autoaccel.reports.counting import by_tier

    rows = []
    for (code, name), number in _counted(reports).items():
        tiers = by_tier(each.tier for each in _of(reports, code))
        rows.append((click.style(number, bold=True), click.style(code, fg="red"), name, click.style(tiers, dim=True)))
    return "".join(f"{line}\n" for line in aligned(rows, "><<<", "  "))


def render_json(reports: Sequence[Report]) -> str:
    """The keys of ruff's, plus `tiers`."""
    return dumped(
        [
            {
                "code": code,
                "count": number,
                "fixable": any(each.fix for each in _of(reports, code)),
                "fixable_count": sum(bool(each.fix) for each in _of(reports, code)),
                "name": name,
                "tiers": dict(sorted(Counter(each.tier for each in _of(reports, code)).items())),
            }
            for (code, name), number in _counted(reports).items()
        ]
    )


def _counted(reports: Sequence[Report]) -> dict[_Rule, int]:
    numbers = Counter((each.code, each.name) for report in reports for each in report.findings)
    return dict(sorted(numbers.items(), key=lambda each: (-each[1], each[0])))


def _of(reports: Sequence[Report], code: str) -> list[Record]:
    return [each for report in reports for each in report.findings if each.code == code]
