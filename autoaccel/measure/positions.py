"""Code of a rewritten text with the line numbers of the original: tracebacks speak of the file that is there."""

from __future__ import annotations

import ast
from types import CodeType

from autoaccel.rewriting.line_origins import LineOrigins
from autoaccel.rewriting.places import Located
from autoaccel.rewriting.record import Range


def compile_as_original(before: str, after: str, filename: str) -> CodeType:
    """Compile `after`; its instructions say that they come from the lines of `before`. Raises `SyntaxError`."""
    tree = ast.parse(after, filename)
    origins = LineOrigins(before.rstrip("\r\n"), after)  # behind the last line break there is no line
    for node in ast.walk(tree):
        if isinstance(node, Located | ast.pattern):
            _move(node, origins)
    return compile(tree, filename, "exec", dont_inherit=True)


def _move(node: Located | ast.pattern, origins: LineOrigins) -> None:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    # Bytes instead of characters: all that is done to them is to take off what a line was indented by.
    where = origins.place(Range(node.lineno, node.col_offset + 1, node.end_lineno, node.end_col_offset + 1))
    node.lineno, node.col_offset = where.line, where.column - 1
    node.end_lineno, node.end_col_offset = max((where.end_line, where.end_column - 1), (where.line, where.column - 1))
