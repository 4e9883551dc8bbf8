"""What samples and the loop that reads them share besides objects: files, environment variables, what is printed.

Whoever fetches ahead, or has workers fetch, reads files and variables as they were before the step that comes first,
and prints before it. Paths are compared as far as they are written (`path_texts`), and by what the files hold: pictures
are not read from where tensors are saved.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from autoaccel.analysis.classes import class_info, lineage, methods
from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_as, given_values
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import is_constant, last_name
from autoaccel.library_models.python_names import CONTAINER_CHANGES, TEXT_RUNNERS
from autoaccel.pytorch.changing_calls import changed_by_library, held_methods, is_library, is_unknown, is_unseen
from autoaccel.pytorch.file_calls import FileContent, FileUse, file_read, file_written
from autoaccel.pytorch.path_texts import ANYTHING, PathText, Texts, inside, path_texts
from autoaccel.pytorch.unseen_modules import calls_of_unseen_modules

_ENVIRONMENT = frozenset({"os.environ", "os.environb"})
_READING_ENVIRONMENT = _ENVIRONMENT | {"os.getenv", "os.getenvb", "os.path.expandvars"}
_HANDING_DOWN = re.compile(r"(os\.(system|popen|exec|spawn|posix_spawn)|subprocess\.)\w*")  # all of them, to a program
_ENVIRONMENT_WORDS = re.compile("environ|getenv|expandvars|system|popen|exec|spawn|subprocess")
_MAPPING_CHANGES = CONTAINER_CHANGES | {"__setitem__", "__delitem__", "__ior__"}
_DEFAULTS = tuple(f"torch.set_default_{what}" for what in ("dtype", "device", "tensor_type"))
_LOGGING = frozenset("debug info warning error exception critical log".split())
_LOGGER = re.compile(r"(^|_)(log|logger|logging)$", re.IGNORECASE)
_KEPT_OPEN = frozenset("open h5py.File numpy.memmap zipfile.ZipFile tarfile.open".split())

Found = tuple[Script, FileUse]


@dataclass(eq=False)
class SharedResources:
    """What the code that makes batches, `code`, uses of what the whole process has, in the files of a program."""

    code: dict[ast.AST, Script]
    own: frozenset[str]
    """The attributes that its methods read of their own object."""
    scripts: tuple[Script, ...]
    possible_code: dict[ast.AST, Script]
    """The code that may make batches, where it is not known what makes them."""

    def problem(self, runs_beside: Callable[[Script, ast.AST], bool], *, in_workers: bool) -> str | None:
        """Why batches cannot be made at another time than they are asked for, or elsewhere."""
        if any(runs_beside(*place) for place in self.environment_changes):
            return "its samples read environment variables that are set while it is read"
        if self._read and any(runs_beside(*place) for place in self._file_changes()):
            return "its samples read files that may be written while it is read"
        if self._appends and (in_workers or any(runs_beside(*place) for place in self._readers())):
            return "its samples are noted in a file in the order in which they are made"
        if self._prints and (in_workers or any(runs_beside(*place) for place in self._printing())):
            return "its samples print, and lines would come in another order"
        if any(runs_beside(file, call) for file in self.scripts for call in file.calls(*_DEFAULTS)):
            return "the defaults of torch are changed while it is read"
        if any(runs_beside(*place) for place in self._run_texts()):
            return "a text is run as code while it is read"
        return None

    # -- files

    @cached_property
    def _calls(self) -> list[tuple[Script, ast.Call]]:
        return [(file, call) for function, file in self.code.items() for call in file.within(function, ast.Call)]

    @cached_property
    def _read(self) -> list[Found]:
        """The files that samples read, those among them that their objects keep open."""
        found = [(file, use) for file, call in self._calls if (use := file_read(file, call)) is not None]
        for function, file in self.code.items():
            cls = file.parent(function)
            for ref in lineage(file.class_ref(cls)) if isinstance(cls, ast.ClassDef) else ():
                bindings = (each for name in sorted(self.own) for each in class_info(ref).attributes.get(name, ()))
                calls = (each for each, _ in bindings if isinstance(each, ast.Call) and _keeps_open(ref.script, each))
                found += [(ref.script, use) for call in calls if (use := file_read(ref.script, call)) is not None]
        return list(dict.fromkeys(found))

    def _file_changes(self) -> Iterator[ScriptNode]:
        """Where a file that samples read may be written, renamed or removed."""
        contents = {use.content for _, use in self._read if not use.of_names} or {FileContent.ANY}
        read = [(use, _texts(file, use)) for file, use in self._read]
        for file in self.scripts:
            for call in file.calls("os.chdir"):
                yield file, call
            for node, written in _written(file):
                texts = _texts(file, written)
                if any(_may_meet(use, known, written, texts, contents) for use, known in read):
                    yield file, node
        yield from self._told_of([text for _, known in read for text in known if text.head])

    @cached_property
    def _given(self) -> frozenset[str]:
        """What the objects that make samples were given, as it is written: `args.root`."""
        classes = [(file, file.parent(function)) for function, file in self.code.items()]
        makers = (
            each
            for file, cls in classes
            if isinstance(cls, ast.ClassDef)
            for each in methods(file.class_ref(cls), "__init__")
        )
        return frozenset(
            ast.unparse(each)
            for file, constructor in makers
            for _, call in file.callers(constructor)
            for each in given_values(call)
            if isinstance(each, ast.Attribute)
        )

    def _told_of(self, read: Sequence[PathText]) -> Iterator[ScriptNode]:
        """The calls of modules that are not seen and were told where the files lie."""
        calls = [(file, call, module) for file in self.scripts for call, module in calls_of_unseen_modules(file)]
        told = {
            module
            for file, call, module in calls
            for each in given_values(call)
            if (isinstance(each, ast.Attribute) and ast.unparse(each) in self._given)
            or any(
                text == known or inside(text).may_be(known)
                for text in path_texts(file, each)
                for known in (read if text.whole else ())
            )
        }
        yield from ((file, call) for file, call, module in calls if module in told)

    @cached_property
    def _appends(self) -> bool:
        return any(_is_append(call) for file, call in self._calls)

    def _readers(self) -> Iterator[ScriptNode]:
        for file in self.scripts:
            yield from ((file, call) for call in file.find(ast.Call) if file_read(file, call) or _is_append(call))

    def _run_texts(self) -> Iterator[ScriptNode]:
        for file in self.scripts:
            for call in file.syntax_index.calls_named(*TEXT_RUNNERS):
                if isinstance(call.func, ast.Name) and not file.definitions(call.func):
                    yield file, call

    # -- environment variables

    @cached_property
    def environment_changes(self) -> tuple[ScriptNode, ...]:
        """Where environment variables are set, if samples read any."""
        if not any(_ENVIRONMENT_WORDS.search(file.text) for file in self.scripts):
            return ()
        code = self.code | self.possible_code
        if not any(_reads_environment(file, function) for function, file in code.items()):
            return ()
        return tuple((file, node) for file in self.scripts for node in _environment_changes(file))

    # -- what is printed

    @cached_property
    def _prints(self) -> bool:
        """Whether samples print, where nothing has gone wrong."""
        return any(_is_printing(file, call) and not _is_of_failure(file, call) for file, call in self._calls)

    def _printing(self) -> Iterator[ScriptNode]:
        for file in self.scripts:
            calls = file.syntax_index.calls_named("print", "write", *sorted(_LOGGING))
            yield from ((file, call) for call in calls if _is_printing(file, call))


def _texts(file: Script, use: FileUse) -> Texts:
    known = path_texts(file, use.path) if use.path is not None else (ANYTHING,)
    return tuple(inside(each) for each in known) if use.lists else known


def _may_meet(read: FileUse, known: Texts, written: FileUse, texts: Texts, contents: Iterable[FileContent]) -> bool:
    """Whether one call may write what another reads."""
    if (written.of_names and not read.of_names) or not any(one.may_be(other) for one in known for other in texts):
        return False
    if written.content is FileContent.OWN:
        return False
    if read.of_names:  # of any kind, where the folder is known; else of those that are read
        return ANYTHING not in known or any(each.may_be(written.content) for each in contents)
    same = any(one.whole and one in texts for one in known)
    return same or read.content.may_be(written.content)


@once
def _written(file: Script) -> tuple[tuple[ast.AST, FileUse], ...]:
    """Where a file of the program writes files, and which: where it opens them, and where it writes to open ones."""
    found: list[tuple[ast.AST, FileUse]] = []
    for call in file.find(ast.Call):
        for use in file_written(file, call):
            found.append((call, use))
            if _keeps_open(file, call):
                found += [(each, use) for each in _uses_of(file, call)]
    for call in file.calls("numpy.load"):
        if (mode := given_as(call, "mmap_mode")) is not None and not is_constant(mode, None):
            use = FileUse(call.args[0] if call.args else None, FileContent.ARRAYS)
            found += [(each, use) for each in _uses_of(file, call)]
    return tuple(found)


def _keeps_open(file: Script, call: ast.Call) -> bool:
    """Whether what a call gives goes on reading or writing its file."""
    name = file.qualname(call.func) or last_name(call.func)
    return name in _KEPT_OPEN or given_as(call, "mmap_mode") is not None


def _uses_of(file: Script, call: ast.Call) -> Iterator[ast.AST]:
    """Where what a call gives is mentioned under the names that it is bound to, and what was made of it."""
    pending, seen = [call], set[str]()
    for each in pending:
        statement = file.statement(each)
        for name in sorted(_bound_to(statement) - seen) if statement is not None else ():
            seen.add(name)
            mentions = [use for use in file.syntax_index.mentions(name) if isinstance(use.ctx, ast.Load)]
            yield from mentions
            pending += mentions  # type: ignore[arg-type]


def _bound_to(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.Assign(targets=targets):
            pass
        case ast.With(items=items):
            targets = [each.optional_vars for each in items if each.optional_vars is not None]
        case _:
            return set()
    return {last_name(each) for each in targets if isinstance(each, ast.Name | ast.Attribute)}


def _is_append(call: ast.Call) -> bool:
    """`open(path, "a")`"""
    if last_name(call.func) != "open":
        return False
    given = call.args[1:2] if isinstance(call.func, ast.Name) else call.args[:2][-1:]  # `path.open("a")`
    mode = given_as(call, "mode") or next(iter(given), None)
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and mode.value[:2] in ("a", "a+", "ab", "at")


def _reads_environment(file: Script, function: ast.AST) -> bool:
    """Whether a function reads environment variables, whichever."""
    for kind in (ast.Name, ast.Attribute, ast.Subscript, ast.Call):
        for node in file.within(function, kind):
            name = file.qualname(node) if isinstance(node, ast.Name | ast.Attribute) else None
            if name is None and _is_environment(file, node):
                return True
            if name is not None and (name in _READING_ENVIRONMENT or _HANDING_DOWN.fullmatch(name)):
                return True
    return False


def _environment_changes(file: Script) -> Iterator[ast.AST]:
    """Where a file may set environment variables."""
    stored = (each for each in file.find(ast.Subscript) if not isinstance(each.ctx, ast.Load))
    yield from (item for item in stored if _is_environment(file, item.value))
    yield from (each for each in file.find(ast.AugAssign) if _is_environment(file, each.target))
    for call in file.syntax_index.calls_named(*sorted(_MAPPING_CHANGES)):
        if isinstance(call.func, ast.Attribute) and _is_environment(file, call.func.value):
            yield call
    yield from file.syntax_index.stored("environ")
    for call in file.find(ast.Call):
        unseen = _is_out_of_sight(file, call) or (file.qualname(call.func) or "").startswith("unittest.")
        given = given_values(call) if unseen else changed_by_library(file, call)
        if any(_is_environment(file, each) for each in given):
            yield call
    yield from (call for call, _ in calls_of_unseen_modules(file))
    yield from file.calls("os.putenv", "os.unsetenv")
    for owner, place in held_methods(file):
        if _is_environment(file, owner):  # handed on, it may be called by whatever is called
            yield from [place] if place is not None else file.find(ast.Call)


def _is_out_of_sight(file: Script, call: ast.Call) -> bool:
    return is_unseen(file, call) if is_library(file, call) else is_unknown(file, call)


def _is_environment(file: Script, expression: ast.expr) -> bool:
    """Whether an expression is `os.environ`, or what is called so and comes from where nobody knows."""
    places = [expression]
    for each in places:
        if any(value.name in _ENVIRONMENT for value in file.values(each)):
            return True
        match each:
            case ast.Attribute(attr="environ" | "environb") if file.qualname(each) is None:
                return True  # of `sys.modules["os"]`
            case ast.Subscript(slice=ast.Constant(value="environ" | "environb")):
                return True
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value="environ" | "environb"), *_]):
                return True
            case ast.Name():
                bound = (made.value for made in file.definitions(each) if made.value is not None and not made.path)
                places.extend(value for value in bound if value not in places)
    return False


def _is_printing(file: Script, call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="print"):
            return not file.definitions(call.func)
        case ast.Attribute(attr=method, value=owner) if method in _LOGGING:
            return file.qualname(owner) == "logging" or _is_logger(file, owner)
        case ast.Attribute(attr="write"):
            return (file.qualname(call.func) or "").startswith(("sys.std", "tqdm."))
        case _:
            return False


def _is_logger(file: Script, expression: ast.expr) -> bool:
    """By where it comes from, or by its name: it may come from anywhere."""
    if _LOGGER.search(last_name(expression)):
        return True
    bound = [each.value for each in file.definitions(expression)] if isinstance(expression, ast.Name) else [expression]
    return any(isinstance(each, ast.Call) and file.qualname(each.func) == "logging.getLogger" for each in bound)


def _is_of_failure(file: Script, call: ast.Call) -> bool:
    """Whether a call says what has gone wrong: in a handler, or before something is raised."""
    for around in file.ancestors(call):
        if isinstance(around, ast.ExceptHandler):
            return True
        if isinstance(around, ast.FunctionDef):
            break
    statement = file.statement(call)
    return statement is not None and any(isinstance(each, ast.Raise) for each in file.block(statement))
