"""What is said about a place in a file, as plain data: it is printed, sent between processes and kept in the cache.

Importing this costs next to nothing; neither rules nor syntax trees come along.
"""

from __future__ import annotations

from dataclasses import dataclass

AMONG_IMPORTS = "among the imports"
"""How a line of `Record.fix` ends that speaks of the whole file."""


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of the text: lines and columns in characters, both from 1, the end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Put `content`, with the file's own line ends, in the place of a stretch of the text."""

    where: Range
    content: str


@dataclass(frozen=True, slots=True)
class Record:
    """A finding as plain data. Positions are in the file, in whatever round it was made: of what an earlier one has
    changed, those of what stood there."""

    code: str
    name: str
    tier: str
    message: str
    where: Range
    round: int = 1
    edits: tuple[Range, ...] = ()
    """What its edits touch."""
    fix: tuple[str, ...] = ()
    """The edits in words, a line each; empty where nobody asked."""
    url: str | None = None
    """Where the rule is explained."""
    changes: tuple[TextEdit, ...] = ()
    """The finding, with what it needs, carried out: edits in order that do not overlap; empty where nobody asked, and
    in notebooks, whose cells are no lines of a file."""
    cell: int | None = None
    """The number of the cell in a notebook, among those of all kinds; lines are counted from its first, then."""

    @property
    def order(self) -> tuple[int, int, int, str]:
        """By what findings of a file are sorted."""
        return self.cell or 0, self.line, self.column, self.code

    @property
    def place(self) -> str:
        """What stands behind the name of the file: `12:5`, `cell 3:12:5`."""
        return f"{'' if self.cell is None else f'cell {self.cell}:'}{self.line}:{self.column}"

    @property
    def line(self) -> int:
        return self.where.line

    @property
    def column(self) -> int:
        return self.where.column

    @property
    def end_line(self) -> int:
        return self.where.end_line

    @property
    def end_column(self) -> int:
        return self.where.end_column


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing can be said about a file: one line that names the place; `line` and `column` where it is known."""

    message: str
    line: int = 1
    column: int = 1
    traceback: str = ""
    """Where the defect is, if it is a defect of the tool or of a rule."""
    code: str = "unreadable"
    """What reports call it in the place of a rule's code; also `invalid-syntax`, `too-deep` and `internal-error`."""


@dataclass(frozen=True, slots=True)
class Report:
    """What `lint` has to say about one file. `path` is the name that the user knows it by."""

    path: str
    findings: tuple[Record, ...] = ()
    skipped: tuple[Record, ...] = ()
    suppressed: int = 0
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    """What else is to be said: why a notebook is left alone, which of its cells could not be read."""
