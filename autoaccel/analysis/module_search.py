"""Where imports lead: the files that dotted names stand for, told by the listings of folders. No file is read.

Folders above the project, or the repository, are not looked at: what comes and goes there is none of its business.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from autoaccel.discovery import PROJECT_FILES, TOP, top_of
from autoaccel.library_models import library_values

_INSTALLED = ("site-packages", "dist-packages")

ImportTarget = tuple[Path, tuple[str, ...]]
"""The file in which a dotted name ends, and what of the name is left over."""


class Modules:
    """The module names of the files around those of a project. Folders are plain strings: there are many to compare.

    Every question adds the folders whose listings its answer leans on to `seen`, the files of which it matters whether
    they are there, and `TOP` in the folders of which it matters to what they belong."""

    def __init__(self, project_folders: frozenset[str], texts: Iterable[Path] = ()) -> None:
        self._project_folders = project_folders  # the folders that hold files of the project
        self._beside: dict[str, set[str]] = {}  # by folder: what is not on disk, but given as a text
        for path in texts:
            self._beside.setdefault(str(path.parent), set()).add(path.name)
            for folder in path.parents[:-1]:
                self._beside.setdefault(str(folder.parent), set()).add(f"{folder.name}/")
        self._listings: dict[str, frozenset[str]] = {}
        self._known: dict[tuple[Any, ...], tuple[Any, frozenset[str]]] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._tops: dict[str, str] = {}
        self._looked: set[str] = set()

    def search(self, importer: Path, target: str, level: int, seen: set[str]) -> ImportTarget | None:
        """The project file in which an import of the file `importer` ends; None for libraries."""
        found = self.find(os.path.dirname(importer), os.path.basename(importer), target, level, seen)
        return None if found is None else (Path(found[0]), found[1])

    def find(
        self, folder: str, importer: str, target: str, level: int, seen: set[str]
    ) -> tuple[str, tuple[str, ...]] | None:
        """The same for a file called `importer` in a folder."""
        package = self.library(folder, seen)
        if package and name_in_library(package, target, level) is not None:
            return None
        if not level:
            outside, package_name = self._remembered(seen, self._outermost, folder)
            if os.path.basename(outside) in _INSTALLED and target.split(".")[0] != (
                package_name or importer.removesuffix(".py")
            ):
                return None  # from one installed package to another
        candidates = self._remembered(seen, self._candidates, folder, target, level)
        own = os.path.join(folder, importer) if len(candidates) > 1 or (candidates and not candidates[0][1]) else ""
        return next(((path, rest) for path, rest in candidates if path != own or rest), None)

    def library(self, folder: str, seen: set[str]) -> tuple[str, ...]:
        """The names of the packages down to a folder of a library that the tables know; empty elsewhere."""
        names: tuple[str, ...] = self._remembered(seen, self._library, folder)
        return names

    def folders_near(self, folder: str, seen: set[str]) -> tuple[str, ...]:
        """Where those who import a folder's files are looked for, beside the project."""
        folders: tuple[str, ...] = self._remembered(seen, self._near, folder)
        return folders

    def whole(self, folder: str, seen: set[str]) -> str:
        """The repository or project that a folder belongs to; without either, the folder that holds its package, or
        scripts beside it; empty for other folders."""
        found: str = self._remembered(seen, self._around, folder)
        return found

    def is_in_package(self, folder: str, seen: set[str]) -> bool:
        """Whether the files of a folder are part of a package."""
        return bool(self._remembered(seen, self._outermost, folder)[1])

    def roots(self, folder: str, seen: set[str]) -> tuple[str, ...]:
        """Where the absolute imports of a folder's scripts may lead."""
        found: tuple[str, ...] = self._remembered(seen, self._search_path, folder)
        return found

    def listing(self, folder: str, seen: set[str]) -> frozenset[str]:
        seen.add(folder)
        return self._listing(folder)

    # -- found once for a folder

    def _remembered(self, seen: set[str], find: Callable[..., Any], *asked: Any) -> Any:
        key = (find.__name__, *asked)
        known = self._known.get(key)
        if known is None:
            outer, self._looked = self._looked, set()
            try:
                answer = find(*asked)
                looked = frozenset(self._looked)
            finally:
                self._looked = outer
            known = self._known[key] = answer, self._sets.setdefault(looked, looked)
        seen |= known[1]
        self._looked |= known[1]
        return known[0]

    def _list(self, folder: str) -> frozenset[str]:
        self._looked.add(folder)
        return self._listing(folder)

    def _listing(self, folder: str) -> frozenset[str]:
        """The names of the files in a folder, and those of its folders with a slash behind them."""
        known = self._listings.get(folder)
        if known is None:
            known = self._listings[folder] = frozenset(_names(folder)) | self._beside.get(folder, set())
        return known

    def _library(self, folder: str) -> tuple[str, ...]:
        if not self._is_package(folder):
            return ()
        parent, name = os.path.split(folder)
        if folder == self._top(folder):
            return (name,) if name in library_values.LIBRARIES else ()
        outer: tuple[str, ...] = self._remembered(set(), self._library, parent)
        return (*outer, name) if outer or (not self._is_package(parent) and name in library_values.LIBRARIES) else ()

    def _top(self, folder: str) -> str:
        """The project or repository that a folder belongs to; empty where there is none."""
        self._looked.add(os.path.join(folder, TOP))
        known = self._tops.get(folder)
        if known is None:
            known = self._tops[folder] = top_of(folder)
        return known

    def _around(self, folder: str) -> str:
        if top := self._top(folder):
            return top
        outside, package = self._outermost(folder)
        if not package:
            outside = os.path.dirname(folder)
            if not os.path.basename(folder).islower() or not any(each.endswith(".py") for each in self._list(outside)):
                return ""
        return outside if outside not in _shared_folders() else ""

    def _outermost(self, folder: str) -> tuple[str, str]:
        """The folder that holds the outermost package around a folder, and the package's name."""
        *packages, outside = self._packages(folder)
        return outside, os.path.basename(packages[-1]) if packages else ""

    def _packages(self, folder: str) -> list[str]:
        """The packages around a folder, itself first, and the folder that holds them."""
        found, top = [folder], self._top(folder)
        while self._is_package(found[-1]):
            found.append(os.path.dirname(found[-1]))
            if found[-2] == top:
                break
        return found

    def _candidates(self, folder: str, target: str, level: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The first file that a name leads to; also the next, if it may be the first one itself that asks."""
        parts = target.split(".") if target else []
        if not level and parts[:1] in (["autoaccel"], ["autoaccel_runtime"]):
            return ()  # the runtime is a library, also where a copy of it stands beside the script
        found: list[tuple[str, tuple[str, ...]]] = []
        top = self._top(folder)
        for root in self._roots(folder, level):
            start, known = root, 0
            if self._is_above(top, root):
                if parts[:1] != [os.path.basename(top)]:
                    continue
                start, known = top, 1
            elif parts and not level and {f"{parts[0]}.py", f"{parts[0]}/"}.isdisjoint(self._list(root)):
                continue  # most imports are of libraries
            for cut in range(len(parts), -1, -1):
                if cut < known or (cut == 0 and not level):
                    continue
                path = self._module_file(start, parts[known:cut])
                if path is not None:
                    found.append((path, tuple(parts[cut:])))
                    if os.path.dirname(path) != folder or cut < len(parts) or path != found[0][0]:
                        return tuple(found)
        return tuple(found)

    def _module_file(self, root: str, parts: list[str]) -> str | None:
        folder = root
        for part in parts[:-1]:
            if f"{part}/" not in self._list(folder):
                return None
            folder = os.path.join(folder, part)
        if parts:
            name = parts[-1]
            if f"{name}.py" in self._list(folder) and not name.startswith("."):
                return os.path.join(folder, f"{name}.py")
            if f"{name}/" not in self._list(folder):
                return None
            folder = os.path.join(folder, name)
        return os.path.join(folder, "__init__.py") if "__init__.py" in self._list(folder) else None

    def _roots(self, folder: str, level: int) -> Iterable[str]:
        if not level:
            return self.roots(folder, set())
        top = self._top(folder)
        for _ in range(level - 1):
            if self._is_above(top, folder):
                return ()
            folder = os.path.dirname(folder)
        return (folder,)

    def _is_above(self, top: str, folder: str) -> bool:
        """Whether a folder is the one that holds the project, of which nothing is known but that."""
        return bool(top) and folder == os.path.dirname(top) and folder not in self._project_folders

    def _search_path(self, folder: str) -> tuple[str, ...]:
        """Where the imports of a folder's scripts may lead: scripts of the project further up may be what is run."""
        found = self._packages(folder)
        wholes = (self._whole, self._around(folder))
        above = (
            each
            for each in _parents(found[-1])
            if each in self._project_folders or any(_is_within(each, whole) for whole in wholes)
        )
        return (*found, *above, *self._distribution(found[-1], self._top(folder)))

    @cached_property
    def _whole(self) -> str:
        """The folder that holds all those of the project, if there are several. It, or one between, is what
        `tools/train.py` puts on `sys.path` for the packages beside `tools`; and so is the repository."""
        return os.path.commonpath(self._project_folders) if len(self._project_folders) > 1 else ""

    def _is_package(self, folder: str) -> bool:
        return "__init__.py" in self._list(folder) and os.path.dirname(folder) != folder

    def _distribution(self, folder: str, top: str) -> Iterator[str]:
        """Where the packages stand to which a folder of scripts belongs: `pip install -e .` adds it."""
        if not top or top == os.path.dirname(top) or len(folder) < len(top):
            return
        for outer in (folder, *_parents(folder)):
            # Of folders further up nothing but this matters: what else comes and goes there makes no difference.
            self._looked.update(os.path.join(outer, marker) for marker in PROJECT_FILES)
            if not self._listing(outer).isdisjoint(PROJECT_FILES):
                yield outer
                yield os.path.join(outer, "src")
                return
            if outer == top:
                return

    def _near(self, folder: str) -> tuple[str, ...]:
        folders, top, parent = self._packages(folder), self._top(folder), os.path.dirname(folder)
        if self._is_above(top, folders[-1]):
            folders.pop()
        elif parent not in folders and os.path.basename(folder).islower() and folder != top:
            folders.append(parent)
        return tuple(folders)


def _names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    yield entry.name if entry.is_file() else f"{entry.name}/" if entry.is_dir() else ""
                except OSError:  # a link that goes round in a circle
                    continue
    except OSError:
        return


@lru_cache(maxsize=1)
def _shared_folders() -> frozenset[str]:
    """Where people keep what has nothing to do with one another: their home, what is above it, temporary files."""
    home = os.path.expanduser("~")
    return frozenset({home, *_parents(home), tempfile.gettempdir()})


def _is_within(folder: str, whole: str) -> bool:
    return bool(whole) and (folder == whole or folder.startswith(os.path.join(whole, "")))


def _parents(folder: str) -> Iterator[str]:
    while (outer := os.path.dirname(folder)) != folder:
        yield outer
        folder = outer


def name_in_library(package: tuple[str, ...], target: str, level: int) -> str | None:
    """The full name of what a file in a package of a known library imports from that library."""
    if not package or (not level and target.split(".")[0] != package[0]):
        return None
    return target if not level else ".".join((*package[: len(package) - level + 1], *filter(None, [target])))
