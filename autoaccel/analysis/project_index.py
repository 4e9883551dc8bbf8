"""Who imports whom, and who mentions what by name: the summaries of all files of a project, joined.

Made once for all analyses, and in full: there is no bound on how many files import another.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.summaries import Summary, summary

if TYPE_CHECKING:
    from autoaccel.analysis.module_search import Modules

Known = Callable[[Path], Summary | None]

_STANDARD = frozenset(sys.stdlib_module_names)
_KEPT = 16  # answers about what some files assign
_FEW = 8  # files are put together faster than they are kept
_LOOSE = -1  # where an import leads if nobody knows


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Files in a fixed order; `missing` is None where these are surely all, else why there may be more. `names` are
    those under which imports hand on what was asked about."""

    paths: tuple[Path, ...] = ()
    missing: str | None = None
    names: tuple[str, ...] = ()


class Summaries:
    """What each file has to do with others: found out before (`known`), or told by its text. `texts` stand in the
    place of what is on disk."""

    def __init__(self, texts: Mapping[Path, str], known: Known | None) -> None:
        self._texts = texts
        self.known = known

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "known": None}  # other processes have the index, or read what they need

    def __call__(self, path: Path) -> Summary:
        known = None if self.known is None or path in self._texts else self.known(path)
        return summary(self._data(path)) if known is None else known

    def mention(self, path: Path, word: str) -> bool:
        """Whether a file mentions a name. Few files have the letters, and only these need to be summed up."""
        if word.encode(errors="surrogatepass") not in self._data(path):
            return False
        return word in self(path).words.split()

    def _data(self, path: Path) -> bytes:
        text = self._texts.get(path)
        if text is not None:
            return text.encode(errors="surrogatepass")
        try:
            return path.read_bytes() if path.is_file() else b""
        except OSError:  # nobody can import it
            return b""


