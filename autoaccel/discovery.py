"""Which files are looked at: folders are walked, and what git ignores or the configuration excludes is left out."""

# Strings, not paths: thousands of files pass through here, and a Path for each step would be most of the time.
# ruff: noqa: PTH110, PTH111, PTH112, PTH113, PTH114, PTH118, PTH119, PTH120

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from autoaccel.patterns import MOST_CHARACTERS, Matcher, Patterns, forgiving, is_too_long, place_in

TOP = ":top"
"""In the place of a file's name: not what is in a folder, but what it belongs to (`top_of`)."""

WHOLE = ":whole"
"""In the place of a file's name: not what is in a folder, but which files are below it (`files_below`)."""

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
"""What is installed from a folder says so in one of these."""

EXCLUDE = (
    ".autoaccel_cache/", ".bzr/", ".eggs/", ".git/", ".hg/", ".ipynb_checkpoints/", ".mypy_cache/", ".nox/",
    ".pytest_cache/", ".ruff_cache/", ".svn/", ".tox/", ".venv/", "__pycache__/", "__pypackages__/",
    "autoaccel_runtime/", "build/", "dist/", "node_modules/", "site-packages/", "venv/",
)  # fmt: skip
"""What is left out where the configuration says nothing else."""

_NO_SOURCES = tuple(each for each in EXCLUDE if each not in ("build/", "dist/"))  # both may be packages of the project

_MARKERS = (*PROJECT_FILES, "autoaccel.toml")
_MOST_ENTRIES = 100_000
"""Files and folders, of whatever kind, after which a walk through a project is given up."""


@dataclass(frozen=True, slots=True)
class FileFilter:
    """What the configuration of a folder says about the files in it."""

    exclude: tuple[Patterns, ...] = ()
    respect_gitignore: bool = True
    force_exclude: bool = False
    """Whether `exclude` also speaks of paths that are named."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files in order, each once; folders in which there was none; paths that are no use, with the reason; links that
    were not followed, because they lead out of the folder that was asked for; and which of the files were named."""

    files: tuple[Path, ...]
    barren: tuple[Path, ...]
    problems: tuple[str, ...]
    links: tuple[Path, ...] = ()
    named: frozenset[Path] = frozenset()


def find(paths: Sequence[Path], scope_of: Callable[[str], FileFilter] = lambda _: FileFilter()) -> FoundFiles:
    """The Python files and notebooks of `paths`. What is named is taken whatever the patterns say, unless forced.

    `scope_of` is asked about the absolute name of every folder that is entered. Raises `PatternError`.
    """
    files: dict[str, Path] = {}  # by what they are, so that a link and its target are one file
    barren, named = [], set[Path]()
    problems: list[str] = []
    walk = _Walk(scope_of, problems)
    for path in paths:
        try:
            is_folder, is_file, exists = path.is_dir(), path.is_file(), path.exists()
        except OSError as error:  # a folder above may not be entered, a name may be too long
            problems.append(_unreadable(path, error))
            continue
        if exists and walk.is_forced_out(path):
            continue
        if is_folder:
            before = len(problems)
            within = walk.files(path)
            for real, each in within:
                files.setdefault(real, each)
            if not within and len(problems) == before:
                barren.append(path)
        elif is_file:
            named.add(files.setdefault(walk.itself(os.path.abspath(path)), path))
        elif exists:
            problems.append(f"{path}: not a regular file; `-` reads stdin")
        else:
            problems.append(f"{path}: no such file or folder")
    left = {shown: None for real, shown in walk.links if real not in files}
    return FoundFiles(tuple(files.values()), tuple(barren), tuple(problems), tuple(left), frozenset(named))


def files_below(folder: str, most: int | None = None, seen: list[str] | None = None) -> list[str] | None:
    """The Python files and notebooks below a folder, but for what is no source of the project's or ignored by git;
    None where there are more than `most`, or too many files of any kind. `seen` gets what the answer depends on: the
    folders, and the files that say what git ignores."""
    outside = FileFilter(exclude=(Patterns(_NO_SOURCES, folder),))
    walk = _Walk(lambda _: outside, [], most_entries=_MOST_ENTRIES, most=most)
    try:
        found = walk.files(Path(folder))
    except _TooManyError:
        return None
    finally:
        if seen is not None:
            seen += walk.seen
    return sorted(os.path.normpath(path) for _, path in found)


def is_forced_out(path: Path, scope_of: Callable[[str], FileFilter]) -> bool:
    """Whether `path` is left out even though it is named. Raises `PatternError`."""
    return _Walk(scope_of, []).is_forced_out(path)


class _TooManyError(Exception):
    """There are more files than are looked at."""


