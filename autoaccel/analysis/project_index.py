"""Who imports whom, and who mentions what by name: the summaries of all files of a project, joined.

Made once for all analyses, and in full: there is no bound on how many files import another.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autoaccel.analysis.file_sets import members, set_of
from autoaccel.analysis.file_summaries import Summaries
from autoaccel.analysis.import_graph import ImportGraph, circles
from autoaccel.analysis.module_search import Modules
from autoaccel.analysis.word_index import WordIndex
from autoaccel.discovery import WHOLE, files_below
from autoaccel.summaries import IMPORTERS, Summary

_KEPT = 16  # answers about what some files assign
_MANY = "more files share its objects than are looked at"
_MENTIONED = "more files mention it than are looked at"


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Files in a fixed order; `missing` is None where these are surely all, else why there may be more. `names` are
    those under which imports hand on what was asked about."""

    paths: tuple[Path, ...] = ()
    missing: str | None = None
    names: tuple[str, ...] = ()


class ProjectIndex:
    """The imports and names of files. `summaries` are theirs, `modules` tells where their imports lead.

    `paths` are the files of the project; others are taken up when an import leads to them, or when they import a file
    whose importers are asked for, from near (`beside`: at most so many in one folder) or from anywhere in the
    repository (`around`: at most so many). Sets of files are those of `file_sets`.
    """

    def __init__(self, paths: Iterable[Path], summaries: Summaries, modules: Modules, beside: int, around: int) -> None:
        self._summaries = summaries
        self._beside = beside
        self._around = around
        self._graph = graph = ImportGraph(modules)
        self._assigned: dict[str, set[tuple[int, str]]] = {}  # by name: the files that assign it, and to which name
        self._stored: dict[int, tuple[frozenset[str], frozenset[str]]] = {}  # by file: the attributes that it assigns,
        # of what it imports and of other things
        self._storing = 0  # the files in `_stored`
        self._defined: dict[int, tuple[str, ...]] = {}  # by file: functions and classes
        self._making: dict[int, frozenset[str]] = {}  # by file that makes classes by `type`: what it mentions
        self._crowded: set[str] = set()  # folders with too many files
        self._near: dict[str, tuple[int, ...]] = {}  # by folder: its files that are none of the project
        # by repository: its files that are none of the project, and their texts
        self._whole: dict[str, dict[int, bytes | None]] = {}
        self._walked: list[str] = []  # what those depend on
        self._around_tops: dict[str, int] = {}  # by repository: those files, as a set with those of the project
        self._far: dict[int, int] = {}  # by file: those of them that import it, over any number of imports
        self._reached: dict[tuple[int, bool], int | None] = {}  # None where these are too many
        self._importing_here: dict[int, int] = {}
        self._bound: dict[int, frozenset[str]] = {}
        own = [graph.number(path) for path in sorted({str(path) for path in paths})]
        self._project = set_of(own)
        texts = [graph.enter(number, summaries(Path(graph.paths[number]))) for number in own]
        graph.forget_targets()
        for number, text in enumerate(texts):
            self._note(number, text.split())
        self._words = WordIndex(graph, summaries, texts)

    @property
    def folders(self) -> set[str]:
        """Those whose listings were looked at."""
        return self._graph.folders

    @property
    def heads(self) -> list[str]:
        """What imports begin with that may mean any folder of that name, one above the project, too."""
        return self._graph.heads()

    @property
    def outside(self) -> list[str]:
        """The files beside the project that were read."""
        entered = [self._graph.paths[each] for each in members(self._graph.entered & ~self._project)]
        around = [self._graph.paths[each] for files in self._whole.values() for each in files]
        return [*dict.fromkeys((*entered, *around))]

    @property
    def depends_on(self) -> set[str]:
        """The files and folders that all of this follows from, but for the given texts."""
        return {*self.folders, *self.outside, *self._walked}

    def with_text(self, path: Path, summary: Summary) -> ProjectIndex:
        """This index with another summary for one file."""
        index = copy(self)
        index._graph = self._graph.without(str(path))
        number = index._graph.number(str(path))
        index._words = self._words.without(number, index._graph)
        index._near, index._crowded, index._defined = self._near.copy(), self._crowded.copy(), self._defined.copy()
        index._far = {}
        # Its text need not be searched for imports: they are known.
        index._whole = {
            top: {**files, **dict.fromkeys({number} & files.keys(), b"")} for top, files in self._whole.items()
        }
        index._storing &= ~(1 << number)
        index._assigned = {
            name: {each for each in known if each[0] != number} for name, known in self._assigned.items()
        }
        index._stored = {each: known for each, known in self._stored.items() if each != number}
        index._making = {each: known for each, known in self._making.items() if each != number}
        index._reached, index._importing_here, index._bound = {}, {}, {}
        vars(index).pop("_circles", None)
        index._take_up(number, summary)
        return index

    # -- what is known of each file

    def _note(self, number: int, words: Collection[str]) -> None:
        """Keep what a file defines and assigns."""
        self._defined[number] = tuple(sys.intern(word[1:]) for word in words if word[0] == ":")
        if "<?" in words:
            self._making[number] = frozenset(word.removeprefix(".") for word in words)
        stored = [word for word in words if word[0] == "." and "=" in word]
        if stored:
            of_imports = frozenset(word[1:-1] for word in stored if word[-1] == "=")
            self._stored[number] = of_imports, frozenset(word[1:-2] for word in stored if word[-1] == "?")
            self._storing |= 1 << number
        for word in words:
            if word[0] == "=":
                _, target, value = word.split("=")
                self._assigned.setdefault(value, set()).add((number, target))

    def _take_up(self, number: int, summary: Summary | None = None) -> None:
        """Note a file that is none of the first ones, or no longer as it was."""
        summary = summary or self._summaries(Path(self._graph.paths[number]))
        words = frozenset(self._graph.enter(number, summary).split())
        self._words.add(number, words)
        self._note(number, words)

    # -- questions

    def importers(self, path: Path) -> KnownFiles:
        """The files whose import lines lead to a file, or to nothing that is known: the search path may be anything."""
        return self._known(path, lambda number: self._importing(number, self._among(number)))

    def callers(self, path: Path, name: str, most: int, *, method: bool) -> KnownFiles:
        """The other files in which a function, class or method of a file can be called by its name, or by one that
        they compute; none of them where there are more than `most`.

        Functions and classes are called where they are imported, from wherever: by name, under another name that an
        import gave them, or as an attribute of a module. Methods are called as attributes in any file that shares
        objects with theirs."""

        def find(number: int) -> int:
            return self._by_attribute({name}, number, shared=True) if method else self._by_name(name, number, most)

        return self._known(path, find, most)

    def deriving(self, path: Path, name: str, most: int) -> KnownFiles:
        """The other files in which a class may derive from one of a file; none where there are more than `most`."""
        try:
            words = {word for _, word in self._names_given(self._graph.number(str(path)), name)}
        except _TooManyError as error:
            return KnownFiles((), str(error))

        def find(number: int) -> int:
            bases = self._words.having("<()", *(f"<{word}" for word in words))
            bases |= set_of([each for each, mentioned in self._making.items() if not mentioned.isdisjoint(words)])
            bases &= ~(1 << number)
            return bases & self._reach(number, shared=False) if bases else 0

        return replace(self._known(path, find, most), names=tuple(sorted(words)))

    def _names_given(self, number: int, name: str) -> set[tuple[int, str]]:
        """The names under which what a file defines goes by, with the files in which it does."""
        among = self._among(number)
        pending = [(number, name)]
        seen = {*pending}
        while pending:
            source, word = pending.pop()
            importing = self._importing(source, among)
            given = {*self._graph.given(source, word, importing)}
            givers = importing | 1 << source
            given.update(each for each in self._assigned.get(word, ()) if givers >> each[0] & 1)
            for each, alias in given:
                if (each, alias) not in seen:
                    seen.add((each, alias))
                    pending.append((each, alias))
        return seen

    def _by_name(self, name: str, number: int, most: int) -> int:
        """Who mentions what comes from a file under a name, or under those that imports have given it since. Raises
        `_TooManyError`."""
        among = self._among(number)
        found = 0
        pending = [(number, name)]
        seen = {*pending}
        while pending:
            source, word = pending.pop()
            importing = self._importing(source, among)
            for known in self._graph.given(source, word, importing):
                if self._words.mentions(known[0], word):
                    found |= 1 << known[0]
                if known not in seen:
                    seen.add(known)
                    pending.append(known)
            if word in self._defined.get(source, ()):  # what may be called, out of scripts in folders of their own, too
                around = self._files_around(self._graph.paths[source])
                importing |= self._graph.importers(source) & around
            found |= self._words.mentioning(importing & self._graph.computing(), word)
            found |= importing & self._words.having("?")
            if found.bit_count() > most + 1:
                raise _TooManyError(_MENTIONED)
        return found | self._by_attribute({word for _, word in seen}, number, shared=False)

    def _by_attribute(self, names: set[str], number: int, *, shared: bool) -> int:
        mentioning = self._words.having(*(f".{name}" for name in names)) & ~(1 << number)
        if shared:
            mentioning |= self._words.having("?")
        return mentioning & self._reach(number, shared=shared) if mentioning else 0

    def rebound_names(self, path: Path) -> KnownFiles:
        """The names of a file that others may bind to something else: attributes of what they import from it, by way
        of any number of files, and attributes of objects that they are handed where it defines a function or class of
        that name. All that it defines where the attributes' names are computed."""
        number = self._graph.number(str(path))
        defined = frozenset(self._defined.get(number, ()))
        try:
            names = {*self._bound_by(self._reach(number, shared=False) & self._storing & ~(1 << number))}
            if "?" in names:
                names |= defined
            of_others = {name: self._words.having(f".{name}=?") & ~(1 << number) for name in defined}
            if any(of_others.values()):
                shared = self._reach(number, shared=True)
                names.update(name for name, files in of_others.items() if files & shared)
        except _TooManyError as error:
            return KnownFiles((), str(error), tuple(sorted(defined)))
        return KnownFiles((), self._missing(str(path)), tuple(sorted(names)))

    def _bound_by(self, files: int) -> frozenset[str]:
        """The attributes of what they import that some files assign."""
        known = self._bound.get(files)
        if known is None:
            known = frozenset().union(*(self._stored[each][0] for each in members(files)))
            while len(self._bound) >= _KEPT:
                self._bound.pop(next(iter(self._bound)))
            self._bound[files] = known
        return known

    def rebinding_files(self, path: Path, name: str) -> KnownFiles:
        """The other files that may bind one of the names of `rebound_names`."""
        if (missing := self.rebound_names(path).missing) is not None:
            return KnownFiles((), missing)

        def find(number: int) -> int:
            defined = frozenset(self._defined.get(number, ()))
            found = self._words.having(f".{name}=", f".{name}=?", ".?=") & ~(1 << number)
            importing = found & self._reach(number, shared=False)
            others = [each for each in members(found & ~importing) if not self._stored[each][1].isdisjoint(defined)]
            return importing | (set_of(others) & self._reach(number, shared=True) if others else 0)

        return self._known(path, find)

    def unresolved_imports(self, path: Path) -> KnownFiles:
        """The dotted names that a file imports from who knows where (`sys.path` may be anything), itself or by files
        that hand on what they import, and by which, seen from some folder, files of the project or its repository are
        called."""

        def named(number: int) -> int:
            if not self._graph.entered >> number & 1:
                self._take_up(number)
            return self._graph.surely_imported(number)

        own = self._graph.number(str(path))
        around = self._files_around(str(path))
        try:
            handing = self._closure(1 << own, named, None)
        except _TooManyError as error:
            return KnownFiles((), str(error), tuple(sorted(self._graph.unresolved_names(own, around))))
        names = set().union(*(self._graph.unresolved_names(each, around) for each in members(handing)))
        return KnownFiles((), self._missing(str(path)), tuple(sorted(names)))

    def related(self, path: Path, most: int) -> KnownFiles:
        """The files that may share objects with a file: those that import it, over any number of imports, and what
        these import. None of them where there are more than `most`."""
        return self._known(path, lambda number: self._reach(number, shared=True, most=most + 1))  # itself among them

    def mentioning(self, path: Path, word: str) -> KnownFiles:
        """The other files that may share objects with a file and mention a word: as a name, an attribute, in a text."""

        def find(number: int) -> int:
            return self._words.mentioning(self._reach(number, shared=True) & ~(1 << number), word)

        return self._known(path, find)

    def _known(self, path: Path, find: Callable[[int], int], most: int | None = None) -> KnownFiles:
        """The other files that a search gives, which is told the number of a file; none where these are more than
        `most`, or than are looked at."""
        number = self._graph.number(str(path))
        try:
            found = find(number) & ~(1 << number)
        except _TooManyError as error:
            return KnownFiles((), str(error))
        if most is not None and found.bit_count() > most:
            return KnownFiles((), _MENTIONED)
        return KnownFiles(self._graph.ordered(found), self._missing(str(path)))

    # -- who has to do with whom

    def _neighbours(self, path: str) -> tuple[int, ...]:
        found: list[int] = []
        graph = self._graph
        for folder in graph.modules.folders_near(os.path.dirname(path), graph.folders):
            known = self._near.get(folder)
            if known is None:
                names = sorted(each for each in graph.modules.listing(folder, graph.folders) if each.endswith(".py"))
                found_here = (graph.number(os.path.join(folder, name)) for name in names)
                known = tuple(each for each in found_here if not self._project >> each & 1)
                if len(known) > self._beside:
                    self._crowded.add(folder)
                    known = ()
                self._near[folder] = known
                for each in known:
                    if not self._graph.entered >> each & 1:
                        self._take_up(each)
            found.extend(known)
        return tuple(found)

    def _among(self, number: int) -> int:
        """The files that may have to do with one: those of the project, and its neighbours."""
        near = self._neighbours(self._graph.paths[number])
        far = self._importing_from_afar(number)
        return self._project | set_of(near) | far if near or far else self._project

    def _importing_from_afar(self, number: int) -> int:
        """The files of the same repository, beside the project, that import a file over any number of imports. By a
        name that they compute they import modules (`_is_module`), not what is run."""
        known = self._far.get(number)
        if known is not None:
            return known
        if not self._graph.paths[number].endswith(".py") or not os.path.isfile(self._graph.paths[number]):
            return 0  # of what is open and not on disk yet nobody knows
        found, pending, seen = 0, [number], 1 << number
        for each in pending:
            path = self._graph.paths[each]
            texts = self._texts_around(os.path.dirname(path))
            if not texts:
                continue
            name = _imported_as(path).encode(errors="surrogateescape")
            word = re.compile(rb"(?<![\w\x80-\xff])%b(?![\w\x80-\xff])" % re.escape(name))
            for other, text in texts.items():
                if name in text and not self._graph.entered >> other & 1 and word.search(text):
                    self._take_up(other)
            importing = self._graph.importers(each) if self._is_module(path) else self._graph.naming_importers(each)
            found |= importing & ~self._project
            if found.bit_count() > self._beside:
                raise _TooManyError(_MANY)
            pending.extend(members(importing & ~seen))
            seen |= importing
        self._far[number] = found
        return found

    def _is_module(self, path: str) -> bool:
        """Whether a file is part of a package, or stands at the top of its repository and does not say that it is run;
        others are scripts in folders of their own."""
        folder, modules = os.path.dirname(path), self._graph.modules
        if modules.is_in_package(folder, self._graph.folders):
            return True
        at_top = folder == modules.whole(folder, self._graph.folders)
        return at_top and b"__main__" not in self._summaries.data_at(path)

    def _texts_around(self, folder: str) -> dict[int, bytes]:
        """The files of the repository or project around a folder that are none of those that are given, by their
        texts: few are summed up."""
        top = self._graph.modules.whole(folder, self._graph.folders)
        if not top:
            return {}
        known = self._whole.get(top)
        if known is None:
            below = files_below(top, self._around + self._project.bit_count(), self._walked)
            paths = {*below, *self._summaries.given_below(top)} if below is not None else set[str]()
            numbers = [self._graph.number(each) for each in sorted(paths)]
            others = [each for each in numbers if not self._project >> each & 1]
            if below is None or len(others) > self._around:
                self._crowded.add(top)
                others = []
            self._graph.folders.add(os.path.join(top, WHOLE))
            known = self._whole[top] = dict.fromkeys(others)
        if None in known.values():
            known.update((each, self._summaries.data_at(self._graph.paths[each])) for each in known)
            for each, text in known.items():
                if not self._graph.entered >> each & 1 and any(way in (text or b"") for way in IMPORTERS):
                    self._take_up(each)
        return known  # type: ignore[return-value]

    def _files_around(self, path: str) -> int:
        """The files of the project, and of the repository or project around a file."""
        folder = os.path.dirname(path)
        around = self._texts_around(folder)
        if not around:
            return self._project
        top = self._graph.modules.whole(folder, self._graph.folders)
        if top not in self._around_tops:
            self._around_tops[top] = self._project | set_of([*around])
        return self._around_tops[top]

    def __getstate__(self) -> dict[str, object]:
        whole = {top: dict.fromkeys(files) for top, files in self._whole.items()}
        return {**vars(self), "_whole": whole}  # other processes read the texts that they need

    def _importing(self, number: int, among: int) -> int:
        if among is not self._project:
            return self._graph.importers(number) & among
        known = self._importing_here.get(number)
        if known is None:
            known = self._importing_here[number] = self._graph.importers(number) & among
        return known

    def _reach(self, number: int, *, shared: bool, most: int | None = None) -> int:
        """The files that import one over any number of imports, itself among them; with `shared` what these import as
        well. Raises `_TooManyError`."""
        among = self._among(number)
        own = among is self._project and self._project >> number & 1
        if own:
            number, importing = self._circles[number]
            if not shared:
                return importing
        if (number, shared) not in self._reached:
            found: int | None
            try:
                if not own:
                    importing = self._closure(1 << number, lambda each: self._importing(each, among), most)
                found = self._closure(importing, self._imported, most) if shared else importing
            except _TooManyError:
                if most is not None:
                    raise
                found = None
            self._reached[number, shared] = found
        known = self._reached[number, shared]
        if known is None or (most is not None and known.bit_count() > most):
            raise _TooManyError(_MANY)
        return known

    @cached_property
    def _circles(self) -> dict[int, tuple[int, int]]:
        return circles({number: self._importing(number, self._project) for number in members(self._project)})

    def _closure(self, found: int, follow: Callable[[int], int], most: int | None) -> int:
        pending = [*members(found)]
        outside = 0
        while pending:
            if (most is not None and found.bit_count() > most) or outside > self._beside:
                raise _TooManyError(_MANY)
            fresh = follow(pending.pop()) & ~found
            if fresh:
                found |= fresh
                outside += (fresh & ~self._project).bit_count()
                pending.extend(members(fresh))
        return found

    def _imported(self, number: int) -> int:
        if not self._graph.entered >> number & 1:
            self._take_up(number)
        computing = self._graph.computing() >> number & 1
        around = self._files_around(self._graph.paths[number]) if computing else 0
        return self._graph.imported(number, self._project, around)

    def _missing(self, path: str) -> str | None:
        """Why there may be more who import a file."""
        if not self._crowded:
            return None
        own, graph = os.path.dirname(path), self._graph
        for folder in (*graph.modules.folders_near(own, graph.folders), graph.modules.whole(own, graph.folders)):
            if folder in self._crowded:
                return f"more files lie in `{os.path.basename(folder)}` than are looked at"
        return None


def _imported_as(path: str) -> str:
    """The last part of the name under which a file is imported."""
    folder, name = os.path.split(path)
    stem = name.rpartition(".")[0]
    return os.path.basename(folder) if stem == "__init__" else stem


class _TooManyError(Exception):
    pass
