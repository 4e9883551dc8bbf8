"""What `tune` decided, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from autoaccel.reports.benchmark.quantities import ratio, ratios
from autoaccel.reports.context import shown
from autoaccel.reports.counting import counted

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Interval
    from autoaccel.measure.tuning.deciding import RuleWorth

_HEAD = ("", "changes", "gain", "interval", "alone", "interval", "")


def table(script: str, rules: Sequence[RuleWorth], speedup: Interval | None, notes: Sequence[str]) -> str:
    """With colours; `speedup` is that of what is kept."""
    rows = [_HEAD, *(_row(each) for each in rules)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [click.style(verdict(script, rules, speedup), bold=True, fg="green" if speedup else None), ""]
    for rule, row in zip((None, *rules), rows, strict=True):
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:6], widths[1:6], strict=True)),
        ]
        line = "   ".join([*cells, row[6]]).rstrip()
        lines.append(click.style(line, dim=rule is None, fg="green" if rule is not None and rule.kept else None))
    if notes:
        lines += ["", *(f"Note: {shown(note)}." for note in notes)]
    return "".join(f"{line}\n" for line in lines)


def verdict(script: str, rules: Sequence[RuleWorth], speedup: Interval | None) -> str:
    """In one sentence."""
    if not rules:
        return f"{shown(script)}: nothing would be rewritten, so there is nothing to tune."
    if speedup is None:
        return f"{shown(script)}: nothing is measured to pay on this machine."
    kept = sum(each.kept for each in rules)
    verb = "pays" if kept == 1 else "pay"
    return (
        f"{shown(script)}: {kept} of {counted(len(rules), 'rule')} {verb} on this machine: "
        f"{ratio(speedup.median)} times as fast ({ratios(speedup)})."
    )


def _row(rule: RuleWorth) -> tuple[str, ...]:
    figures = [text for found in (rule.gain, rule.alone) for text in _figures(found)]
    said = "kept" if rule.kept else "left out"
    return (
        f"{rule.code} {rule.name}",
        str(rule.changes),
        *figures,
        said + (f": {shown(rule.reason)}" if rule.reason else ""),
    )


def _figures(found: Interval | None) -> tuple[str, str]:
    return ("–", "") if found is None else (ratio(found.median), ratios(found))
