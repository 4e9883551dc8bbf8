"""One statement, broken into lines as Black and `ruff format` break it.

A line that is too long is broken at its last bracket, what is inside goes on a line of its own; is that too long as
well, it is broken at its delimiters of the highest priority, after commas and before operators. Brackets with a
trailing comma are always broken. Expressions that a statement may put into parentheses get some where it reads better.

Source: https://black.readthedocs.io/en/stable/the_black_code_style/current_style.html
"""

from __future__ import annotations

import io
import itertools
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def tokens_of(text: str) -> tuple[Line, str] | None:
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
