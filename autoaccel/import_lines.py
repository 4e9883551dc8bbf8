"""The import lines of a file, found by a search in its text: what decides which files of a project belong together.

A module of its own, so that a cache can tell whether they have changed without importing the analysis.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"^[ \t]*(?:from|import)\b[^#\n]*(?:\([^)]*\))?", re.MULTILINE)


def import_lines(text: str) -> list[str]:
    """The import statements of a text, and those lines of its docstrings that begin like one."""
    return _LINE.findall(text)
