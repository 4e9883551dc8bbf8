"""Lines of edited statements, broken as the formatter of the file would break them.

A file that Black or `ruff format` has laid out is to stay so: each statement that an edit has changed, or moved to the
right, is laid out again by their rules, where that changes nothing but its line breaks and trailing commas. Whether a
file is theirs is read from the project's configuration, or else from the file itself: all of its statements that span
several lines would be broken where they are. Other files keep the breaks that edits give them.

The rules: a line that is too long is broken at its last bracket, what is inside goes on a line of its own; is that too
long as well, it is broken at its delimiters of the highest priority, after commas and before operators. Brackets with a
trailing comma are always broken. Expressions that a statement may put into parentheses get some where it reads better.

Source: https://black.readthedocs.io/en/stable/the_black_code_style/current_style.html
"""

from __future__ import annotations

import ast
import io
import itertools
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from autoaccel.rewriting.places import Places, newline_of, raw_lines

_WIDTHS = (88, 79, 80, 100, 120)
_OPEN = frozenset("([{")
_CLOSE = frozenset(")]}")
_INDENT = 4
_COMPREHENSION, _COMMA, _TERNARY, _LOGIC, _STRING, _COMPARATOR, _DOT = 20, 18, 16, 14, 12, 10, 1
_OPERATORS = {"|": 9, "^": 8, "&": 7, "<<": 6, ">>": 6, "+": 5, "-": 5, "*": 4, "/": 4, "//": 4, "%": 4, "@": 4}
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!=", "in", "not", "is"})
_WORDS = frozenset("and or not in is if else for lambda return yield await async".split())
_ASSIGNING = frozenset("= += -= *= /= //= %= @= &= |= ^= >>= <<= **=".split())


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    spaced: bool  # a space stands before it
    name: bool = False  # a name, a number or a text: an operand


Line = Sequence[_Token]


class _CannotBreakError(Exception):
    """A line stays as it is: there is nothing to break it at."""


@dataclass(frozen=True, slots=True)
class Formatter:
    """Breaks statements as Black does, at this line width."""

    width: int
    _last: _Token | None = None  # what a comment stands behind
    _comment: int = 0  # the width that it takes

    def broken(self, line: Line, indent: int, comment: str = "") -> list[str]:
        """A statement, or the header of one, as lines, with the comment at its end."""
        line = _without_parentheses(_plain(line))
        comment = f"  {comment}" if comment else ""
        breaker = Formatter(self.width, line[-1], len(comment))
        lines = [f"{' ' * depth}{_text(part)}" for depth, part in breaker._transformed(line, indent, inside=False)]
        return [*lines[:-1], lines[-1] + comment]

    def _fits(self, line: Line, indent: int) -> bool:
        width = indent + len(_text(line)) + (self._comment if line[-1] is self._last else 0)
        return width <= self.width and not _has_magic_comma(line)

    def _transformed(self, line: Line, indent: int, *, inside: bool, exploded: bool = False) -> list[tuple[int, Line]]:
        if not exploded and self._fits(line, indent):
            return [(indent, line)]
        try:
            if inside and (parts := _at_delimiters(line)):
                return [each for part in parts for each in self._transformed(part, indent, inside=True)]
            return self._at_bracket(line, indent, inside=inside)
        except _CannotBreakError:
            return [(indent, line)]

    def _at_bracket(self, line: Line, indent: int, *, inside: bool) -> list[tuple[int, Line]]:
        head, body, tail = ([], [], []) if inside else _operand(line)
        if body and not _has_magic_comma(head) and self._wants_parentheses(head, body, indent):
            opened = [*head, _Token("(", bool(head))]
            several = any(priority == _COMMA for _, priority in _delimiters(body))
            inner = Formatter(self.width)._transformed(_plain(body), indent + _INDENT, inside=True, exploded=several)
            return [(indent, opened), *inner, (indent, [_Token(")", False), *tail])]
        splits = list(_trailing_brackets(line))
        splits = [each for each in splits if _has_magic_comma(line[each[0] : each[1] + 1])] or splits
        if not splits:
            raise _CannotBreakError
        fitting = (each for each in splits if indent + len(_text(line[: each[0] + 1])) <= self.width)
        start, end = next(fitting, splits[0])
        inside_of = _plain(line[start + 1 : end])
        exploded = _explodes(line, start, inside_of)
        lines = self._transformed(inside_of, indent + _INDENT, inside=True, exploded=exploded)
        return [*self._edge(line[: start + 1], indent), *lines, *self._edge(line[end:], indent)]

    def _edge(self, line: Line, indent: int) -> list[tuple[int, Line]]:
        """What stands before a bracket that is broken, or behind it: broken at other brackets alone."""
        if self._fits(line, indent):
            return [(indent, line)]
        try:
            return self._at_bracket(line, indent, inside=True)
        except _CannotBreakError:
            return [(indent, line)]

    def _wants_parentheses(self, head: Line, body: Line, indent: int) -> bool:
        """Whether parentheses around an operand read better than breaking it at its own last bracket."""
        delimiters = [priority for _, priority in _delimiters(body)]
        splits = list(_trailing_brackets(body))
        if not delimiters:
            alone = indent + _INDENT + len(_text(body)) <= self.width
            if not splits:
                return alone or any(each.text in _OPEN for each in head)
            return alone and not any(indent + len(_text([*head, *body[: s + 1]])) <= self.width for s, _ in splits)
        highest = max(delimiters)
        count = delimiters.count(highest)
        if count > 1 or highest == _COMMA:
            return True
        if highest == _DOT:
            return False
        if not any(indent + len(_text([*head, *body[: start + 1]])) <= self.width for start, _ in splits):
            return True
        return not (self._begins_with_bracket(body, indent) or self._ends_with_bracket(body, indent))

    def _begins_with_bracket(self, body: Line, indent: int) -> bool:
        """Whether an operand can be broken in the bracket that it begins with, and what follows fits."""
        pairs = _pairs(body)
        if body[0].text not in _OPEN or pairs.get(0, 1) == 1:
            return False
        rest = list(body[pairs[0] :])
        opens = next((index + 1 for index, each in enumerate(rest) if each.text in _OPEN), len(rest))
        return indent + _INDENT + len(_text(rest[:opens])) <= self.width

    def _ends_with_bracket(self, body: Line, indent: int) -> bool:
        """Whether an operand can be broken in the bracket that it ends with, or in one before."""
        start = next((start for start, end in _pairs(body).items() if end == len(body) - 1), None)
        if start is None or start == len(body) - 2:
            return False
        others = any(each.text in _OPEN for each in body[:start])
        return others or indent + _INDENT + len(_text(body[: start + 1])) <= self.width


