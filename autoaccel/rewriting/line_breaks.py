"""Lines of edited statements, broken as the formatter of the file would break them.

A file that Black or `ruff format` has laid out is to stay so: each statement that an edit has changed, or moved to the
right, is laid out again by their rules, where that changes nothing but its line breaks and trailing commas. Whether a
file is theirs is read from the project's configuration, or else from the file itself: all of its statements that span
several lines would be broken where they are. Other files keep the breaks that edits give them.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from autoaccel.dataflow.child_nodes import children
from autoaccel.dataflow.syntax_index import breadth_first
from autoaccel.notebooks.cells import cells
from autoaccel.rewriting.black_style import Formatter, Line, tokens_of
from autoaccel.rewriting.places import Places, newline_of, raw_lines

_IN_SUBSCRIPT = re.compile(r"[\w)\]]\[$")  # a line that ends with the bracket of one: too long reads better
_BACKSLASH = re.compile(r"[ \t]*\\\n[ \t]*")
_WITH = ("with ", "async ")  # older Pythons have no brackets around what is entered
_FIRST_WORD = re.compile(r"\s*\W*\w*")
_SEVERAL = 3
_FAR = 1000
_WIDTHS = (88, 79, 80, 100, 120)


def laid_out(before: Places, after: str) -> str:
    """`after`, an edit of `before`, with what has changed laid out as the rest of the file is."""
    if after == before.text or "\f" in after:
        return after
    formatter = formatter_of(before)
    places = Places(after, ast.parse(after))
    if (apart := _set_apart(before, places, formatted=formatter is not None)) != after:
        after, places = apart, Places(apart, ast.parse(apart))
    tree, known = places.tree, _texts(before)
    changed = [each for each in _statements(places) if each.text not in known]
    if formatter is None and (aligned := _aligned(before, places, changed)) != after:
        shifted = Places(aligned, ast.parse(aligned))
        if ast.dump(shifted.tree) == ast.dump(tree):
            after, places = aligned, shifted
            changed = [each for each in _statements(places) if each.text not in known]
    if formatter is not None and not before.layout.formatted:  # its authors need not hold comments to its width
        changed = [each for each in changed if not _is_wide_by_comment(each.text, formatter.width)]
    if formatter is None:
        crowded = _crowded(tree) if "\t" not in after else set()
        longest = max(before.widest, _usual_width(before)) if "\t" not in after else sys.maxsize
        moved = {text.strip() for text in known}  # to the right, as it was
        ends = {line.rstrip("),") for line in before.lines}  # of a call that goes on in the next line
        hugging = any(map(_is_hugging, before.lines))
        changed = [
            each
            for each in changed
            if each.first in crowded
            or (_width(_without(ends, each.text)) > _limit(before, each, longest) and each.text.strip() not in moved)
            or (not hugging and "\t" not in after and any(map(_is_hugging, each.text.split("\n")[1:])))
        ]
    lines = raw_lines(after)
    for each in sorted(changed, key=lambda statement: statement.first, reverse=True):
        made = _laid_out(each, formatter or Formatter(before.widest), joined=formatter is None)
        if made is not None and (formatter or not any(map(_IN_SUBSCRIPT.search, made))):
            end = lines[each.last - 1][len(places.lines[each.last - 1]) :]
            lines[each.first - 1 : each.last] = [newline_of(after).join(made) + end]
    text = "".join(lines)
    if text != after:
        laid = Places(text, ast.parse(text))
        text, places = (text, laid) if ast.dump(laid.tree) == ast.dump(tree) else (after, places)
    return text if formatter else _with_comments_in_line(before, places)


def _limit(before: Places, statement: _Statement, longest: int) -> int:
    """How wide a statement may become: a few columns more than any line are better than an author's breaks undone, if
    nobody says how wide lines are."""
    broken = statement.first < statement.last and "\\\n" not in statement.text
    return max(longest, _WIDTHS[-1]) if broken and before.layout.width is None else longest


def _without(ends: Set[str], text: str) -> str:
    """The lines of a statement but for those that are as wide as they were, up to the brackets at their end."""
    return "\n".join(line for line in text.split("\n") if line.rstrip("),") not in ends)


def _aligned(before: Places, after: Places, changed: Sequence[_Statement]) -> str:
    """The text with lines that were aligned with the bracket around them, or beside it by a column, so again, wherever
    it is now."""
    broken = [each for each in changed if each.first < each.last]
    if not broken or "\t" in after.text:
        return after.text
    offsets: dict[str, set[int]] = {}  # of the lines that begin so, from where the bracket is
    for each in _statements(before):
        if each.first < each.last:
            own = each.text.split("\n")
            for text, column in zip(own[1:], _columns(own)[1:], strict=True):
                offset = _FAR if column is None else len(text) - len(text.lstrip()) - column
                offsets.setdefault(_beginning(text), set()).add(offset)
    lines = raw_lines(after.text)
    for each in broken:
        own = each.text.split("\n")
        for index in range(1, len(own)):
            column = _columns(own)[index]
            found = offsets.get(_beginning(own[index]), set())
            if column is not None and len(found) == 1 and abs(offset := min(found)) <= 1:
                own[index] = " " * (column + offset) + own[index].lstrip()
                end = lines[each.first - 1 + index][len(after.lines[each.first - 1 + index]) :]
                lines[each.first - 1 + index] = own[index] + end
    return "".join(lines)


def _beginning(line: str) -> str:
    """The indentation of a line and its first word, by which it is known again when its end has changed."""
    found = _FIRST_WORD.match(line)
    return found[0] if found else line


def _columns(lines: Sequence[str]) -> list[int | None]:
    """The column behind the bracket that is open where each line of a statement begins; None where there is none, where
    it ends its line, or within a text."""
    found: list[int | None] = [None] * len(lines)
    opened: list[int | None] = []
    above = 1
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            first, last = token.start[0], token.end[0]
            for number in range(above + 1, min(first, len(lines)) + 1):
                found[number - 1] = opened[-1] if opened else None
            above = max(first, last if token.type == tokenize.STRING else first)
            if opened and token.type == tokenize.NL and lines[first - 1][: token.start[1]].endswith(("(", "[", "{")):
                opened[-1] = None
            if token.type == tokenize.OP and token.string in "([{":
                opened.append(token.end[1])
            elif token.type == tokenize.OP and token.string in ")]}" and opened:
                opened.pop()
    except (tokenize.TokenError, SyntaxError):
        return [None] * len(lines)
    return found


def _usual_width(places: Places) -> int:
    """The width that several lines of a file have: a single long one shows nothing of its author's ways."""
    return min(sorted(map(len, places.lines))[-_SEVERAL:], default=0)


