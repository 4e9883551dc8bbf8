"""The report of `rewrite`: a line for each rewrite, a line for each opportunity left alone and why, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel.reports import concise
from autoaccel.reports.counting import by_tier, counted

if TYPE_CHECKING:
    from autoaccel.rewriting.engine import Result


def lines(result: Result, name: Path | str) -> Iterator[str]:
    """What happened in one file, in the order of its lines. Line numbers are those of the original text."""
    applied = {id(record) for record in result.applied}
    for record in sorted((*result.applied, *result.skipped), key=lambda record: record.order):
        if id(record) in applied:
            yield concise.headline(str(name), record, "green")
        else:
            yield concise.left_alone(str(name), record)


def summary(results: Sequence[Result], *, preview: bool, failed: int, declined: int = 0) -> Iterator[str]:
    """What happened altogether. `declined` is the number of changes that the user, who was asked, did not want."""
    changed = [result for result in results if result.changed]
    applied = [record for result in changed for record in result.applied]
    skipped = sum(len(result.skipped) for result in results)
    if changed:
        verb = "would be rewritten" if preview else "rewritten"
        # Without changes by rules there was a change of the import alone (`--vendor`).
        what = (
            f"{counted(len(applied), 'change')} ({by_tier(record.tier for record in applied)})"
            if applied
            else "the import of the runtime"
        )
        yield click.style(f"{counted(len(changed), 'file')} {verb}: {what}", bold=True)
    elif results and not declined:
        yield f"Nothing to rewrite in {counted(len(results), 'file')}."
    if declined:
        yield f"{counted(declined, 'change')} declined."
    if suppressed := sum(len(result.suppressed) for result in results):
        yield f"{counted(suppressed, 'change')} suppressed by comments."
    if skipped:
        yield f"{counted(skipped, 'opportunity', 'opportunities')} left alone, for the reasons above."
    if failed:
        yield click.style(f"{counted(failed, 'file')} could not be done.", fg="red")
