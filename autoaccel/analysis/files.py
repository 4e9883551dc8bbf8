"""The files around a script: their texts and trees, which files there are, and what they have to do with one another.

Nothing here depends on which script is being analysed, so all analyses of a project share it. Texts and trees are kept
within a bound; a text that has changed since is read and parsed anew.
"""

from __future__ import annotations

import ast
import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from autoaccel.analysis.file_summaries import Known, Summaries
from autoaccel.analysis.module_search import Modules
from autoaccel.analysis.project_index import KnownFiles, ProjectIndex
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.reaching_definitions import ReachingDefinitions
from autoaccel.dataflow.syntax_index import SyntaxIndex
from autoaccel.notebooks import decode, is_notebook

_KEPT = 1_000_000  # characters whose trees are kept for analyses to come; a tree takes seventy times its text
_OFTEN = 2  # a file that is asked for more often is no longer met in passing
_KEPT_TEXTS = 1_000_000
_KEPT_ANSWERS = 2_000  # those of an analysis are asked for again by the cache


class Parsed:
    """One text, its tree and its reaching definitions: all of a file that follows from its text alone."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = SyntaxIndex(text)

    @cached_property
    def reaching_definitions(self) -> ReachingDefinitions:
        return ReachingDefinitions(self.tree)

    @cached_property
    def written(self) -> tuple[tuple[ast.expr, ast.AST], ...]:
        """Objects that statements may write to, with the place: the `x.y` of `x.y.z = …`, of `x.y.z[i] += …` and of
        `x.y.reset()`."""
        attributes = (each for each in self.tree.find(ast.Attribute) if isinstance(each.ctx, ast.Store))
        items = (each for each in self.tree.find(ast.Subscript) if isinstance(each.ctx, ast.Store))
        calls = (each.value for each in self.tree.find(ast.Expr) if isinstance(each.value, ast.Call))
        return (
            *((each.value, each) for each in attributes),
            *((each.value.value, each) for each in items if isinstance(each.value, ast.Attribute)),
            *((each.func.value, each) for each in calls if isinstance(each.func, ast.Attribute)),
        )

    def __del__(self) -> None:
        if "reaching_definitions" in vars(self):
            self.reaching_definitions.clear()


class Files:
    """Reads files, with `texts` in the place of what is on disk. `known` gives the summary of a file whose content was
    summed up before; else it is read."""

    def __init__(
        self,
        paths: Iterable[Path] = (),
        texts: Mapping[Path, str] | None = None,
        bounds: Bounds | None = None,
        known: Known | None = None,
    ) -> None:
        self.paths = tuple(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))
        self.texts = {Path(os.path.abspath(path)): text for path, text in (texts or {}).items()}
        self.bounds = bounds or Bounds()
        self.modules = Modules(frozenset(str(path.parent) for path in self.paths), self.texts)
        self._summaries = Summaries(self.texts, known)
        self._members = frozenset(self.paths)
        self._parsed: dict[Path, Parsed] = {}
        self._parsed_size = 0
        self._asked_for: Counter[Path] = Counter()
        self._read: dict[Path, str | None] = {}
        self._read_size = 0
        self._sizes: dict[Path, int] = {}
        self._spare = 0
        self._answers: dict[tuple[str, Path, str], KnownFiles] = {}

    def spare(self, characters: int) -> None:
        """What is found out about the first `characters` of text need not be taken to pieces: the process ends soon."""
        self._spare = characters

    def spares(self, characters: int) -> bool:
        """Whether what was found out about a text of this length may stay as it is."""
        self._spare -= characters
        return self._spare >= 0

    def changed(self, path: Path, text: str) -> Files:
        """These files with another text for one of them."""
        path = Path(os.path.abspath(path))
        files = Files((), {**self.texts, path: text}, self.bounds)
        files.paths, files._members, files.modules = self.paths, self._members, self.modules
        files._summaries = Summaries(files.texts, self._summaries.known)
        if "index" in vars(self):
            files.index = self.index.with_text(path, files._summaries(path))
        files._parsed = {each: parsed for each, parsed in self._parsed.items() if each != path}
        files._parsed_size = sum(len(parsed.text) for parsed in files._parsed.values())
        return files

    def keep_trees(self, earlier: Files) -> None:
        """Take over what other files were parsed to: a tree is used for as long as the text is the same."""
        self._parsed, self._parsed_size = dict(earlier._parsed), earlier._parsed_size

    def __contains__(self, path: Path) -> bool:
        return path in self._members

    # -- texts and trees

    def text(self, path: Path) -> str | None:
        """The text of a file; None for what cannot be read, is no file, or is too large to be a script."""
        text = self.texts.get(path)
        if text is not None:
            return text
        if path not in self._read:
            text = _read(path, self.bounds.file)
            self._read_size += len(text or "")
            if self._read_size > _KEPT_TEXTS:
                self._read, self._read_size = {}, len(text or "")
            self._read[path] = text
        return self._read[path]

    def size(self, path: Path) -> int:
        """About how long a text is."""
        size = self._sizes.get(path)
        if size is None:
            text = self.text(path) or "" if is_notebook(path) else self.texts.get(path)  # beside its pictures
            try:
                size = path.stat().st_size if text is None else len(text)
            except OSError:
                size = 0
            self._sizes[path] = size
        return size

    def parse(self, text: str, path: Path | None) -> Parsed:
        """The tree of a text. Raises `SyntaxError` and whatever else the parser raises."""
        if path is None:
            return Parsed(text)
        self._asked_for[path] += 1
        known = self._parsed.pop(path, None)
        if known is None or known.text != text:
            self._parsed_size -= len(known.text) if known is not None else 0
            known = Parsed(text)
            self._parsed_size += len(text)
        self._parsed[path] = known  # now the youngest
        while self._parsed_size > _KEPT and len(self._parsed) > 1:
            # What many files lean on stays longer than what is met in passing.
            passing = (each for each in self._parsed if self._asked_for[each] <= _OFTEN and each != path)
            oldest = self._parsed.pop(next(passing, None) or next(iter(self._parsed)))
            self._parsed_size -= len(oldest.text)
        return known

    # -- imports and names

    @cached_property
    def index(self) -> ProjectIndex:
        """Who imports whom, and who mentions what."""
        return ProjectIndex(self.paths, self._summaries, self.modules, self.bounds.beside, self.bounds.around)

    @property
    def index_depends_on(self) -> set[str]:
        """What on the disk the index follows from; nothing as long as nobody has asked it."""
        return self.index.depends_on if "index" in vars(self) else set()

    def ask(self, question: str, path: Path, name: str = "") -> KnownFiles:
        """What the index says: who has to do with a file, or with a name of it."""
        key = (question, path, name)
        known = self._answers.get(key)
        if known is None:
            if len(self._answers) >= _KEPT_ANSWERS:
                self._answers.clear()
            known = self._answers[key] = self._ask(question, path, name)
        return known

    def _ask(self, question: str, path: Path, name: str) -> KnownFiles:
        match question:
            case "importers":
                return self.index.importers(path)
            case "related":
                return self.index.related(path, self.bounds.related)
            case "deriving":
                return self.index.deriving(path, name, self.bounds.mentioning)
            case "patched":
                return self.index.rebound_names(path)
            case "unresolved":
                return self.index.unresolved_imports(path)
            case "patching":
                return self.index.rebinding_files(path, name)
            case "mentioning":
                return self.index.mentioning(path, name)
            case _:
                return self.index.callers(path, name, self.bounds.mentioning, method=question != "callers")


def _read(path: Path, most: int) -> str | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or (status.st_size > most and not is_notebook(path)):
            return None
        text = decode(path.read_bytes(), path).text
        if len(text) > most:
            return None
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    except (OSError, ValueError):  # `SourceError` is one
        return None
