"""Stand-in for tensorflow's version 1 summaries: accepted and dropped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__version__ = "0.0+stand-in"


class HistogramProto(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(bucket_limit=[], bucket=[])


class Summary(SimpleNamespace):
    class Value(SimpleNamespace):
        pass

    class Image(SimpleNamespace):
        pass


class FileWriter:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def add_summary(self, summary: Any, step: int) -> None:
        """Dropped."""

    def flush(self) -> None:
        """Nothing is kept."""


summary = SimpleNamespace(FileWriter=FileWriter)