class _Rule(NamedTuple):
    """Patterns at work: the folder that they are relative to, which is above all that they are asked about."""

    folder: str
    matcher: Matcher

    def verdict(self, path: str, name: str, is_folder: bool) -> bool | None:
        place = place_in(self.folder, path)
        return None if place is None else self.matcher.verdict(place, name, is_folder=is_folder)


class _Walk:
    """Walks folders. Each has its scope, which is its parent's unless another configuration file begins there."""

    def __init__(
        self,
        scope_of: Callable[[str], FileFilter],
        problems: list[str],
        most_entries: int | None = None,
        most: int | None = None,
    ) -> None:
        self.scope_of = scope_of
        self.problems = problems
        self._most_entries, self._most = most_entries, most
        self.links: list[tuple[str, Path]] = []
        """Links that lead out of the folder that was walked: what to, and what they are called."""
        self.seen: list[str] = []
        """The folders that were walked, and the files that say what git ignores."""
        self._matchers: dict[Patterns, Matcher] = {}
        self._folders: dict[str, str] = {}

    def is_forced_out(self, path: Path) -> bool:
        full = os.path.abspath(path)
        scope = self.scope_of(os.path.dirname(full))
        return scope.force_exclude and any(self._covers(patterns, full, path.is_dir()) for patterns in scope.exclude)

    def _covers(self, patterns: Patterns, path: str, is_folder: bool) -> bool:
        seen, place = patterns.seen_from(path)
        return self._matcher(seen).covers(place, is_folder=is_folder)

    def itself(self, path: str) -> str:
        """The name that a file has without links."""
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        real = os.path.join(self._folders[folder], name)
        return os.path.realpath(real) if os.path.islink(real) else real

    def files(self, folder: Path) -> list[tuple[str, Path]]:
        """The Python files and notebooks below a folder, each with the name that it has without links."""
        base, home = os.path.abspath(folder), os.path.realpath(folder)
        scope = self.scope_of(base)
        ignoring = _inherited(base, self.problems, self.seen) if scope.respect_gitignore else ()
        shown = "" if str(folder) == "." else str(folder)
        stack = [(base, home, shown, scope, self._excluding(scope, base), ignoring)]
        found, seen = [], 0
        while stack:
            path, real, shown, scope, excluding, ignoring = stack.pop()
            self.seen.append(path)
            own = self.scope_of(path)
            if own is not scope:
                scope, excluding = own, self._excluding(own, base)
            try:
                with os.scandir(path) as listing:
                    entries = sorted(listing, key=_name)
            except OSError as error:
                self.problems.append(_unreadable(shown or path, error))
                continue
            seen += len(entries)
            if seen > (self._most_entries or seen):
                raise _TooManyError
            if not scope.respect_gitignore:
                ignoring = ()
            elif any(entry.name == ".gitignore" for entry in entries):
                self.seen.append(os.path.join(path, ".gitignore"))
                ignoring = (*ignoring, *_ignore_file(path, self.seen[-1], self.problems))
            rules = (*ignoring, *excluding)
            folders = []
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    if not _ignored(entry.path, name, True, rules):
                        within = os.path.join(real, name), os.path.join(shown, name)
                        folders.append((entry.path, *within, scope, excluding, ignoring))
                    continue
                is_link, is_code = entry.is_symlink(), name.endswith((".py", ".ipynb"))
                if not (is_code or is_link) or _ignored(entry.path, name, False, rules):
                    continue
                itself = os.path.realpath(entry.path) if is_link else os.path.join(real, name)
                if is_link and place_in(home, itself) is None:
                    # What it leads to is somebody else's, whom nobody asked.
                    if os.path.isdir(itself) or (is_code and _is_file(entry)):
                        self.links.append((itself, Path(os.path.join(shown, name))))
                elif is_code and _is_file(entry):  # not a pipe, whose end may never come
                    found.append((itself, Path(os.path.join(shown, name))))
            stack += reversed(folders)
        if self._most is not None and len(found) > self._most:
            raise _TooManyError
        return found

    def _excluding(self, scope: FileFilter, base: str) -> tuple[_Rule, ...]:
        """What is left out below `base`, which was asked for: where it is left out itself, its inside is meant."""
        rules = []
        for patterns in scope.exclude:
            if place_in(base, patterns.folder) is not None:
                # Said from within, as by `autoaccel lint ..`.
                rules.append(_Rule(base, self._matcher(patterns.elsewhere(base))))
            elif patterns.folder != base and place_in(patterns.folder, base) is None:
                patterns = patterns.elsewhere(base)
            elif patterns.folder != base and self._covers(patterns, base, is_folder=True):
                patterns = Patterns(patterns.lines, base)
            rules.append(_Rule(patterns.folder, self._matcher(patterns)))
        return tuple(rules)

    def _matcher(self, patterns: Patterns) -> Matcher:
        if patterns not in self._matchers:
            self._matchers[patterns] = patterns.matcher()
        return self._matchers[patterns]


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def _ignored(path: str, name: str, is_folder: bool, rules: Sequence[_Rule]) -> bool:
    """The last pattern that speaks decides; the project's exclusions come last and are not negotiable by .gitignore."""
    for rule in reversed(rules):
        verdict = rule.verdict(path, name, is_folder)
        if verdict is not None:
            return verdict
    return False


