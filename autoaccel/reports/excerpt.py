"""One line of a file as a terminal shows it, with a mark under a part of it."""

from __future__ import annotations

import unicodedata

_WIDTH = 110  # columns that a line may take before it is cut
_BEFORE = 30  # columns of it that stay before the marked part
_TAB = "    "
_CUT = "…"


def excerpt(line: str, start: int, end: int) -> tuple[str, str]:
    """The line, and the marks below the characters from `start` up to `end`, both cut to what fits a screen."""
    line = line.rstrip()
    start = min(start, len(line))
    end = max(min(end, len(line)), start)
    head, marked, tail = (_visible(part) for part in (line[:start], line[start:end], line[end:]))
    if _columns(head + marked + tail) > _WIDTH:
        if _columns(head) > _BEFORE and _columns(head + marked) > _WIDTH:
            head = _CUT + _last(head.rstrip(), _BEFORE - 1) if head.strip() else head
        room = max(_WIDTH - _columns(head), 1)
        if _columns(marked + tail) > room:
            short = _columns(marked) < room
            marked, tail = (
                (marked, _first(tail, room - _columns(marked) - 1) + _CUT)
                if short
                else (_first(marked, room - 1) + _CUT, "")
            )
    return (head + marked + tail).rstrip(), " " * _columns(head) + "^" * max(_columns(marked), 1)


def _visible(text: str) -> str:
    """Tabs as blanks; what would move the cursor or vanish as a mark of its own."""
    return "".join(_TAB if each == "\t" else each if _columns(each) or _combines(each) else "�" for each in text)


def _columns(text: str) -> int:
    return len(text) if text.isascii() and text.isprintable() else sum(map(_column, text))


def _column(character: str) -> int:
    if _combines(character) or unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _combines(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me")


def _first(text: str, columns: int) -> str:
    """As much of the beginning as fits."""
    taken = 0
    for index, character in enumerate(text):
        taken += _column(character)
        if taken > columns:
            return text[:index]
    return text


def _last(text: str, columns: int) -> str:
    """As much of the end as fits."""
    taken = 0
    for index, character in enumerate(reversed(text)):
        taken += _column(character)
        if taken > columns:
            return text[len(text) - index :]
    return text
