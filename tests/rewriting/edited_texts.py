"""What becomes of a text by the edits that reports name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from autoaccel.rewriting.places import raw_lines
from autoaccel.rewriting.record import TextEdit


def applied(text: str, edits: Sequence[TextEdit]) -> str:
    """The text with edits carried out, as any reader of a report would."""
    lines = raw_lines(text)
    starts = [0, *itertools.accumulate(map(len, lines))]
    for edit in reversed(edits):
        where = edit.where
        start, end = starts[where.line - 1] + where.column - 1, starts[where.end_line - 1] + where.end_column - 1
        text = text[:start] + edit.content + text[end:]
    return text
