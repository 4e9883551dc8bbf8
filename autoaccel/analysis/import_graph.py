"""The imports of numbered files: whom each imports, by whom it is imported, and under which names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from copy import copy
from pathlib import Path

from autoaccel.analysis.file_sets import members, set_of
from autoaccel.analysis.module_search import Modules
from autoaccel.summaries import Summary

_STANDARD = frozenset(sys.stdlib_module_names)
_LOOSE = -1  # where an import leads if nobody knows


class ImportGraph:
    """Who imports whom. `modules` tells where imports lead; sets of files are those of `file_sets`."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.folders: set[str] = set()
        """Those whose listings were looked at."""
        self.entered = 0
        """The files whose imports are known."""
        self.paths: list[str] = []
        self.names: list[tuple[tuple[str, str, int], ...]] = []
        """By file: imported names (or `*`), alias, whence."""
        self._numbers: dict[str, int] = {}
        self._as_paths: dict[int, Path] = {}
        self._imports: list[int] = []  # by file: those that it imports
        self._importers: list[int] = []
        self._naming: dict[tuple[str, int], list[int]] = {}  # by imported name and whence: whose `names` have it
        self._loose: dict[str, int] = {}  # by dotted name: who imports it where it leads to nothing known
        self._leading_nowhere: dict[int, tuple[str, ...]] = {}  # by file: those names
        self._called: tuple[int, dict[str, int]] = 0, {}  # of some files: by dotted name, seen from whatever folder
        self._computed: dict[int, tuple[tuple[str, tuple[str, ...]], ...]] = {}  # who imports by names that are
        # computed: what they begin with, and the folders from below which they are
        self._computing: dict[int, int] = {}  # by file: those of `_computed` that may come upon it
        self._computable: dict[tuple[int, int], int] = {}  # by file of `_computed`: those of some that it may come upon
        self._targets: dict[tuple[str, str, int], tuple[tuple[int, ...], str]] = {}

    def number(self, path: str) -> int:
        number = self._numbers.setdefault(path, len(self.paths))
        if number == len(self.paths):
            self.paths.append(path)
            self._imports.append(0)
            self._importers.append(0)
            self.names.append(())
        return number

    def ordered(self, files: int) -> tuple[Path, ...]:
        """The paths of a set of files, in their order."""
        return tuple(map(self._path, sorted(members(files), key=self.paths.__getitem__)))

    def _path(self, number: int) -> Path:
        known = self._as_paths.get(number)
        if known is None:
            known = self._as_paths[number] = Path(self.paths[number])
        return known

    # -- what is known of each file

    def enter(self, number: int, summary: Summary) -> str:
        """Note what a file imports; the answer are its words."""
        folder, importer = os.path.split(self.paths[number])
        self.entered |= 1 << number
        computed = [entry[1:] for entry in summary.imports if entry[:1] == "?"]
        if computed:
            roots = tuple(os.path.join(root, "") for root in self.modules.roots(folder, self.folders))
            own = (os.path.join(folder, ""),)
            self._computed[number] = tuple(("", own) if each == "." else (each, roots) for each in computed)
            self._computing = {}
        names: dict[tuple[str, str, int], None] = {}
        for entry in summary.imports:
            if entry[:1] != "?":
                dotted, _, alias = entry.partition("=")
                target = dotted.lstrip(".")
                module = target.removesuffix("*").rstrip(".")
                source = self._connect(number, folder, importer, module, len(dotted) - len(target))
                if source is not None:
                    names[sys.intern(target.rpartition(".")[2]), sys.intern(alias), source] = None
        self.names[number] = tuple(names)
        for imported, _, whence in names:
            self._naming.setdefault((imported, whence), []).append(number)
        return summary.words

    def _connect(self, number: int, folder: str, importer: str, target: str, level: int) -> int | None:
        """Note which files an import leads to: the module, which is the answer, and the packages around it."""
        key = folder, target, level
        own = importer.removesuffix(".py") in target
        known = None if own else self._targets.get(key)
        if known is None:
            known = self._find(folder, importer, target, level)
            if not own:
                self._targets[key] = known
        files, loose = known
        for other in files:
            if other != number:
                self._imports[number] |= 1 << other
                self._importers[other] |= 1 << number
        if loose:
            names = loose.split(".")
            names = [".".join(names[:end]) for end in range(1, len(names) + 1)]
            for name in names:
                self._loose[name] = self._loose.get(name, 0) | 1 << number
            self._leading_nowhere[number] = (*self._leading_nowhere.get(number, ()), *names)
        return files[0] if files else _LOOSE if loose else None

    def _find(self, folder: str, importer: str, target: str, level: int) -> tuple[tuple[int, ...], str]:
        """The files on the way to a dotted name, and the name if it leads nowhere."""
        found = self.modules.find(folder, importer, target, level, self.folders)
        if found is None:
            return (), target if level or target.split(".")[0] not in _STANDARD else ""
        files = [found[0]]
        package = os.path.dirname(found[0])
        if os.path.basename(found[0]) == "__init__.py":
            package = os.path.dirname(package)
        for _ in range(target.count(".") + bool(target) - len(found[1]) - (not level)):
            if "__init__.py" in self.modules.listing(package, self.folders):
                files.append(os.path.join(package, "__init__.py"))
            package = os.path.dirname(package)
        return tuple(self.number(each) for each in files), ""

    def without(self, path: str) -> ImportGraph:
        """These imports but for those of one file, which is to be entered anew."""
        graph = copy(self)
        for name in ("paths", "names", "_numbers", "_as_paths", "_imports", "_importers", "_targets"):
            setattr(graph, name, getattr(self, name).copy())
        graph._naming = {key: each.copy() for key, each in self._naming.items()}
        number = graph.number(path)
        others = ~(1 << number)
        for other in members(graph._imports[number]):
            graph._importers[other] &= others
        graph._imports[number] = 0
        graph._loose = {name: known & others for name, known in self._loose.items()}
        graph._leading_nowhere = {each: known for each, known in self._leading_nowhere.items() if each != number}
        graph._computed = {each: known for each, known in self._computed.items() if each != number}
        graph._computing, graph._computable = {}, {}
        return graph

    def forget_targets(self) -> None:
        """Forget where imports led: few more are to come."""
        self._targets.clear()

    # -- questions

    def naming_importers(self, number: int) -> int:
        """The files whose imports lead to one, or may, by names that stand there, as far as these were entered."""
        parts = _dotted(self.paths[number])
        found = self._importers[number]
        for start in range(1, len(parts)):
            found |= self._loose.get(".".join(parts[start:]), 0)
        return found & ~(1 << number)

    def importers(self, number: int) -> int:
        """The same with those whose imports compute names."""
        path, found = self.paths[number], self.naming_importers(number)
        computing = self._computing.get(number)
        if computing is None:
            computing = set_of([each for each in self._computed if self._may_compute(each, path)])
            self._computing[number] = computing
        return (found | computing) & ~(1 << number)

    def surely_imported(self, number: int) -> int:
        """The files to which the imports of one lead by names that stand there."""
        return self._imports[number]

    def unresolved_names(self, number: int, files: int) -> set[str]:
        """What a file imports from who knows where, and some files may be called."""
        names = self._leading_nowhere.get(number, ())
        return {*names} & self._by_name(files).keys() if names else set()

    def imported(self, number: int, project: int, around: int = 0) -> int:
        """The files to which the imports of one lead, or may; of those that lead nowhere else (`sys.path` may), to
        files of the project, and of those that it computes to the files `around` it as well."""
        found = self._imports[number]
        if (names := self._leading_nowhere.get(number)) is not None:
            called = self._by_name(project)
            for name in names:
                found |= called.get(name, 0)
        if number in self._computed:
            known = self._computable.get((number, project | around))
            if known is None:
                among = [each for each in members(project | around) if self._may_compute(number, self.paths[each])]
                known = self._computable[number, project | around] = set_of(among)
            found |= known
        return found

    def _by_name(self, files: int) -> dict[str, int]:
        if self._called[0] != files:
            table: dict[str, int] = {}
            for each in members(files):
                parts = _dotted(self.paths[each])
                for start in range(1, len(parts)):
                    if parts[start] in self._loose:
                        name = ".".join(parts[start:])
                        table[name] = table.get(name, 0) | 1 << each
            self._called = files, table
        return self._called[1]

    def heads(self) -> list[str]:
        """What the dotted names begin with that lead to nothing known; with a star behind it, of those that are
        computed. Folders that are called so may be meant by them, those above the project as well."""
        starts = {start for known in self._computed.values() for start, _ in known if start}
        computed = {start.split(".")[0] + "*" * ("." not in start) for start in starts}
        return sorted({*computed, *(name for name in self._loose if "." not in name)})

    def computing(self) -> int:
        """The files that import by names which they compute."""
        return set_of(self._computed)

    def given(self, source: int, word: str, importing: int) -> Iterator[tuple[int, str]]:
        """The files that import a name, and how they call it."""
        ways = [(imported, whence) for imported in (word, "*") for whence in (source, _LOOSE)]
        named = [each for way in ways for each in self._naming.get(way, ())]
        few = importing.bit_count() < len(named)
        for each in members(importing) if few else {each for each in named if importing >> each & 1}:
            for imported, alias, whence in self.names[each]:
                if (imported, whence) in ways:
                    yield each, alias or word

    def _may_compute(self, number: int, path: str) -> bool:
        """Whether a file that imports by computed names may come upon another."""
        return any(
            path.startswith(roots) and (not start or _may_be_called(path, start))
            for start, roots in self._computed[number]
        )


