"""How far a long run is, on a terminal: a line that comes after a moment and is gone at the end."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Self

from autoaccel.cli.terminal import Terminal

_PATIENCE = 1.0  # s: shorter runs say nothing
_PACE = 0.1  # s between two lines
_CLEAR = "\r\x1b[K"


class _Line:
    """Silent where nobody looks: no terminal, `-q`, or one that cannot take a line back."""

    def __init__(self, terminal: Terminal) -> None:
        self._shown = False
        self._next = time.monotonic() + _PATIENCE
        self._on = not terminal.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            self._write(_CLEAR)

    def _show(self, text: str) -> None:
        """In the place of what stands there, unless that has just been written."""
        now = time.monotonic()
        if self._on and now >= self._next:
            self._next = now + _PACE
            self._shown = True
            self._write(f"{_CLEAR}{text}")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # the terminal is gone, the work is not
            self._on = self._shown = False


class Progress(_Line):
    """Counts files."""

    def __init__(self, files: int, terminal: Terminal) -> None:
        super().__init__(terminal)
        self._files = files
        self._done = 0

    def __call__(self, files: int) -> None:
        """So many more files are done."""
        self._done += files
        self._show(f"{self._done} of {self._files} files")


class Activity(_Line):
    """Says what is going on and, where that is known, how much of it is done."""

    def __call__(self, text: str, share: float | None = None) -> None:
        """`share` is 0 to 1."""
        said = text if share is None else f"{share:4.0%}  {text}"
        self._show(said[: shutil.get_terminal_size().columns - 1])
