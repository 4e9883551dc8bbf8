"""The project around a script: the files that it imports and that import it, and calls that cross from one to
another."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.analysis import attributes, name_lookups, namespaces
from autoaccel.analysis.attributes import Stored
from autoaccel.analysis.files import Files
from autoaccel.analysis.module_search import ImportTarget, name_in_library
from autoaccel.analysis.project_index import KnownFiles
from autoaccel.dataflow.abstract_values import BOUND, Kind
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Callers, CallSite, Incomplete
from autoaccel.dataflow.query import Queries, fixpoint, once
from autoaccel.dataflow.reaching_definitions import Definition, ElementPath
from autoaccel.library_models import library_values
from autoaccel.library_models.tensor_operations import METHODS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef

_CALLERS = ("callers", "callers of a method")
_PROCESSES = ("Process", "spawn", "start_processes")
_TRAINING = ("backward", "oader")
_STARTERS = (*_PROCESSES, "Thread")

Binding = tuple[ast.expr | Definition, ElementPath]


@dataclass(frozen=True, slots=True)
class ClassInfo:
    """What a project class is made of: resolved project bases, names of external bases, attribute bindings."""

    bases: tuple[ClassRef, ...]
    external_bases: tuple[str, ...]
    attributes: dict[str, list[Binding]]


# Libraries whose objects have no models of the project among their attributes, unless it puts them there.
_HOLDING_NO_MODELS = frozenset("matplotlib pylab seaborn PIL cv2 numpy math random time datetime os re json".split())
_TOO_MUCH = "more code has to do with it than is looked at"
_UNSEEN = "?"  # in the place of a base class that is not known
_UNKNOWN_CLASS = ClassInfo((), (_UNSEEN,), {})


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
        if not any(word in script.text for word in _TRAINING):
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
            text = self._text(path)
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
        """The project file whose `from … import *` brings a name into a script."""
        for module, level in script.module_scope.stars:
            found = self.imported(script, module, level)
            if found is None or found[1] is not None:
                continue
            source = found[0]
            if source in self._opened_stars:
                continue
            self._opened_stars.add(source)
            try:
                if name in source.module_scope.definitions or self.star_import(source, name) is not None:
                    return source, name
            finally:
                self._opened_stars.discard(source)
        return None

    # -- who imports whom

    def importers(self, script: Script) -> tuple[Path, ...]:
        """All files whose import lines lead to a module, or to nothing that is known."""
        return self._ask("importers", script).paths

    def importing(self, script: Script) -> tuple[Script, ...]:
        """The scripts of `importers`. Raises `Incomplete`."""
        found = self._ask("importers", script)
        if found.missing is not None:
            raise Incomplete(found.missing)
        if len(found.paths) > self.bounds.related:
            raise Incomplete("more files import it than are looked at")
        return tuple(self._parsed(found.paths))

    def known_related(self, script: Script) -> tuple[Script, ...]:
        """`related`, or the script alone where not all of them can be looked at: for what speaks for a finding
        wherever it is found."""
        try:
            return self.related(script)
        except Incomplete:
            return (script,)

    def mentioning(self, script: Script, name: str) -> tuple[Script, ...]:
        """Those of `related` that mention an attribute by its name. Raises `Incomplete`."""
        files, missing = self.calling(script, name, method=True)
        if missing is not None:
            raise Incomplete(missing)
        return files

    def with_word(self, script: Script, word: str) -> tuple[Script, ...]:
        """The script and those of the files that share its objects, however many these are, in which a word stands.

        Raises `Incomplete`."""
        return script, *self._parsed(self.paths_with_word(script, word))

    def paths_with_word(self, script: Script, word: str) -> tuple[Path, ...]:
        """The paths of `with_word`, without the script's. Raises `Incomplete`."""
        paths = self._mentioning(script, word)
        if len(paths) > self.bounds.related:
            raise Incomplete(f"more files mention `{word}` than are looked at")
        return paths

    def texts_with_word(self, script: Script, word: str) -> Iterator[str]:
        """The texts of `with_word`, of which none is parsed, so that there may be any number. Raises `Incomplete`."""
        yield script.text
        for path in self._mentioning(script, word):
            yield self._text(path) or ""

    def _mentioning(self, script: Script, word: str) -> tuple[Path, ...]:
        found = self._ask("mentioning", script, word)
        if found.missing is not None:
            raise Incomplete(found.missing)
        return found.paths

    def related_texts(self, script: Script) -> Iterator[str]:
        """The texts of `related`, of which none is parsed. Raises `Incomplete`."""
        yield script.text
        for path in self._sharing(script):
            yield self._text(path) or ""

    @once
    def related(self, script: Script) -> tuple[Script, ...]:
        """The files that share a script's objects: itself, those that import it, and those that any of these import.

        Raises `Incomplete` where not all of them can be looked at."""
        paths = self._sharing(script)
        size = self._size(paths)
        if self._shared + size > self.bounds.shared:
            raise Incomplete(_TOO_MUCH)
        self._shared += size
        return (script, *self._all(paths))

    def _sharing(self, script: Script) -> tuple[Path, ...]:
        found = self._ask("related", script)
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

    def calling(self, script: Script, word: str | None, *, method: bool) -> tuple[tuple[Script, ...], str | None]:
        """The script and all files in which a function of it may be called by its name (an instance, where there is
        none), and why there may be more."""
        if script.path is None:
            return (script,), None
        found = self._ask("related", script) if word is None else self._ask(_CALLERS[method], script, word)
        try:
            return (script, *self._parsed(found.paths)), found.missing
        except Incomplete as incomplete:
            return (script,), str(incomplete)

    def _text(self, path: Path) -> str | None:
        """The text of a file; of the script that is analysed, its own."""
        own = self._scripts.get(path)
        return self._read(path) if own is None else own.text

    @once
    def _read(self, path: Path) -> str | None:
        self.consulted.texts.add(path)
        return self.disk.text(path)

    # -- names that other files bind anew

    @once
    def rebound_names(self, script: Script) -> frozenset[str]:
        """The names of a module that other files may bind to something else: `engine.log = my_log`."""
        found = self._ask("patched", script)
        own = script.module_scope.definitions if script.syntax_index.calls_named("globals") else ()
        return frozenset({*found.names, *own})

    def rebindings(self, script: Script, name: str) -> tuple[Stored, ...]:
        """What other files may bind such a name to; a store of nothing in sight where that is not known."""
        return self.queries.ask(
            ("patches", script.tree, name), lambda: tuple(self._rebindings(script, name)), (), (Stored(script, None),)
        )

    def _rebindings(self, script: Script, name: str) -> Iterator[Stored]:
        if namespaces.binds_own(script, name):
            yield Stored(script, None, how="namespace")
        if script.path is None:
            return
        found = self._ask("patching", script, name)
        try:
            if found.missing is not None:
                raise Incomplete(found.missing)
            for other in self._parsed(found.paths):
                for stored in attributes.stored_as(other, name):
                    if stored.receiver is None:
                        yield stored
                        continue
                    values = other.inference.possible(stored.receiver)
                    if any(value.node is script.tree for value in values):
                        yield stored
                    elif Kind.UNKNOWN in values.kinds and self.is_handed_on(script):
                        yield stored
        except Incomplete:
            yield Stored(script, None)

    @fixpoint(False, True)
    def is_handed_on(self, script: Script) -> bool:
        """Whether a module is used as a value: `install(engine)`. Raises `Incomplete`."""
        return any(
            not isinstance(other.parent(mention), ast.Attribute)
            and any(value.node is script.tree for value in other.inference.possible(mention))
            for other in self.importing(script)
            for mention in other.find(ast.Name)
            if isinstance(mention.ctx, ast.Load) and any(each.how == "import" for each in other.definitions(mention))
        )

    @fixpoint(False, True)
    def is_lent(self, ref: ClassRef, method: str) -> bool:
        """Whether a method may get an object of another class for its `self`: `Trainer.run(proxy)`."""
        try:
            if method not in self._members_mentioned(ref):
                return False
            files = self.with_word(ref.script, ref.node.name)
        except Incomplete:
            return True
        return any(
            self._lends(other, part, ref)
            for other in files
            for part in other.syntax_index.mentions(method)
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load)
        )

    @once
    def _members_mentioned(self, ref: ClassRef) -> frozenset[str]:
        """The names that are read of a class somewhere, as far as texts tell. Raises `Incomplete`."""
        name = ref.node.name  # what stands before it is looked at behind it: a plain word is searched for fastest
        mention = re.compile(rf"{name}(?<!\w{name})\s*\.\s*(\w+)")
        found = map(mention.findall, self.texts_with_word(ref.script, name))
        return frozenset(itertools.chain.from_iterable(found))

    def _lends(self, script: Script, part: ast.Attribute, ref: ClassRef) -> bool:
        """Whether `Trainer.run` gets an object that is none of the class."""
        owners = script.inference.possible(part.value)
        if not any(value.kind is Kind.CLASS and value.node is ref.node for value in owners):
            return False
        match script.parent(part):
            case ast.Call(func=function, args=[ast.expr() as first, *_]) if function is part:
                passed = script.inference.possible(first)
                return not all(
                    value.cls is not None and any(each.node is ref.node for each in self.lineage(value.cls))
                    for value in passed
                )
            case _:
                return True

    # -- classes

    @fixpoint(_UNKNOWN_CLASS, _UNKNOWN_CLASS)
    def class_info(self, ref: ClassRef) -> ClassInfo:
        bases: list[ClassRef] = []
        names: list[str] = []
        for base in ref.node.bases:
            qualified = ref.script.qualname(base)
            if qualified is not None and not ref.script.is_project_name(base):
                names.append(qualified)
                continue
            for value in ref.script.inference.possible(base):
                if value.cls is not None:
                    bases.extend([] if value.cls.node is ref.node else [value.cls])
                else:
                    names.append(value.name or _UNSEEN)
        return ClassInfo(tuple(bases), tuple(names), _attributes(ref))

    def lineage(self, ref: ClassRef) -> Iterator[ClassRef]:
        """A class and its project bases, nearest first."""
        yield ref
        pending = [*self.class_info(ref).bases]
        seen = {ref.node}
        while pending:
            current = pending.pop(0)
            if current.node not in seen:
                seen.add(current.node)
                yield current
                pending.extend(self.class_info(current).bases)

    def external_lineage(self, ref: ClassRef) -> Iterator[str]:
        """Qualified names of the external classes that a class derives from."""
        for each in self.lineage(ref):
            yield from self.class_info(each).external_bases

    def derived(self, ref: ClassRef) -> tuple[ClassRef, ...] | None:
        """The project classes that derive from one, over any number of others; None where there may be more."""
        none: tuple[ClassRef, ...] | None = ()
        return self.queries.ask(("derived", ref), partial(self._derived, ref), none, None)

    def _derived(self, ref: ClassRef) -> tuple[ClassRef, ...] | None:
        found: dict[ClassRef, None] = {}
        pending = [ref]
        while pending:
            base = pending.pop()
            files, names = self._with_derived(base)
            if files is None:
                return None
            for other in files:
                if _makes_classes(other, base.node.name):
                    return None
                for cls in other.find(ast.ClassDef):
                    bases = [each for each in cls.bases if self._may_stand_for(other, each, names)]
                    values = [value for each in bases for value in other.inference.possible(each)]
                    unknown = any(value.kind is Kind.UNKNOWN for value in values)
                    if unknown and (_names(other, cls.bases, base.node.name) or _computes_base(other, cls)):
                        return None
                    if any(value.cls is not None and value.cls.node is base.node for value in values):
                        each = other.class_ref(cls)
                        if each not in found and each is not ref:
                            found[each] = None
                            pending.append(each)
        return tuple(found)

    def _may_stand_for(self, script: Script, expression: ast.expr, names: frozenset[str]) -> bool:
        """Whether an expression may be what goes by some names: an import of what its file defines as a class under
        another name, and binds by nothing else, is not. Told by the text of that file, which is not parsed."""
        if not isinstance(expression, ast.Name) or expression.id in names:
            return True
        definitions = script.definitions(expression)
        return not definitions or any(
            each.how != "import" or not self._is_another_class(script, each) for each in definitions
        )

    def _is_another_class(self, script: Script, definition: Definition) -> bool:
        located = self.locate(script, definition.target or "", definition.level)
        if located is None or len(located[1]) != 1:
            return False
        name, text = re.escape(located[1][0]), self._text(located[0]) or ""
        bound = rf"^[ \t]*{name}[ \t]*(?:[:=,)]|$)|\bas[ \t]+{name}\b|\bimport\b.*\b{name}\b|\bglobals\b"
        is_class = re.search(rf"^class[ \t]+{name}\b", text, re.MULTILINE) is not None
        return is_class and re.search(bound, text, re.MULTILINE) is None

    def _with_derived(self, ref: ClassRef) -> tuple[tuple[Script, ...] | None, frozenset[str]]:
        """The files in which a class may derive from one, None where there may be more; the names it has in them."""
        script = ref.script
        found = self._ask("deriving", script, ref.node.name)
        if found.missing is not None:
            return None, frozenset()
        try:
            return (script, *self._parsed(found.paths)), frozenset({ref.node.name, *found.names})
        except Incomplete:
            return None, frozenset()

    def instance_kind(self, ref: ClassRef) -> Kind:
        """The kind of a project class's instances; unknown where it derives from a class that cannot be seen."""
        plain = True
        for name in self.external_lineage(ref):
            kind = library_values.class_kind(library_values.canonical(name))
            if kind == "MODULE" and ref.node.name.endswith(("Loss", "Criterion", "loss")):
                return Kind.LOSS_FUNCTION
            if kind is not None:
                return Kind[kind]
            plain = plain and library_values.is_known_class(name)
        return Kind.OBJECT if plain else Kind.UNKNOWN

    # -- calls

    @fixpoint(Callers(), Callers(missing="its callers depend on one another"))
    def callers(self, script: Script, function: ast.AST) -> Callers:
        """Call sites of a function, method or constructor of `script`, in its neighbours."""
        name = getattr(function, "name", None)
        if not isinstance(name, str):
            return Callers(missing="it has no name by which to find its callers")
        cls = script.parent(function)
        if isinstance(cls, ast.ClassDef) and name == "__init__":
            return self._makers(script, function, cls)
        wanted = (name,)
        instance_call = isinstance(cls, ast.ClassDef) and name in ("forward", "__call__")
        files, missing = self.calling(script, None if instance_call else name, method=isinstance(cls, ast.ClassDef))
        if name.startswith("__") and not instance_call and isinstance(cls, ast.ClassDef):
            missing = missing or f"Python calls `{name}` by itself"
        calls = ((each, call) for each in files for call in self._candidate_calls(each, wanted, instance=instance_call))
        return self._callers_among(script, function, calls, files, wanted, missing)

    def _makers(self, script: Script, function: ast.AST, cls: ast.ClassDef) -> Callers:
        """The calls of a class, of those that derive from it, and of `super().__init__` in these."""
        derived = self.derived(script.class_ref(cls))
        made = [(script, cls.name), *((each.script, each.node.name) for each in derived or ())]
        parts = [self.calling(file, name, method=False) for file, name in made]
        missing = next((each for _, each in parts if each is not None), None)
        if derived is None:
            missing = missing or f"classes that are not seen may derive from `{cls.name}`"
        files = tuple(dict.fromkeys(each for found, _ in parts for each in found))
        wanted = tuple(dict.fromkeys(name for _, name in made))
        calls = [(each, call) for each in files for call in self._candidate_calls(each, wanted, instance=False)]
        calls += (
            (each.script, call)
            for each in derived or ()
            for call in each.script.syntax_index.calls_named("__init__")
            if each.script.inside(call, each.node)
        )
        own = ((each.script, call) for each in (script.class_ref(cls), *(derived or ())) for call in _makes_own(each))
        found = self._callers_among(script, function, calls, files, wanted, missing)
        return Callers(tuple(dict.fromkeys((*found, *own))), found.missing)

    def _callers_among(
        self,
        script: Script,
        function: ast.AST,
        calls: Iterable[CallSite],
        files: tuple[Script, ...],
        wanted: tuple[str, ...],
        missing: str | None,
    ) -> Callers:
        cls = script.parent(function)
        found: list[CallSite] = []
        instance = isinstance(cls, ast.ClassDef) and wanted[0] in ("forward", "__call__")
        for other, call in calls:
            enters = self._enters(other, call, function, cls)
            if enters:
                found.append((other, call))
            elif enters is None and not (instance and _is_method_of_library(other, call, files)):
                missing = missing or f"`{other.source(call.func)}` in {_line(other, call, script)} may be a call of it"
        for other in files:
            missing = missing or self._handed_on(script, function, other, wanted)
            missing = missing or self._looked_up(script, function, other, wanted)
        return Callers(tuple(found), missing)

    def _handed_on(self, script: Script, function: ast.AST, other: Script, names: tuple[str, ...]) -> str | None:
        """Where a function is used as a value and not called: whoever gets it may call it with anything."""
        for mention in other.syntax_index.mentions(*names, *other.import_aliases(names)):
            around = other.parent(mention)
            called = isinstance(around, ast.Call) and around.func is mention
            if called or (isinstance(around, ast.Attribute) and around.value is mention):
                continue
            if not isinstance(mention.ctx, ast.Load) or _starts_process(
                around, other.parent(around) if around is not None else None
            ):
                continue
            if any(value.node is function for value in other.inference.possible(mention)):
                return f"it is handed on in {_line(other, mention, script)}, and may be called by whoever gets it"
        return None

    def _looked_up(self, script: Script, function: ast.AST, other: Script, names: tuple[str, ...]) -> str | None:
        """Where a function may be reached by a name that is computed."""
        part = name_lookups.lookup(other, script, function, names)
        return None if part is None else f"`{other.source(part)}` in {_line(other, part, script)} may be a call of it"

    def _candidate_calls(self, other: Script, wanted: tuple[str, ...], *, instance: bool) -> Iterator[ast.Call]:
        """Calls under one of these names, or of what can be an instance."""
        if instance:
            return iter(_instance_calls(other))
        names = (*wanted, *other.import_aliases(wanted))
        looked_up = (other.parent(call) for call in other.syntax_index.calls_named("getattr"))
        return itertools.chain(
            other.syntax_index.calls_named(*names),
            (
                call
                for call in looked_up
                if isinstance(call, ast.Call)
                and (member := name_lookups.named_member(call.func))
                and member[1] in names
            ),
        )

    def _enters(self, other: Script, call: ast.Call, function: ast.AST, cls: ast.AST | None) -> bool | None:
        """Whether a call may enter a function, itself or as constructor or `forward` of what is called; None where it
        is not known what is called."""
        name = getattr(function, "name", "")
        for value in other.inference.possible(call.func):
            if value.node is function:
                return True
            if value.cls is None or not isinstance(cls, ast.ClassDef):
                continue
            constructs = value.kind is Kind.CLASS
            if constructs != (name == "__init__") or name not in ("__init__", "forward", "__call__"):
                continue
            if self._defining(value.cls, name) is cls:
                return True
        receiver = name_lookups.receiver(call.func)
        if not isinstance(cls, ast.ClassDef) or receiver is None:
            return False
        receivers = other.inference.possible(receiver)
        return None if Kind.UNKNOWN in receivers.kinds else False

    @once
    def _defining(self, ref: ClassRef, method: str) -> ast.ClassDef | None:
        """The class of a lineage that gives a method its body."""
        for each in self.lineage(ref):
            if any(isinstance(part, ast.FunctionDef) and part.name == method for part in each.node.body):
                return each.node
        return None

    def arguments(self, script: Script, function: ast.AST, parameter: str) -> Iterator[tuple[Script, ast.expr]]:
        """The expressions that known call sites pass for a parameter; `callers(…).missing` tells whether there may be
        others."""
        for other, call in self.callers(script, function):
            found = bind_argument(function, call, parameter, bound=self.is_bound(script, function, other, call))
            if found is not None:
                yield other, found
        for other, call in self._starts(script, function):
            handed = _handed_over(function, call, parameter)
            if handed is not None:
                yield other, handed

    @once
    def _starts(self, script: Script, function: ast.AST) -> tuple[tuple[Script, ast.Call], ...]:
        """Calls that run a function in a process or thread: `Process(target=f, args=…)`, `spawn(f, args=…)`."""
        name = getattr(function, "name", None)
        if name is None or isinstance(script.parent(function), ast.ClassDef):
            return ()
        files, _ = self.calling(script, name, method=False)
        return tuple(
            (other, call)
            for other in files
            for call in other.syntax_index.calls_named(*_STARTERS)
            if (target := _started(call)) is not None and _is_name_of(other, target, script, function)
        )

    def is_bound(self, script: Script, function: ast.AST, other: Script, call: ast.Call) -> bool:
        """Whether the first parameter is the receiver, not the first argument of the call."""
        cls = script.parent(function)
        if not isinstance(cls, ast.ClassDef):  # a class may have been given it: `Trainer.log = log`
            reached = other.inference.possible(call.func) if isinstance(call.func, ast.Attribute) else ()
            return any(value.node is function and value.path == BOUND for value in reached)
        decorators = {each.id for each in getattr(function, "decorator_list", ()) if isinstance(each, ast.Name)}
        if decorators & {"staticmethod", "classmethod"}:
            return "classmethod" in decorators
        receiver = name_lookups.receiver(call.func)
        made = getattr(function, "name", "") == "__init__"
        if receiver is not None and (not made or getattr(call.func, "attr", "") == "__init__"):
            owner = other.inference.possible(receiver)
            classes = (value.cls for value in owner if value.kind is Kind.CLASS and value.cls is not None)
            return not any(each.node is cls for ref in classes for each in self.lineage(ref))
        return True


