"""Texts that LibCST would not give back as they are, dressed so that it does, and undressed after the edit.

LibCST loses form feeds, carriage returns that end lines on their own, and blanks after the last line end.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.rewriting.places import newline_of, raw_lines

_TAIL = re.compile(r"(?<=[\r\n])[ \t\f]+\Z")
# Blank lines of a shape that no script has stand for those with form feeds; indenting them leaves their end alone.
_MARK = re.compile(r" {64,}(\t[ \t]{24})")
_BITS = str.maketrans("01", " \t")


@dataclass(frozen=True, slots=True)
class Disguise:
    """`text` is what LibCST sees, line by line. `shifts`: how many characters were taken from the start of a line."""

    original: str
    text: str
    tail: str
    shifts: dict[int, int] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    """What stood in the place of a marked line, by the end of the mark."""
    carriage_returns: bool = False

    def reveal(self, edited: str) -> str:
        """The edited text with everything back that was hidden."""
        if self.shifts:
            edited = _with_original_lines(self._unmarked(self.text), self._unmarked(edited), self._stripped())
        else:
            edited = self._unmarked(edited)
        if self.carriage_returns:
            edited = edited.replace("\n", "\r")
        return edited + self.tail

    def _unmarked(self, text: str) -> str:
        if not self.hidden:
            return text
        lines = raw_lines(text)
        for index, line in enumerate(lines):
            body = line.rstrip("\r\n")
            if mark := _MARK.fullmatch(body):
                lines[index] = self.hidden[mark[1]] + line[len(body) :]
        return "".join(lines)

    def _stripped(self) -> str:
        text = self.original.removesuffix(self.tail) if self.tail else self.original
        return text.replace("\r", "\n") if self.carriage_returns else text


def light(text: str) -> Disguise:
    """Hides the blanks at the end: enough for almost every file."""
    tail = _TAIL.search(text)
    return Disguise(text, text[: tail.start()], tail[0]) if tail else Disguise(text, text, "")


def full(text: str) -> Disguise:
    """Hides everything that LibCST is known to lose."""
    start = light(text)
    seen = start.text
    carriage_returns = "\r" in seen and "\n" not in seen
    if carriage_returns:
        seen = seen.replace("\r", "\n")
    shifts: dict[int, int] = {}
    hidden: dict[str, str] = {}
    lines = raw_lines(seen)
    for index, line in enumerate(lines):
        if "\f" not in line:
            continue
        body = line.rstrip("\r\n")
        if not body.strip():
            mark = "\t" + f"{index:024b}".translate(_BITS)
            hidden[mark] = body
            lines[index] = " " * 256 + mark + line[len(body) :]
        elif body.startswith("\f"):
            lines[index] = line.lstrip("\f")
            shifts[index + 1] = len(line) - len(lines[index])
    return Disguise(text, "".join(lines), start.tail, shifts, hidden, carriage_returns)


def _with_original_lines(plain: str, edited: str, original: str) -> str:
    """`edited`, with the lines of `original` wherever those of `plain`, which correspond to them, were not changed."""
    newline = newline_of(original)
    wanted, given, sources = split_lines(plain), split_lines(edited), raw_lines(original)
    same = 0
    # The matcher may align repeated lines anyhow; what is common at both ends is beyond doubt.
    while same < min(len(wanted), len(given)) and wanted[-1 - same] == given[-1 - same]:
        same += 1
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, wanted[: len(wanted) - same], given[: len(given) - same], autojunk=False)
    for tag, low, high, start, stop in matcher.get_opcodes():
        lines.extend(sources[low:high] if tag == "equal" else given[start:stop])
    lines.extend(sources[len(sources) - same :])
    ended = [line if line.endswith(("\n", "\r")) else line + newline for line in lines[:-1]]
    return "".join([*ended, lines[-1].rstrip("\r\n")])
