"""Where the nodes of LibCST's tree are in the text: worked out for the top-level statements that somebody asks about.

Positions come from generating the code again, which is slow, and proves on the way that LibCST gives the text back as
it was. The text of other statements is taken from the source.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from typing import cast

import libcst as cst
from libcst.metadata import CodeRange, PositionProvider
from libcst.metadata.position_provider import PositionProvidingCodegenState

from autoaccel.edits import CannotApplyError
from autoaccel.rewriting.places import Places, Position, raw_lines

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement


class UnfaithfulError(CannotApplyError):
    """LibCST does not give the text back as it was."""

    def __init__(self) -> None:
        super().__init__("LibCST cannot reproduce this file")


class Layout:
    """A text, its concrete tree, and where the nodes are. Raises `CannotApplyError` for what LibCST cannot parse.

    With `whole`, the text is laid out as one: for texts whose statements cannot be told apart by their lines.
    """

    def __init__(self, text: str, places: Places, *, whole: bool = False) -> None:
        try:
            self.module = cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            raise CannotApplyError(f"LibCST cannot parse this file: {error.message}") from error
        self.ranges: dict[cst.CSTNode, CodeRange] = {}
        self._by_span: dict[tuple[Position, Position], cst.BaseExpression] = {}
        self._by_start: dict[Position, Statement] = {}
        self._parts: list[tuple[cst.Module | cst.BaseStatement, int, str]] = [(self.module, 1, text)]
        """What is laid out at a time, by order: a node, the line on which it begins, its text."""
        self._known: set[cst.CSTNode] = set()
        self.whole = whole or _odd(text)
        if not self.whole:
            self._parts = list(_parts(self.module, text, places))
        self._lines = [line for _, line, _ in self._parts]
        self._texts: dict[cst.CSTNode, str] = {node: source for node, _, source in self._parts}

    def expression(self, start: Position, end: Position) -> cst.BaseExpression | None:
        """The expression between two positions. Raises `UnfaithfulError`."""
        self._look_at(start[0])
        found = self._by_span.get((start, end))
        self._check(found)
        return found

    def statement(self, start: Position) -> Statement | None:
        """The statement that begins there. Raises `UnfaithfulError`."""
        self._look_at(start[0])
        found = self._by_start.get(start)
        self._check(found)
        return found

    def code(self, module: cst.Module) -> str:
        """The text of an edited module: what no edit has touched is taken from the source. Raises `UnfaithfulError`."""
        if self.whole:
            self._look_at(1)  # nobody may have asked for anything
            return module.code
        nodes = (*module.header, *module.body, *module.footer)
        return "".join(self._texts.get(node) or module.code_for_node(node) for node in nodes) or module.code

    def _check(self, found: cst.CSTNode | None) -> None:
        """A part may hold other lines than we think: what is in no part may be in the whole."""
        if found is None and not self.whole:
            raise UnfaithfulError

    def _look_at(self, line: int) -> None:
        index = bisect.bisect_right(self._lines, line) - 1
        if index < 0:
            return
        node, first, source = self._parts[index]
        if node in self._known:
            return
        self._known.add(node)
        provider = PositionProvider()
        state = PositionProvidingCodegenState(
            self.module.default_indent, self.module.default_newline, provider=provider, line=first
        )
        node._codegen(state)
        if "".join(state.tokens) != source:
            raise UnfaithfulError
        ranges = cast("dict[cst.CSTNode, CodeRange]", provider._computed)
        self.ranges |= ranges
        for each, where in ranges.items():
            if isinstance(each, cst.BaseExpression):
                self._by_span.setdefault(_span(each, where, ranges), each)
            elif isinstance(each, cst.BaseSmallStatement | cst.BaseCompoundStatement):
                self._by_start[where.start.line, where.start.column] = each


def _odd(text: str) -> bool:
    """Whether LibCST may count other lines than we do, or lose characters."""
    return "\f" in text or text.count("\r") != text.count("\r\n") or not text.endswith("\n")


def _parts(module: cst.Module, text: str, places: Places) -> Iterator[tuple[cst.BaseStatement, int, str]]:
    """The top-level nodes with the comments and blank lines above them."""
    statements = iter(places.tree.body)
    starts: list[int] = []
    for node in module.body:
        first = next(statements, None)
        if first is None:
            break
        starts.append(places.first_line(first) - len(node.leading_lines))
        if isinstance(node, cst.SimpleStatementLine):
            for _ in node.body[1:]:
                next(statements, None)
    lines = raw_lines(text)
    ends = [*starts[1:], len(lines) - len(module.footer)]
    for node, start, end in zip(module.body, starts, ends, strict=False):
        yield node, start, "".join(lines[start - 1 : end - 1])


def _span(
    node: cst.BaseExpression, where: CodeRange, ranges: Mapping[cst.CSTNode, CodeRange]
) -> tuple[Position, Position]:
    start, end = where.start, where.end
    # `ast` counts the parentheses of a tuple or a generator expression as its own.
    if node.lpar and isinstance(node, cst.Tuple | cst.GeneratorExp):
        start, end = ranges[node.lpar[-1]].start, ranges[node.rpar[0]].end
    return (start.line, start.column), (end.line, end.column)
