"""Statements inserted, wrapped and removed within one block.

An insertion beside a statement of a wrapped run goes into the wrap, except that a finding's own insertions before its
run's first statement and after its last stay outside. Comments and blank lines above a wrapped run stay above the
header; where other statements of the run have comments of their own, that of the first goes inside to them. Statements
that share a line are put on lines of their own where the edit asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import libcst as cst

from autoaccel.dataflow.syntax_index import CELL, comment_above
from autoaccel.edits import Code, Finding

Line = cst.SimpleStatementLine | cst.BaseCompoundStatement
Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement
Block = cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite
BLOCKS = (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)


class Renderer(Protocol):
    """Makes the nodes of new code."""

    default_indent: str

    def statements(self, code: Code, finding: Finding) -> list[Line]: ...

    def compound(self, header: Code, finding: Finding) -> cst.BaseCompoundStatement: ...


Insertion = tuple[Code, Finding]


@dataclass(frozen=True, slots=True)
class Wrap:
    first: cst.CSTNode
    last: cst.CSTNode
    header: Code
    tail: Code | None
    finding: Finding


class StatementEdits:
    """What happens beside and to statements, by statement."""

    def __init__(self) -> None:
        self.before: dict[cst.CSTNode, list[Insertion]] = {}
        self.after: dict[cst.CSTNode, list[Insertion]] = {}
        self.removed: set[cst.CSTNode] = set()
        self.moved: set[cst.CSTNode] = set()
        self.headed: set[cst.CSTNode] = set()
        self.wraps: list[Wrap] = []
        self.apart: set[cst.CSTNode] = set()
        self.low: set[cst.CSTNode] = set()
        self._concerned: set[cst.CSTNode] = set()

    def insert_before(self, statement: Statement, code: Code, finding: Finding, *, low: bool = False) -> None:
        """`low`: between the statement and the comments above it."""
        _add_once(self.before.setdefault(statement, []), code, finding)
        self._concerned.add(statement)
        if low:
            self.low.add(statement)

    def insert_after(self, statement: Statement, code: Code, finding: Finding) -> None:
        _add_once(self.after.setdefault(statement, []), code, finding)
        self._concerned.add(statement)

    def remove(self, statement: Statement, *, moved: bool = False, heading: bool = False) -> None:
        self.removed.add(statement)
        if moved:
            self.moved.add(statement)
        if heading:
            self.headed.add(statement)
        self._concerned.add(statement)

    def wrap(self, first: Statement, last: Statement, header: Code, tail: Code | None, finding: Finding) -> None:
        self.wraps.append(Wrap(first, last, header, tail, finding))
        self._concerned.update((first, last))

    def set_apart(self, statement: Statement) -> None:
        """A blank line between a statement and what is inserted after it."""
        self.apart.add(statement)

    def concern(self, block: Block) -> bool:
        return bool(self._concerned) and any(statement in self._concerned for statement in _statements(block.body))


def _add_once(insertions: list[Insertion], code: Code, finding: Finding) -> None:
    """Two findings that want the same code in the same place get it once."""
    if not any(_same_code(known, code) for known, other in insertions if other is not finding):
        insertions.append((code, finding))


def _same_code(one: Code, other: Code) -> bool:
    holes = len(one.holes) == len(other.holes) and all(a is b for a, b in zip(one.holes, other.holes, strict=True))
    return one.text == other.text and holes


@dataclass(slots=True)
class _Entry:
    """One line of a block: the original statements on it, what became of it, what goes beside it."""

    keys: tuple[cst.CSTNode, ...]
    line: Line
    before: list[Insertion] = field(default_factory=list)
    after: list[Insertion] = field(default_factory=list)
    removed: bool = False
    apart: bool = False
    low: bool = False
    moved: bool = False
    headed: bool = False


def edited(original: Block, updated: Block, edits: StatementEdits, renderer: Renderer) -> Block:
    """`updated` with the edits of `original`'s statements."""
    if isinstance(original, cst.SimpleStatementSuite):
        assert isinstance(updated, cst.SimpleStatementSuite)
        alone = cst.SimpleStatementLine(body=original.body, trailing_whitespace=original.trailing_whitespace)
        entries = _split_line(alone, alone.with_changes(body=updated.body), edits)
        lines, pending = _render(entries, edits, renderer)
        return cst.IndentedBlock(body=_never_empty(lines, pending))
    assert isinstance(original, cst.Module | cst.IndentedBlock)
    assert isinstance(updated, cst.Module | cst.IndentedBlock)
    entries = []
    for line, now in zip(original.body, updated.body, strict=True):
        entries.extend(_entries(line, now, edits))
    if below := _settle_blank_lines(entries, edits, renderer.default_indent):
        updated = updated.with_changes(footer=[*below, *updated.footer])
    _set_apart(entries, in_module=isinstance(original, cst.Module))
    starts_apart = bool(entries) and _starts_with_blank(entries[0].line)
    lines, pending = _render(entries, edits, renderer)
    if pending and (lines or isinstance(updated, cst.Module)):
        updated = updated.with_changes(footer=[*pending, *updated.footer])
        pending = []
    if isinstance(updated, cst.IndentedBlock):
        lines = _never_empty(lines, pending)
        if entries and entries[0].before and not starts_apart:
            lines[0] = _without_first_blank(lines[0])
    return updated.with_changes(body=lines)