def _width(statement: str) -> int:
    """The width of its first line, of all that backslashes end; 0 where there may be a comment, which need not be kept
    within bounds."""
    *ended, last = statement.split("\\\n")
    return 0 if "#" in statement else max(map(len, [*ended, last.partition("\n")[0]]))


def _is_wide_by_comment(statement: str, width: int) -> bool:
    """Whether a statement would fit on its line without the comment behind it."""
    parsed = tokens_of(statement) if "#" in statement and "\n" not in statement else None
    return parsed is not None and 0 < len(statement.removesuffix(parsed[1]).rstrip()) <= width < len(statement)


def _is_hugging(line: str) -> bool:
    """Whether a line closes two calls that were opened on one: `f(g(`, which a formatter nests."""
    return line.lstrip().startswith("))")


def _crowded(tree: ast.Module) -> set[int]:
    """The lines on which statements begin that hold several calls side by side, each of them on several lines: loaders
    that are made within one call, say."""
    found = set()
    for statement in _blocks(tree):
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):
            if statement.lineno == statement.end_lineno:
                continue
            calls = [each for each in breadth_first(statement) if isinstance(each, ast.Call)]
            long = [each for each in calls if each.lineno != each.end_lineno]
            parts = {each: {part for part in breadth_first(each) if part is not each} for each in long}
            inner = {part for each in parts.values() for part in each}
            innermost = [each for each in long if parts[each].isdisjoint(long)]
            if len(innermost) > 1 or sum(each not in inner for each in long) > 1:
                found.add(statement.lineno)
    return found


def _blocks(tree: ast.Module) -> Iterator[ast.AST]:
    """The module, its statements, and the handlers and cases that hold some of them, breadth first."""
    pending: deque[ast.AST] = deque([tree])
    while pending:
        node = pending.popleft()
        yield node
        pending.extend(
            each for each in children(node) if isinstance(each, ast.stmt | ast.excepthandler | ast.match_case)
        )


def _with_comments_in_line(before: Places, after: Places) -> str:
    """The text with comments at the end of lines in the columns that they were in, or, where the code is longer now,
    two blanks behind it."""
    if not any("#" in line for line in {*after.lines}.difference(before.lines)):
        return after.text  # no comment has moved: tokenizing is slow
    lines = raw_lines(after.text)
    was = {text: column for (_, column), text in before.comments.items()}
    counts = Counter(before.comments.values()) + Counter(after.comments.values())
    for (line, column), text in after.comments.items():
        code = lines[line - 1][:column].rstrip()
        aligned = counts[text] == 2 and text in was and was[text] != column
        if aligned and code and column - len(code) > 2:
            lines[line - 1] = code.ljust(max(was[text], len(code) + 2)) + lines[line - 1][column:]
    return "".join(lines)


