"""Carries out edits of comments. They change no syntax, so they are done on the text, after all other edits."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from autoaccel.edits import CannotApplyError, EditComment, Finding
from autoaccel.rewriting.places import Places, Position, raw_lines


def edit(before: Places, after: str, findings: Sequence[Finding]) -> str:
    """`after`, which other edits made of `before`, with the comments edited. Raises `CannotApplyError`.

    A comment that becomes empty goes with the blanks before it, and a line that held nothing else goes, too.
    """
    edits = [edit for finding in findings for edit in finding.edits if isinstance(edit, EditComment)]
    if not edits:
        return after
    now = before if after == before.text else Places(after, ast.parse(after))
    lines = raw_lines(after)
    for position, text in sorted(((_moved(each, before, now), each.text) for each in edits), reverse=True):
        _put(lines, position, text)
    return "".join(lines)


def _put(lines: list[str], position: Position, text: str) -> None:
    index, column = position[0] - 1, position[1]
    line = lines[index]
    end = line[len(line.rstrip("\r\n")) :]
    if text:
        lines[index] = line[:column] + text + end
    elif line[:column].strip():
        lines[index] = line[:column].rstrip() + end
    else:
        del lines[index]
        if not end and lines and lines[-1].strip():
            # A text without a final line end stays without one; blank lines stay.
            lines[-1] = lines[-1].rstrip("\r\n")


def _moved(wanted: EditComment, before: Places, now: Places) -> Position:
    """Where a comment is after the code was edited: edits keep all comments, and equal ones stay in order."""
    place = wanted.comment.lineno, wanted.comment.column
    equal = [position for position, text in before.comments.items() if text == wanted.comment.text]
    found = [position for position, text in now.comments.items() if text == wanted.comment.text]
    if place not in equal or len(found) != len(equal):
        raise CannotApplyError(f"the comment on line {place[0]} was changed by another edit")
    return found[equal.index(place)]
