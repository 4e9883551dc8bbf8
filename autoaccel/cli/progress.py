"""How far a long run is, on a terminal: a line that comes after a moment and is gone at the end."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from autoaccel.cli.terminal import Terminal

_PATIENCE = 1.0  # s: shorter runs say nothing
_PACE = 0.1  # s between two lines
_CLEAR = "\r\x1b[K"


class Progress:
    """Counts files; silent where nobody looks: no terminal, `-q`, or one that cannot take a line back."""

    def __init__(self, files: int, terminal: Terminal) -> None:
        self._files = files
        self._done = 0
        self._shown = False
        self._next = time.monotonic() + _PATIENCE
        self._on = not terminal.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, files: int) -> None:
        """So many more files are done."""
        self._done += files
        now = time.monotonic()
        if self._on and now >= self._next:
            self._next = now + _PACE
            self._shown = True
            self._write(f"{_CLEAR}{self._done} of {self._files} files")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # the terminal is gone, the work is not
            self._on = self._shown = False
