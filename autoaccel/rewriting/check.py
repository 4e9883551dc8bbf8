"""The self-check: what a rewrite must not have done, verified without trusting the code that did it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.edits import (
    AddImport,
    Edit,
    EditComment,
    Finding,
    InsertAfter,
    InsertBefore,
    RemoveStatement,
    WrapStatements,
)
from autoaccel.rewriting.places import Places, newline_of, raw_lines
from autoaccel.rewriting.plan import anchors

_CODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")  # as PEP 263 has it


def problem(places: Places, findings: Sequence[Finding], after: str) -> str | None:
    """What is wrong with `after`, the text that these findings made; None when nothing is."""
    try:
        tree = ast.parse(after)
    except (SyntaxError, ValueError) as error:
        return f"the result does not parse ({error})"
    edits = [edit for finding in findings for edit in finding.edits]
    return (
        _changed_outside(places, edits, after)
        or _changed_inside_wraps(places, edits, tree)
        or _lost_comment(places, edits, Places(after, tree))
        or _changed_code(places, edits, tree)
        or _changed_coding(places, after)
    )


def other_than_comments(places: Places, after: str) -> str | None:
    """What is wrong with `after`, to which only comments were to be added; None when nothing is."""
    try:
        tree = ast.parse(after)
    except (SyntaxError, ValueError) as error:
        return f"the result does not parse ({error})"
    return _changed_code(places, (), tree) or _changed_coding(places, after)


def _lost_comment(before: Places, edits: Sequence[Edit], after: Places) -> str | None:
    """Comments may move with their statements; none may go, and none may change but those that are edited."""
    if "#" not in before.text:
        return None
    changed = [edit for edit in edits if isinstance(edit, EditComment)]
    wanted = Counter(before.comments.values()) - Counter(edit.comment.text for edit in changed)
    lost = wanted + Counter(edit.text for edit in changed if edit.text) - Counter(after.comments.values())
    return f"the comment {min(lost)!r} is lost" if lost else None


def _changed_code(places: Places, edits: Sequence[Edit], tree: ast.Module) -> str | None:
    """Edits of comments alone leave the program as it is."""
    if all(isinstance(edit, EditComment) for edit in edits) and ast.dump(tree) != ast.dump(places.tree):
        return "the program was changed although only comments were to be edited"
    return None


def _changed_coding(places: Places, after: str) -> str | None:
    """In the first two lines a comment may say how the file is encoded."""
    before, now = (any(map(_CODING.match, lines[:2])) for lines in (places.lines, split_lines(after)))
    return "a coding comment came into force or went" if before != now else None


def _changed_outside(places: Places, edits: Sequence[Edit], after: str) -> str | None:
    """Lines that no edit speaks of must be there still, byte for byte and in order, with nothing new between them."""
    before, rest = raw_lines(places.text), raw_lines(after)
    if before[-1] and rest[-1]:
        # A file without a final line end stays without one, whichever line is the last.
        before[-1], rest[-1] = before[-1] + newline_of(places.text), rest[-1] + newline_of(places.text)
    edited = {line for edit in edits for line in _edited_lines(places, edit)}
    edited.update(_emptied_elses(places, edits))
    gaps = {line for edit in edits for line in _gaps(places, edit)}
    position = 0
    for run in _runs(len(before), edited, gaps):
        found = _find(rest, before[run.start - 1 : run.stop - 1], position)
        if found is None:
            return f"line {run.start} or one below it was changed although no edit speaks of it"
        position = found + len(run)
    return None


def _runs(count: int, edited: set[int], gaps: set[int]) -> Iterator[range]:
    """Maximal runs of untouched lines between which nothing may have been inserted."""
    start = 1
    for line in range(1, count + 2):
        if line == count + 1 or line in edited or line in gaps:
            if start < line:
                yield range(start, line)
            start = line + 1 if line in edited else line


def _find(lines: list[str], wanted: list[str], position: int) -> int | None:
    for start in range(position, len(lines) - len(wanted) + 1):
        if lines[start : start + len(wanted)] == wanted:
            return start
    return None


def _edited_lines(places: Places, edit: Edit) -> Iterator[int]:
    """Lines (from 1) whose text an edit may change."""
    match edit:
        case AddImport():
            for each in places.tree.body:
                if isinstance(each, ast.Import | ast.ImportFrom) and shares_lines(places, each):
                    yield from _own_lines(places, each)
        case InsertBefore(statement=statement) | InsertAfter(statement=statement):
            if shares_lines(places, statement):
                yield from _own_lines(places, statement)
        case WrapStatements(first=first, last=last):
            yield from _comment_above(places, first)  # it may go inside
            yield from range(places.first_line(first), (last.end_lineno or last.lineno) + 1)
            yield from _rest_of_block(places, last)
        case RemoveStatement(statement=statement, moved=moved):
            line = places.first_line(statement)
            yield from range(line, (statement.end_lineno or statement.lineno) + 1)
            yield from _rest_of_block(places, statement)
            # The blank lines above it may go, too, and comments that move with it.
            while line > 1 and (not (above := places.lines[line - 2].strip()) or (moved and above.startswith("#"))):
                line -= 1
                yield line
        case _:
            for node in anchors(edit):
                holder = places.statement(node)
                if holder is not None:
                    yield from _own_lines(places, holder)
                if isinstance(node, ast.expr | ast.keyword):
                    yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _emptied_elses(places: Places, edits: Sequence[Edit]) -> Iterator[int]:
    """The lines of an `else` that goes with all of its statements."""
    removed = {edit.statement for edit in edits if isinstance(edit, RemoveStatement)}
    for around in {places.parent(each) for each in removed}:
        if isinstance(around, ast.If) and around.orelse and removed.issuperset(around.orelse):
            yield from range((around.body[-1].end_lineno or 0) + 1, places.first_line(around.orelse[0]))


def _gaps(places: Places, edit: Edit) -> Iterator[int]:
    """Lines (from 1) above which an edit may insert others."""
    match edit:
        case AddImport():
            for each in places.tree.body:
                yield from (places.first_line(each), (each.end_lineno or each.lineno) + 1)
            yield from range(1, places.first_line(places.tree.body[0]) if places.tree.body else len(places.lines) + 1)
        case InsertBefore(statement=statement) | WrapStatements(first=statement) | RemoveStatement(statement=statement):
            yield places.first_line(statement)
            yield from _comment_above(places, statement)
    match edit:
        case InsertAfter(statement=statement) | WrapStatements(last=statement) | RemoveStatement(statement=statement):
            yield (statement.end_lineno or statement.lineno) + 1
            yield from (line + 1 for line in _rest_of_block(places, statement))


def _comment_above(places: Places, statement: ast.stmt) -> Iterator[int]:
    line = places.first_line(statement)
    while line > 1 and places.lines[line - 2].lstrip().startswith("#"):
        line -= 1
        yield line


def _rest_of_block(places: Places, statement: ast.stmt) -> Iterator[int]:
    """Blank lines below a statement, and comments that stand deeper than it: they may belong to its last block."""
    for line in range((statement.end_lineno or statement.lineno) + 1, len(places.lines) + 1):
        text = places.lines[line - 1]
        column = len(text) - len(text.lstrip())
        if text.strip() and (not text.lstrip().startswith("#") or column <= places.start(statement)[1]):
            return
        yield line


def _own_lines(places: Places, statement: ast.stmt) -> range:
    """The lines of a statement without the blocks that it holds."""
    return range(places.first_line(statement), places.header_end(statement) + 1)


def shares_lines(places: Places, statement: ast.stmt) -> bool:
    """Whether something else stands on a statement's lines: a neighbour beside `;`, the header of a one-line suite."""
    line, column = places.start(statement)
    end_line, end_column = places.end(statement)
    after = places.lines[end_line - 1][end_column:].strip()
    return bool(places.lines[line - 1][:column].strip()) or after.startswith(";")


