"""Adding and dropping call arguments in the layout that the call already has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from autoaccel.rewriting.fragments import parenthesized

Space = cst.BaseParenthesizableWhitespace

_NARROWEST = 40  # columns that must be left below the first argument
_HANGING = 8
_SHORT = 20  # a single argument up to this width is not worth a line of its own


def without(call: cst.Call, dropped: set[int]) -> cst.Call:
    """The call without the arguments at these positions."""
    kept = [argument for index, argument in enumerate(call.args) if index not in dropped]
    if kept and len(call.args) - 1 in dropped:
        # The new last argument takes over what stood before the closing parenthesis.
        last = call.args[-1]
        comma = last.comma if isinstance(last.comma, cst.Comma) else cst.MaybeSentinel.DEFAULT
        kept[-1] = kept[-1].with_changes(comma=comma, whitespace_after_arg=last.whitespace_after_arg)
    changes: dict[str, object] = {"args": kept}
    if not kept and call.args:
        changes["whitespace_before_args"] = cst.SimpleWhitespace("")
    return call.with_changes(**changes)


@dataclass(frozen=True, slots=True)
class Room:
    """The geometry of a call in its file, in characters.

    Its last line is `used` up to the parenthesis, with `tail` behind it; the first argument begins at `column`, the
    statement at `indent`. It `may_break` before any argument where all of them stood on a line that other edits have
    widened. With `tabs` the file is indented by them, and what is aligned below an argument would not be.
    """

    limit: int
    used: int
    tail: int
    column: int
    indent: int
    may_break: bool = False
    tabs: bool = False


def last_width(call: cst.Call) -> int:
    """The width of the last line of a call."""
    return len(cst.Module([]).code_for_node(call).rpartition("\n")[-1])


def with_keywords(
    call: cst.Call, keywords: Sequence[tuple[str, cst.BaseExpression]], room: Room | None = None
) -> cst.Call:
    """The call with keyword arguments appended, before `**` arguments, one a line where the call has one a line.

    Elsewhere lines that would get longer than there is room for are broken, and go on below the first argument.
    """
    equal = _equal_sign(call)
    added = [cst.Arg(keyword=cst.Name(name), value=value, equal=equal) for name, value in keywords]
    args = [_generator_in_parentheses(argument) for argument in call.args]
    unpacked = next((index for index, argument in enumerate(args) if argument.star == "**"), None)
    separator = _separator(call)
    if not args:
        placed = _joined(added, separator)
    elif unpacked is not None:
        before = [argument.with_changes(comma=cst.Comma(whitespace_after=separator)) for argument in added]
        placed = [*args[:unpacked], *before, *args[unpacked:]]
    else:
        placed = [*args[:-1], *_appended(args[-1], added, separator)]
        if room is not None and isinstance(separator, cst.SimpleWhitespace):
            placed = _broken(placed, len(added), room)
    return call.with_changes(args=placed)


def _broken(arguments: list[cst.Arg], added: int, room: Room) -> list[cst.Arg]:
    """The arguments with a line break before each new one that does not fit on the line any more; before old ones of a
    single line as well, where other edits have made that too long."""
    module = cst.Module([])
    column = room.column if room.limit - room.column >= _NARROWEST and not room.tabs else room.indent + _HANGING
    deeper = "\t" if room.tabs else " " * (column - room.indent)
    line = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(deeper))
    placed, used, first = list(arguments), room.used, len(arguments) - added
    widths = [len(module.code_for_node(each.with_changes(comma=cst.MaybeSentinel.DEFAULT))) for each in placed]
    if room.may_break and used > room.limit:
        used, first = room.column + widths[0], 1
    for index in range(first, len(placed)):
        last, width = index == len(placed) - 1, widths[index]
        comma = placed[index - 1].comma
        if not isinstance(comma, cst.Comma) or not isinstance(comma.whitespace_after, cst.SimpleWhitespace):
            return arguments
        full = used + 2 + width + (1 + room.tail if last else 1) > room.limit
        if full and column < used and (len(placed) - first > 1 or width > _SHORT):
            placed[index - 1] = placed[index - 1].with_changes(comma=comma.with_changes(whitespace_after=line))
            used = column + width
        else:
            used += 2 + width
    return placed


def _joined(arguments: list[cst.Arg], separator: Space) -> list[cst.Arg]:
    comma = cst.Comma(whitespace_after=separator)
    return [argument.with_changes(comma=comma) for argument in arguments[:-1]] + arguments[-1:]


def _appended(last: cst.Arg, added: list[cst.Arg], separator: Space) -> list[cst.Arg]:
    """`last` and the new arguments after it; a trailing comma and the way to the parenthesis pass to the newest."""
    trailing = isinstance(last.comma, cst.Comma)
    closing: Space = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    between, closing = _split(closing, separator)
    comma = last.comma.whitespace_before if isinstance(last.comma, cst.Comma) else cst.SimpleWhitespace("")
    first = last.with_changes(
        comma=cst.Comma(whitespace_before=comma, whitespace_after=between),
        whitespace_after_arg=cst.SimpleWhitespace(""),
    )
    rest = _joined(added, separator)
    if trailing:
        rest[-1] = rest[-1].with_changes(comma=cst.Comma(whitespace_after=closing))
    else:
        rest[-1] = rest[-1].with_changes(whitespace_after_arg=closing)
    return [first, *rest]


def _split(closing: Space, separator: Space) -> tuple[Space, Space]:
    """The space after what was the last argument, with its comments, and the space before the parenthesis."""
    if not isinstance(closing, cst.ParenthesizedWhitespace):
        return separator, closing
    commented = closing.first_line.comment is not None or any(line.comment is not None for line in closing.empty_lines)
    if not commented:
        return separator, closing
    if isinstance(separator, cst.ParenthesizedWhitespace):
        between = closing.with_changes(indent=separator.indent, last_line=separator.last_line)
    else:
        between = closing
    bare_line = closing.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return between, closing.with_changes(first_line=bare_line, empty_lines=[])


def _separator(call: cst.Call) -> Space:
    """What separates two arguments: a line break where each argument has a line, else one space."""
    args = call.args
    before = call.whitespace_before_args
    if not args:
        return cst.SimpleWhitespace(" ")
    gaps = [argument.comma.whitespace_after for argument in args[:-1] if isinstance(argument.comma, cst.Comma)]
    if gaps and all(isinstance(gap, cst.ParenthesizedWhitespace) for gap in gaps):
        return _clean(gaps[-1])
    if not gaps and isinstance(before, cst.ParenthesizedWhitespace) and isinstance(args[0].comma, cst.Comma):
        return _clean(before)
    return cst.SimpleWhitespace(" ")


def _clean(space: Space) -> Space:
    """The line break alone, without comments and blank lines."""
    assert isinstance(space, cst.ParenthesizedWhitespace)
    line = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return space.with_changes(first_line=line, empty_lines=[])


def _equal_sign(call: cst.Call) -> cst.AssignEqual:
    for argument in call.args:
        if isinstance(argument.equal, cst.AssignEqual):
            sign = argument.equal
            simple = (sign.whitespace_before, sign.whitespace_after)
            if all(isinstance(space, cst.SimpleWhitespace) and space.value in ("", " ") for space in simple):
                return sign
    return cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace(""))


def _generator_in_parentheses(argument: cst.Arg) -> cst.Arg:
    """`f(x for x in y)` may omit the parentheses only while it is alone."""
    if isinstance(argument.value, cst.GeneratorExp) and not argument.value.lpar:
        return argument.with_changes(value=parenthesized(argument.value))
    return argument
