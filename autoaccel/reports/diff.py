"""Patches that `git apply` takes as they are: CRLF lines, a missing final newline, form feeds, names with spaces."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.sources import Source

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}
_CONTROL = re.compile(r'[\x00-\x1f"\\\x7f-\x9f\u2028\u2029]')
_LONG = 1000  # lines from which the exact comparison of frequent lines would take long
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified(before: str, after: str, name: str) -> str:
    """The unified diff of one file, empty when nothing changed. `name` is relative and uses forward slashes."""
    return "".join(_lines(before, after, name))


def of_source(source: Source, before: str, after: str, name: str) -> str:
    """The difference between two texts of a file: of a notebook, cell by cell, to read and not to apply."""
    old, new = source.parts(before), source.parts(after)
    return "".join(unified(old[part], new[part], name + part) for part in old)


def encoded(patch: str, encoding: str) -> bytes:
    """The bytes of a patch: what it changes in the file's own encoding, file names in the file system's."""
    head = "".join(line + "\n" for line in patch.split("\n", 2)[:2])
    return os.fsencode(head) + patch[len(head) :].encode(encoding) if patch else b""


def _lines(before: str, after: str, name: str) -> Iterator[str]:
    old, new = _split(before), _split(after)
    # Left to itself difflib takes lines that are frequent in a file, blank ones above all, for junk: they would be
    # shown as removed and added between other changes.
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) > _LONG)
    for number, hunk in enumerate(matcher.get_grouped_opcodes()):
        if number == 0:
            yield f"--- {_quoted('a/' + name)}\n"
            yield f"+++ {_quoted('b/' + name)}\n"
        (_, first, _, second, _), (_, _, first_end, _, second_end) = hunk[0], hunk[-1]
        yield f"@@ -{_range(first, first_end)} +{_range(second, second_end)} @@\n"
        for tag, start, end, other, other_end in hunk:
            if tag == "equal":
                yield from _marked(" ", old[start:end])
            else:
                yield from _marked("-", old[start:end])
                yield from _marked("+", new[other:other_end])


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield mark + (line if line.endswith("\n") else line + _NO_NEWLINE)


def _range(start: int, end: int) -> str:
    """Where a hunk stands: first line and number of lines; of nothing, the line before."""
    length = end - start
    return f"{start + 1}" if length == 1 else f"{start + 1 if length else start},{length}"


def _split(text: str) -> list[str]:
    """Lines as git sees them: only a newline ends one, whatever `str.splitlines` thinks of form feeds."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _quoted(name: str) -> str:
    """A file name in a patch header: quoted as C strings are where it must be, ended by a tab where it holds spaces."""
    if _CONTROL.search(name):
        return '"' + _CONTROL.sub(_escaped, name) + '"'
    return f"{name}\t" if " " in name else name


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or "".join(f"\\{byte:03o}" for byte in match[0].encode())
