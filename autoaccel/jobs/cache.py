"""What earlier runs of `lint` said, kept by content: a run that finds its answers here imports no rules and no parser.

An answer is valid while all that it follows from is as it was: the file itself, the choice of rules, this version of
the tool and of Python, and what the analysis looked at beside the file: texts and import lines of other files, listings
of folders, and who imports whom and mentions what. Whatever is wrong with a cache, it is a cache without answers.

The summaries of files, from which it is told who imports whom, are kept beside the answers, file by file; they are
read when files have changed.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from autoaccel.discovery import TOP, WHOLE, files_below, top_of
from autoaccel.jobs.cache_files import DIGITS, KINDS, are, built, digest, load, plain, read_back, touched, write
from autoaccel.jobs.cache_keys import fingerprint
from autoaccel.notebooks import program
from autoaccel.rewriting.record import Report
from autoaccel.sources import SourceError

if TYPE_CHECKING:
    from autoaccel.analysis.files import Files
    from autoaccel.analysis.project import Consulted
    from autoaccel.summaries import Summary

FOLDER = ".autoaccel_cache"

_MOST_FILES = 60_000  # whose answers are kept
_MOST_TREES = 4  # states of the project under which answers were found to hold
_MOST_CHOICES = 8  # of rules beside those of the run, the most recently used ones

# File systems stamp with a clock that lags behind by up to a tick.
_TICK = 12_000_000  # ns

Fact = tuple[str, str, str]
"""Something beside the file that an answer leans on: its kind, the name of a file or folder, and a digest."""


class Cache:
    """The answers for the files of one run. `root` is the folder that names are relative to, so that it may move."""

    def __init__(self, folder: Path, root: Path, files: Sequence[Path], *, changes: bool) -> None:
        self._started = time.time_ns() - _TICK
        self._root = os.path.join(os.path.abspath(root), "")
        key = digest(f"{fingerprint()}\0{self._home(folder)}".encode(errors="surrogateescape"))
        self._file = folder / f"{KINDS[changes]}-{key[:DIGITS]}.json"
        self._index = folder / f"{KINDS[2]}-{key[:DIGITS]}.json"
        self._names = {path: self._name(os.path.abspath(path)) for path in files}
        self._paths = {name: path for path, name in self._names.items()}
        self._digests: dict[str, str] = {}
        self._current: dict[tuple[str, str], str] = {}
        self._true: dict[int, bool] = {}
        self._numbers: dict[Fact, int] = {}
        self._used: dict[str, None] = {}  # choices of this run
        self._changed = False
        self._facts: list[Fact] = []
        self._held: dict[int, str] = {}  # by fact about who imports whom: the last state of the project it was true in
        self._files: Callable[[], Files] | None = None
        # by state of the project: folders, files beside it, heads of imports
        self._trees: dict[str, list[list[str]]] = {}
        self._summaries: dict[str, list[str]] | None = None  # by file: digest of the content, imports, words
        self._summed_up = False
        self._to_sum_up = {*self._paths}
        self._aside: IO[bytes] | None = None
        # by choice and file: digest, name, facts, and the report or, where no rule had a word to say, whether that was
        # parsed nevertheless
        self._answers: dict[str, dict[str, list[Any]]] = {}
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            stored = load(self._file)
            self._facts = [(kind, name, seen.partition(" ")[0]) for kind, name, seen in stored["facts"]]
            self._held = {number: seen.partition(" ")[2] for number, (_, _, seen) in enumerate(stored["facts"])}
            self._numbers = {fact: number for number, fact in enumerate(self._facts)}
            self._trees, self._answers = stored["trees"], stored["answers"]

    def _home(self, folder: Path) -> str:
        """What must be the same of the root: all of its name where several projects share a cache; else the names of
        the packages that it is in, which may be those of a library."""
        if os.path.join(os.path.abspath(folder), "") != os.path.join(self._root, FOLDER, ""):
            return self._root
        here = os.path.dirname(self._root)
        names, top = [], top_of(here)
        while os.path.exists(os.path.join(here, "__init__.py")) and os.path.dirname(here) != here:
            names.append(os.path.basename(here))
            if here == top:
                break
            here = os.path.dirname(here)
        return "/".join(names)

    def _name(self, path: str) -> str:
        return path.removeprefix(self._root) if path.startswith(self._root) else os.path.relpath(path, self._root)

    def _full(self, name: str) -> str:
        return os.path.normpath(os.path.join(self._root, name))  # as the index calls it, also outside of the root

    # -- asking

    def note(self, path: Path, data: bytes) -> None:
        """The content of a file of this run; to be called for all of them before anything is asked."""
        self._digests[self._names[path]] = digest(data)

    def has_answer(self, path: Path, choice: str, *, parsed: bool) -> bool:
        """Whether the content of a file was looked at before, and `parsed` if that is wanted; the answer may be out of
        date nevertheless."""
        self._used[choice] = None
        name = self._names[path]
        answer = self._answers.get(choice, {}).get(name)
        return answer is not None and answer[0] == self._digests.get(name) and not (parsed and answer[3] is False)

    def report(self, path: Path, choice: str) -> Report | None:
        """The valid answer for a file."""
        name = self._names[path]
        answer = self._answers.get(choice, {}).get(name)
        try:
            if answer is None or answer[0] != self._digests.get(name):
                return None
            if isinstance(answer[3], bool):
                return Report(str(path))
            is_valid = answer[1] == str(path) and all(map(self._holds, answer[2]))
            return built(Report, answer[3]) if is_valid else None
        except (ValueError, TypeError, LookupError):
            return None

    def _holds(self, number: int) -> bool:
        known = self._true.get(number)
        if known is None:
            kind, name, seen = self._facts[number]
            held = kind == "asked" and self._held.get(number, "") == self._tree
            known = self._true[number] = held or self._now(kind, name) == seen
            if kind == "asked" and known and not held:
                self._changed = True  # the state of the project in which it is true
        return known

    # -- remembering

    def remember_silent(self, path: Path, choice: str, *, parsed: bool) -> None:
        """That no rule of a choice has anything to say about the content of a file."""
        name = self._names[path]
        self._answers.setdefault(choice, {})[name] = [self._digests[name], "", [], parsed]
        self._changed = True

    def remember(self, path: Path, choice: str, content: str, report: Report, consulted: Consulted) -> None:
        """Keep an answer, unless something that it leans on was touched since the run began: who knows what was seen.

        `content` is the digest of what was analysed.
        """
        facts = list(self._leans_on(consulted))
        if any(self._is_fresh(kind, name) for kind, name in facts) or any(each.traceback for each in report.failures):
            return
        numbers = []
        for kind, name in facts:
            fact = (kind, name, self._now(kind, name))
            number = self._numbers.setdefault(fact, len(self._facts))
            if number == len(self._facts):
                self._facts.append(fact)
            numbers.append(number)
            self._true[number] = True
        name = self._names[path]
        self._answers.setdefault(choice, {})[name] = [content, str(path), numbers, plain(report)]
        self._changed = True

    def _leans_on(self, consulted: Consulted) -> Iterator[tuple[str, str]]:
        yield "homes", ""
        for kind, paths in (("text", consulted.texts), ("folder", consulted.folders)):
            for name in sorted(map(str, paths)):
                yield kind, self._name(name)
        for question, path, word in sorted(consulted.asked):
            yield "asked", f"{question}\0{self._name(str(path))}\0{word}"

    def save(self) -> None:
        """Write what has changed, if that is possible."""
        with contextlib.suppress(OSError):
            if self._changed:
                self._store()
            self._lay_aside()
            if self._aside is not None:
                write(self._index, self._aside)

    def _store(self) -> None:
        here = {name for name in self._digests if name in self._paths}
        is_there = functools.cache(lambda name: os.path.exists(self._full(name)))
        others = [choice for choice in self._answers if choice not in self._used]
        choices = (*others[-_MOST_CHOICES:], *self._used)
        answers = {choice: _kept(self._answers.get(choice, {}), here, is_there) for choice in choices}
        used = sorted({number for group in answers.values() for answer in group.values() for number in answer[2]})
        renumbered = {number: index for index, number in enumerate(used)}
        tree = self._note_state() if any(self._facts[number][0] == "asked" for number in used) else ""
        held = {number: tree if self._true.get(number) else self._held.get(number, "") for number in used}
        document = {
            "facts": [
                (kind, name, f"{seen} {held[number]}" if kind == "asked" else seen)
                for number in used
                for kind, name, seen in [self._facts[number]]
            ],
            "trees": dict([*self._trees.items()][-_MOST_TREES:]),
            "answers": {
                choice: {
                    name: [answer[0], answer[1], [renumbered[number] for number in answer[2]], answer[3]]
                    for name, answer in group.items()
                }
                for choice, group in answers.items()
            },
        }
        write(self._file, io.BytesIO(json.dumps(document, separators=(",", ":")).encode()))

    # -- how things are

    def _now(self, kind: str, name: str) -> str:
        key = kind, name
        if key not in self._current:
            self._current[key] = self._look(kind, name)
        return self._current[key]

    def _look(self, kind: str, name: str) -> str:
        match kind:
            case "text":
                return self._digests.get(name) or _content(self._full(name))
            case "folder":
                return _listing(self._full(name))
            case "asked":
                return self._ask(*name.split("\0"))
            case "homes":
                return _digest_of(sorted({os.path.dirname(each) for each in self._paths}))
            case _:
                return ""

    # -- who imports whom

    def attach(self, files: Callable[[], Files]) -> None:
        """What to ask who imports whom, made when it is needed."""
        self._files = files

    def summary(self, path: Path) -> Summary | None:
        """The summary of a file of this run; found again as long as its content is the same. Each is known until all
        were asked for: then the index has them, and they take as much memory as the index itself."""
        from autoaccel.summaries import Summary, summary

        name = self._name(str(path))
        content = self._digests.get(name)
        if content is None or not self._to_sum_up:
            return None
        if self._summaries is None:
            self._summaries = {}
            with contextlib.suppress(OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
                known = read_back(self._index)["summaries"]
                if all(are(str, each, 3) for each in known.values()):
                    self._summaries = known
        stored = self._summaries.get(name)
        if stored is None or stored[0] != content:
            data = _bytes(str(path))
            try:
                made = None if data is None else summary(program(data, path))
            except SourceError:
                made = summary(b"")
            if data is None or made is None:
                return None
            stored = self._summaries[name] = [digest(data), " ".join(made.imports), made.words]
            self._summed_up = True
        self._to_sum_up.discard(name)
        if not self._to_sum_up:
            self._lay_aside()
        return Summary(tuple(stored[1].split()), stored[2])

    def _lay_aside(self) -> None:
        """Put the summaries where they take no memory. Their place in the cache is written to when the run is over: a
        folder that comes into being beside a file makes what was said of it doubtful."""
        if self._summed_up and self._summaries is not None:
            self._aside = tempfile.TemporaryFile()  # noqa: SIM115 - open until it is copied
            kept = [(name, each) for name, each in self._summaries.items() if name in self._paths]
            self._aside.write(b'{"summaries":{')
            for number, (name, each) in enumerate(kept):
                self._aside.write(f"{',' * bool(number)}{json.dumps(name)}:{json.dumps(each)}".encode())
            self._aside.write(b"}}")
        self._summaries, self._summed_up = None, False

    def _ask(self, question: str, name: str, word: str) -> str:
        if self._files is None:
            return ""
        found = self._files().ask(question, Path(self._full(name)), word)
        paths = (self._name(str(path)) for path in found.paths)
        return _digest_of([found.missing or "", " ".join(found.names), *paths])

    @functools.cached_property
    def _tree(self) -> str:
        """The known state that the project is in: what the index said then, it would say now."""
        return next((tree for tree, beside in self._trees.items() if self._state(*beside) == tree), "none")

    def _note_state(self) -> str:
        """The state that the project is in: the contents of its files, and the folders and files beside them that the
        index has looked at."""
        if self._files is None or "index" not in vars(self._files()):
            return self._tree
        index = self._files().index
        beside = [*(sorted(map(self._name, each)) for each in (index.folders, index.outside)), index.heads]
        tree = self._state(*beside)
        self._trees.pop(tree, None)
        self._trees[tree] = beside
        return tree

    def _state(self, folders: list[str], files: list[str], heads: list[str]) -> str:
        own = (f"{name}\0{self._digests.get(name, '')}" for name in sorted(self._paths))
        beside = (
            f"{kind}\0{name}\0{self._now(kind, name)}"
            for kind, names in (("folder", folders), ("text", files))
            for name in names
        )
        return _digest_of([self._called(heads), *own, *beside])

    def _called(self, heads: list[str]) -> str:
        """The name of the root as far as it matters: to imports that lead nowhere, and to whether it may be imported
        from beside it."""
        name = os.path.basename(os.path.dirname(self._root))
        matters = name in heads or any(name.startswith(head[:-1]) for head in heads if head[-1:] == "*")
        return name if matters else str(name.islower())

    def _is_fresh(self, kind: str, name: str) -> bool:
        """Whether something was touched after the run began."""
        key = f"fresh {kind}", "" if kind == "asked" else name
        if key not in self._current:
            names: Iterable[str] = self._paths if kind == "asked" else () if kind == "homes" else (name,)
            self._current[key] = "yes" if any(touched(self._full(each)) > self._started for each in names) else ""
        return bool(self._current[key])


def _kept(group: dict[str, Any], here: set[str], is_there: Callable[[str], bool]) -> dict[str, Any]:
    """Answers for files of this run, and for others that are still there."""
    kept = {name: value for name, value in group.items() if name in here or is_there(name)}
    if len(kept) > _MOST_FILES:
        first = sorted(kept, key=lambda name: name not in here)[:_MOST_FILES]
        kept = {name: kept[name] for name in first}
    return kept


def _bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _digest_of(texts: Iterable[str]) -> str:
    return digest("\n".join(texts).encode(errors="surrogateescape"))


def _content(path: str) -> str:
    data = _bytes(path)
    return "" if data is None else digest(data)


def _listing(folder: str) -> str:
    """What imports can find in a folder: Python files, folders that may be packages, where a distribution begins; of
    a file, whether it is there; of `TOP`, where the top is; of `WHOLE`, which files are below, down to any depth."""
    if os.path.basename(folder) == TOP:
        top = top_of(os.path.dirname(folder))
        return top and os.path.relpath(top, os.path.dirname(folder))
    if os.path.basename(folder) == WHOLE:
        top = os.path.join(os.path.dirname(folder), "")
        below = files_below(top)
        return "many" if below is None else _digest_of(each.removeprefix(top) for each in below)
    if folder.endswith((".py", ".toml")):
        return "there" if os.path.isfile(folder) else ""
    names = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                with contextlib.suppress(OSError):
                    if name.endswith(".py") or name == "pyproject.toml":
                        names.append(name if entry.is_file() else "")
                    elif name.isidentifier() and name != "__pycache__" and entry.is_dir():
                        names.append(f"{name}/")
    except (OSError, ValueError):
        return ""
    return digest("\0".join(sorted(names)).encode(errors="surrogateescape"))