def _dotted(path: str) -> list[str]:
    return path.removesuffix(".py").removesuffix(f"{os.sep}__init__").split(os.sep)


def _may_be_called(path: str, start: str) -> bool:
    """Whether the dotted name of a file, seen from some folder, may begin like this, or it is a package on the way."""
    parts = _dotted(path)
    names = (".".join(parts[at:]) for at in range(len(parts)))
    package = os.path.basename(path) == "__init__.py"
    return any(each.startswith(start) or (package and start.startswith(f"{each}.")) for each in names)


def circles(importing: dict[int, int]) -> dict[int, tuple[int, int]]:
    """By file: the first found of those that import one another in a circle with it, and all files that import these
    over any number of imports, by the files that import each. What reaches one of a circle reaches all (Kosaraju and
    Sharir)."""
    imports: dict[int, list[int]] = {}
    for number, files in importing.items():
        for each in members(files):
            imports.setdefault(each, []).append(number)
    finished: list[int] = []
    seen: set[int] = set()
    for first in importing:
        pending = [(first, False)]
        while pending:
            number, done = pending.pop()
            if done:
                finished.append(number)
            elif number not in seen:
                seen.add(number)
                pending.append((number, True))
                pending.extend((each, False) for each in imports.get(number, ()) if each not in seen)
    circles: dict[int, tuple[int, int]] = {}
    for first in reversed(finished):
        if first in circles:
            continue
        circle, reached, waiting = {first}, 0, [first]
        while waiting:
            number = waiting.pop()
            reached |= 1 << number
            for each in members(importing[number]):
                if each in circles:  # a circle before this one, of which all is known
                    reached |= circles[each][1]
                elif each not in circle:
                    circle.add(each)
                    waiting.append(each)
        circles.update(dict.fromkeys(circle, (first, reached)))
    return circles
