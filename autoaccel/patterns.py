"""Patterns for paths, as .gitignore has them, and `{a,b}` for alternatives where they come from our own settings.

Nearly all are answered by a set of names and a regular expression in a microsecond, and as git would (a test asks it);
pathspec, which costs a fifth of a warm run to import, is asked for what is left: exotic classes of characters.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class PatternError(ValueError):
    """A pattern that means nothing; the message names it."""


class Matcher:
    """A list of patterns, compiled. The last one that speaks of a path decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Raises `PatternError`."""
        kept = [line for line in lines if line.strip() and not line.startswith("#")]
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
        rest = [line for line in lines if not self._sort(line, globs, folder_globs)]
        self._glob = _one_of(globs)
        self._folder_glob = _one_of(folder_globs)
        self._spec = _spec(rest)

    def _sort(self, line: str, globs: list[str], folder_globs: list[str]) -> bool:
        """Put a pattern where it can be answered quickly; False where there is no such place."""
        body = line.removesuffix("/")
        only_folders = body != line
        if not all(_PART.fullmatch(part) for part in body.removeprefix("/").split("/")):
            return False
        name = body.removeprefix("**/")
        if _NAME.fullmatch(name):
            (self._folder_names if only_folders else self._names).add(name)
        else:
            (folder_globs if only_folders else globs).append(_regex(body))
        return True

    def matches(self, place: str, name: str, is_folder: bool) -> bool:
        if name in self._names or (self._glob and self._glob(place)):
            return True
        if is_folder and (name in self._folder_names or (self._folder_glob and self._folder_glob(place))):
            return True
        return self._spec is not None and bool(self._spec.check_file(place + "/" if is_folder else place).include)


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
    """`{a,b}/x` as `a/x` and `b/x`: people bring it along from other linters, and .gitignore has no such thing."""
    found = []
    for line in lines:
        braces = _BRACES.search(line)
        if braces is None:
            found.append(line)
        else:
            found += spelled_out(
                line[: braces.start()] + choice + line[braces.end() :] for choice in braces[1].split(",")
            )
    return found


# One part of a path that is not in need of pathspec: all but exotic classes of characters.
_WILD = re.compile(r"(\*+|\?|\[[!^]?\w+\]|\\.)")
_PART = re.compile(rf"(?:{_WILD.pattern}|[^\[\]\\*?/])+")
_NAME = re.compile(r"[^*?\[\\/]+")
_ANCHORED = re.compile(r"!?(?!\*\*/[^/]+/?$)[^/]*/.")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def _regex(body: str) -> str:
    """A pattern as a regular expression for places. Without a slash inside it speaks of every folder."""
    parts = body.removeprefix("/").split("/")
    if "/" not in body:
        return "(?:.*/)?" + _part(body)
    inner = "".join("(?:.*/)?" if part == "**" else _part(part) + "/" for part in parts[:-1])
    return inner + (".+" if parts[-1] == "**" else _part(parts[-1]))


def _part(glob: str) -> str:
    return "".join(map(_piece, _WILD.split(glob)))


def _piece(piece: str) -> str:
    match piece[:1]:
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case "[":
            return f"[^/{piece[2:]}" if piece[1] in "!^" else piece
        case "\\":
            return re.escape(piece[1:])
        case _:
            return re.escape(piece)


def _one_of(regexes: Sequence[str]) -> Callable[[str], object] | None:
    return re.compile("|".join(regexes), re.DOTALL).fullmatch if regexes else None


def _bare(line: str) -> str:
    """A pattern without the `!` before it and the blanks behind it. Raises `PatternError`."""
    bare = line.removeprefix("!")
    stripped = bare.rstrip(" ")
    stripped += " " * (stripped.endswith("\\") and stripped != bare)
    if not stripped:
        raise PatternError(f"{line!r} takes back nothing")
    return stripped


def _spec(lines: Sequence[str]) -> GitIgnoreSpec | None:
    """Raises `PatternError`."""
    if not lines:
        return None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines("\\" + line if line[0] in "!#" else line for line in lines)
    except ValueError as error:
        raise PatternError(str(error)) from error


def _is_pattern(line: str) -> bool:
    try:
        Matcher([line])
    except PatternError:
        return False
    return True
