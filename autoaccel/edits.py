"""What a rule says: findings with declarative edits, and opportunities it skipped.

Edits name places by `ast` node (positions of the analysed text) and carry new code as text with holes. They are data:
a rule never touches a syntax tree, so any subset of findings can be applied, in one traversal, by `apply`.
"""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.rewriting.rule import Rule


class Tier(enum.IntEnum):
    """How exact a rewrite is; ordered, so that `--tier equivalent` means `finding.tier <= Tier.EQUIVALENT`."""

    EXACT = 0
    EQUIVALENT = 1
    NUMERICS = 2
    OPT_IN = 3

    @property
    def label(self) -> str:
        """The spelling of the command line and of reports."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Code:
    """New source text. `{0}`, `{1}` … are holes filled by expressions of the file, with the edits inside them applied.

    Literal braces are doubled, as in `str.format`. Holes are parenthesised where precedence asks for it.
    """

    text: str
    holes: tuple[ast.expr, ...] = ()


def literal(text: str) -> str:
    """Source text as it stands in a template."""
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True, slots=True, eq=False)
class Replace:
    """Put `code` in the place of an expression (a rule may name `node`'s own children as holes)."""

    node: ast.expr
    code: Code


@dataclass(frozen=True, slots=True, eq=False)
class AddArguments:
    """Append keyword arguments to a call, before `**kwargs`, keeping its layout (one per line, trailing comma)."""

    call: ast.Call
    arguments: tuple[tuple[str, Code], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RemoveArgument:
    """Drop one argument of a call: a positional expression or a keyword."""

    call: ast.Call
    argument: ast.expr | ast.keyword


@dataclass(frozen=True, slots=True, eq=False)
class WrapStatements:
    """Put the siblings `first` … `last` under a compound header such as `with torch.no_grad()` (no colon).

    `tail` are statements that end the new block. What the same finding inserts before `first` or after `last` stays
    outside the block; what other findings insert there goes into it.
    """

    first: ast.stmt
    last: ast.stmt
    header: Code
    tail: Code | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InsertBefore:
    """Insert statements above `statement`; below its leading blank lines, above its leading comments.

    With `below_comments` the comments stand above the new code: for code that does part of the statement's work.
    """

    statement: ast.stmt
    code: Code
    below_comments: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class InsertAfter:
    """Insert statements below `statement` in the same block, after a blank line if they are to stand `apart`."""

    statement: ast.stmt
    code: Code
    apart: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RemoveStatement:
    """Delete a statement; its leading comments stay, on the statement that follows.

    With `moved` the comments go, too: the same finding inserts statement and comments elsewhere. Where it inserts
    something before the statement as well, the comments above stay, for that: all of them if it does so below them,
    else but the one right above the statement, and that, too, if it is a heading (`# -----`), but for `with_heading`.
    """

    statement: ast.stmt
    moved: bool = False
    with_heading: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AddDecorator:
    """Decorate a function, closest to `def`."""

    function: ast.FunctionDef | ast.AsyncFunctionDef
    code: Code


@dataclass(frozen=True, slots=True)
class AddImport:
    """Import at module level, after docstring, `__future__` and the script's own leading imports; never twice.

    `AddImport("torch")` is `import torch`; `AddImport("a", "b", "c")` is `from a import b as c`.
    """

    module: str
    name: str | None = None
    alias: str | None = None


class Comment(ast.expr):
    """A comment, which no syntax tree holds, as a node: whatever speaks of places can speak of it. `column` is in
    characters."""

    def __init__(self, text: str, line: int, column: int, source: str) -> None:
        start = len(source[:column].encode())
        end = start + len(text.encode())
        super().__init__(lineno=line, col_offset=start, end_lineno=line, end_col_offset=end)
        self.text = text
        self.column = column
        self._source = source

    def part(self, start: int, end: int) -> Comment:
        """A piece of it, by positions in its text."""
        return Comment(self.text[start:end], self.lineno, self.column + start, self._source)


@dataclass(frozen=True, slots=True, eq=False)
class EditComment:
    """Put another text in the place of a comment; an empty one removes it, with its line if that holds nothing else."""

    comment: Comment
    text: str


class CannotApplyError(Exception):
    """The text cannot be edited faithfully; the message says why."""


Edit = (
    Replace
    | AddArguments
    | RemoveArgument
    | WrapStatements
    | InsertBefore
    | InsertAfter
    | RemoveStatement
    | AddDecorator
    | AddImport
    | EditComment
)


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """One opportunity with the edits that take it. All edits apply together or not at all.

    Without edits it is for a human to mend: it is reported, and no rewrite takes it.
    `needs` are findings without which this one makes no sense; it is dropped when one of them is not applied.
    """

    rule: Rule
    node: ast.AST
    message: str
    tier: Tier
    edits: tuple[Edit, ...]
    needs: tuple[Finding, ...] = ()

    @property
    def edits_code(self) -> bool:
        return any(not isinstance(edit, EditComment) for edit in self.edits)


@dataclass(frozen=True, slots=True, eq=False)
class Skipped:
    """An opportunity that was seen and left alone, and why (a sentence fragment that the user reads)."""

    rule: Rule
    node: ast.AST
    reason: str
