"""What reports on many files need beside the findings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.notebooks.cells import cells
from autoaccel.rewriting.record import Range

if TYPE_CHECKING:
    from autoaccel.rewriting.record import Failure, Record, Report
    from autoaccel.rewriting.rule import Rule

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Context:
    """`here` is the working directory, `root` the folder that names in machine-readable reports are relative to.

    `text` gives the text of a file that was reported on, empty where it is gone; `rules` all rules that there are;
    `problems` says which paths are no use.
    """

    here: Path
    root: Path
    text: Callable[[str], str]
    rules: Callable[[], Sequence[Rule]]
    problems: tuple[str, ...] = ()
    row: Callable[[str, int | None, int], int] = lambda _path, _cell, line: line
    """The line of a file in which a line of one of its cells is written."""

    def lines(self, path: str, cell: int | None) -> list[str]:
        """The lines of a file, or those of a cell and all below it."""
        text = self.text(path)
        notebook = None if cell is None else cells(text)
        if cell is None or notebook is None or cell not in notebook.numbers:
            return split_lines(text)
        return split_lines(text)[notebook.line(cell, 1) - 1 :]

    def where(self, path: str, record: Record) -> Range:
        """Where a finding stands in the file itself: of a notebook, the lines that hold those of the cell."""
        if record.cell is None:
            return record.where
        first, last = (self.row(path, record.cell, line) for line in (record.line, record.end_line))
        return Range(first, 1, last, 1)

    def absolute(self, path: str) -> str:
        """The full name of a file; what came on stdin has none."""
        return path if _unnamed(path) else os.path.normpath(self.here / path)

    def name(self, path: str) -> str:
        """The name of a file relative to the root, else its full name, with forward slashes."""
        full = Path(self.absolute(path))
        return (full.relative_to(self.root) if full.is_relative_to(self.root) else full).as_posix()

    def local(self, path: str) -> str:
        """The name of a file as seen from the working directory, with forward slashes."""
        full = self.absolute(path)
        try:
            return full if _unnamed(path) else Path(os.path.relpath(full, self.here)).as_posix()
        except ValueError:  # another drive
            return Path(full).as_posix()


def shown(text: str) -> str:
    """The name of a file, or code, on one line and harmless; bytes that are no text stay for the terminal."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def reasons(report: Report) -> Iterator[tuple[Failure, str]]:
    """Why nothing can be said about a file, without the place, for formats that have a place for that."""
    for failure in report.failures:
        text = failure.message.removeprefix(report.path)
        yield failure, re.sub(r"\A(:\d+)*: ", "", text)


def said(finding: Record) -> str:
    """What a finding says; with the cell in formats that have no place for it."""
    return finding.message if finding.cell is None else f"cell {finding.cell}, line {finding.line}: {finding.message}"


def _unnamed(path: str) -> bool:
    return path.startswith("<")