def _makes_own(ref: ClassRef) -> Iterator[ast.Call]:
    """The calls within a class that make an instance of it, or of one that derives from it: `cls(…)`,
    `type(self)(…)`, `self.__class__(…)`."""
    for call in ref.script.within(ref.node, ast.Call):
        match call.func:
            case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id="self")]):
                yield call
            case ast.Attribute(value=ast.Name(id="self"), attr="__class__") | ast.Name(id="cls"):
                yield call


def _is_method_of_library(script: Script, call: ast.Call, files: Iterable[Script]) -> bool:
    """Whether a call of something unknown can be that of no object of the project, for none of these files gives one
    such a name: a tensor's method, `x.size(0)`, or one of what a library has made, `plt.figure().add_subplot()`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    if name is None or not (name in METHODS or _is_foreign(script, call.func)):
        return False
    return not any(name in _member_names(each) for each in files)


@once
def _member_names(script: Script) -> frozenset[str]:
    """The names under which a file may put objects into others: attributes that it assigns, names of class bodies,
    texts, and what it names in calls of other than torch's functions."""
    names = {each.attr for each in script.find(ast.Attribute) if isinstance(each.ctx, ast.Store)}
    for scope, known in script.reaching_definitions.scopes.items():
        if isinstance(scope, ast.ClassDef):
            names.update(name for name, bound in known.definitions.items() if any(each.how != "def" for each in bound))
    names.update(each.value for each in script.find(ast.Constant) if isinstance(each.value, str))
    for call in script.find(ast.Call):
        if call.keywords and not (script.qualname(call.func) or "").startswith("torch."):
            names.update(each.arg for each in call.keywords if each.arg and not isinstance(each.value, ast.Constant))
    return frozenset(names)


