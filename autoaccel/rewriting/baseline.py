"""Writes a comment beside everything that `lint` finds in a text, so that it finds nothing more."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.edits import Comment, Finding, Tier
from autoaccel.rewriting import check, engine
from autoaccel.rewriting.places import Places, newline_of, raw_lines
from autoaccel.rewriting.plan import touched
from autoaccel.rewriting.record import Record
from autoaccel.rewriting.recording import in_order, records
from autoaccel.rewriting.rule import Rule
from autoaccel.rewriting.suppression import IGNORE, Suppression

if TYPE_CHECKING:
    from autoaccel.analysis import Project

# What is silenced may let something else surface, which it was in the way of.
_MOST_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Baseline:
    """A text in which nothing is found any more, and how many findings that took; with `left`, nothing was changed."""

    text: str
    silenced: int = 0
    left: tuple[Record, ...] = ()
    """Findings that no comment can silence; their places are in the text that they were found in."""


def silence(
    text: str,
    path: Path | None,
    rules: Sequence[Rule],
    *,
    reason: str = "",
    tier: Tier = Tier.NUMERICS,
    project: Project | None = None,
) -> Baseline:
    """Silence all findings of a text by comments; nothing but comments changes. Raises `RewriteError`."""
    if not engine.concerned(text, rules):
        return Baseline(text)
    current, count = text, 0
    for _ in range(_MOST_ROUNDS):
        if project is not None and path is not None:
            project = project.changed(path, current)
        analysis = engine.analyse(current, path, rules, tier=tier, project=project)
        if not analysis.findings:
            break
        after = _commented(analysis.places, analysis.findings, analysis.suppressions, reason)
        if after == current:
            break
        count += len(analysis.findings)
        current = after
    if analysis.findings:
        return Baseline(text, left=tuple(in_order(records(analysis.findings, analysis.places, 1))))
    wrong = check.other_than_comments(Places(text, ast.parse(text)), current)
    if wrong is not None:
        raise engine.RewriteError(f"{path or '<text>'}: left alone, the self-check failed: {wrong}")
    return Baseline(current, count)


@dataclass(slots=True)
class _Pencil:
    """Codes by where they are to be written. Lines from 1."""

    merged: dict[Suppression, set[str]] = field(default_factory=dict)
    """Comments that get more codes."""
    beside: dict[int, set[str]] = field(default_factory=dict)
    """Lines that get a comment at their end."""
    above: dict[int, set[str]] = field(default_factory=dict)
    """Lines that get a comment above them."""


def _commented(places: Places, findings: Iterable[Finding], known: Sequence[Suppression], reason: str) -> str:
    """The text with a comment for each finding, where it can have one."""
    pencil = _Pencil()
    wanted: dict[int, list[tuple[int, str]]] = {}
    for finding in findings:
        place = _place(finding, places)
        if place is None:
            continue
        own = _mergeable(finding, place, known)
        if own is not None:
            pencil.merged.setdefault(own, set()).add(finding.rule.code)
        else:
            wanted.setdefault(place.line, []).append((place.top, finding.rule.code))
    continued = _continued_lines(places)
    for line, codes in wanted.items():
        every = {code for _, code in codes}
        fits = len(places.lines[line - 1]) + len(f"  {_comment(every, reason)}") <= places.widest
        if line not in continued and (fits or any(top - 1 in continued for top, _ in codes)):
            pencil.beside[line] = every
            continue
        for top, code in codes:
            if top - 1 not in continued:
                pencil.above.setdefault(top, set()).add(code)
    return _written(places, pencil, reason)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a comment reaches a finding: at the end of `line`, above `top`, or on any of the lines `first` … `last`."""

    line: int
    top: int
    first: int
    last: int


def _place(finding: Finding, places: Places) -> _Place | None:
    if isinstance(finding.node, Comment):
        line = finding.node.lineno
        return _Place(line, line, line, line)
    for node in touched(finding):
        statement = places.statement(node)
        if statement is None:
            continue
        first, last = places.first_line(statement), places.header_end(statement)
        line = getattr(node, "lineno", first)
        if not first <= line <= last:
            # In the header of a later block of the statement: `except f(x):`.
            return _Place(line, line, line, line)
        return _Place(line, first, first, last)
    return None


def _mergeable(finding: Finding, place: _Place, known: Sequence[Suppression]) -> Suppression | None:
    """A comment of ours beside or above the place that names codes already, and will take one more."""
    for each in known:
        if each.kind == IGNORE and each.selectors:
            reaches = each.covers(place.first, place.last)
            own = isinstance(finding.node, Comment) and each.line == place.line
            if reaches or own:
                return each
    return None


def _comment(codes: Iterable[str], reason: str) -> str:
    return f"# autoaccel: ignore[{', '.join(sorted(codes))}] {reason}".rstrip()


def _written(places: Places, pencil: _Pencil, reason: str) -> str:
    lines = raw_lines(places.text)
    newline = newline_of(places.text)
    # Within a line from its end backwards, else the places of comments in it would no longer be true.
    for line, codes in pencil.beside.items():
        body = lines[line - 1].rstrip("\r\n")
        lines[line - 1] = f"{body}  {_comment(codes, reason)}{lines[line - 1][len(body) :]}"
    for each in sorted(pencil.merged, key=lambda each: -each.start):
        present = {selector.word.upper() for selector in each.selectors}
        more = "".join(f", {code}" for code in sorted(pencil.merged[each]) if code not in present)
        position = each.comment.column + each.selectors[-1].end
        body = lines[each.line - 1]
        lines[each.line - 1] = body[:position] + more + body[position:]
    for top, codes in pencil.above.items():
        body = places.lines[top - 1]
        indentation = body[: len(body) - len(body.lstrip())]
        lines[top - 1] = f"{indentation}{_comment(codes, reason)}{newline}{lines[top - 1]}"
    return "".join(lines)


def _continued_lines(places: Places) -> set[int]:
    """Lines that end within a string or in a backslash: what is written there is no comment."""
    found = {number for number, line in enumerate(places.lines, 1) if line.endswith("\\")}
    starts: list[int] = []
    begins = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "TSTRING_START", None)
    ends = getattr(tokenize, "FSTRING_END", None), getattr(tokenize, "TSTRING_END", None)
    read = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(places.lines)).readline):
            read = token.end[0]
            if token.type == tokenize.STRING:
                found.update(range(token.start[0], token.end[0]))
            elif token.type in begins:
                starts.append(token.start[0])
            elif token.type in ends:
                found.update(range(starts.pop(), token.end[0]))
    except (tokenize.TokenError, SyntaxError):
        # The parser is more lenient than the tokenizer: of what follows nothing is known.
        found.update(range(read, len(places.lines) + 1))
    return found
