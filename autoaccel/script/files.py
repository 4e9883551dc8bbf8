"""The files around a script: their texts and trees, what their import lines mention, and which files there are.

Nothing here depends on which script is being analysed, so all analyses of a project share it. Trees are kept within a
bound and texts not at all; a text that has changed since is read and parsed anew.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autoaccel.import_lines import import_lines
from autoaccel.script.flow import Flow
from autoaccel.script.tree import Tree

_MOST_BYTES = 400_000
_MOST_KEPT = 600_000  # characters whose trees are kept; a tree takes about a hundred times its text
_WORD = re.compile(r"\w+")


class Parsed:
    """One text, its tree and its flow: all of a file that follows from its text alone."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = Tree(text)

    @cached_property
    def flow(self) -> Flow:
        return Flow(self.tree)

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
        # Scopes and their definitions hold one another, and a whole tree with them.
        for scope in self.flow.scopes.values() if "flow" in vars(self) else ():
            scope.definitions.clear()
            scope.entry.clear()


@dataclass(frozen=True, slots=True)
class Imported:
    """One dotted name that an import statement mentions: `from ..a.b import c` mentions `a`, `a.b` and `a.b.c`."""

    target: str
    level: int


class Files:
    """Reads files, with `texts` in the place of what is on disk."""

    def __init__(self, paths: Iterable[Path] = (), texts: Mapping[Path, str] | None = None) -> None:
        self.paths = tuple(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))
        self.texts = {Path(os.path.abspath(path)): text for path, text in (texts or {}).items()}
        self._members = frozenset(self.paths)
        self._parsed: dict[Path, Parsed] = {}
        self._parsed_size = 0
        self._read: dict[Path, str | None] = {}
        self._read_size = 0
        self._imports: dict[Path, tuple[_ImportLine, ...]] = {}
        self._words: dict[Path, frozenset[str]] = {}
        self._mentions: dict[str, list[Path]] | None = None
        self._listings: dict[str, frozenset[str]] = {}
        self._spare = 0
        self.answers: dict[object, Any] = {}
        """What was found to follow from all this, by the question."""

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
        files = Files((), {**self.texts, path: text})
        files.paths, files._members, files._listings = self.paths, self._members, self._listings
        files._words = {each: words for each, words in self._words.items() if each != path}
        files._parsed = {each: parsed for each, parsed in self._parsed.items() if each != path}
        files._parsed_size = sum(len(parsed.text) for parsed in files._parsed.values())
        return files

    def __contains__(self, path: Path) -> bool:
        return path in self._members

    # -- texts and trees

    def text(self, path: Path) -> str | None:
        """The text of a file; None for what cannot be read, is no file, or is too large to be a script."""
        text = self.texts.get(path)
        if text is not None:
            return text
        if path not in self._read:
            text = _read(path)
            self._read_size += len(text or "")
            if self._read_size > _MOST_KEPT:
                self._read, self._read_size = {}, len(text or "")
            self._read[path] = text
        return self._read[path]

    def parse(self, text: str, path: Path | None) -> Parsed:
        """The tree of a text. Raises `SyntaxError` and whatever else the parser raises."""
        if path is None:
            return Parsed(text)
        known = self._parsed.pop(path, None)
        if known is None or known.text != text:
            self._parsed_size -= len(known.text) if known is not None else 0
            known = Parsed(text)
            self._parsed_size += len(text)
        self._parsed[path] = known  # now the youngest
        while self._parsed_size > _MOST_KEPT and len(self._parsed) > 1:
            oldest = self._parsed.pop(next(iter(self._parsed)))
            self._parsed_size -= len(oldest.text)
        return known

    # -- folders

    def listing(self, folder: Path) -> frozenset[str]:
        """The names of the files in a folder, and those of its folders with a slash behind them."""
        name = str(folder)
        known = self._listings.get(name)
        if known is None:
            known = self._listings[name] = frozenset(_names(name))
        return known

    def is_file(self, path: Path) -> bool:
        return path.name in self.listing(path.parent)

    # -- imports

    def import_words(self, path: Path) -> frozenset[str]:
        """The words on the import lines of a file, which is read once and not parsed."""
        known = self._words.get(path)
        if known is None:
            text = self.text(path) or ""
            known = self._words[path] = frozenset(word for line in import_lines(text) for word in _WORD.findall(line))
        return known

    def mentioning(self, word: str) -> list[Path]:
        """The files of the project, in their order, with a word on their import lines."""
        if self._mentions is None:
            self._mentions = {}
            for path in self.paths:
                for each in self.import_words(path):
                    self._mentions.setdefault(each, []).append(path)
        return self._mentions.get(word, [])

    def imports(self, path: Path, word: str) -> list[Imported] | None:
        """The names up to `word` that the import statements of a file mention; None where a line is hard to read."""
        lines = self._imports.get(path)
        if lines is None:
            lines = self._imports[path] = tuple(_ImportLine(each) for each in import_lines(self.text(path) or ""))
        found: list[Imported] = []
        for line in lines:
            if word in line.words:
                if line.statements is None:
                    return None
                found.extend(each for statement in line.statements for each in _mentioned(statement, word))
        return found


class _ImportLine:
    """A line that begins like an import statement, parsed when it is asked for."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.words = frozenset(_WORD.findall(line))

    @cached_property
    def statements(self) -> list[ast.stmt] | None:
        """The import statements; none for a sentence of a docstring, None where the line is hard to read."""
        try:
            return ast.parse(self.line.lstrip()).body
        except (SyntaxError, ValueError):
            return None if self.line.rstrip().endswith("\\") or "(" in self.line else []


def _mentioned(statement: ast.stmt, word: str) -> Iterator[Imported]:
    names: list[tuple[str, int]] = []
    match statement:
        case ast.Import(names=aliases):
            names = [(alias.name, 0) for alias in aliases]
        case ast.ImportFrom(module=module, names=aliases, level=level):
            names = [(f"{module}.{alias.name}" if module else alias.name, level) for alias in aliases]
    for name, level in names:
        parts = name.split(".")
        for index, part in enumerate(parts):
            if part == word:
                yield Imported(".".join(parts[: index + 1]), level)


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


def _read(path: Path) -> str | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return None
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return None
