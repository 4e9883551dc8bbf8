"""The project around a script: the files that it imports, that import it, and that mention what it defines."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.analysis.files import Files
from autoaccel.analysis.module_search import ImportTarget, name_in_library
from autoaccel.analysis.namespaces import taken_by_star
from autoaccel.analysis.project_index import KnownFiles
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Answer, Incomplete
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import Queries, once
from autoaccel.library_models.library_values import LIBRARIES, TRAINING_WORDS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_TOO_MUCH = "more code has to do with it than is looked at"


@dataclass(slots=True)
class Consulted:
    """What answers lean on besides the text of the script itself.

    `texts` are the files that were read, `folders` those whose listings (Python files and folders) were looked at,
    `asked` what was asked of the index: the question, the file, and a name."""

    texts: set[Path] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    asked: set[tuple[str, Path, str]] = field(default_factory=set)


class Project:
    """What is known of a script and of the files around it, loaded on demand.

    Each script that is analysed has a project of its own (`fresh`), so that what is said of it follows from its text
    and the files alone, and not from what was analysed before; they share the files.
    """

    def __init__(
        self, files: Iterable[Path] | Files = (), texts: dict[Path, str] | None = None, bounds: Bounds | None = None
    ) -> None:
        self.consulted = Consulted()
        self.disk = files if isinstance(files, Files) else Files(files, texts, bounds)
        self.bounds = bounds or self.disk.bounds
        self.queries = Queries(self.bounds.evaluations, self.bounds.depth, self.bounds.rounds)
        self._scripts: dict[Path, Script | None] = {}
        self._most = self.bounds.loaded
        self._loaded = 0  # characters of other files that were parsed
        self._shared = 0  # of these, those of `related`
        self._opened_stars: set[Script] = set()

    @property
    def files(self) -> tuple[Path, ...]:
        return self.disk.paths

    @property
    def texts(self) -> dict[Path, str]:
        return self.disk.texts

    def fresh(self) -> Project:
        """The same files, of which nothing is known yet; what they are asked is noted here as well."""
        project = Project(self.disk, bounds=self.bounds)
        project.consulted = self.consulted
        return project

    def changed(self, path: Path, text: str) -> Project:
        """The same files with another text for one of them; nothing is known of them yet."""
        return Project(self.disk.changed(path, text), bounds=self.bounds)

    def add(self, script: Script) -> None:
        """Register the script that is analysed."""
        if script.path is not None:
            self._scripts[script.path] = script
        if not any(word in script.text for word in TRAINING_WORDS):
            self._most = min(self._most, self.bounds.loaded_elsewhere)

    def release(self) -> None:
        """The end: see `Script.release`."""
        scripts = [each for each in self._scripts.values() if each is not None]
        self.queries.known.clear()
        vars(self).clear()
        for each in scripts:
            vars(each).clear()

    @property
    def characters(self) -> int:
        """How much text has been parsed."""
        return sum(len(each.text) for each in self._scripts.values() if each is not None)

    def script(self, path: Path) -> Script | None:
        """The script at a path; None when it cannot be read or parsed. Raises `Incomplete` when too many were."""
        from autoaccel.analysis.script import Script

        if path in self._scripts:
            return self._scripts[path]
        path = Path(os.path.abspath(path))
        if path not in self._scripts:
            text = self.text(path)
            if self._loaded - self._shared + len(text or "") > self._most:
                raise Incomplete("it leads to more code than is looked at")
            self._loaded += len(text or "")
            self._scripts[path] = None
            try:
                self._scripts[path] = Script(text, path, self) if text is not None else None
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._scripts[path] = None
        return self._scripts[path]

    # -- imports

    def imported(self, script: Script, target: str, level: int) -> tuple[Script, str | None] | None:
        """The project file (and the name in it, None for the file itself) that an import binds; None for libraries."""
        located = self.locate(script, target, level)
        if located is None or len(located[1]) > 1:
            return None
        found = self.script(located[0])
        if found is None:
            return None
        return found, (located[1][0] if located[1] else None)

    def submodule(self, package: Script, name: str) -> Script | None:
        """The module of that name in the package whose `__init__.py` a script is."""
        if package.path is None or package.path.name != "__init__.py":
            return None
        found = self.imported(package, name, 1)
        return found[0] if found is not None and found[1] is None and found[0] is not package else None

    @once
    def locate(self, script: Script, target: str, level: int) -> ImportTarget | None:
        """The project file in which an import ends and what of the dotted name is left over; reads no file."""
        if script.path is None:
            return None
        return self.disk.modules.search(script.path, target, level, self.consulted.folders)

    def library_name(self, script: Script, target: str, level: int) -> str | None:
        """The full name of what a file of a known library imports from that library; None for all other imports.

        What torch's own files say `torch.zeros` for is what it is to everybody; it is not followed to where it is made.
        """
        return name_in_library(script.package, target, level)

    def package(self, script: Script) -> tuple[str, ...]:
        """The names of the packages down to a script that is a file of a library that the tables know."""
        return () if script.path is None else self.disk.modules.library(str(script.path.parent), self.consulted.folders)

    def is_local(self, script: Script, target: str, level: int) -> bool:
        return self.locate(script, target, level) is not None

    def star_import(self, script: Script, name: str) -> tuple[Script, str] | None:
        """The project file whose `from … import *` brings a name into a script: of several, the last."""
        for module, level in reversed(script.module_scope.stars):
            found = self.imported(script, module, level)
            if found is None or found[1] is not None:
                continue
            source = found[0]
            if source in self._opened_stars:
                continue
            self._opened_stars.add(source)
            try:
                known = name in source.module_scope.definitions or self.star_import(source, name) is not None
                if known and taken_by_star(source, name):
                    return source, name
            finally:
                self._opened_stars.discard(source)
        return None

    def replaced_names(self, script: Script) -> frozenset[str]:
        """The names of a module to which a star import below gives what another file of the project has for them; not
        what both import from one place."""
        known = script.module_scope.definitions
        found: set[str] = set()
        for star in script.find(ast.ImportFrom):
            source = self.imported(script, star.module or "", star.level) if star.names[0].name == "*" else None
            if source is None or source[1] is not None:
                continue
            for name, bound in known.items():
                above = [each for each in bound if each.node.lineno < star.lineno]  # type: ignore[attr-defined]
                if above and not name.startswith("_"):
                    given = self._bound_by_star(source[0], name)
                    if given and not _import_the_same(above, given):
                        found.add(name)
        return frozenset(found)

    def _bound_by_star(self, script: Script, name: str) -> Sequence[Definition]:
        """What gives a name of a module its value, be it behind any number of star imports."""
        seen = {script}
        while not (bound := script.module_scope.definitions.get(name, ())):
            starred = self.star_import(script, name)
            if starred is None or starred[0] in seen:
                return ()
            script = starred[0]
            seen.add(script)
        return bound

    # -- who imports whom

    def importer_paths(self, script: Script) -> tuple[Path, ...]:
        """All files whose import lines lead to a module, or to nothing that is known."""
        return self._ask("importers", script).paths

    def importers(self, script: Script) -> tuple[Script, ...]:
        """The scripts of `importer_paths`. Raises `Incomplete`."""
        paths = self._paths("importers", script)
        if len(paths) > self.bounds.mentioning:
            raise Incomplete("more files import it than are looked at")
        return tuple(self._parsed(paths))

    def starring(self, script: Script) -> tuple[Script, ...]:
        """The files that take over all names of a script by `from … import *`, over any number of such imports."""
        found = [script]
        for each in found:
            for path in self.importer_paths(each):
                if any(path == known.path for known in found) or not _STAR.search(self.text(path) or ""):
                    continue
                other = self.script(path)
                sources = [self.imported(other, *star) for star in other.module_scope.stars] if other else []
                if other is not None and any(source is not None and source[0] is each for source in sources):
                    found.append(other)
        return tuple(found[1:])

    def known_related(self, script: Script) -> tuple[Script, ...]:
        """`related`, or the script alone where not all of them can be looked at: for what speaks for a finding
        wherever it is found."""
        try:
            return self.related(script)
        except Incomplete:
            return (script,)

    def with_word(self, script: Script, word: str) -> tuple[Script, ...]:
        """The script and those of the files that share its objects, however many these are, in which a word stands.

        Raises `Incomplete`."""
        return script, *self._parsed(self.paths_with_word(script, word))

    def paths_with_word(self, script: Script, word: str) -> tuple[Path, ...]:
        """The paths of `with_word`, without the script's. Raises `Incomplete`."""
        paths = self._paths("mentioning", script, word)
        if len(paths) > self.bounds.mentioning:
            raise Incomplete(f"more files mention `{word}` than are looked at")
        return paths

    def texts_with_word(self, script: Script, word: str) -> Iterator[str]:
        """The texts of `with_word`, of which none is parsed, so that there may be any number. Raises `Incomplete`."""
        yield script.text
        for path in self._paths("mentioning", script, word):
            yield self.readable_text(path)

    def related_texts(self, script: Script) -> Iterator[str]:
        """The texts of `related`, of which none is parsed. Raises `Incomplete`."""
        yield script.text
        for path in self._paths("related", script):
            yield self.readable_text(path)

    @once
    def related(self, script: Script) -> tuple[Script, ...]:
        """The files that share a script's objects: itself, those that import it, and those that any of these import.

        Raises `Incomplete` where not all of them can be looked at."""
        paths = self._paths("related", script)
        size = self._size(paths)
        if self._shared + size > self.bounds.related_characters:
            raise Incomplete(_TOO_MUCH)
        self._shared += size
        return (script, *self._all(paths))

    def is_from_elsewhere(self, script: Script, name: str) -> bool:
        """Whether a dotted name of no known library may come from a file of the project nevertheless: by a `sys.path`
        that nobody knows; where not all is known that it imports, any name."""
        known, head = self._ask("unresolved", script), name.partition(".")[0]
        if known.missing is not None and head not in LIBRARIES and head not in sys.stdlib_module_names:
            return True
        return any(f"{name}.".startswith(f"{each}.") for each in known.names)

    def names_rebound(self, script: Script) -> tuple[str, ...]:
        """The names of a module that other files may bind to something else, as far as the index tells."""
        return self._ask("patched", script).names

    def files_rebinding(self, script: Script, name: str) -> list[Script]:
        """The other files that may do so with one of them. Raises `Incomplete`."""
        return self._parsed(self._paths("patching", script, name))

    def files_deriving(self, script: Script, name: str) -> tuple[Answer[Script], frozenset[str]]:
        """The files in which a class may derive from one of a script, and the names that it has in them."""
        found = self._ask("deriving", script, name)
        if found.missing is not None:
            return Answer(missing=found.missing), frozenset()
        return self._answer(script, found), frozenset({name, *found.names})

    @once
    def files_naming(self, script: Script, name: str | None, *, attribute: bool) -> Answer[Script]:
        """The script and all files in which something that it defines may be meant by its name: what a module defines,
        where that is imported; an `attribute`, wherever objects of the script may be. Without a name, all the latter.
        """
        if name is None:
            return self._answer(script, self._ask("related", script))
        return self._answer(script, self._ask("callers of a method" if attribute else "callers", script, name))

    def _answer(self, script: Script, found: KnownFiles) -> Answer[Script]:
        try:
            return Answer((script, *self._parsed(found.paths)), found.missing)
        except Incomplete as incomplete:
            return Answer((script,), str(incomplete))

    def _paths(self, question: str, script: Script, word: str = "") -> tuple[Path, ...]:
        """All paths of the index's answer. Raises `Incomplete`."""
        found = self._ask(question, script, word)
        if found.missing is not None:
            raise Incomplete(found.missing)
        return found.paths

    @once
    def _ask(self, question: str, script: Script, word: str = "") -> KnownFiles:
        """What the index says of the file of a script; nobody looks for those who import a library, they are
        everywhere."""
        if script.path is None:
            return KnownFiles()
        if script.package:
            return KnownFiles((), "it belongs to a library")
        self.consulted.asked.add((question, script.path, word))
        return self.disk.ask(question, script.path, word)

    def _parsed(self, paths: Iterable[Path]) -> list[Script]:
        """The scripts at these paths. Raises `Incomplete` for what cannot be parsed, and where there is so much of it
        that nothing would be left for what these import."""
        paths = [*paths]
        if self._loaded - self._shared + self._size(paths) > self._most // 2:
            raise Incomplete(_TOO_MUCH)
        return self._all(paths)

    def _size(self, paths: Iterable[Path]) -> int:
        return sum(self.disk.size(path) for path in paths if path not in self._scripts)

    def _all(self, paths: Iterable[Path]) -> list[Script]:
        found = []
        for path in paths:
            script = self.script(path)
            if script is None:
                raise Incomplete(f"`{path.name}` cannot be read")
            found.append(script)
        return found

    def text(self, path: Path) -> str | None:
        """The text of a file; of the script that is analysed, its own."""
        own = self._scripts.get(path)
        return self._read(path) if own is None else own.text

    def readable_text(self, path: Path) -> str:
        """The same, of a file that is surely one. Raises `Incomplete` for what cannot be read, or is too large."""
        text = self.text(path)
        if text is None:
            raise Incomplete(f"`{path.name}` cannot be read")
        return text

    @once
    def _read(self, path: Path) -> str | None:
        self.consulted.texts.add(path)
        return self.disk.text(path)


_STAR = re.compile(r"\bimport\s*\*")


def _import_the_same(first: Iterable[Definition], second: Iterable[Definition]) -> bool:
    """Whether names are bound by nothing but imports of one thing, from wherever it can be imported."""
    bound = [*first, *second]
    return all(each.how == "import" and not each.level for each in bound) and len({each.target for each in bound}) == 1
