"""Where the nodes of a tree are in its text: positions in characters, parents, blocks, comments.

`ast` gives columns in UTF-8 bytes and no parents; what edits text or talks about it wants characters and context.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from autoaccel.dataflow.syntax_index import NEWLINE, Parents, split_lines

Position = tuple[int, int]
"""Line from 1, column in characters from 0."""

Located = ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.excepthandler


def raw_lines(text: str) -> list[str]:
    """Lines with their ends, one for each of `split_lines`; the last has none."""
    ends = [*NEWLINE.findall(text), ""]
    return [body + end for body, end in zip(split_lines(text), ends, strict=True)]


def newline_of(text: str) -> str:
    """The line end that most lines of a text have."""
    ends = NEWLINE.findall(text)
    return max(("\n", "\r\n", "\r"), key=ends.count) if ends else "\n"


@dataclass(frozen=True, slots=True)
class LineLayout:
    """How the lines of a file are to be laid out.

    `width` is None where nobody says; `formatted`: Black or `ruff format` lays the file out."""

    width: int | None = None
    formatted: bool = False


def is_relative(statement: ast.stmt) -> bool:
    """Whether a statement imports from its own package, by what it says."""
    return isinstance(statement, ast.ImportFrom) and statement.level > 0


class Places(Parents):
    """Geometry of one parsed text; `index` is that of the tree, where there is one already.

    `is_local` tells whether a statement imports from the project's own files."""

    def __init__(
        self,
        text: str,
        tree: ast.Module,
        index: Parents | None = None,
        layout: Callable[[], LineLayout] = LineLayout,
        is_local: Callable[[ast.stmt], bool] = is_relative,
    ) -> None:
        self.text = text
        self.tree = tree
        self._layout = layout
        self.is_local = is_local
        self._index = index

    @cached_property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    @cached_property
    def layout(self) -> LineLayout:
        """What the project says of the layout of its code."""
        return self._layout()

    @cached_property
    def widest(self) -> int:
        """How wide new lines may get: as the project says, else as wide as the file's own, within 100 and 120
        columns."""
        return self.layout.width or min(max(100, *(len(line) for line in self.lines)), 120)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:  # type: ignore[override]
        if self._index is not None:
            return self._index.parents
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that holds a node; None for the module."""
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self.parent(current)
        return current

    def outermost_expression(self, node: ast.expr) -> ast.expr:
        """The whole expression of which `node` is a part, up to the statement."""
        top = node
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, ast.expr):
                top = ancestor
            elif not isinstance(ancestor, ast.comprehension | ast.keyword | ast.arguments | ast.arg):
                break
        return top

    def is_elif(self, statement: ast.stmt) -> bool:
        if not isinstance(statement, ast.If) or not isinstance(self.parent(statement), ast.If):
            return False
        line, column = self.start(statement)
        return self.lines[line - 1].startswith("elif", column)

    def in_format_string(self, node: ast.AST) -> bool:
        """Whether a node stands inside an f-string, where positions are unreliable and quotes are delicate."""
        return any(isinstance(ancestor, ast.JoinedStr) for ancestor in self.ancestors(node))

    def start(self, node: Located) -> Position:
        return self._characters(node.lineno, node.col_offset)

    def end(self, node: Located) -> Position:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._characters(node.end_lineno, node.end_col_offset)

    def span(self, node: Located) -> tuple[Position, Position]:
        return self.start(node), self.end(node)

    def first_line(self, statement: ast.stmt) -> int:
        """The line on which a statement begins, its decorators included."""
        decorators = getattr(statement, "decorator_list", None)
        return decorators[0].lineno if decorators else statement.lineno

    def header_end(self, statement: ast.stmt) -> int:
        """The last line of a statement without the blocks that it holds."""
        assert statement.end_lineno is not None
        cases = getattr(statement, "cases", None)
        if cases:
            return statement.lineno
        body = getattr(statement, "body", None)
        if not isinstance(body, list) or not body:
            return statement.end_lineno
        return max(statement.lineno, self.first_line(body[0]) - 1)

    def slice(self, start: Position, end: Position) -> str:
        """The text between two positions, with `\\n` for every line end."""
        if start[0] == end[0]:
            return self.lines[start[0] - 1][start[1] : end[1]]
        first, *middle = self.lines[start[0] - 1 : end[0] - 1]
        return "\n".join([first[start[1] :], *middle, self.lines[end[0] - 1][: end[1]]])

    def comments_within(self, start: Position, end: Position) -> list[Position]:
        """Positions of the comments between two places."""
        # Tokenizing is slow; most spans hold no number sign.
        if not any("#" in line for line in self.lines[start[0] - 1 : end[0]]):
            return []
        return [position for position in self.comments if start <= position < end]

    @cached_property
    def comments(self) -> dict[Position, str]:
        """Every comment by where it begins."""
        found: dict[Position, str] = {}
        stream = io.StringIO("\n".join(self.lines))
        try:
            for token in tokenize.generate_tokens(stream.readline):
                if token.type == tokenize.COMMENT:
                    found[token.start] = token.string
        except (tokenize.TokenError, SyntaxError):
            # The parser is more lenient than the tokenizer about the end of a file; what came before is right.
            pass
        return found

    def _characters(self, line: int, offset: int) -> Position:
        text = self.lines[line - 1]
        if text.isascii():
            return line, offset
        return line, len(text.encode("utf-8")[:offset].decode("utf-8", errors="replace"))
