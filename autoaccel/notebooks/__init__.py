"""Notebooks as programs: their code cells one below the other, analysed and rewritten as one text, written back cell by
cell.

A line of its own (`cells.marker`) stands above each cell, so the text alone tells where a cell begins. What IPython
reads and Python does not is hidden behind placeholders (`magics`) that an edit carries along.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

from autoaccel import sources
from autoaccel.notebooks.documents import decode as decode_notebook
from autoaccel.notebooks.magics import Hidden, HiddenError, hide, refuse
from autoaccel.sources import BYTE_ORDER_MARK, Source

SUFFIX = ".ipynb"

_PERCENT = re.compile(rb"^#[ \t]*%%", re.MULTILINE)
_MAGIC = re.compile(rb"^[ \t]*(?:[%!?]|[\w., \t\[\]\"']+=[ \t]*[%!]|[\w.]+\?)", re.MULTILINE)


def is_notebook(path: Path | str) -> bool:
    """Whether a file is a notebook, by its name."""
    return str(path).endswith(SUFFIX)


def read(path: Path) -> Source:
    """The program of a script or notebook. Raises `SourceError`."""
    return decode(sources.data(path), path)


def decode(data: bytes, name: Path | str) -> Source:
    """The program that the bytes of a file hold: of a notebook its code cells, of anything else its text.

    Percent scripts (`# %%`) may hold what IPython reads: `!pip install`, `%matplotlib inline`. Raises `SourceError`.
    """
    if is_notebook(name):
        return decode_notebook(data, name)
    return _with_cells(sources.decode(data, name), name)


def of_text(text: str, name: Path | str) -> Source:
    """The program of a script whose text an editor holds: it is decoded, whatever encoding the file declares."""
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    data = text.encode("utf-8", "surrogatepass")
    return _with_cells(Source(data, text.removeprefix(mark), "utf-8", mark), name)


def _with_cells(source: Source, name: Path | str) -> Source:
    has_magics = b"%%" in source.data and _PERCENT.search(source.data) and _MAGIC.search(source.data)
    return _percent_script(source, name) if has_magics else source


def program(data: bytes, name: Path | str) -> bytes:
    """The bytes of the program, in which words are looked for. Raises `SourceError` for what is no notebook."""
    return decode_notebook(data, name).text.encode("utf-8", "surrogatepass") if is_notebook(name) else data


@dataclass(frozen=True, slots=True)
class PercentScript(Source):
    """A script of cells with lines for IPython in it; in `text` placeholders stand for them."""

    hidden: Hidden = field(default_factory=Hidden)
    name: str = ""

    def encode(self, text: str) -> bytes:
        """The bytes of a new text of this file. Raises `SourceError`."""
        return (self.mark + self._restored(text)).encode(self.encoding)

    def parts(self, text: str) -> dict[str, str]:
        return {"": self.mark + self._restored(text)}

    def _restored(self, text: str) -> str:
        try:
            return self.hidden.restored(text, range(len(self.hidden.lines)))
        except ValueError as error:
            raise sources.SourceError(f"{self.name}: left alone, the self-check failed: {error}") from error


def _percent_script(source: Source, name: Path | str) -> Source:
    """The script with placeholders for what IPython reads, unless Python can read it as it is."""
    unread = (SyntaxError, ValueError, RecursionError, MemoryError)
    try:
        ast.parse(source.text)
        return source
    except unread:
        hidden = Hidden()
    try:
        text = hide(source.text, hidden)
        refuse(ast.parse(text))
    except HiddenError as error:
        problem = f"{name}:{error}; the script is left alone"
        return PercentScript(source.data, "", source.encoding, source.mark, problem)
    except unread:
        return source  # of which the parser will say what is wrong
    return PercentScript(source.data, text, source.encoding, source.mark, hidden=hidden, name=str(name))