def _text(line: Line) -> str:
    return "".join((" " if each.spaced and index else "") + each.text for index, each in enumerate(line))


def _unspaced(token: _Token) -> _Token:
    return _Token(token.text, False, token.name)


def _plain(line: Line) -> Line:
    """The same on one line, as it was written there."""
    return [_unspaced(line[0]), *line[1:]]


def _depths(line: Line) -> Iterator[tuple[int, int, _Token]]:
    """Each token by its index and the number of brackets around it."""
    depth = 0
    for index, token in enumerate(line):
        depth -= token.text in _CLOSE
        yield index, depth, token
        depth += token.text in _OPEN


def _pairs(line: Line) -> dict[int, int]:
    """Closing brackets by the opening one."""
    opened: list[int] = []
    found = {}
    for index, token in enumerate(line):
        if token.text in _OPEN:
            opened.append(index)
        elif token.text in _CLOSE and opened:
            found[opened.pop()] = index
    return found


def _is_call(line: Line, start: int) -> bool:
    """Whether a bracket belongs to what stands before it: a call, a subscript, the parameters of a function."""
    before = line[start - 1] if start else None
    return before is not None and ((before.name and before.text not in _WORDS) or before.text in _CLOSE)


def _has_magic_comma(line: Line) -> bool:
    """Whether a trailing comma asks for one element a line: not that of `(x,)`, nor one in a subscript."""
    for start, end in _pairs(line).items():
        if end > start + 1 and line[end - 1].text == ",":
            single = sum(depth == 0 and each.text == "," for _, depth, each in _depths(line[start + 1 : end])) == 1
            plain = {"(": not _is_call(line, start), "[": _is_call(line, start), "{": False}[line[start].text]
            if not (single and plain):
                return True
    return False


def _explodes(line: Line, start: int, inner: Line) -> bool:
    """Whether what is in a bracket goes on a line each though it fits on one: elements, and before a trailing comma."""
    commas = any(priority == _COMMA for _, priority in _delimiters(inner))
    return commas and (inner[-1].text == "," or not _is_call(line, start))


def _trailing_brackets(line: Line) -> Iterator[tuple[int, int]]:
    """The last pair of brackets that holds something, and those of the calls that it is chained to, from the last."""
    pairs = [(start, end) for start, end in _pairs(line).items() if end > start + 1]
    outer = [(s, e) for s, e in pairs if not any(a < s and e < b for a, b in pairs)]
    yield from sorted(outer, reverse=True)


