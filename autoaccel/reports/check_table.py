"""What `doctor` found: a table for people, or all of it as JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from autoaccel import __version__
from autoaccel.measure.checkup.readings import CheckRow, Status
from autoaccel.reports.context import shown
from autoaccel.reports.counting import counted
from autoaccel.reports.json import dumped, plain

FORMAT = 1
"""Of the JSON; grows when a key goes or changes its meaning."""
_HEAD = ("", "what", "value", "threshold", "what it costs", "how to fix it")
_WORDS = {Status.HEALTHY: ("ok", "green"), Status.FOUND: ("found", "red"), Status.UNKNOWN: ("unknown", "yellow")}
_NARROWEST = 12
_GAP = "  "


def to_json(rows: Sequence[CheckRow], script: str | None) -> str:
    said = {"script": script, "healthy": healthy(rows), "checks": [plain(each) for each in rows]}
    return dumped({"format": FORMAT, "autoaccel": __version__, **said})


def healthy(rows: Sequence[CheckRow]) -> bool:
    """Whether there is nothing to mend, and nothing that is not known."""
    return all(each.status in (Status.HEALTHY, Status.ABSENT) for each in rows)


def table(rows: Sequence[CheckRow], width: int) -> str:
    """With colours; as wide as `width`, where its words allow that. What there is not here is told below it."""
    present = [each for each in rows if each.status in _WORDS]
    cells = [_cells(each) for each in present]
    widths = _widths([_HEAD, *cells], width)
    lines = [click.style(line, bold=True) for line in _wrapped(_HEAD, widths)]
    for each, row in zip(present, cells, strict=True):
        lines += [click.style(line, fg=_WORDS[each.status][1]) for line in _wrapped(row, widths)]
    lines += [click.style(line, dim=True) for line in _left_out(rows, width)]
    return "".join(f"{line}\n" for line in lines)


def _left_out(rows: Sequence[CheckRow], width: int) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for each in rows:
        if each.status is Status.ABSENT:
            reasons.setdefault(each.value, []).append(each.what)
    if reasons:
        yield ""
    for reason, names in reasons.items():
        yield from textwrap.wrap(f"Not checked, {shown(reason)}: {', '.join(names)}.", width, subsequent_indent=_GAP)


def summary(rows: Sequence[CheckRow]) -> str:
    """One sentence."""
    counts = Counter(each.status for each in rows)
    found, unknown, absent = (counts[status] for status in (Status.FOUND, Status.UNKNOWN, Status.ABSENT))
    said = f"{found or 'nothing'} found in {counted(len(rows) - absent, 'check')}"
    return said + (f", of which {unknown} could not be read" if unknown else "") + "; nothing was changed."


def _cells(row: CheckRow) -> tuple[str, ...]:
    what = f"{row.subject}{row.what.removeprefix('GPU')}" if row.subject else row.what
    texts = (row.value, row.threshold, row.cost, row.fix)
    return _WORDS[row.status][0], what, *(shown(each) for each in texts)


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Each column as wide as it wants; what that is too much goes off the widest."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    room = width - len(_GAP) * (len(_HEAD) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    columns = [textwrap.wrap(cell, size) or [""] for cell, size in zip(row, widths, strict=True)]
    for number in range(max(map(len, columns))):
        parts = [column[number] if number < len(column) else "" for column in columns]
        yield _GAP.join(part.ljust(size) for part, size in zip(parts, widths, strict=True)).rstrip()
