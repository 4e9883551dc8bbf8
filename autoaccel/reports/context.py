"""What reports on many files need beside the findings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.rewriting.record import Failure, Report
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


def _unnamed(path: str) -> bool:
    return path.startswith("<")