def _without_parentheses(line: Line) -> Line:
    """A statement without the parentheses that serve only to break it."""
    head, body, tail = _operand(line)
    if not body or body[0].text != "(" or _pairs(body).get(0) != len(body) - 1 or len(body) < 3:
        return line
    inner = body[1:-1]
    told = {each.text for _, depth, each in _depths(inner) if depth == 0}
    if told & {",", "for", "yield", ":="}:
        return line
    return _without_parentheses([*head, _Token(inner[0].text, True, inner[0].name), *inner[1:], *tail])


def _operand(line: Line) -> tuple[Line, Line, Line]:
    """What stands before the expression that a statement may put into parentheses, that, and what stands behind."""
    first = line[0].text
    last = len(line) - 1 if line[-1].text == ":" else len(line)
    assigned = [index for index, depth, each in _depths(line) if depth == 0 and each.text in _ASSIGNING]
    start = None
    if first in ("for", "async"):
        start = next((index for index, depth, each in _depths(line) if depth == 0 and each.text == "in"), None)
    elif first in ("return", "if", "elif", "while"):
        start = 0
    elif assigned:
        start = assigned[-1]
    if start is None or start + 1 >= last:
        return line, [], []
    return line[: start + 1], line[start + 1 : last], line[last:]


def _delimiters(line: Line) -> Iterator[tuple[int, int]]:
    """Where a line may be broken outside of its brackets, before which token, and with which priority."""
    in_lambda = in_for = 0
    for index, depth, token in _depths(line):
        if depth or (token.text in _CLOSE):
            continue
        before = line[index - 1] if index else None
        operand = before is not None and ((before.name and before.text not in _WORDS) or before.text in _CLOSE)
        match token.text:
            case "lambda":
                in_lambda += 1
            case ":" if in_lambda:
                in_lambda -= 1
            case _ if in_lambda:
                continue
            case "," if not in_for:
                yield index + 1, _COMMA
            case "for":
                in_for += 1
                if index:
                    yield index, _COMPREHENSION
            case "in" if in_for:
                in_for -= 1
            case "if" if any(each.text == "for" for _, d, each in _depths(line[:index]) if not d):
                yield index, _COMPREHENSION
            case "if" | "else":
                yield index, _TERNARY
            case "and" | "or":
                yield index, _LOGIC
            case "not" if not operand:
                continue
            case "in" if before is not None and before.text == "not":
                continue
            case "not" if before is not None and before.text == "is":
                continue
            case text if text in _COMPARISONS and operand:
                yield index, _COMPARATOR
            case text if text in _OPERATORS and operand:
                yield index, _OPERATORS[text]
            case "." if before is not None and (before.text in _CLOSE or not _is_simple(line, index)):
                yield index, _DOT
            case _ if token.name and before is not None and _is_string(token) and _is_string(before):
                yield index, _STRING


def _is_string(token: _Token) -> bool:
    return token.text[-1] in "\"'"


def _is_simple(line: Line, dot: int) -> bool:
    """Whether a dot follows names only: `torch.optim.Adam`."""
    index = dot - 1
    while index > 0 and line[index].name and line[index - 1].text == ".":
        index -= 2
    return line[index].name


def _at_delimiters(line: Line) -> list[Line]:
    """The parts of what is in a bracket, one a line; none where there is nothing to break it at."""
    found = [(index, priority) for index, priority in _delimiters(line) if 0 < index < len(line)]
    if not found:
        return []
    highest = max(priority for _, priority in found)
    cuts = [index for index, priority in found if priority == highest]
    if highest == _DOT and len(cuts) < 2:
        return []
    bounds = [0, *cuts, len(line)]
    parts: list[Line] = [_plain(line[low:high]) for low, high in itertools.pairwise(bounds)]
    if highest == _COMMA and line[-1].text != ",":
        parts[-1] = [*parts[-1], _Token(",", False)]
    return parts


# -- the statements of a text


