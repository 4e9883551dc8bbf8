"""Patterns for paths as .gitignore has them, and `{a,b}` for alternatives where they come from our own settings.

A set of names and a regular expression answer for a path in a microsecond, and in time that grows with the product of
their lengths, whatever the pattern: a configuration may be a stranger's. No library is asked: a test asks git, and
pathspec takes `*`, `!*/`, `!*.py`, as many repositories have it, to leave out everything, and `a/**` to speak of `a`.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


class PatternError(ValueError):
    """A pattern that means nothing, or too much; the message names it, and `line` is it."""

    def __init__(self, line: str, problem: str) -> None:
        shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
        super().__init__(problem.format(repr(shown)))
        self.line = line


class Matcher:
    """A list of patterns, compiled. The last one that speaks of a path decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Raises `PatternError`."""
        kept = [line for line in lines if line.strip() and not line.startswith("#")]
        for line in filter(is_too_long, kept):
            raise PatternError(line, f"{{}} is longer than {MOST_CHARACTERS:,} characters")
        # A `!` takes back what patterns above it said; between two of them the order is of no account.
        runs = itertools.groupby(kept, key=lambda line: line.startswith("!"))
        self._groups = [(not back, _Group([_bare(line) for line in group])) for back, group in runs][::-1]

    def verdict(self, place: str, name: str, *, is_folder: bool) -> bool | None:
        """True where a pattern matches, False where one takes it back, None where none speaks.

        `place` is relative to the patterns' folder, with slashes; `name` is its last part.
        """
        for said, group in self._groups:
            if group.matches(place, name, is_folder):
                return said
        return None

    def covers(self, place: str, *, is_folder: bool = False) -> bool:
        """Whether a path is matched, by itself or with a folder that it lies in."""
        parts = place.split("/")
        for count in range(1, len(parts)):
            if self.verdict("/".join(parts[:count]), parts[count - 1], is_folder=True):
                return True
        return bool(self.verdict(place, parts[-1], is_folder=is_folder))


class _Group:
    """Patterns of which it is enough that one matches."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Raises `PatternError`."""
        self._names: set[str] = set()
        self._folder_names: set[str] = set()
        globs: list[str] = []
        folder_globs: list[str] = []
        for line in lines:
            body = line.removesuffix("/")
            name = body.removeprefix("**/")
            if _NAME.fullmatch(name):
                (self._names if body == line else self._folder_names).add(name)
            else:
                (globs if body == line else folder_globs).append(_regex(body))
        self._glob = _one_of(globs)
        self._folder_glob = _one_of(folder_globs)

    def matches(self, place: str, name: str, is_folder: bool) -> bool:
        if name in self._names or (self._glob and self._glob(place)):
            return True
        return is_folder and (
            name in self._folder_names or (self._folder_glob is not None and bool(self._folder_glob(place)))
        )


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns as they were written, and the folder that they are relative to (absolute)."""

    lines: tuple[str, ...]
    folder: str

    def matcher(self) -> Matcher:
        """Raises `PatternError`."""
        return Matcher(spelled_out(self.lines))

    def elsewhere(self, folder: str) -> Patterns:
        """What they say of another folder: those without a place, which mean a name wherever it stands."""
        return Patterns(tuple(line for line in self.lines if not _ANCHORED.match(line)), folder)

    def seen_from(self, path: str) -> tuple[Patterns, str]:
        """What they say of a path, which may lie outside of their folder, and the place that it has for them."""
        place = place_in(self.folder, path)
        if place is not None:
            return self, place
        try:
            top = os.path.commonpath([self.folder, path])
        except ValueError:  # different drives
            top = os.path.splitdrive(path)[0] + os.sep
        return self.elsewhere(top), place_in(top, path) or ""


def forgiving(lines: Sequence[str]) -> Matcher:
    """The patterns of a .gitignore: like git, which takes no offence at what is no pattern."""
    try:
        return Matcher(lines)
    except PatternError:
        return Matcher([line for line in lines if _is_pattern(line)])


def place_in(folder: str, path: str) -> str | None:
    """`path` relative to `folder`, with slashes; None where it lies elsewhere. Both are absolute."""
    stem = folder if folder.endswith(os.sep) else folder + os.sep
    if not path.startswith(stem):
        return None
    place = path[len(stem) :]
    return place if os.sep == "/" else place.replace(os.sep, "/")


def spelled_out(lines: Iterable[str]) -> list[str]:
    """`{a,b}/x` as `a/x` and `b/x`: people bring it along from other linters, and .gitignore has no such thing.

    Raises `PatternError`."""
    found: list[str] = []
    for line in lines:
        before, pending = len(found), [line]
        while pending:
            each = pending.pop()
            braces = None if is_too_long(each) else _BRACES.search(each)
            if braces is None:
                found.append(each)
            else:
                choices = braces[1].split(",")
                pending += [each[: braces.start()] + choice + each[braces.end() :] for choice in reversed(choices)]
            if len(found) - before + len(pending) > _MOST_CHOICES:
                raise PatternError(line, f"{{}} stands for more than {_MOST_CHOICES:,} patterns")
    return found


def is_too_long(line: str) -> bool:
    return len(line) > MOST_CHARACTERS


MOST_CHARACTERS = 2000  # of a pattern
_MOST_CHOICES = 1000  # that a pattern with braces stands for
_SHOWN = 60  # characters of a pattern in a message
_NAME = re.compile(r"[^*?\[\\/]+")
_TOKEN = re.compile(r"\*+|\?|\[[!^]?+(?:\]|\\.|\[:\w+:\]|[^\]\\])(?:\\.|\[:\w+:\]|[^\]\\])*\]|\\.|[^\[\\]")
_MEMBER = re.compile(r"\[:(\w+):\]|(\\?.)-(\\?.)|(\\?.)")
_POSIX = {
    "alnum": "A-Za-z0-9", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_ANCHORED = re.compile(r"!?(?!\*\*/[^/]+/?$)[^/]*/.")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def _regex(body: str) -> str:
    """A pattern as a regular expression for places. Without a slash inside it speaks of every folder.

    What stands before another `**`, or another `*` within a part, is matched where it first can be, for good: if the
    rest does not match behind that, it does not behind a later place. Raises `PatternError`.
    """
    parts = body.removeprefix("/").split("/")
    if "/" not in body:
        return "(?>.*/)?" + _part(body)
    runs = [list(run) for deep, run in itertools.groupby(parts, key=lambda part: part == "**") if not deep]
    start = "" if parts[0] == "**" else "/".join(map(_part, runs.pop(0)))
    if "**" not in parts:
        return start
    start += "/" if start else ""
    last = ".+" if parts[-1] == "**" else f"(?:[^/]*/)*?{'/'.join(map(_part, runs.pop()))}"
    return start + "".join(f"(?>(?:[^/]*/)*?{'/'.join(map(_part, run))}/)" for run in runs) + last


def _part(glob: str) -> str:
    tokens = _TOKEN.findall(glob)
    if "".join(tokens) != glob:
        raise PatternError(glob, "no pattern: {} ends within brackets or after a backslash")
    pieces: list[list[str]] = [[]]
    for token in tokens:
        if token[0] == "*":
            pieces.append([])
        else:
            pieces[-1].append(_piece(token))
    first, *others = map("".join, pieces)
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{piece})" for piece in others[:-1]) + f"[^/]*{others[-1]}"


def _piece(token: str) -> str:
    match token[0]:
        case "?":
            return "[^/]"
        case "[":
            return _class(token[1:-1])
        case _:
            return re.escape(token[-1])


def _class(body: str) -> str:
    """One character of several: ranges that run backwards and classes that nobody knows hold none."""
    negated = body[0] in "!^"
    members = ""
    for posix, first, last, one in _MEMBER.findall(body[negated:]):
        if posix:
            members += _POSIX.get(posix, "")
        elif one:
            members += re.escape(one[-1])
        elif first[-1] <= last[-1]:
            members += f"{re.escape(first[-1])}-{re.escape(last[-1])}"
    if negated:
        return f"[^/{members}]"
    return f"(?!/)[{members}]" if members else "(?!)"


def _one_of(regexes: Sequence[str]) -> Callable[[str], object] | None:
    return re.compile("|".join(regexes), re.DOTALL).fullmatch if regexes else None


def _bare(line: str) -> str:
    """A pattern without the `!` before it and the blanks behind it. Raises `PatternError`."""
    bare = line.removeprefix("!")
    stripped = bare.rstrip(" ")
    stripped += " " * (stripped.endswith("\\") and stripped != bare)
    if not stripped:
        raise PatternError(line, "{} takes back nothing")
    return stripped


def _is_pattern(line: str) -> bool:
    try:
        Matcher([line])
    except PatternError:
        return False
    return True
