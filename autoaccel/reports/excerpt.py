"""One line of a file as a terminal shows it, with a mark under a part of it."""

from __future__ import annotations

import unicodedata

_LONGEST = 110  # characters of a line before it is cut
_BEFORE = 30  # of them that stay before the marked part
_TAB = "    "
_CUT = "…"


def excerpt(line: str, start: int, end: int) -> tuple[str, str]:
    """The line, and the marks below the characters from `start` up to `end`, both cut to what fits a screen."""
    line = line.rstrip()
    start = min(start, len(line))
    end = max(min(end, len(line)), start)
    if end > _LONGEST and start > _BEFORE:
        cut = start - _BEFORE
        line, start, end = _CUT + line[cut + 1 :], start - cut, end - cut
    if len(line) > _LONGEST:
        line, end = line[: _LONGEST - 1] + _CUT, min(end, _LONGEST)
    head, marked, tail = (_visible(part) for part in (line[:start], line[start:end], line[end:]))
    return (head + marked + tail).rstrip(), " " * _columns(head) + "^" * max(_columns(marked), 1)


def _visible(text: str) -> str:
    """Tabs as blanks; what would move the cursor or vanish as a mark of its own."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_TAB if each == "\t" else each if _columns(each) or _combines(each) else "�" for each in text)


def _columns(text: str) -> int:
    return len(text) if text.isascii() and text.isprintable() else sum(map(_column, text))


def _column(character: str) -> int:
    if _combines(character) or unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _combines(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me")
