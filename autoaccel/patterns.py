"""Patterns for paths, as .gitignore has them, and `{a,b}` for alternatives where they come from our own settings.

Most patterns are names (`build/`), places (`/docs/out`) or endings (`*.pyc`): sets and one regular expression answer
these in a microsecond, and pathspec, which costs a fifth of a warm run to import, is asked only for what is left.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class PatternError(ValueError):
    """A pattern that means nothing; the message names it."""


class Matcher:
    """A list of patterns, compiled. The last one that speaks of a path decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Raises `PatternError`."""
        self._names: set[str] = set()
        self._folder_names: set[str] = set()
        self._places: set[str] = set()
        self._folder_places: set[str] = set()
        globs: list[str] = []
        folder_globs: list[str] = []
        self._rest: list[str] = []
        kept = [line for line in lines if line.strip() and not line.startswith("#")]
        # A `!` takes back what patterns above it said: then the order counts.
        if any(line.startswith("!") for line in kept):
            self._rest = kept
        else:
            for line in kept:
                self._sort(line, globs, folder_globs)
        self._glob = _one_of(globs)
        self._folder_glob = _one_of(folder_globs)
        if self._rest:
            self._spec  # noqa: B018 - what is wrong with the patterns is said before they are used

    def _sort(self, line: str, globs: list[str], folder_globs: list[str]) -> None:
        anywhere = line.startswith("**/")
        body = line[3:] if anywhere else line
        only_folders = body.endswith("/")
        body = body.removesuffix("/")
        anchored = "/" in body
        if not anywhere:
            body = body.removeprefix("/")
        plain = _PLAIN.fullmatch(body)
        if not (plain and not (anchored and anywhere)) and (anchored or not _GLOB.fullmatch(body)):
            self._rest.append(line)
        elif anchored:
            (self._folder_places if only_folders else self._places).add(body)
        elif plain:
            (self._folder_names if only_folders else self._names).add(body)
        else:
            (folder_globs if only_folders else globs).append(body)

    def verdict(self, place: str, name: str, *, is_folder: bool) -> bool | None:
        """True where a pattern matches, False where one takes it back, None where none speaks.

        `place` is relative to the patterns' folder, with slashes; `name` is its last part.
        """
        if name in self._names or place in self._places or (self._glob and self._glob(name)):
            return True
        if is_folder and (
            name in self._folder_names
            or place in self._folder_places
            or (self._folder_glob and self._folder_glob(name))
        ):
            return True
        if not self._rest:
            return None
        return self._spec.check_file(place + "/" if is_folder else place).include

    def covers(self, place: str, *, is_folder: bool = False) -> bool:
        """Whether a path is matched, by itself or with a folder that it lies in."""
        parts = place.split("/")
        for count in range(1, len(parts)):
            if self.verdict("/".join(parts[:count]), parts[count - 1], is_folder=True):
                return True
        return bool(self.verdict(place, parts[-1], is_folder=is_folder))

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec

        try:
            return GitIgnoreSpec.from_lines(self._rest)
        except ValueError as error:
            raise PatternError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns as they were written, and the folder that they are relative to (absolute)."""

    lines: tuple[str, ...]
    folder: str

    def matcher(self) -> Matcher:
        """Raises `PatternError`."""
        return Matcher(spelled_out(self.lines))


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


# What means itself, and what means the same to fnmatch as to git: no escapes, no character classes but simple ones.
_PLAIN = re.compile(r"(?!/)(?:[^*?\[\]\\!#\s/]|/(?!/|$))+")
_GLOB = re.compile(r"(?:[^\[\]\\!#\s/]|\[[A-Za-z0-9_]+\])+")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def _one_of(globs: Sequence[str]) -> Callable[[str], object] | None:
    return re.compile("|".join(map(fnmatch.translate, globs))).match if globs else None


def _is_pattern(line: str) -> bool:
    try:
        Matcher([line])
    except PatternError:
        return False
    return True