def without_empty_else(original: cst.If, updated: cst.If, edits: StatementEdits) -> cst.If:
    """The choice without an `else` whose statements were all removed, if that leaves no comment."""
    match original.orelse:
        case cst.Else(body=cst.IndentedBlock(body=held)):
            parts = (each.body if isinstance(each, cst.SimpleStatementLine) else [each] for each in held)
            statements = {each for part in parts for each in part}
        case _:
            return updated
    if not edits.removed.issuperset(statements):
        return updated
    match updated.orelse:
        case (
            cst.Else(body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[cst.Pass()]) as left]) as block) as end
        ):
            lines = [*end.leading_lines, *left.leading_lines, *block.footer]
            if block.header.comment is None and all(each.comment is None for each in lines):
                return updated.with_changes(orelse=None)
    return updated


def _without_first_blank(line: Line) -> Line:
    """What is inserted at the beginning of a block is not set apart from its header."""
    return line.with_changes(leading_lines=list(line.leading_lines)[1:]) if _starts_with_blank(line) else line


def _starts_with_blank(line: Line) -> bool:
    return bool(line.leading_lines) and line.leading_lines[0].comment is None


def with_top_imports(module: cst.Module, added: Sequence[Line]) -> cst.Module:
    """The module with imports before its first statement, below the comments that head the file."""
    if not added:
        return module
    header = list(module.header)
    rest = list(module.body)
    cut = max((index + 1 for index, line in enumerate(header) if line.comment is None), default=len(header))
    own, header = header[cut:], header[:cut]
    if rest:
        lead = [*own, *rest[0].leading_lines]
        if not lead or lead[0].comment is not None:
            lead = [_blank_line(), *lead]
        rest[0] = rest[0].with_changes(leading_lines=lead)
    ends = module.has_trailing_newline or not (rest or header)
    return module.with_changes(header=header, body=[*added, *rest], has_trailing_newline=ends)


