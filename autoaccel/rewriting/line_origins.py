"""Where the lines of a text that was rewritten in part stood before."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cached_property

from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.notebooks.cells import NAMED_LINES
from autoaccel.rewriting.record import Range

_LONG = 1000  # lines from which the exact comparison of frequent lines would take long


class LineOrigins:
    """From places of the text that a later round began with to those of the file."""

    def __init__(self, before: str, after: str) -> None:
        self.text = before
        self._before, self._after = map(split_lines, (before, after))

    def line(self, number: int) -> int:
        """The line that this one was, or stands in the place of; lines are counted from 1."""
        return self._lines[min(number, len(self._lines)) - 1]

    def place(self, where: Range) -> Range:
        """Of a line that was changed, the whole line that it stands for is marked."""
        line, end_line = self.line(where.line), self.line(where.end_line)
        column, end_column = self._column(where.line, where.column), self._column(where.end_line, where.end_column)
        if column is None or end_column is None or end_line < line:
            text = self._before[line - 1]
            return Range(line, len(text) - len(text.lstrip()) + 1, line, len(text.rstrip()) + 1)
        return Range(line, column, end_line, end_column)

    def worded(self, text: str) -> str:
        """A sentence that speaks of lines, speaking of those of the file."""
        return NAMED_LINES.sub(lambda said: re.sub(r"\d+", lambda each: str(self.line(int(each[0]))), said[0]), text)

    def _column(self, line: int, column: int) -> int | None:
        """The column in a line that is the same but for its indentation, else None."""
        now, then = self._after[line - 1], self._before[self.line(line) - 1]
        if now.strip() != then.strip():
            return None
        return max(1, column + (len(then) - len(then.lstrip())) - (len(now) - len(now.lstrip())))

    @cached_property
    def _lines(self) -> list[int]:
        """Of each line, the one before. Rewrites indent what they wrap: that does not make another line of it."""
        before, after = ([line.strip() for line in lines] for lines in (self._before, self._after))
        found: list[int] = []
        matcher = SequenceMatcher(None, before, after, autojunk=len(before) > _LONG)
        for _, first, end, start, stop in matcher.get_opcodes():
            last = max(end - 1, first)
            found.extend(min(first + at, last, len(before) - 1) + 1 for at in range(stop - start))
        return found
