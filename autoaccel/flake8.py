"""The rules as a plugin of flake8: `flake8 --select AA src` reports what `autoaccel lint src` reports.

Which rules speak is decided by the tool's own configuration, then by flake8's; comments of both silence findings. What
cannot be looked at is AA000: flake8 must not stop for one file, and silence would look like a clean one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from autoaccel.config import ConfigError, configure
from autoaccel.jobs import inspection
from autoaccel.rewriting.record import Report

_STDIN = ("-", "stdin")
_BROKEN = "AA000"

Line = tuple[int, int, str, type["Plugin"]]


class Plugin:
    """One file, as flake8 hands it over. `tree` tells flake8 what kind of plugin this is."""

    def __init__(self, tree: ast.AST, lines: Sequence[str], filename: str) -> None:  # noqa: ARG002 - see above
        self._text = "".join(lines)
        self._path = Path("<stdin>" if filename in _STDIN else filename)

    def run(self) -> Iterator[Line]:
        try:
            report = self._report()
        except ConfigError as error:
            yield 1, 0, f"{_BROKEN} {_line(error)}", Plugin
            return
        except Exception as error:  # flake8 would end its whole run
            yield 1, 0, f"{_BROKEN} {self._path}: internal error: {_line(error)}", Plugin
            return
        for each in report.findings:
            yield each.line, each.column - 1, f"{each.code} {each.name}: {each.message}", Plugin
        for failure in report.failures:
            yield failure.line, failure.column - 1, f"{_BROKEN} {_line(failure.message)}", Plugin

    def _report(self) -> Report:
        from autoaccel.analysis import Project

        chosen = configure(self._path.parent)
        return inspection.inspect_text(self._text, self._path, chosen, Project((self._path,)))


def _line(said: object) -> str:
    return next(iter(str(said).splitlines()), type(said).__name__)
