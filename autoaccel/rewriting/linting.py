"""`rewrite` stopped before it applies: what there is to improve in one text, as plain data."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.rewriting import engine
from autoaccel.rewriting.finding import Finding, Tier
from autoaccel.rewriting.places import raw_lines
from autoaccel.rewriting.record import Failure, Range, Record, Report, TextEdit
from autoaccel.rewriting.recording import in_order, record, records
from autoaccel.rewriting.rule import Rule

if TYPE_CHECKING:
    from autoaccel.rewriting.engine import Analysis
    from autoaccel.script import Project


def lint(
    text: str,
    path: Path | None,
    rules: Sequence[Rule],
    *,
    tier: Tier = Tier.NUMERICS,
    project: Project | None = None,
    changes: bool = False,
) -> Report:
    """Report on one text. With `changes` each finding is carried out by itself, which costs LibCST."""
    name = str(path or "<text>")
    if not engine.concerned(text, rules):
        return Report(name)
    try:
        analysis = engine.analyse(text, path, rules, tier=tier, project=project)
        found = [_record(each, analysis, changes=changes) for each in analysis.findings]
    except engine.RewriteError as error:
        return Report(name, failures=(Failure(str(error), error.line, error.column, error.defect),))
    return Report(
        name,
        tuple(in_order(found)),
        tuple(in_order(records(analysis.skipped, analysis.places, 1))),
        len(analysis.suppressed),
    )


def _record(finding: Finding, analysis: Analysis, *, changes: bool) -> Record:
    said = record(finding, analysis.places, 1)
    return dataclasses.replace(said, changes=_changes(finding, analysis)) if changes else said


def _changes(finding: Finding, analysis: Analysis) -> tuple[TextEdit, ...]:
    """One finding carried out with all that it needs; none where LibCST cannot do it in this file."""
    from autoaccel.rewriting.apply import CannotApplyError

    before = analysis.places.text
    try:
        after = engine.apply(analysis, _with_needs(finding))
    except CannotApplyError:
        return ()
    return text_edits(before, after)


def _with_needs(finding: Finding) -> list[Finding]:
    return [*dict.fromkeys(each for need in finding.needs for each in _with_needs(need)), finding]


def text_edits(before: str, after: str) -> tuple[TextEdit, ...]:
    """The whole lines that differ."""
    old, new = raw_lines(before), raw_lines(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    edits = []
    for tag, start, end, other, other_end in matcher.get_opcodes():
        if tag != "equal":
            where = Range(*_position(start, old), *_position(end, old))
            edits.append(TextEdit(where, "".join(new[other:other_end])))
    return tuple(edits)


def _position(line: int, lines: Sequence[str]) -> tuple[int, int]:
    """Where a line begins; past the last one, where the text ends."""
    return (line + 1, 1) if line < len(lines) else (len(lines), len(lines[-1]) + 1)