def laid_out(before: Places, after: str) -> str:
    """`after`, an edit of `before`, with what has changed laid out as the rest of the file is."""
    if after == before.text or "\f" in after:
        return after
    formatter = formatter_of(before)
    after = _set_apart(before, Places(after, ast.parse(after)), imports=formatter is not None)
    tree = ast.parse(after)
    places = Places(after, tree)
    known = {each.text for each in _statements(before)}
    changed = [each for each in _statements(places) if each.text not in known]
    if formatter is None:
        crowded = _crowded(tree) if "\t" not in after else set()
        longest = max(before.widest, *map(len, before.lines)) if "\t" not in after else sys.maxsize
        changed = [each for each in changed if each.first in crowded or _width(each.text) > longest]
    lines = raw_lines(after)
    for each in sorted(changed, key=lambda statement: statement.first, reverse=True):
        made = _laid_out(each, formatter or Formatter(before.widest))
        if made is not None:
            end = lines[each.last - 1][len(places.lines[each.last - 1]) :]
            lines[each.first - 1 : each.last] = [newline_of(after).join(made) + end]
    text = "".join(lines)
    text = text if ast.dump(ast.parse(text)) == ast.dump(tree) else after
    return text if formatter else _with_comments_in_line(before, Places(text, ast.parse(text)))


def _width(statement: str) -> int:
    """The width of its first line; 0 where there may be a comment, which need not be kept within bounds."""
    return 0 if "#" in statement else len(statement.partition("\n")[0])


def _crowded(tree: ast.Module) -> set[int]:
    """The lines on which statements begin that hold several calls side by side, each of them on several lines: loaders
    that are made within one call, say."""
    found = set()
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):
            calls = [each for each in ast.walk(statement) if isinstance(each, ast.Call)]
            long = [each for each in calls if each.lineno != each.end_lineno]
            inner = {part for each in long for part in ast.walk(each) if part is not each}
            innermost = [each for each in long if not any(part in long for part in ast.walk(each) if part is not each)]
            if len(innermost) > 1 or sum(each not in inner for each in long) > 1:
                found.add(statement.lineno)
    return found


def _with_comments_in_line(before: Places, after: Places) -> str:
    """The text with comments at the end of lines in the columns that they were in, where there is room for it."""
    lines = raw_lines(after.text)
    was = {text: column for (_, column), text in before.comments.items()}
    counts = Counter(before.comments.values()) + Counter(after.comments.values())
    for (line, column), text in after.comments.items():
        code = lines[line - 1][:column].rstrip()
        aligned = counts[text] == 2 and text in was and was[text] != column
        if aligned and code and len(code) + 2 <= was[text] and column - len(code) > 2:
            lines[line - 1] = code.ljust(was[text]) + lines[line - 1][column:]
    return "".join(lines)


def _set_apart(before: Places, after: Places, *, imports: bool) -> str:
    """The text with two blank lines around new functions of the module, as PEP 8 has it; with `imports`, there is one
    between them and what is new below."""
    functions = {each.name for each in before.tree.body if isinstance(each, ast.FunctionDef)}
    known = set(before.lines)
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
        elif imports and _is_import(above) and not _is_import(statement) and after.lines[line - 1] not in known:
            if line == (above.end_lineno or above.lineno) + 1:
                wanted[line] = 1
    lines = raw_lines(after.text)
    for line in sorted(wanted, reverse=True):
        low = high = line - 1
        while low and not lines[low - 1].strip():
            low -= 1
        while high < len(lines) - 1 and not lines[high].strip():
            high += 1
        lines[low:high] = [newline_of(after.text)] * max(wanted[line], high - low)
    return "".join(lines)


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _laid_out(statement: _Statement, formatter: Formatter) -> list[str] | None:
    """The lines that a statement should have; None where they are right, or not to be touched."""
    parsed = _line(statement.text)
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
    told = [(each, parsed[0]) for each in _statements(places) if (parsed := _line(each.text)) and not parsed[1]]
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
    for node in ast.walk(places.tree):
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


def _line(text: str) -> tuple[Line, str] | None:
    """The tokens of a statement as if it stood on one line, and the comment at its end; None where there are comments
    in it, or texts of several lines."""
    found: list[_Token] = []
    ended = None
    comment = ""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text.lstrip() + "\n").readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    for each in tokens:
        if each.type == tokenize.COMMENT:
            if ended is None or each.start[0] != ended[0]:
                return None
            comment = each.string
            continue
        if each.type in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            continue
        if comment or each.start[0] != each.end[0] or each.type == tokenize.ERRORTOKEN:
            return None
        spaced = ended is not None and each.start != ended
        if ended is not None and each.start[0] != ended[0]:
            glued = found[-1].text in _OPEN or each.string in _CLOSE or each.string == "."
            spaced = not glued
        operand = each.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)
        found.append(_Token(each.string, spaced, operand))
        ended = each.end
    return (found, comment) if found and "\\\n" not in text else None
