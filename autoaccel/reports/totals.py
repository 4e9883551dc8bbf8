"""What `lint` says beside its report: the order of findings, what was left alone, and the summary."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import click

from autoaccel.reports import concise
from autoaccel.reports.counting import by_tier, counted
from autoaccel.rewriting.record import Record, Report


def in_order(reports: Iterable[Report]) -> list[Report]:
    """By path, line, column and code."""
    ordered = [
        dataclasses.replace(report, findings=_sorted(report.findings), skipped=_sorted(report.skipped))
        for report in reports
    ]
    return sorted(ordered, key=lambda report: report.path)


def _sorted(found: Iterable[Record]) -> tuple[Record, ...]:
    return tuple(sorted(found, key=lambda each: each.order))


def left_alone(reports: Sequence[Report]) -> Iterator[str]:
    """A line for each opportunity that was seen and skipped, with the reason."""
    for report in reports:
        for each in report.skipped:
            yield concise.left_alone(report.path, each)


def summary(reports: Sequence[Report], *, verbose: bool) -> Iterator[str]:
    """What there is altogether, and what to do about it."""
    found = [each for report in reports for each in report.findings]
    failed = sum(bool(report.failures) for report in reports)
    looked_at = len(reports) - failed
    if found:
        files = counted(sum(bool(report.findings) for report in reports), "file")
        tiers = by_tier(each.tier for each in found)
        what = click.style(f"Found {counted(len(found), 'finding')} in {files} ({tiers}).", bold=True)
        yield what + _advice(len(found), sum(bool(each.fix) for each in found))
    elif looked_at:
        files = counted(looked_at, "file")
        yield f"Nothing found in {files}." if failed else f"All clean: {files} looked at."
    if suppressed := sum(report.suppressed for report in reports):
        yield f"{counted(suppressed, 'finding')} suppressed by comments."
    skipped = sum(len(report.skipped) for report in reports)
    if skipped and verbose:
        yield f"{counted(skipped, 'opportunity', 'opportunities')} left alone, for the reasons above."
    if failed:
        yield click.style(f"{counted(failed, 'file')} could not be looked at.", fg="red")


def _advice(found: int, fixable: int) -> str:
    if not fixable:
        return ""
    those = str(fixable) + " of them" if fixable < found else "it" if found == 1 else "them"
    return f" Run `autoaccel rewrite` to apply {those}."