def _inherited(folder: str, problems: list[str], seen: list[str]) -> tuple[_Rule, ...]:
    """What the repository around a folder ignores; nothing where it ignores the folder itself, which was asked for.
    `seen` gets the files that say so, and those that could."""
    above = [folder]
    while not os.path.exists(os.path.join(above[-1], ".git")):
        parent = os.path.dirname(above[-1])
        if parent == above[-1]:
            return ()
        above.append(parent)
    top = above[-1]
    git = _git_folder(top)
    seen += _settings_of_git(git)
    named = [(top, each) for each in (_excludes_file(git), os.path.join(git, "info", "exclude"))]
    named += [(each, os.path.join(each, ".gitignore")) for each in above[:0:-1]]
    seen += (path for _, path in named)
    rules: tuple[_Rule, ...] = ()
    below = [None, None, *above[-2::-1]]
    for (parent, path), child in zip(named, below, strict=True):
        rules = (*rules, *_ignore_file(parent, path, problems))
        if child is not None and _ignored(child, os.path.basename(child), True, rules):
            return ()
    return rules


def top_of(folder: str) -> str:
    """The repository around a folder; without one the nearest project; empty where there is neither."""
    nearest = ""
    while True:
        if _is_repository(os.path.join(folder, ".git")):
            return folder
        if not nearest and any(os.path.isfile(os.path.join(folder, marker)) for marker in _MARKERS):
            nearest = folder
        above = os.path.dirname(folder)
        if above == folder:
            return nearest
        folder = above


def _is_repository(git: str) -> bool:
    """Whether this is the folder, or the file, that git keeps in a repository which is no part of another one."""
    if os.path.isdir(git):
        return True
    try:
        return b"/modules/" not in Path(git).read_bytes()
    except (OSError, ValueError):
        return False


def git_files(top: str) -> str:
    """Where git keeps what it knows of a work tree: another work tree and a submodule say so in a file."""
    git = os.path.join(top, ".git")
    with contextlib.suppress(OSError):
        said = Path(git).read_text(encoding="utf-8", errors="replace")
        return os.path.join(top, said.removeprefix("gitdir:").strip())
    return git


def _git_folder(top: str) -> str:
    """Where git keeps what it knows of a repository, for all of its work trees."""
    own = git_files(top)
    with contextlib.suppress(OSError):
        return os.path.join(own, Path(own, "commondir").read_text(encoding="utf-8", errors="replace").strip())
    return own


def _settings_of_git(git: str) -> tuple[str, ...]:
    """The files in which git is told how to go about a repository: those of it, and of the user."""
    return os.path.join(git, "config"), os.path.expanduser("~/.gitconfig"), os.path.join(_home_of_git(), "config")


def _home_of_git() -> str:
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git")


def _excludes_file(git: str) -> str:
    """The file of patterns that hold in this repository, or in every one of a user, found without asking git."""
    for file in _settings_of_git(git):
        with contextlib.suppress(OSError):
            said = _EXCLUDES_FILE.search(Path(file).read_text(encoding="utf-8", errors="replace"))
            if said:
                return os.path.expanduser(said[1])
    return os.path.join(_home_of_git(), "ignore")


_EXCLUDES_FILE = re.compile(r"^\s*excludesfile\s*=\s*\"?([^\"\n]+?)\"?\s*$", re.IGNORECASE | re.MULTILINE)


def _ignore_file(folder: str, file: str, problems: list[str]) -> tuple[_Rule, ...]:
    try:
        # Not splitlines: to git only a newline ends a line.
        lines = Path(file).read_bytes().decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n")
    except OSError:
        return ()
    for number, line in enumerate(lines, 1):
        if is_too_long(line) and not line.startswith("#"):
            problems.append(f"{file}:{number}: left out, a pattern is longer than {MOST_CHARACTERS:,} characters")
    return (_Rule(folder, forgiving(lines)),)


def _unreadable(path: Path | str, error: OSError) -> str:
    return f"{path}: cannot read: {(error.strerror or str(error)).lower()}"
