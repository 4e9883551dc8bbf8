"""Code of a rewritten text with the line numbers of the original: tracebacks speak of the file that is there."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType

from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.rewriting.places import Located


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Where a line of the rewritten text comes from. `shift` is added to its columns; None where the line is new."""

    line: int
    shift: int | None


def compile_as_original(before: str, after: str, filename: str) -> CodeType:
    """Compile `after`; its instructions say that they come from the lines of `before`. Raises `SyntaxError`."""
    tree = ast.parse(after, filename)
    old = split_lines(before)
    origins = trace_lines(old, split_lines(after))
    widths = [len(line.rstrip().encode()) for line in old]
    for node in ast.walk(tree):
        if isinstance(node, Located | ast.pattern):
            _move(node, origins, old, widths)
    return compile(tree, filename, "exec", dont_inherit=True)


def trace_lines(old: Sequence[str], new: Sequence[str]) -> list[LineOrigin]:
    """The origin of every line of `new`: lines that only moved in or out are the same lines; a new one counts as the
    line that it stands for or, where it stands for none, as the one that follows."""
    stripped = [line.strip() for line in old], [line.strip() for line in new]
    origins: list[LineOrigin] = []
    final = max(0, len(old) - (2 if old[-1:] == [""] else 1))  # behind the last line break there is no line
    for tag, first, end, start, stop in difflib.SequenceMatcher(None, *stripped, autojunk=False).get_opcodes():
        for number in range(start, stop):
            if tag == "equal":
                line = first + number - start
                origins.append(LineOrigin(line + 1, _indentation(old[line]) - _indentation(new[number])))
            else:
                line = min(first + number - start, max(end - 1, first), final)
                origins.append(LineOrigin(line + 1, None))
    return origins


def _move(
    node: Located | ast.pattern, origins: Sequence[LineOrigin], old: Sequence[str], widths: Sequence[int]
) -> None:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first, last = origins[node.lineno - 1], origins[node.end_lineno - 1]
    # Of a new line nothing is underlined: the whole line is where it happened.
    start = node.col_offset + first.shift if first.shift is not None else _indentation(old[first.line - 1])
    end = node.end_col_offset + last.shift if last.shift is not None else widths[last.line - 1]
    node.lineno, node.col_offset = first.line, max(start, 0)
    node.end_lineno, node.end_col_offset = max((last.line, max(end, 0)), (first.line, node.col_offset))


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
