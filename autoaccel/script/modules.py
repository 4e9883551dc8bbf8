"""Where imports lead: the files that dotted names stand for, told by the listings of folders. No file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoaccel.script import external

if TYPE_CHECKING:
    from autoaccel.script.files import Files

_INSTALLED = ("site-packages", "dist-packages")
_MARKERS = frozenset({"setup.py", "pyproject.toml"})

Located = tuple[Path, tuple[str, ...]]
"""The file in which a dotted name ends, and what of the name is left over."""


class Modules:
    """The module names of the files around those of a project."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[tuple[Any, ...], tuple[Any, frozenset[Path]]] = {}
        self._sets: dict[frozenset[Path], frozenset[Path]] = {}
        self._looked: set[Path] = set()

    def search(self, home: Path, target: str, level: int, seen: set[Path]) -> Located | None:
        """The project file in which an import of `home` ends; None for libraries. `seen` collects the folders that
        were listed."""
        package = self.library(home.parent, seen)
        if name_in_library(package, target, level) is not None:
            return None
        if not level and self._is_installed(home, target, seen):
            return None
        candidates: tuple[Located, ...] = self._remembered(seen, self._candidates, home.parent, target, level)
        return next(((path, rest) for path, rest in candidates if path != home or rest), None)

    def library(self, folder: Path, seen: set[Path]) -> tuple[str, ...]:
        """The names of the packages down to a folder of a library that the tables know; empty elsewhere."""
        names: tuple[str, ...] = self._remembered(seen, self._library, folder)
        return names

    def folders_near(self, path: Path, seen: set[Path]) -> tuple[Path, ...]:
        """Where those who import a file are looked for, beside the project."""
        folders: tuple[Path, ...] = self._remembered(seen, self._near, path.parent)
        return folders

    def roots(self, folder: Path, seen: set[Path]) -> tuple[Path, ...]:
        """Where the absolute imports of a folder's scripts may lead."""
        found: tuple[Path, ...] = self._remembered(seen, self._search_path, folder)
        return found

    def listing(self, folder: Path, seen: set[Path]) -> frozenset[str]:
        seen.add(folder)
        return self._files.listing(folder)

    # -- found once for a folder

    def _remembered(self, seen: set[Path], find: Callable[..., Any], *asked: Any) -> Any:
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
        answer = known[0]
        return answer

    def _list(self, folder: Path) -> frozenset[str]:
        self._looked.add(folder)
        return self._files.listing(folder)

    def _library(self, folder: Path) -> tuple[str, ...]:
        if not self._is_package(folder):
            return ()
        outer: tuple[str, ...] = self._remembered(set(), self._library, folder.parent)
        top = not self._is_package(folder.parent)
        return (*outer, folder.name) if outer or (top and folder.name in external.LIBRARIES) else ()

    def _is_installed(self, home: Path, target: str, seen: set[Path]) -> bool:
        """Whether an import leads from one installed package to another."""
        folder, top = self._remembered(seen, self._top, home.parent)
        return folder.name in _INSTALLED and target.split(".")[0] != (top or home.stem)

    def _top(self, folder: Path) -> tuple[Path, str]:
        """The folder that holds the outermost package around a folder, and the package's name."""
        top = ""
        while self._is_package(folder):
            folder, top = folder.parent, folder.name
        return folder, top

    def _candidates(self, folder: Path, target: str, level: int) -> tuple[Located, ...]:
        """The first file that a name leads to; also the next, if it may be the first one itself that asks."""
        parts = target.split(".") if target else []
        if not level and parts[:1] in (["autoaccel"], ["autoaccel_runtime"]):
            return ()  # the runtime is a library, also where a copy of it stands beside the script
        found: list[Located] = []
        for root in self._roots(folder, level):
            if parts and not level and {f"{parts[0]}.py", f"{parts[0]}/"}.isdisjoint(self._list(root)):
                continue  # most imports are of libraries
            for cut in range(len(parts), -1, -1):
                if cut == 0 and not level:
                    continue
                path = self._module_file(root, parts[:cut])
                if path is not None:
                    found.append((path, tuple(parts[cut:])))
                    if path.parent != folder or cut < len(parts) or path != found[0][0]:
                        return tuple(found)
        return tuple(found)

    def _module_file(self, root: Path, parts: list[str]) -> Path | None:
        folder = root
        for part in parts[:-1]:
            if f"{part}/" not in self._list(folder):
                return None
            folder = folder / part
        if parts:
            name = parts[-1]
            if f"{name}.py" in self._list(folder) and not name.startswith("."):
                return folder / f"{name}.py"
            if f"{name}/" not in self._list(folder):
                return None
            folder = folder / name
        return folder / "__init__.py" if "__init__.py" in self._list(folder) else None

    def _roots(self, folder: Path, level: int) -> Iterable[Path]:
        if level:
            for _ in range(level - 1):
                folder = folder.parent
            return (folder,)
        roots: tuple[Path, ...] = self._remembered(set(), self._search_path, folder)
        return roots

    def _search_path(self, folder: Path) -> tuple[Path, ...]:
        """Where the imports of a folder's scripts may lead: scripts of the project further up may be what is run."""
        found = [folder]
        while self._is_package(folder):
            folder = folder.parent
            found.append(folder)
        homes = self._files.homes
        return (*found, *(each for each in folder.parents if each in homes), *self._distribution(folder))

    def _is_package(self, folder: Path) -> bool:
        return "__init__.py" in self._list(folder) and folder.parent != folder

    def _distribution(self, folder: Path) -> Iterator[Path]:
        """Where the packages stand to which a folder of scripts belongs: `pip install -e .` adds it."""
        for outer in (folder, *folder.parents):
            if not _MARKERS.isdisjoint(self._list(outer)):
                yield outer
                yield outer / "src"
                return

    def _near(self, folder: Path) -> tuple[Path, ...]:
        folders, inner = [folder], folder
        while self._is_package(folder):
            folder = folder.parent
            folders.append(folder)
        if inner.parent not in folders and len(inner.parts) > 1 and inner.name.islower():
            folders.append(inner.parent)
        return tuple(folders)


def name_in_library(package: tuple[str, ...], target: str, level: int) -> str | None:
    """The full name of what a file in a package of a known library imports from that library."""
    if not package or (not level and target.split(".")[0] != package[0]):
        return None
    return target if not level else ".".join((*package[: len(package) - level + 1], *filter(None, [target])))