def _entries(original: cst.CSTNode, updated: cst.CSTNode, edits: StatementEdits) -> list[_Entry]:
    assert isinstance(updated, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    if not isinstance(original, cst.SimpleStatementLine) or len(original.body) == 1:
        key = original.body[0] if isinstance(original, cst.SimpleStatementLine) else original
        return [_entry((key,), updated, edits)]
    assert isinstance(updated, cst.SimpleStatementLine)
    first, last = original.body[0], original.body[-1]
    starts = {each for each in original.body if each in edits.before or any(each is wrap.first for wrap in edits.wraps)}
    stops = {each for each in original.body if each in edits.after or any(each is wrap.last for wrap in edits.wraps)}
    if starts - {first} or stops - {last} or not edits.removed.isdisjoint(original.body):
        return _split_line(original, updated, edits)
    if (first in edits.before or last in edits.after) and not original.deep_equals(updated):
        return _split_line(original, updated, edits)  # a line that is written anew anyway
    entry = _Entry(tuple(original.body), updated, edits.before.get(first, []), edits.after.get(last, []))
    return [entry]


def _entry(keys: tuple[cst.CSTNode, ...], line: Line, edits: StatementEdits) -> _Entry:
    [key] = keys
    before, after = edits.before.get(key, []), edits.after.get(key, [])
    return _Entry(
        keys,
        line,
        before,
        after,
        key in edits.removed,
        key in edits.apart,
        key in edits.low,
        key in edits.moved,
        key in edits.headed,
    )


def _split_line(
    original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine, edits: StatementEdits
) -> list[_Entry]:
    """One entry for each statement of a `;` line; the comment of the line goes with the last."""
    entries = []
    for index, (key, statement) in enumerate(zip(original.body, updated.body, strict=True)):
        leading = updated.leading_lines if index == 0 else []
        trailing = updated.trailing_whitespace if index == len(updated.body) - 1 else cst.TrailingWhitespace()
        alone = statement.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        line = cst.SimpleStatementLine(body=[alone], leading_lines=leading, trailing_whitespace=trailing)
        entries.append(_entry((key,), line, edits))
    return entries


# -- blank lines at the end of the blocks inside of a statement


def _settle_blank_lines(entries: list[_Entry], edits: StatementEdits, default_indent: str) -> list[cst.EmptyLine]:
    """Puts blank lines that LibCST counts to the last block in a statement below it, where it takes others for theirs,
    so that what is inserted after the statement comes above them. Returns those that are left for the block's footer.
    """
    ends = {wrap.last for wrap in edits.wraps}
    below: list[cst.EmptyLine] = []
    for entry in entries:
        if below:
            entry.line = entry.line.with_changes(leading_lines=[*below, *entry.line.leading_lines])
            below = []
        if (entry.after or not ends.isdisjoint(entry.keys)) and not isinstance(entry.line, cst.SimpleStatementLine):
            entry.line, below = _without_blank_lines(entry.line, default_indent)
    return below


def _set_apart(entries: list[_Entry], *, in_module: bool) -> None:
    """Sets apart what is inserted after an indented block where the file sets apart what follows the block, and at
    module level above a comment, or where nothing follows."""
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        if not entry.after or entry.after[0][0].text.startswith(("import ", "from ")) or not _is_indented(entry.line):
            continue
        leading = following.line.leading_lines if following else ()
        if _starts_with_blank(following.line) if following else in_module:
            entry.apart = True
        elif in_module and following and leading:
            entry.apart = True
            following.line = following.line.with_changes(leading_lines=[_blank_line(), *leading])


def _is_indented(statement: cst.CSTNode | None) -> bool:
    """Whether a statement ends with a block that is indented below it."""
    if statement is None or isinstance(statement, cst.SimpleStatementLine | cst.IndentedBlock):
        return isinstance(statement, cst.IndentedBlock)
    return _is_indented(_last_part(statement)[1])


def _without_blank_lines(
    statement: cst.BaseCompoundStatement, default_indent: str
) -> tuple[cst.BaseCompoundStatement, list[cst.EmptyLine]]:
    """A statement without the blank lines at its end, and those, indented as they were, for the block that holds it."""
    name, part = _last_part(statement)
    if isinstance(part, cst.IndentedBlock):
        block, lines = _block_without_blank_lines(part, default_indent)
        return (statement.with_changes(**{name: block}), lines) if lines else (statement, [])
    inner: cst.CSTNode
    if isinstance(part, cst.If):  # elif
        inner, lines = _without_blank_lines(part, default_indent)
    elif isinstance(part, cst.Else | cst.Finally | cst.ExceptHandler | cst.ExceptStarHandler):
        if not isinstance(part.body, cst.IndentedBlock):
            return statement, []
        block, lines = _block_without_blank_lines(part.body, default_indent)
        inner = part.with_changes(body=block)
    else:
        return statement, []
    if not lines:
        return statement, []
    held = getattr(statement, name)
    return statement.with_changes(**{name: [*held[:-1], inner] if isinstance(held, Sequence) else inner}), lines


def _last_part(statement: cst.CSTNode) -> tuple[str, cst.CSTNode | None]:
    """The name of the field that ends a statement, and the last node in it."""
    for name in ("finalbody", "orelse", "handlers", "body"):
        part = getattr(statement, name, None)
        if isinstance(part, Sequence):
            part = part[-1] if part else None
        if part is not None:
            return name, part
    return "", None


def _block_without_blank_lines(
    block: cst.IndentedBlock, default_indent: str
) -> tuple[cst.IndentedBlock, list[cst.EmptyLine]]:
    cut = len(block.footer)
    while cut and block.footer[cut - 1].comment is None:
        cut -= 1
    lines = list(block.footer[cut:])
    block = block.with_changes(footer=block.footer[:cut])
    last = block.body[-1] if block.body else None
    if not cut and isinstance(last, cst.BaseCompoundStatement):
        inner, more = _without_blank_lines(last, default_indent)
        block = block.with_changes(body=[*block.body[:-1], inner])
        lines = [*more, *lines]
    indent = default_indent if block.indent is None else block.indent
    return block, [_outdented(line, indent) for line in lines]


def _outdented(line: cst.EmptyLine, indent: str) -> cst.EmptyLine:
    """A blank line of a block for the block around it: the same text, the indentation spelt out."""
    return line.with_changes(whitespace=cst.SimpleWhitespace(indent + line.whitespace.value)) if line.indent else line


# -- a run of entries, with the wraps around parts of it


def _render(entries: list[_Entry], edits: StatementEdits, renderer: Renderer) -> tuple[list[Line], list[cst.EmptyLine]]:
    """The lines of a block, and the comments that are left over at its end."""
    where = {key: index for index, entry in enumerate(entries) for key in entry.keys}
    runs = [(where[wrap.first], where[wrap.last], wrap) for wrap in edits.wraps if wrap.first in where]
    runs.sort(key=lambda run: (run[0], -run[1]))
    return _render_runs(entries, 0, len(entries), runs, renderer)


def _render_runs(
    entries: list[_Entry], low: int, high: int, runs: list[tuple[int, int, Wrap]], renderer: Renderer
) -> tuple[list[Line], list[cst.EmptyLine]]:
    lines: list[Line] = []
    pending: list[cst.EmptyLine] = []
    index = low
    while index < high:
        left: list[cst.EmptyLine] = []
        run = next((each for each in runs if each[0] == index), None)
        if run is not None:
            start, stop, wrap = run
            inner = [each for each in runs if each is not run and start <= each[0] and each[1] <= stop]
            made = _wrapped(entries, start, stop, wrap, inner, renderer)
            index = stop + 1
        else:
            made, left = _unit(entries[index], renderer)
            index += 1
        if made:
            made[0] = _led_by(made[0], pending)
            pending = []
        lines.extend(made)
        pending = [*pending, *left]
    return lines, pending


def _wrapped(
    entries: list[_Entry], start: int, stop: int, wrap: Wrap, inner: list[tuple[int, int, Wrap]], renderer: Renderer
) -> list[Line]:
    before = _taken(entries[start].before, wrap.finding)
    after = _taken(entries[stop].after, wrap.finding)
    leading = list(entries[start].line.leading_lines)
    others = entries[start + 1 : stop + 1]
    cut = len(leading)
    if any(each.comment is not None for entry in others for each in entry.line.leading_lines):
        cut = _comment_of_line(leading)
    entries[start].line = entries[start].line.with_changes(leading_lines=leading[cut:])
    body, pending = _render_runs(entries, start, stop + 1, inner, renderer)
    compound = renderer.compound(wrap.header, wrap.finding)
    if wrap.tail is not None:
        tail = renderer.statements(wrap.tail, wrap.finding)
        body, pending = [*body, _led_by(tail[0], pending), *tail[1:]], []
    block = cst.IndentedBlock(body=_never_empty(body, []), footer=pending).visit(_BlankLines())
    statement = compound.with_changes(body=block, leading_lines=leading[:cut])
    return [*_placed_before(_made(before, renderer), statement), *_made(after, renderer)]


class _BlankLines(cst.CSTTransformer):
    """Keeps blank lines blank: at module level LibCST takes them for indented, by nothing, and would indent them."""

    def on_leave(  # type: ignore[override]  # one function for all node types
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        del original_node
        if isinstance(updated_node, cst.EmptyLine) and updated_node.comment is None:
            return updated_node.with_changes(indent=False)
        return updated_node


def _taken(insertions: list[Insertion], finding: Finding) -> list[Insertion]:
    """Take a finding's own insertions out of a list."""
    own = [each for each in insertions if each[1] is finding]
    insertions[:] = [each for each in insertions if each[1] is not finding]
    return own


def _unit(entry: _Entry, renderer: Renderer) -> tuple[list[Line], list[cst.EmptyLine]]:
    before, after = _made(entry.before, renderer), _made(entry.after, renderer)
    if entry.apart and after:
        after[0] = after[0].with_changes(leading_lines=[_blank_line()])
    if not entry.removed:
        return [*_placed_before(before, entry.line, low=entry.low), *after], []
    left = list(entry.line.leading_lines) if before or not entry.moved else []
    if entry.moved and not entry.low:
        left = left[: _comment_of_line(left, headings=entry.headed)]
    if entry.moved:
        pass  # its own comment stands where its code does
    elif isinstance(entry.line, cst.SimpleStatementLine) and entry.line.trailing_whitespace.comment is not None:
        left.append(cst.EmptyLine(comment=entry.line.trailing_whitespace.comment))
    made = [*before, *after]
    if made:
        own = list(made[0].leading_lines)
        if left and left[-1].comment is None and own and own[0].comment is None:
            own = own[1:]  # one blank line will do
        made[0] = made[0].with_changes(leading_lines=[*left, *own])
        left = []
    return made, left


def _made(insertions: list[Insertion], renderer: Renderer) -> list[Line]:
    return [line for code, finding in insertions for line in renderer.statements(code, finding)]


def _placed_before(inserted: list[Line], line: Line, *, low: bool = False) -> list[Line]:
    """Inserted lines and the line: blank lines stay above both, the comments right above the line stay with it, or
    above both with `low`; so does the line at which a cell begins (`# %%`)."""
    if not inserted:
        return [line]
    leading = list(line.leading_lines)
    cut = len(leading)
    while not low and cut and _is_of_the_line(leading[cut - 1]):
        cut -= 1
    own = list(inserted[0].leading_lines)
    if cut and own and own[0].comment is None:
        own = own[1:]  # one blank line will do
    first = inserted[0].with_changes(leading_lines=[*leading[:cut], *own])
    return [first, *inserted[1:], line.with_changes(leading_lines=leading[cut:])]


def _comment_of_line(leading: Sequence[cst.EmptyLine], *, headings: bool = False) -> int:
    """Where the comment right above a line begins, if it may be of that line alone: not a directive, nor a heading
    unless these count."""
    lines = [each.comment.value if each.comment else "" for each in leading]
    return len(leading) - comment_above(lines, headings=headings)


def _is_of_the_line(above: cst.EmptyLine) -> bool:
    return above.comment is not None and CELL.match(above.comment.value) is None


def _led_by(line: Line, pending: list[cst.EmptyLine]) -> Line:
    """A line below the comments that a removed statement left; its blank lines count only where there were none."""
    own = list(line.leading_lines)
    commented = any(each.comment is not None for each in pending)
    if not pending or (not commented and own and own[0].comment is None):
        return line
    return line.with_changes(leading_lines=[*pending, *own])


def _never_empty(lines: list[Line], pending: list[cst.EmptyLine]) -> list[Line]:
    if lines:
        return lines
    return [cst.SimpleStatementLine(body=[cst.Pass()], leading_lines=pending)]


def _blank_line() -> cst.EmptyLine:
    return cst.EmptyLine(indent=False)


def _statements(body: Sequence[cst.CSTNode]) -> Iterable[cst.CSTNode]:
    for each in body:
        if isinstance(each, cst.SimpleStatementLine):
            yield from each.body
        else:
            yield each
