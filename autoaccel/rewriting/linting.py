"""`rewrite` stopped before it applies: what there is to improve in one text, as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.edits import CannotApplyError, Finding, Skipped, Tier
from autoaccel.notebooks.cells import Cells, cells
from autoaccel.rewriting import comments, engine
from autoaccel.rewriting.places import raw_lines
from autoaccel.rewriting.plan import CONFLICTS
from autoaccel.rewriting.record import Failure, Range, Record, Report, TextEdit
from autoaccel.rewriting.recording import in_order, record, records
from autoaccel.rewriting.rule import Rule
from autoaccel.rewriting.wording import wording

if TYPE_CHECKING:
    from autoaccel.analysis import Project
    from autoaccel.rewriting.apply import Concrete
    from autoaccel.rewriting.engine import Analysis, RewriteError
    from autoaccel.rewriting.places import Places

_LONG = 1000  # lines from which the exact comparison of frequent lines would take long


def lint(
    text: str,
    path: Path | None,
    rules: Sequence[Rule],
    *,
    tier: Tier = Tier.NUMERICS,
    project: Project | None = None,
    changes: bool = False,
) -> Report:
    """Report on one text. With `changes` each finding is carried out by itself, too, which costs LibCST."""
    name = str(path or "<text>")
    if not any(rule.concerns(text) for rule in rules):
        return Report(name)
    try:
        analysis = engine.analyse(text, path, rules, tier=tier, project=project)
        found = recorded(analysis, changes=changes)
    except engine.RewriteError as error:
        return Report(name, failures=(failure(error),))
    return Report(
        name,
        tuple(in_order(found)),
        tuple(in_order(records((*analysis.skipped, *_later(analysis.waiting)), analysis.places, 1))),
        len(analysis.suppressed),
    )


def _later(waiting: Sequence[Skipped]) -> Iterator[Skipped]:
    """The findings that give way to others, for those who wonder where they are."""
    for each in waiting:
        if each.reason.startswith(CONFLICTS):
            yield Skipped(each.rule, each.node, f"{each.reason}: `rewrite` applies that first, and looks again")


def failure(error: RewriteError) -> Failure:
    return Failure(str(error), error.line, error.column, error.defect, error.code)


def recorded(analysis: Analysis, *, changes: bool = False) -> list[Record]:
    """The findings of an analysis as plain data, in its order."""
    notebook = cells(analysis.places.text)
    changes = changes and notebook is None
    concrete = _concrete(analysis) if changes and any(each.edits_code for each in analysis.findings) else None
    return [
        dataclasses.replace(
            record(finding, analysis.places, 1),
            fix=_worded(wording(finding, analysis.places), notebook),
            url=finding.rule.url,
            changes=_changes(finding, analysis.places, concrete) if changes else (),
        )
        for finding in analysis.findings
    ]


def _worded(lines: tuple[str, ...], notebook: Cells | None) -> tuple[str, ...]:
    return lines if notebook is None else tuple(map(notebook.worded, lines))


def _concrete(analysis: Analysis) -> Concrete | None:
    """The text for LibCST, parsed once for all findings; None where LibCST cannot edit it faithfully."""
    from autoaccel.rewriting.apply import Concrete

    try:
        return Concrete(analysis.places)
    except (CannotApplyError, RecursionError):
        return None


def _changes(finding: Finding, places: Places, concrete: Concrete | None) -> tuple[TextEdit, ...]:
    """One finding carried out with all that it needs; none where LibCST cannot do it in this file."""
    from autoaccel.rewriting.line_breaks import laid_out

    chosen = with_needs(finding)
    coded = any(each.edits_code for each in chosen)
    if coded and concrete is None:
        return ()
    try:
        after = laid_out(places, concrete.edited(chosen)) if coded and concrete else places.text
        return text_edits(places.text, comments.edit(places, after, chosen))
    except (CannotApplyError, RecursionError):
        return ()


def with_needs(finding: Finding) -> list[Finding]:
    """A finding behind all that it needs."""
    return [*dict.fromkeys(each for need in finding.needs for each in with_needs(need)), finding]


def text_edits(before: str, after: str) -> tuple[TextEdit, ...]:
    """The whole lines that differ."""
    import difflib

    old, new = raw_lines(before), raw_lines(after)
    start, end = _common(old, new)
    stop, other_stop = len(old) - end, len(new) - end
    # What is frequent taken for junk makes edits coarse, which in long files is better than to wait.
    matcher = difflib.SequenceMatcher(None, old[start:stop], new[start:other_stop], autojunk=stop - start > _LONG)
    edits = []
    for tag, first, last, other, other_last in matcher.get_opcodes():
        if tag != "equal":
            where = Range(*_position(start + first, old), *_position(start + last, old))
            edits.append(TextEdit(where, "".join(new[start + other : start + other_last])))
    return tuple(edits)


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many of the others at the end."""
    most = min(len(old), len(new))
    start = next((index for index in range(most) if old[index] != new[index]), most)
    end = next((index for index in range(most - start) if old[-1 - index] != new[-1 - index]), most - start)
    return start, end


def _position(line: int, lines: Sequence[str]) -> tuple[int, int]:
    """Where a line begins; past the last one, where the text ends."""
    return (line + 1, 1) if line < len(lines) else (len(lines), len(lines[-1]) + 1)
