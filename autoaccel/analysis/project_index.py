"""Who imports whom, and who mentions what by name: the summaries of all files of a project, joined.

Made once for all analyses, and in full: there is no bound on how many files import another.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.summaries import Summary, summary

if TYPE_CHECKING:
    from autoaccel.analysis.module_search import Modules

Known = Callable[[Path], Summary | None]

_STANDARD = frozenset(sys.stdlib_module_names)
_KEPT = 64  # answers about what can be reached from a file
_TOO_MANY = frozenset({-1})
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
        if self.known is None and word.encode(errors="surrogatepass") not in self._data(path):
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
        self._imports: list[set[int]] = []  # by file: those that it imports
        self._importers: list[set[int]] = []
        self._names: list[tuple[tuple[str, str, int], ...]] = []  # by file: imported names (or `*`), alias, whence
        self._naming: dict[
            tuple[str, int], set[int]
        ] = {}  # by imported name and whence: the files whose `_names` have it
        self._assigned: dict[str, set[tuple[int, str]]] = {}  # by name: the files that assign it, and to which name
        self._stored: dict[int, tuple[frozenset[str], frozenset[str]]] = {}  # by file: the attributes that it assigns,
        # of what it imports and of other things
        self._defined: dict[int, tuple[str, ...]] = {}  # by file: functions and classes
        self._making: dict[int, frozenset[str]] = {}  # by file that makes classes by `type`: what it mentions
        self._loose: dict[str, list[int]] = {}  # by dotted name: who imports it where it leads to nothing known
        self._computed: dict[int, tuple[tuple[str, tuple[str, ...]], ...]] = {}  # who imports by names that are
        # computed: what they begin with, and the folders from below which they are
        self._postings: dict[str, array[int]] = {}
        self._later: set[int] = set()  # files that came after the first ones, or are no longer as they were
        self._posted_later: dict[str, set[int]] = {}  # all their words
        self._targets: dict[tuple[str, str, int], tuple[tuple[int, ...], str]] = {}
        self._entered: set[int] = set()
        self._crowded: set[str] = set()  # folders with too many files
        self._near: dict[str, tuple[int, ...]] = {}  # by folder: its files that are none of the project
        self._reached: dict[tuple[int, bool], frozenset[int]] = {}
        self._computing: dict[int, frozenset[int]] = {}
        self._computable: dict[int, frozenset[int]] = {}
        self._importing_here: dict[int, frozenset[int]] = {}
        self._sought: dict[tuple[int, str], bool] = {}
        self._bound: dict[frozenset[int], Counter[str]] = {}
        self._project = frozenset(self._number(path) for path in sorted({str(path) for path in paths}))
        self._post(
            [self._enter(number, self._summaries(Path(path))).words for number, path in enumerate([*self._paths])]
        )

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
        for word in words:
            if word[0] == "=":
                _, target, value = word.split("=")
                self._assigned.setdefault(value, set()).add((number, target))

    def _number(self, path: str) -> int:
        number = self._numbers.setdefault(path, len(self._paths))
        if number == len(self._paths):
            self._paths.append(path)
            self._imports.append(set())
            self._importers.append(set())
            self._names.append(())
        return number

    def _enter(self, number: int, summary: Summary) -> Summary:
        folder, importer = os.path.split(self._paths[number])
        self._entered.add(number)
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
            self._naming.setdefault((imported, whence), set()).add(number)
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
                self._imports[number].add(other)
                self._importers[other].add(number)
        if loose:
            names = loose.split(".")
            for end in range(1, len(names) + 1):
                importing = self._loose.setdefault(".".join(names[:end]), [])
                if importing[-1:] != [number]:
                    importing.append(number)
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
        for name in ("_paths", "_numbers", "_imports", "_names", "_entered", "_later", "_near", "_crowded"):
            setattr(index, name, getattr(self, name).copy())
        index._importers = [each.copy() for each in self._importers]
        index._naming = {key: each.copy() for key, each in self._naming.items()}
        number = index._number(str(path))
        for other in index._imports[number]:
            index._importers[other].discard(number)
        index._imports[number] = set()
        index._posted_later = {word: known - {number} for word, known in self._posted_later.items()}
        index._loose = {name: [each for each in known if each != number] for name, known in self._loose.items()}
        index._assigned = {
            name: {each for each in known if each[0] != number} for name, known in self._assigned.items()
        }
        index._stored = {each: known for each, known in self._stored.items() if each != number}
        index._defined = self._defined.copy()
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
        return [self._paths[each] for each in sorted(self._entered - self._project)]

    def _take_up(self, number: int, summary: Summary | None = None) -> None:
        """Note a file that is none of the first ones, or no longer as it was."""
        summary = summary or self._summaries(Path(self._paths[number]))
        words = frozenset(self._enter(number, summary).words.split())
        self._later.add(number)
        for word in words:
            self._posted_later.setdefault(word, set()).add(number)
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
        if len(found - {number}) > most:
            return KnownFiles((), _MENTIONED)
        return KnownFiles(self._ordered(found - {number}), self._missing(str(path)))

    def deriving(self, path: Path, name: str, most: int) -> KnownFiles:
        """The other files in which a class may derive from one of a file."""
        number = self._number(str(path))
        try:
            words = {word for _, word in self._names_given(number, name)}
            bases = set().union(*(self._with_word(f"<{word}") for word in words))
            bases.update(each for each, mentioned in self._making.items() if not mentioned.isdisjoint(words))
            bases |= self._with_word("<()")
            found = bases - {number}
            if found:
                found &= self._reach(number, shared=False)
        except _TooManyError as error:
            return KnownFiles((), str(error))
        if len(found) > most:
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
            given.update(each for each in self._assigned.get(word, ()) if each[0] == source or each[0] in importing)
            for each, alias in given:
                if (each, alias) not in seen:
                    seen.add((each, alias))
                    pending.append((each, alias))
        return seen

    def _given(self, source: int, word: str, importing: Set[int]) -> Iterator[tuple[int, str]]:
        """The files that import a name, and how they call it."""
        ways = [(imported, whence) for imported in (word, "*") for whence in (source, _LOOSE)]
        for each in importing & set().union(*(self._naming.get(way, ()) for way in ways)):
            for imported, alias, whence in self._names[each]:
                if (imported, whence) in ways:
                    yield each, alias or word

    def _by_name(self, name: str, number: int, most: int) -> set[int]:
        """Who mentions what comes from a file under a name, or under those that imports have given it since. Raises
        `_TooManyError`."""
        among = self._among(number)
        found: set[int] = set()
        pending = [(number, name)]
        seen = {*pending}
        while pending:
            source, word = pending.pop()
            importing = self._importing(source, among)
            for known in self._given(source, word, importing):
                if self._mentions(known[0], word):
                    found.add(known[0])
                if known not in seen:
                    seen.add(known)
                    pending.append(known)
            found |= self._those_that_mention(importing & self._computed.keys(), word)
            found |= importing & self._computing_names
            if len(found) > most + 1:
                raise _TooManyError(_MENTIONED)
        return found | self._by_attribute({word for _, word in seen}, number, shared=False)

    def _by_attribute(self, names: set[str], number: int, *, shared: bool) -> set[int]:
        mentioning = set().union(*map(self._with_attribute, names)) - {number}
        if shared:
            mentioning |= self._computing_names
        return mentioning & self._reach(number, shared=shared) if mentioning else mentioning

    def rebound_names(self, path: Path) -> KnownFiles:
        """The names of a file that others may bind to something else: attributes of what they import from it, by way
        of any number of files, and attributes of objects that they are handed where it defines a function or class of
        that name. All that it defines where the attributes' names are computed."""
        number = self._number(str(path))
        defined = frozenset(self._defined.get(number, ()))
        try:
            bound = self._bound_by(self._reach(number, shared=False))
            own, _ = self._stored.get(number, (frozenset(), frozenset()))
            names = {name for name, files in bound.items() if files > (name in own)}
            if "?" in names:
                names |= defined
            of_others = {name: self._with_word(f".{name}=?") - {number} for name in defined}
            if any(of_others.values()):
                shared = self._reach(number, shared=True)
                names.update(name for name, files in of_others.items() if not files.isdisjoint(shared))
        except _TooManyError as error:
            return KnownFiles((), str(error), tuple(sorted(defined)))
        return KnownFiles((), self._missing(str(path)), tuple(sorted(names)))

    def _bound_by(self, files: frozenset[int]) -> Counter[str]:
        """The attributes of what they import that some files assign, and how many of them do."""
        known = self._bound.get(files)
        if known is None:
            known = Counter(name for each in files & self._stored.keys() for name in self._stored[each][0])
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
            found = set().union(*map(self._with_word, (f".{name}=", f".{name}=?", ".?="))) - {number}
            importing = found & self._reach(number, shared=False)
            others = {each for each in found - importing if not self._stored[each][1].isdisjoint(defined)}
            if others:
                others &= self._reach(number, shared=True)
        except _TooManyError as error:
            return KnownFiles((), str(error))
        return KnownFiles(self._ordered(importing | others), self._missing(str(path)))

    def related(self, path: Path, most: int) -> KnownFiles:
        """The files that may share objects with a file: those that import it, over any number of imports, and what
        these import. None of them where there are more than `most`."""
        number = self._number(str(path))
        try:
            found = self._reach(number, shared=True, most=most + 1)  # itself among them
        except _TooManyError as error:
            return KnownFiles((), str(error))
        return KnownFiles(self._ordered(found - {number}), self._missing(str(path)))

    def mentioning(self, path: Path, word: str) -> KnownFiles:
        """The other files that may share objects with a file and mention a word: as a name, an attribute, in a text."""
        number = self._number(str(path))
        try:
            reached = self._reach(number, shared=True)
            found = self._those_that_mention(reached, word)
        except _TooManyError as error:
            return KnownFiles((), str(error))
        return KnownFiles(self._ordered(found - {number}), self._missing(str(path)))

    # -- answers

    def _ordered(self, numbers: Iterable[int]) -> tuple[Path, ...]:
        return tuple(map(self._path, sorted(numbers, key=self._paths.__getitem__)))

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
                known = tuple(each for each in found_here if each not in self._project)
                if len(known) > self._beside:
                    self._crowded.add(folder)
                    known = ()
                self._near[folder] = known
                for each in known:
                    if each not in self._entered:
                        self._take_up(each)
            found.extend(known)
        return tuple(found)

    def _among(self, number: int) -> frozenset[int]:
        """The files that may have to do with one: those of the project, and its neighbours."""
        near = self._neighbours(self._paths[number])
        return self._project.union(near) if near else self._project

    def _importing(self, number: int, among: frozenset[int]) -> Set[int]:
        if among is not self._project:
            return self._find_importing(number, among)
        known = self._importing_here.get(number)
        if known is None:
            known = self._importing_here[number] = frozenset(self._find_importing(number, among))
        return known

    def _find_importing(self, number: int, among: frozenset[int]) -> set[int]:
        path = self._paths[number]
        parts = _dotted(path)
        found = set(self._importers[number])
        for start in range(1, len(parts)):
            found.update(self._loose.get(".".join(parts[start:]), ()))
        computing = self._computing.get(number)
        if computing is None:
            computing = frozenset(each for each in self._computed if self._may_compute(each, path))
            self._computing[number] = computing
        found |= computing
        found &= among
        found.discard(number)
        return found

    def _reach(self, number: int, *, shared: bool, most: int | None = None) -> frozenset[int]:
        """The files that import one over any number of imports, itself among them; with `shared` what these import as
        well. Raises `_TooManyError`."""
        among = self._among(number)
        if among is self._project and number in self._project:
            number = self._circles[number]
        known = self._reached.get((number, shared))
        if known == _TOO_MANY:
            raise _TooManyError(_MANY)
        if known is None:
            try:
                found = self._closure({number}, lambda each: self._importing(each, among), most)
                if shared:
                    found = self._closure(found, self._imported, most)
                known = frozenset(found)
            except _TooManyError:
                if most is not None:
                    raise
                known = _TOO_MANY
            while len(self._reached) >= _KEPT:
                self._reached.pop(next(iter(self._reached)))
            self._reached[number, shared] = known
            if known == _TOO_MANY:
                raise _TooManyError(_MANY)
        elif most is not None and len(known) > most:
            raise _TooManyError(_MANY)
        return known

    @cached_property
    def _circles(self) -> dict[int, int]:
        """By file of the project: the first found of those that import one another in a circle. What reaches one of
        them reaches all (Kosaraju and Sharir)."""
        finished: list[int] = []
        seen: set[int] = set()
        imports: dict[int, list[int]] = {}
        for number in sorted(self._project):
            for each in self._importing(number, self._project):
                imports.setdefault(each, []).append(number)
        for first in sorted(self._project):
            pending = [(first, False)]
            while pending:
                number, done = pending.pop()
                if done:
                    finished.append(number)
                elif number not in seen:
                    seen.add(number)
                    pending.append((number, True))
                    pending.extend((each, False) for each in imports.get(number, ()) if each not in seen)
        circles: dict[int, int] = {}
        for first in reversed(finished):
            waiting = [first]
            while waiting:
                number = waiting.pop()
                if number not in circles:
                    circles[number] = first
                    waiting.extend(each for each in self._importing(number, self._project) if each not in circles)
        return circles

    def _closure(self, found: set[int], follow: Callable[[int], Iterable[int]], most: int | None) -> set[int]:
        found, pending, outside = set(found), sorted(found), 0
        while pending:
            if (most is not None and len(found) > most) or outside > self._beside:
                raise _TooManyError(_MANY)
            fresh = set(follow(pending.pop())) - found
            found |= fresh
            outside += len(fresh - self._project)
            pending.extend(fresh)
        return found

    def _imported(self, number: int) -> set[int]:
        if number not in self._entered:
            self._take_up(number)
        if number not in self._computed:
            return self._imports[number]
        known = self._computable.get(number)
        if known is None:
            known = frozenset(each for each in self._project if self._may_compute(number, self._paths[each]))
            self._computable[number] = known
        return self._imports[number] | known

    def _may_compute(self, number: int, path: str) -> bool:
        """Whether a file that imports by computed names may come upon another."""
        parts = _dotted(path)
        return any(
            path.startswith(roots)
            and (not start or any(".".join(parts[at:]).startswith(start) for at in range(len(parts))))
            for start, roots in self._computed[number]
        )

    def _with_attribute(self, name: str) -> set[int]:
        """The files that mention an attribute."""
        return self._with_word(f".{name}")

    @cached_property
    def _computing_names(self) -> set[int]:
        """The files that may read attributes by names which they compute."""
        return self._with_word("?")

    def _with_word(self, word: str) -> set[int]:
        found = set(self._postings.get(word, ()))
        return (found - self._later) | self._posted_later.get(word, set()) if self._later else found

    def _those_that_mention(self, numbers: Set[int], name: str) -> set[int]:
        """Those of some files that mention a name, or an attribute of that name."""
        found = (self._with_word(name) | self._with_word(f".{name}")) & numbers
        if name not in self._postings:  # no name that is defined or imported anywhere
            found |= {each for each in numbers - self._later if self._mentions(each, name)}
        return found

    def _mentions(self, number: int, name: str) -> bool:
        """Whether a file mentions a name, or an attribute of that name."""
        if number in self._later:
            return any(number in self._posted_later.get(word, ()) for word in (name, f".{name}"))
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