class ProjectIndex:
    """The imports and names of files. `summaries` are theirs, `modules` tells where their imports lead.

    Files have numbers, and a set of files is an `int`: bit `n` stands for file `n`. Thousands of sets of thousands of
    files are kept, and a set of this kind takes an eighth of a byte for each.

    `paths` are the files of the project; others are taken up when an import leads to them, or when they lie near a
    file whose importers are asked for (`beside`: at most so many in one folder).
    """

    def __init__(self, paths: Iterable[Path], summaries: Summaries, modules: Modules, beside: int = 400) -> None:
        self._summaries = summaries
        self._modules = modules
        self._beside = beside
        self.folders: set[str] = set()
        """Those whose listings were looked at."""
        self._numbers: dict[str, int] = {}
        self._paths: list[str] = []
        self._as_paths: dict[int, Path] = {}
        self._imports: list[int] = []  # by file: those that it imports
        self._importers: list[int] = []
        self._names: list[tuple[tuple[str, str, int], ...]] = []  # by file: imported names (or `*`), alias, whence
        self._naming: dict[tuple[str, int], list[int]] = {}  # by imported name and whence: whose `_names` have it
        self._assigned: dict[str, set[tuple[int, str]]] = {}  # by name: the files that assign it, and to which name
        self._stored: dict[int, tuple[frozenset[str], frozenset[str]]] = {}  # by file: the attributes that it assigns,
        # of what it imports and of other things
        self._storing = 0  # the files in `_stored`
        self._defined: dict[int, tuple[str, ...]] = {}  # by file: functions and classes
        self._making: dict[int, frozenset[str]] = {}  # by file that makes classes by `type`: what it mentions
        self._loose: dict[str, int] = {}  # by dotted name: who imports it where it leads to nothing known
        self._computed: dict[int, tuple[tuple[str, tuple[str, ...]], ...]] = {}  # who imports by names that are
        # computed: what they begin with, and the folders from below which they are
        self._postings: dict[str, array[int]] = {}
        self._later = 0  # files that came after the first ones, or are no longer as they were
        self._posted_later: dict[str, int] = {}  # all their words
        self._first: dict[str, int] = {}  # by word that many mention and that was asked for: the files in `_postings`
        self._targets: dict[tuple[str, str, int], tuple[tuple[int, ...], str]] = {}
        self._entered = 0
        self._crowded: set[str] = set()  # folders with too many files
        self._near: dict[str, tuple[int, ...]] = {}  # by folder: its files that are none of the project
        self._reached: dict[tuple[int, bool], int | None] = {}  # None where these are too many
        self._computing: dict[int, int] = {}
        self._computable: dict[int, int] = {}
        self._importing_here: dict[int, int] = {}
        self._sought: dict[tuple[int, str], bool] = {}
        self._bound: dict[int, frozenset[str]] = {}
        self._project = _set_of([self._number(path) for path in sorted({str(path) for path in paths})])
        self._post(
            [self._enter(number, self._summaries(Path(path))).words for number, path in enumerate([*self._paths])]
        )
        self._targets.clear()  # few more imports are to come

    # -- what is known of each file

    def _post(self, texts: Sequence[str]) -> None:
        """Note who mentions which attributes, and the names that are defined or imported somewhere."""
        wanted = {word[1:] for text in texts for word in text.split() if word[0] == ":"}
        wanted.update(each for names in self._names for name, alias, _ in names for each in (name, alias))
        for number, text in enumerate(texts):
            for word in text.split():
                if word[0] in ".?<" or word in wanted:
                    known = self._postings.get(word)
                    if known is None:
                        known = self._postings[word] = array("I")
                    known.append(number)
            self._note(number, text.split())

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

    def _number(self, path: str) -> int:
        number = self._numbers.setdefault(path, len(self._paths))
        if number == len(self._paths):
            self._paths.append(path)
            self._imports.append(0)
            self._importers.append(0)
            self._names.append(())
        return number

    def _enter(self, number: int, summary: Summary) -> Summary:
        folder, importer = os.path.split(self._paths[number])
        self._entered |= 1 << number
        computed = [entry[1:] for entry in summary.imports if entry[0] == "?"]
        if computed:
            roots = tuple(os.path.join(root, "") for root in self._modules.roots(folder, self.folders))
            own = (os.path.join(folder, ""),)
            self._computed[number] = tuple(("", own) if each == "." else (each, roots) for each in computed)
            self._computing = {}
        names: dict[tuple[str, str, int], None] = {}
        for entry in summary.imports:
            if entry[0] != "?":
                dotted, _, alias = entry.partition("=")
                target = dotted.lstrip(".")
                module = target.removesuffix("*").rstrip(".")
                source = self._connect(number, folder, importer, module, len(dotted) - len(target))
                if source is not None:
                    names[sys.intern(target.rpartition(".")[2]), sys.intern(alias), source] = None
        self._names[number] = tuple(names)
        for imported, _, whence in names:
            self._naming.setdefault((imported, whence), []).append(number)
        return summary

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
            for end in range(1, len(names) + 1):
                name = ".".join(names[:end])
                self._loose[name] = self._loose.get(name, 0) | 1 << number
        return files[0] if files else _LOOSE if loose else None

    def _find(self, folder: str, importer: str, target: str, level: int) -> tuple[tuple[int, ...], str]:
        """The files on the way to a dotted name, and the name if it leads nowhere."""
        found = self._modules.find(folder, importer, target, level, self.folders)
        if found is None:
            return (), target if level or target.split(".")[0] not in _STANDARD else ""
        files = [found[0]]
        package = os.path.dirname(found[0])
        if os.path.basename(found[0]) == "__init__.py":
            package = os.path.dirname(package)
        for _ in range(target.count(".") + bool(target) - len(found[1]) - (not level)):
            if "__init__.py" in self._modules.listing(package, self.folders):
                files.append(os.path.join(package, "__init__.py"))
            package = os.path.dirname(package)
        return tuple(self._number(each) for each in files), ""

    def with_text(self, path: Path, summary: Summary) -> ProjectIndex:
        """This index with another summary for one file."""
        index = ProjectIndex((), self._summaries, self._modules, self._beside)
        vars(index).update(vars(self))
        for name in ("_paths", "_numbers", "_imports", "_importers", "_names", "_near", "_crowded", "_defined"):
            setattr(index, name, getattr(self, name).copy())
        index._naming = {key: each.copy() for key, each in self._naming.items()}
        number = index._number(str(path))
        others = ~(1 << number)
        for other in _members(index._imports[number]):
            index._importers[other] &= others
        index._imports[number] = 0
        index._storing &= others
        index._posted_later = {word: known & others for word, known in self._posted_later.items()}
        index._loose = {name: known & others for name, known in self._loose.items()}
        index._assigned = {
            name: {each for each in known if each[0] != number} for name, known in self._assigned.items()
        }
        index._stored = {each: known for each, known in self._stored.items() if each != number}
        index._making = {each: known for each, known in self._making.items() if each != number}
        index._computed = {each: known for each, known in self._computed.items() if each != number}
        index._reached, index._computing, index._computable, index._sought, index._importing_here = {}, {}, {}, {}, {}
        index._bound = {}
        vars(index).pop("_circles", None)
        index._take_up(number, summary)
        return index

    @property
    def outside(self) -> list[str]:
        """The files beside the project that were read."""
        return [self._paths[each] for each in _members(self._entered & ~self._project)]

    def _take_up(self, number: int, summary: Summary | None = None) -> None:
        """Note a file that is none of the first ones, or no longer as it was."""
        summary = summary or self._summaries(Path(self._paths[number]))
        words = frozenset(self._enter(number, summary).words.split())
        self._later |= 1 << number
        for word in words:
            self._posted_later[word] = self._posted_later.get(word, 0) | 1 << number
        self._note(number, words)
        vars(self).pop("_computing_names", None)

    # -- questions

    def importers(self, path: Path) -> KnownFiles:
        """The files whose import lines lead to a file, or to nothing that is known: the search path may be anything."""
        number = self._number(str(path))
        found = self._importing(number, self._among(number))
        return KnownFiles(self._ordered(found), self._missing(str(path)))

    def callers(self, path: Path, name: str, most: int, *, method: bool) -> KnownFiles:
        """The other files in which a function, class or method of a file can be called by its name, or by one that
        they compute; none of them where there are more than `most`.

        Functions and classes are called where they are imported, from wherever: by name, under another name that an
        import gave them, or as an attribute of a module. Methods are called as attributes in any file that shares
        objects with theirs."""
        number = self._number(str(path))
        try:
            found = self._by_attribute({name}, number, shared=True) if method else self._by_name(name, number, most)
        except _TooManyError as error:
            return KnownFiles((), str(error))
        found &= ~(1 << number)
        if found.bit_count() > most:
            return KnownFiles((), _MENTIONED)
        return KnownFiles(self._ordered(found), self._missing(str(path)))

    def deriving(self, path: Path, name: str, most: int) -> KnownFiles:
        """The other files in which a class may derive from one of a file."""
        number = self._number(str(path))
        try:
            words = {word for _, word in self._names_given(number, name)}
            bases = self._with_word("<()") | self._with_any(f"<{word}" for word in words)
            bases |= _set_of([each for each, mentioned in self._making.items() if not mentioned.isdisjoint(words)])
            found = bases & ~(1 << number)
            if found:
                found &= self._reach(number, shared=False)
        except _TooManyError as error:
            return KnownFiles((), str(error))
        if found.bit_count() > most:
            return KnownFiles((), _MENTIONED)
        return KnownFiles(self._ordered(found), self._missing(str(path)), tuple(sorted(words)))

    def _names_given(self, number: int, name: str) -> set[tuple[int, str]]:
        """The names under which what a file defines goes by, with the files in which it does."""
        among = self._among(number)
        pending = [(number, name)]
        seen = {*pending}
        while pending:
            source, word = pending.pop()
            importing = self._importing(source, among)
            given = {*self._given(source, word, importing)}
            givers = importing | 1 << source
            given.update(each for each in self._assigned.get(word, ()) if givers >> each[0] & 1)
            for each, alias in given:
                if (each, alias) not in seen:
                    seen.add((each, alias))
                    pending.append((each, alias))
        return seen

    def _given(self, source: int, word: str, importing: int) -> Iterator[tuple[int, str]]:
        """The files that import a name, and how they call it."""
        ways = [(imported, whence) for imported in (word, "*") for whence in (source, _LOOSE)]
        named = [each for way in ways for each in self._naming.get(way, ())]
        few = importing.bit_count() < len(named)
        for each in _members(importing) if few else {each for each in named if importing >> each & 1}:
            for imported, alias, whence in self._names[each]:
                if (imported, whence) in ways:
                    yield each, alias or word

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
            for known in self._given(source, word, importing):
                if self._mentions(known[0], word):
                    found |= 1 << known[0]
                if known not in seen:
                    seen.add(known)
                    pending.append(known)
            found |= self._those_that_mention(importing & _set_of(self._computed), word)
            found |= importing & self._computing_names
            if found.bit_count() > most + 1:
                raise _TooManyError(_MENTIONED)
        return found | self._by_attribute({word for _, word in seen}, number, shared=False)

    def _by_attribute(self, names: set[str], number: int, *, shared: bool) -> int:
        mentioning = self._with_any(f".{name}" for name in names) & ~(1 << number)
        if shared:
            mentioning |= self._computing_names
        return mentioning & self._reach(number, shared=shared) if mentioning else 0

    def rebound_names(self, path: Path) -> KnownFiles:
        """The names of a file that others may bind to something else: attributes of what they import from it, by way
        of any number of files, and attributes of objects that they are handed where it defines a function or class of
        that name. All that it defines where the attributes' names are computed."""
        number = self._number(str(path))
        defined = frozenset(self._defined.get(number, ()))
        try:
            names = set(self._bound_by(self._reach(number, shared=False) & self._storing & ~(1 << number)))
            if "?" in names:
                names |= defined
            of_others = {name: self._with_word(f".{name}=?") & ~(1 << number) for name in defined}
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
            known = frozenset().union(*(self._stored[each][0] for each in _members(files)))
            while len(self._bound) >= _KEPT:
                self._bound.pop(next(iter(self._bound)))
            self._bound[files] = known
        return known

    def rebinding_files(self, path: Path, name: str) -> KnownFiles:
        """The other files that may bind one of the names of `rebound_names`."""
        if (missing := self.rebound_names(path).missing) is not None:
            return KnownFiles((), missing)
        number = self._number(str(path))
        defined = frozenset(self._defined.get(number, ()))
        try:
            found = self._with_any((f".{name}=", f".{name}=?", ".?=")) & ~(1 << number)
            importing = found & self._reach(number, shared=False)
            others = [each for each in _members(found & ~importing) if not self._stored[each][1].isdisjoint(defined)]
            sharing = _set_of(others) & self._reach(number, shared=True) if others else 0
        except _TooManyError as error:
            return KnownFiles((), str(error))
        return KnownFiles(self._ordered(importing | sharing), self._missing(str(path)))

    def related(self, path: Path, most: int) -> KnownFiles:
        """The files that may share objects with a file: those that import it, over any number of imports, and what
        these import. None of them where there are more than `most`."""
        number = self._number(str(path))
        try:
            found = self._reach(number, shared=True, most=most + 1)  # itself among them
        except _TooManyError as error:
            return KnownFiles((), str(error))
        return KnownFiles(self._ordered(found & ~(1 << number)), self._missing(str(path)))

    def mentioning(self, path: Path, word: str) -> KnownFiles:
        """The other files that may share objects with a file and mention a word: as a name, an attribute, in a text."""
        number = self._number(str(path))
        try:
            reached = self._reach(number, shared=True)
            found = self._those_that_mention(reached, word)
        except _TooManyError as error:
            return KnownFiles((), str(error))
        return KnownFiles(self._ordered(found & ~(1 << number)), self._missing(str(path)))

    # -- answers

    def _ordered(self, files: int) -> tuple[Path, ...]:
        return tuple(map(self._path, sorted(_members(files), key=self._paths.__getitem__)))

    def _path(self, number: int) -> Path:
        known = self._as_paths.get(number)
        if known is None:
            known = self._as_paths[number] = Path(self._paths[number])
        return known

    def _neighbours(self, path: str) -> tuple[int, ...]:
        found: list[int] = []
        for folder in self._modules.folders_near(os.path.dirname(path), self.folders):
            known = self._near.get(folder)
            if known is None:
                names = sorted(each for each in self._modules.listing(folder, self.folders) if each.endswith(".py"))
                found_here = (self._number(os.path.join(folder, name)) for name in names)
                known = tuple(each for each in found_here if not self._project >> each & 1)
                if len(known) > self._beside:
                    self._crowded.add(folder)
                    known = ()
                self._near[folder] = known
                for each in known:
                    if not self._entered >> each & 1:
                        self._take_up(each)
            found.extend(known)
        return tuple(found)

    def _among(self, number: int) -> int:
        """The files that may have to do with one: those of the project, and its neighbours."""
        near = self._neighbours(self._paths[number])
        return self._project | _set_of(near) if near else self._project

    def _importing(self, number: int, among: int) -> int:
        if among is not self._project:
            return self._find_importing(number, among)
        known = self._importing_here.get(number)
        if known is None:
            known = self._importing_here[number] = self._find_importing(number, among)
        return known

    def _find_importing(self, number: int, among: int) -> int:
        path = self._paths[number]
        parts = _dotted(path)
        found = self._importers[number]
        for start in range(1, len(parts)):
            found |= self._loose.get(".".join(parts[start:]), 0)
        computing = self._computing.get(number)
        if computing is None:
            computing = _set_of([each for each in self._computed if self._may_compute(each, path)])
            self._computing[number] = computing
        return (found | computing) & among & ~(1 << number)

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
        """By file of the project: the first found of those that import one another in a circle, and all files that
        import these over any number of imports. What reaches one of them reaches all (Kosaraju and Sharir)."""
        importing = {number: self._importing(number, self._project) for number in _members(self._project)}
        imports: dict[int, list[int]] = {}
        for number, files in importing.items():
            for each in _members(files):
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
                for each in _members(importing[number]):
                    if each in circles:  # a circle before this one, of which all is known
                        reached |= circles[each][1]
                    elif each not in circle:
                        circle.add(each)
                        waiting.append(each)
            circles.update(dict.fromkeys(circle, (first, reached)))
        return circles

    def _closure(self, found: int, follow: Callable[[int], int], most: int | None) -> int:
        pending = [*_members(found)]
        outside = 0
        while pending:
            if (most is not None and found.bit_count() > most) or outside > self._beside:
                raise _TooManyError(_MANY)
            fresh = follow(pending.pop()) & ~found
            if fresh:
                found |= fresh
                outside += (fresh & ~self._project).bit_count()
                pending.extend(_members(fresh))
        return found

    def _imported(self, number: int) -> int:
        if not self._entered >> number & 1:
            self._take_up(number)
        if number not in self._computed:
            return self._imports[number]
        known = self._computable.get(number)
        if known is None:
            found = [each for each in _members(self._project) if self._may_compute(number, self._paths[each])]
            known = self._computable[number] = _set_of(found)
        return self._imports[number] | known

    def _may_compute(self, number: int, path: str) -> bool:
        """Whether a file that imports by computed names may come upon another."""
        return any(
            path.startswith(roots) and (not start or _may_be_called(path, start))
            for start, roots in self._computed[number]
        )

    @cached_property
    def _computing_names(self) -> int:
        """The files that may read attributes by names which they compute."""
        return self._with_word("?")

    def _with_any(self, words: Iterable[str]) -> int:
        found = 0
        for word in words:
            found |= self._with_word(word)
        return found

    def _with_word(self, word: str) -> int:
        posting = self._postings.get(word, ())
        found = self._first.get(word)
        if found is None:
            found = _set_of(posting)
            if len(posting) > _FEW:
                self._first[word] = found
        return found & ~self._later | self._posted_later.get(word, 0) if self._later else found

    def _those_that_mention(self, files: int, name: str) -> int:
        """Those of some files that mention a name, or an attribute of that name."""
        found = self._with_any((name, f".{name}")) & files
        if name not in self._postings:  # no name that is defined or imported anywhere
            found |= _set_of([each for each in _members(files & ~self._later) if self._mentions(each, name)])
        return found

    def _mentions(self, number: int, name: str) -> bool:
        """Whether a file mentions a name, or an attribute of that name."""
        if self._later >> number & 1:
            return any(self._posted_later.get(word, 0) >> number & 1 for word in (name, f".{name}"))
        if name in self._postings:
            return any(
                (at := bisect_left(known, number)) < len(known) and known[at] == number
                for known in (self._postings.get(word, ()) for word in (name, f".{name}"))
            )
        known = self._sought.get((number, name))
        if known is None:  # no name that is defined or imported anywhere
            known = self._summaries.mention(Path(self._paths[number]), name)
            self._sought[number, name] = known
        return known

    def _missing(self, path: str) -> str | None:
        """Why there may be more who import a file."""
        for folder in self._modules.folders_near(os.path.dirname(path), self.folders):
            if folder in self._crowded:
                return f"more files lie in `{os.path.basename(folder)}` than are looked at"
        return None


class _TooManyError(Exception):
    pass


_MANY = "more files share its objects than are looked at"
_MENTIONED = "more files mention it than are looked at"


def _dotted(path: str) -> list[str]:
    return path.removesuffix(".py").removesuffix(f"{os.sep}__init__").split(os.sep)


def _may_be_called(path: str, start: str) -> bool:
    """Whether the dotted name of a file, seen from some folder, may begin like this."""
    parts = _dotted(path)
    return any(".".join(parts[at:]).startswith(start) for at in range(len(parts)))


def _set_of(numbers: Collection[int]) -> int:
    """A set of files from their numbers."""
    found = bytearray(max(numbers, default=0) // 8 + 1)
    for each in numbers:
        found[each >> 3] |= 1 << (each & 7)
    return int.from_bytes(found, "little")


def _members(files: int) -> Iterator[int]:
    """The numbers in a set of files, in their order."""
    bits = bin(files)[:1:-1]
    at = bits.find("1")
    while at >= 0:
        yield at
        at = bits.find("1", at + 1)