def _set_apart(before: Places, after: Places, *, formatted: bool) -> str:
    """The text with two blank lines around new functions of the module, as PEP 8 has it, and one around what is new
    below the imports: statements, or in a file that is `formatted` the text of one."""
    functions = {each.name for each in before.tree.body if isinstance(each, ast.FunctionDef)}
    known = set(before.lines)
    in_cells = cells(before.text) is not None  # which end where they end
    grown = sum(map(_is_code, after.tree.body)) > sum(map(_is_code, before.tree.body))
    is_apart = formatted or (grown and not in_cells)
    inserted: ast.stmt | None = None  # the last one below the imports
    wanted: dict[int, int] = {}  # blank lines above a line
    for above, statement in zip([None, *after.tree.body], [*after.tree.body, None], strict=True):
        if isinstance(above, ast.FunctionDef) and above.name not in functions and statement is not None:
            wanted[(above.end_lineno or above.lineno) + 1] = 2
        if statement is None or above is None:
            continue
        line = after.first_line(statement)
        if isinstance(statement, ast.FunctionDef) and statement.name not in functions:
            while after.lines[line - 2].startswith("#"):
                line -= 1
            wanted[line] = 2
        elif not is_apart or not _is_code(statement):
            continue
        elif after.lines[line - 1] not in known and (_is_import(above) or above is inserted):
            if _is_import(above) and line == (above.end_lineno or above.lineno) + 1:
                wanted[line] = 1
            inserted = statement
        elif above is inserted and not in_cells and after.lines[end := above.end_lineno or above.lineno].strip():
            wanted[end + 1] = 1
    lines = raw_lines(after.text)
    for line in sorted(wanted, reverse=True):
        low = high = line - 1
        while low and not lines[low - 1].strip():
            low -= 1
        while high < len(lines) - 1 and not lines[high].strip():
            high += 1
        lines[high:high] = [newline_of(after.text)] * (wanted[line] - (high - low))
    return "".join(lines)


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _is_code(statement: ast.stmt) -> bool:
    return not _is_import(statement)


def _laid_out(statement: _Statement, formatter: Formatter, *, joined: bool) -> list[str] | None:
    """The lines that a statement should have, those that backslashes end `joined`; None where they are right, or not to
    be touched."""
    text = statement.text
    parsed = tokens_of(_BACKSLASH.sub(" ", text) if joined and not text.lstrip().startswith(_WITH) else text)
    if parsed is None:
        return None
    made = formatter.broken(parsed[0], len(statement.text) - len(statement.text.lstrip()), parsed[1])
    return None if made == statement.text.split("\n") else made


@lru_cache(maxsize=1)
def formatter_of(places: Places) -> Formatter | None:
    """What lays out a file, if it is Black or the like: as the project says, else where it agrees with the file."""
    if places.layout.formatted:
        return Formatter(places.layout.width or _WIDTHS[0])
    if "\t" in places.text or "\f" in places.text:
        return None
    told = [(each, parsed[0]) for each in _statements(places) if (parsed := tokens_of(each.text)) and not parsed[1]]
    widths = _WIDTHS if places.layout.width is None else (places.layout.width,)
    return next((Formatter(width) for width in widths if _agrees(Formatter(width), told)), None)


def _agrees(formatter: Formatter, told: Sequence[tuple[_Statement, Line]]) -> bool:
    """Whether a formatter would leave the long statements of a file as they are: nine of ten, for it may have its own
    way with one."""
    right = wrong = 0
    for statement, line in told:
        lines = statement.text.split("\n")
        if len(lines) > 1 or len(lines[0]) > formatter.width:
            made = formatter.broken(line, len(lines[0]) - len(lines[0].lstrip()))
            # Black adds a comma after `*arguments` only where it sees that the Python is new enough.
            kept = [each.rstrip(",") for each in made] == [each.rstrip(",") for each in lines]
            right, wrong = right + (kept and len(lines) > 1), wrong + (not kept)
    return right > 0 and right >= 9 * wrong


@lru_cache(maxsize=1)  # findings are edited into the same text one after another
def _texts(places: Places) -> frozenset[str]:
    return frozenset(each.text for each in _statements(places))


@dataclass(frozen=True, slots=True)
class _Statement:
    """A simple statement, or the header of a compound one, on lines of its own: `first` and `last` count from 1."""

    first: int
    last: int
    text: str


def _statements(places: Places) -> Iterator[_Statement]:
    """Those that share their lines with no other, decorators among them."""
    taken: Counter[int] = Counter()
    found = []
    for node in _blocks(places.tree):
        spans = [(each.lineno, each.end_lineno or each.lineno) for each in getattr(node, "decorator_list", ())]
        if isinstance(node, ast.stmt):
            spans.append((node.lineno, places.header_end(node)))
        elif isinstance(node, ast.excepthandler | ast.match_case):
            first = node.lineno if isinstance(node, ast.excepthandler) else node.pattern.lineno
            taken[first] += 2
        for first, last in spans:
            taken.update(range(first, last + 1))
            found.append((first, last))
    for first, last in found:
        while last > first and places.lines[last - 1].lstrip()[:1] in ("", "#"):  # below the colon
            last -= 1
        if taken[first] == taken[last] == 1:
            yield _Statement(first, last, "\n".join(places.lines[first - 1 : last]))
