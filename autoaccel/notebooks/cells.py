"""Where cells begin in the program of a notebook: each below a line that does nothing and bears its number."""

from __future__ import annotations

import ast
import bisect
import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MARKER = re.compile(r"pass  #autoaccel\[cell (\d+)\]")
END = "pass  #autoaccel[end]"
"""The line below the last cell: LibCST loses indented comments at the end of a file."""

_NEWLINE = re.compile(r"\r\n|\r|\n")  # as Python counts lines
_LINE = re.compile(r"^" + _MARKER.pattern + r"$", re.MULTILINE)
NAMED_LINES = re.compile(r"(?<!\.py, )\blines? \d+(?:(?:, | and | to )\d+)*(?! of \S+\.(?:py|ipynb)\b)")
"""Where a message speaks of lines of the file that it is about."""


def marker(number: int) -> str:
    """The line above a cell; numbers are from 1 and count cells of all kinds, as people do."""
    return f"pass  #autoaccel[cell {number}]"


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a program: the lines of their markers, and their numbers; the last line counts to the last cell."""

    markers: tuple[int, ...]
    numbers: tuple[int, ...]

    def at(self, line: int) -> tuple[int, int]:
        """The number of the cell in which a line of the program stands, and its line there, from 1."""
        index = max(0, bisect.bisect_right(self.markers, line) - 1)
        return self.numbers[index], max(1, line - self.markers[index])

    def line(self, number: int, line: int) -> int:
        """The line of the program that is a line of a cell."""
        return self.markers[self.numbers.index(number)] + line

    def last_import(self, imports: Iterable[ast.stmt]) -> ast.stmt | None:
        """The last import of the first cell that imports torch, of imports in order."""
        found: list[ast.stmt] = []
        for each in imports:
            if found and self.at(found[0].lineno)[0] != self.at(each.lineno)[0]:
                if any(map(_of_torch, found)):
                    break
                found = []
            found.append(each)
        return found[-1] if any(map(_of_torch, found)) else None

    def top(self, body: Sequence[ast.stmt], lines: Sequence[str]) -> ast.stmt:
        """The statement below which the first cell begins: its marker, or the last of the lines for IPython there."""
        found = body[0]
        for each in body[1:]:
            if each.lineno in self.markers or "#autoaccel[line " not in lines[each.lineno - 1]:
                break
            found = each
        return found

    def worded(self, text: str) -> str:
        """A sentence that speaks of lines of the program, speaking of those of cells."""
        return NAMED_LINES.sub(lambda found: re.sub(r"(?:lines? )?(\d+)", self._named, found[0]), text)

    def _named(self, found: re.Match[str]) -> str:
        number, line = self.at(int(found[1]))
        return f"cell {number} line {line}"


def _of_torch(statement: ast.stmt) -> bool:
    for node in ast.walk(statement):
        if isinstance(node, ast.Import) and any(each.name.split(".")[0] == "torch" for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            return True
    return False


def cells(text: str) -> Cells | None:
    """The cells of a program, None where it is that of no notebook."""
    return _cells(text) if "#autoaccel[cell " in text else None


@functools.lru_cache(maxsize=16)
def _cells(text: str) -> Cells | None:
    lines = enumerate(_NEWLINE.split(text), 1)
    markers: list[int] = []
    numbers: list[int] = []
    for line, said in lines:
        if (mark := _MARKER.fullmatch(said)) is not None or (said == END and numbers):
            markers.append(line)
            numbers.append(numbers[-1] if mark is None else int(mark[1]))
    return Cells(tuple(markers), tuple(numbers)) if markers else None


def split(text: str) -> list[tuple[int, str]]:
    """The cells of a program by number: the text between the markers. What stands above the first has number 0."""
    parts = _LINE.split(text.removesuffix(f"{END}\n"))
    return [(0, parts[0]), *((int(number), body[1:]) for number, body in zip(parts[1::2], parts[2::2], strict=True))]
