"""The comments of a statement: the one right above it, and the one behind it."""

from __future__ import annotations

import ast

from autoaccel.analysis.script import Script
from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.edits import Comment


def lone_comment_above(script: Script, statement: ast.stmt) -> Comment | None:
    """The one line of comment right above a statement."""
    lines = split_lines(script.text)
    number = statement.lineno - 1
    line = lines[number - 1] if number else ""
    above = lines[number - 2] if number > 1 else ""
    if not line.lstrip().startswith("#") or above.lstrip().startswith("#"):
        return None
    column = len(line) - len(line.lstrip())
    return Comment(line[column:].rstrip(), number, column, line)


def comment_behind(script: Script, statement: ast.stmt) -> Comment | None:
    """The comment at the end of a statement that has its lines for itself."""
    lines = split_lines(script.text)
    first, last = lines[statement.lineno - 1], lines[(statement.end_lineno or statement.lineno) - 1]
    before = first.encode()[: statement.col_offset]
    rest = last.encode()[statement.end_col_offset :].decode()
    if before.strip() or not rest.lstrip().startswith("#"):
        return None
    return Comment(rest.strip(), statement.end_lineno or statement.lineno, last.rindex(rest.lstrip()), last)
