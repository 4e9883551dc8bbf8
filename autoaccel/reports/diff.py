"""Patches that `git apply` takes as they are: CRLF lines, a missing final newline, form feeds, names with spaces."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

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
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified(before: str, after: str, name: str) -> str:
    """The unified diff of one file, empty when nothing changed. `name` is relative and uses forward slashes."""
    return "".join(_lines(before, after, name))


def encoded(patch: str, encoding: str) -> bytes:
    """The bytes of a patch: what it changes in the file's own encoding, file names in the file system's."""
    head = "".join(line + "\n" for line in patch.split("\n", 2)[:2])
    return os.fsencode(head) + patch[len(head) :].encode(encoding) if patch else b""


def _lines(before: str, after: str, name: str) -> Iterator[str]:
    hunks = difflib.unified_diff(_split(before), _split(after))
    for number, line in enumerate(hunks):
        if number < 2:
            # difflib's own headers know neither prefixes nor quoting.
            yield f"--- {_quoted('a/' + name)}\n" if number == 0 else f"+++ {_quoted('b/' + name)}\n"
        else:
            yield line if line.endswith("\n") else line + _NO_NEWLINE


def _split(text: str) -> list[str]:
    """Lines as git sees them: only a newline ends one, whatever `str.splitlines` thinks of form feeds."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _quoted(name: str) -> str:
    """A file name in a patch header: quoted as C strings are where it must be, ended by a tab where it holds spaces."""
    if any(character < " " or character in '"\\' for character in name):
        return '"' + "".join(_ESCAPES.get(character, character) for character in name) + '"'
    return f"{name}\t" if " " in name else name