def _changed_inside_wraps(places: Places, edits: Sequence[Edit], tree: ast.Module) -> str | None:
    """Wrapped statements move to the right; those that no other edit touches must still be the same statements."""
    wraps = [edit for edit in edits if isinstance(edit, WrapStatements)]
    if not wraps:
        return None
    beside = (WrapStatements, InsertBefore, InsertAfter)
    touched = {places.statement(node) for edit in edits if not isinstance(edit, beside) for node in anchors(edit)}
    removed = {edit.statement for edit in edits if isinstance(edit, RemoveStatement)}
    present = {ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.stmt) and not _holds_blocks(node)}
    for wrap in wraps:
        block = places.block(wrap.first)
        for statement in block[block.index(wrap.first) : block.index(wrap.last) + 1]:
            for node in _untouched(statement, touched, removed):
                if ast.dump(node) not in present:
                    return f"the statement on line {node.lineno} was changed by being wrapped"
    return None


def _untouched(statement: ast.stmt, touched: set[ast.stmt | None], removed: set[ast.stmt]) -> Iterator[ast.stmt]:
    """The simple statements in `statement` that no edit changes."""
    if statement in removed or (statement in touched and not _holds_blocks(statement)):
        return
    if not _holds_blocks(statement):
        yield statement
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield from _untouched(child, touched, removed)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            for each in child.body:
                yield from _untouched(each, touched, removed)


def _holds_blocks(node: ast.stmt) -> bool:
    return isinstance(getattr(node, "body", None), list) or isinstance(node, ast.Match)