def _is_foreign(script: Script, expression: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether an object was made by a library that never holds a model, of nothing that is the project's:
    `plt.figure(figsize=(4, 4))`."""
    qualified = script.qualname(expression) if isinstance(expression, ast.Name | ast.Attribute) else None
    if qualified is not None:
        return qualified.partition(".")[0] in _HOLDING_NO_MODELS and not script.is_project_name(expression)
    parts: list[ast.expr] = []
    match expression:
        case ast.Constant():
            return True
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            parts = elements
        case ast.UnaryOp(operand=inner) | ast.Starred(value=inner) | ast.Attribute(value=inner):
            parts = [inner]
        case ast.Call(func=function, args=arguments, keywords=keywords):
            parts = [function, *arguments, *(each.value for each in keywords)]
        case ast.Name() if expression not in seen:
            bound = script.definitions(expression)
            parts = [each.value for each in bound if each.value is not None and each.how == "assign"]
            if len(parts) < len(bound):
                return False
    return bool(parts) and all(_is_foreign(script, each, seen | {expression}) for each in parts)


@once
def _instance_calls(script: Script) -> tuple[ast.Call, ...]:
    """The calls of what can be an object that was stored under a name: not a builtin, a library function, a plain
    method or the constructor of a base class."""
    never = {*script.plain_callees, "__init__"}
    return tuple(call for call in script.find(ast.Call) if _terminal(call.func) not in never)


def _makes_classes(script: Script, name: str) -> bool:
    """Whether classes are made by `type("Fast", (Base,), {})` with a base of this name."""
    made = script.syntax_index.calls_named("type", "new_class", "make_dataclass")
    return any(
        _names(script, [*call.args, *(each.value for each in call.keywords)], name)
        for call in made
        if len(call.args) > 1
    )


def _computes_base(script: Script, cls: ast.ClassDef) -> bool:
    """Whether a class derives from what a function or a container of the project gives: `class A(make(x))`."""
    sources = [
        each.func if isinstance(each, ast.Call) else each.value
        for each in cls.bases
        if isinstance(each, ast.Call | ast.Subscript)
    ]
    return any(script.qualname(each) is None or script.is_project_name(each) for each in sources)


def _names(script: Script, expressions: Iterable[ast.expr], name: str) -> bool:
    """Whether a name, or another one that an import gave it, stands in one of some expressions."""
    wanted = {name, *script.import_aliases((name,))}
    return any(
        (part.id if isinstance(part, ast.Name) else getattr(part, "attr", None)) in wanted
        for each in expressions
        for part in script.within(each, ast.AST)
    )


def _line(other: Script, node: ast.expr, script: Script) -> str:
    return f"line {node.lineno}" + (f" of {other.path.name}" if other is not script and other.path is not None else "")


def bind_argument(function: ast.AST, call: ast.Call, parameter: str, *, bound: bool) -> ast.expr | None:
    """The expression that a call passes for a parameter; None for defaults and for what `*` and `**` hide."""
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments):
        return None
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if bound:
        names = names[1:]
    if parameter not in names:
        return None
    index = names.index(parameter)
    if index >= len(call.args) or any(isinstance(each, ast.Starred) for each in call.args[: index + 1]):
        return None
    return call.args[index]


def _started(call: ast.Call) -> ast.expr | None:
    """The function that a call runs elsewhere."""
    match _terminal(call.func):
        case "Process" | "Thread":
            return next((keyword.value for keyword in call.keywords if keyword.arg == "target"), None)
        case "spawn" | "start_processes":
            return call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "fn"), None)
        case _:
            return None


def _starts_process(*around: ast.AST | None) -> bool:
    """Whether a function is handed to a process of its own: `spawn(f, …)`, `Process(target=f)`."""
    return any(isinstance(each, ast.Call) and _terminal(each.func) in _PROCESSES for each in around)


def _is_name_of(other: Script, target: ast.expr, script: Script, function: ast.AST) -> bool:
    """Whether a name stands for a function of `script`: it is defined under it, or imported from there."""
    if not isinstance(target, ast.Name):
        return False
    definitions = other.definitions(target)
    if len(definitions) != 1:
        return False
    if definitions[0].how == "import" and definitions[0].target:
        imported = script.project.imported(other, definitions[0].target, definitions[0].level)
        name = getattr(function, "name", None)
        return imported is not None and imported[0] is script and imported[1] == name
    return definitions[0].node is function


def _handed_over(function: ast.AST, call: ast.Call, parameter: str) -> ast.expr | None:
    """The expression that a process or thread gets for a parameter; `spawn` passes its rank before them."""
    spawned = _terminal(call.func) not in ("Process", "Thread")
    passed = next((keyword.value for keyword in call.keywords if keyword.arg == "args"), None)
    if passed is None and spawned and len(call.args) > 1:
        passed = call.args[1]
    arguments = getattr(function, "args", None)
    if not isinstance(passed, ast.Tuple) or not isinstance(arguments, ast.arguments):
        return None
    if any(isinstance(each, ast.Starred) for each in passed.elts):
        return None
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][int(spawned) :]
    return dict(zip(names, passed.elts, strict=False)).get(parameter)


def _attributes(ref: ClassRef) -> dict[str, list[Binding]]:
    """Bindings of a class's attributes: its body's names and `self.x = …` of its methods."""
    found: dict[str, list[Binding]] = {}
    scope = ref.script.reaching_definitions.scopes.get(ref.node)
    if scope is not None:
        for name, definitions in scope.definitions.items():
            found[name] = [(definition, ()) for definition in definitions]
    for method in ref.node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or not method.args.args:
            continue
        receiver = method.args.args[0].arg
        plain, annotated = ref.script.in_scope(method, ast.Assign), ref.script.in_scope(method, ast.AnnAssign)
        assignments: list[ast.Assign | ast.AnnAssign] = [*plain, *annotated]
        for part in sorted(assignments, key=lambda each: (each.lineno, each.col_offset)):
            if isinstance(part, ast.Assign):
                for target in part.targets:
                    _bind(target, part.value, (), receiver, found)
            elif part.value is not None:
                _bind(part.target, part.value, (), receiver, found)
    return found


def _bind(target: ast.expr, value: ast.expr, path: ElementPath, receiver: str, found: dict[str, list[Binding]]) -> None:
    match target:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name == receiver:
            found.setdefault(attr, []).append((value, path))
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(elements) and not path:
                for element, part in zip(elements, value.elts, strict=True):
                    _bind(element, part, (), receiver, found)
            else:
                for index, element in enumerate(elements):
                    _bind(element, value, (*path, index), receiver, found)


def _terminal(function: ast.expr) -> str | None:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None
