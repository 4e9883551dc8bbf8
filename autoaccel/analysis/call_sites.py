"""Where functions are called from, in all files of the project, and what they are passed there."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from autoaccel.analysis import decorators, name_lookups
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.classes import derived_classes, methods
from autoaccel.analysis.contained_modules import calls_element, may_be_contained
from autoaccel.analysis.passed_arguments import handed_on
from autoaccel.analysis.passed_functions import calls_of_passed
from autoaccel.analysis.started_functions import handed_over, starts, starts_process
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import bind_argument, unpacks
from autoaccel.dataflow.completeness import Answer, CallSite
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.library_values import HOLDING_NO_MODELS
from autoaccel.library_models.tensor_operations import METHODS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef, Value, Values

_OF_LIBRARIES = frozenset(
    """zero_grad parameters named_parameters state_dict load_state_dict add_param_group add_argument add_argument_group
    add_mutually_exclusive_group add_subparsers add_parser parse_args parse_known_args randrange randint uniform gauss
    shuffle choice choices sample random rand randn standard_normal permutation integers normal getrandbits""".split()
)
"""Methods of optimizers, modules, parsers of arguments and random generators, under which no library keeps a model."""
_PLAIN = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.DTYPE, Kind.DEVICE})
_TELLING = frozenset("isinstance issubclass super type print id hash repr str".split())


@dataclass(frozen=True, slots=True)
class NoneYet(Answer[CallSite]):
    """No callers so far, where callers depend on one another: not to be taken for a function that nobody calls."""


UNSETTLED: Final[Answer[CallSite]] = Answer(missing="its callers depend on one another")
"""The callers of a function of which nothing was found out, not even where a call of it may be."""


@fixpoint(NoneYet(), UNSETTLED)
def callers(script: Script, function: ast.AST) -> Answer[CallSite]:
    """Call sites of a function, method or constructor of `script`, in its neighbours."""
    name = getattr(function, "name", None)
    if not isinstance(name, str):
        return Answer(missing="it has no name by which to find its callers")
    cls = script.parent(function)
    if isinstance(cls, ast.ClassDef) and name == "__init__":
        return _makers(script, function, cls)
    instance_call = isinstance(cls, ast.ClassDef) and name in ("forward", "__call__")
    method = isinstance(cls, ast.ClassDef)
    files = script.project.files_naming(script, None if instance_call else name, attribute=method)
    if name.startswith("__") and not instance_call and method:
        files = Answer(files.seen, files.missing or f"Python calls `{name}` by itself")
    if instance_call:
        return _callers_of_instances(script, function, name, files)
    calls = [(each, call) for each in files for call in _candidate_calls(each, (name,))]
    return _callers_among(script, function, calls, files, (name,))


def _callers_of_instances(script: Script, function: ast.AST, name: str, files: Answer[Script]) -> Answer[CallSite]:
    """The calls of objects that enter a method of theirs, `forward` or `__call__`."""
    cls = script.parent(function)
    calls: list[CallSite] = []
    elements: list[CallSite] = []
    for each in files:
        known = _instance_calls(each)
        if known is None:
            return UNSETTLED
        entering = (*known.entering.get(function, ()), *known.entering.get((cls, name), ()))
        calls += ((each, call) for call in each.syntax_index.in_order([*dict.fromkeys((*entering, *known.unknown))]))
        elements += ((each, call) for call in known.of_elements)
    return _callers_among(script, function, calls, files, (name,), elements)


def _makers(script: Script, function: ast.AST, cls: ast.ClassDef) -> Answer[CallSite]:
    """The calls of a class, of those that derive from it, and of `super().__init__` in these."""
    deriving = derived_classes(script.class_ref(cls))
    made = [(script, cls.name), *((each.script, each.node.name) for each in deriving)]
    made += [(each, alias) for each, name in tuple(made) for alias in _aliases(each, name)]
    parts = [file.project.files_naming(file, name, attribute=False) for file, name in made]
    missing = next((each.missing for each in parts if each.missing is not None), None)
    if deriving.missing is not None:
        missing = missing or f"classes that are not seen may derive from `{cls.name}`"
    files = Answer(tuple(dict.fromkeys(each for part in parts for each in part)), missing)
    wanted = tuple(dict.fromkeys(name for _, name in made))
    calls = [(each, call) for each in files for call in _candidate_calls(each, wanted)]
    calls += (
        (each.script, call)
        for each in deriving
        for call in each.script.syntax_index.calls_named("__init__")
        if each.script.inside(call, each.node)
    )
    own = ((each.script, call) for each in (script.class_ref(cls), *deriving) for call in _makes_own(each))
    found = _callers_among(script, function, calls, files, wanted)
    hidden = [] if found.missing is None else _made_by_other_names(function, cls, files, calls)
    return Answer(tuple(dict.fromkeys((*found, *own, *hidden))), found.missing)


def _made_by_other_names(
    function: ast.AST, cls: ast.ClassDef, files: Iterable[Script], known: Iterable[CallSite]
) -> list[CallSite]:
    """The calls of a class out of tables and under other names: `KINDS[name](3)`, `kind = Net`; and those of what comes
    out of a table or from elsewhere and is not known."""
    seen = {call for _, call in known}
    return [
        (other, call)
        for other in files
        for call in other.find(ast.Call)
        if call not in seen
        and _may_be_class(other, call.func)
        and (Kind.UNKNOWN in other.inference.possible(call.func).kinds or _enters(other, call, function, cls))
    ]


def _callers_among(
    script: Script,
    function: ast.AST,
    calls: Iterable[CallSite],
    files: Answer[Script],
    wanted: tuple[str, ...],
    elements: Iterable[CallSite] = (),
) -> Answer[CallSite]:
    """Those of some calls that enter a function. `elements` are the calls of elements of containers, of which its
    class may be one."""
    cls = script.parent(function)
    found: list[CallSite] = []
    missing = files.missing
    made = cls if wanted != (getattr(function, "name", None),) and isinstance(cls, ast.ClassDef) else function
    if (decorator := decorators.keeping(script, made)) is not None:
        missing = missing or f"`@{script.source(decorator)}` may hand it to others, which call it"
    if isinstance(cls, ast.ClassDef) and (wrapper := decorators.wrapping_methods(script.class_ref(cls))) is not None:
        missing = missing or f"`{wrapper}` may put something else in its place, which calls it"
    instance = isinstance(cls, ast.ClassDef) and wanted[0] in ("forward", "__call__")
    elsewhere = made is cls or not isinstance(cls, ast.ClassDef)
    for other, call in calls:
        enters = _enters(other, call, function, cls)
        if enters:
            found.append((other, call))
        elif missing is not None:
            continue  # one reason is told
        elif enters is None and not (instance and _is_method_of_library(other, call, files)):
            missing = f"`{other.source(call.func)}` in {_line(other, call)} may be a call of it"
    element = next((each for each in elements if each not in found), None) if missing is None else None
    if element is not None and isinstance(cls, ast.ClassDef) and may_be_contained(script.class_ref(cls)):
        other, call = element
        missing = f"`{other.source(call.func)}` in {_line(other, call)} may be a call of it"
    for other in files:
        for mention in _handed_on(script, function, other, wanted):
            passed = calls_of_passed(other, mention)
            found += passed or ()
            if passed is None:
                line = _line(other, mention)
                missing = missing or f"it is handed on in {line}, and may be called by whoever gets it"
        if elsewhere and other is not script:
            missing = missing or _brought_from_elsewhere(other, wanted)
        missing = missing or _looked_up(script, function, other, wanted)
    return Answer(tuple(dict.fromkeys(found)), missing)


@once
def handed_out(script: Script, function: ast.FunctionDef) -> bool:
    """Whether a function or method is, or may be, used as a value, so that code which is not followed may call it."""
    if decorators.keeping(script, function) is not None:
        return True
    files = script.project.files_naming(
        script, function.name, attribute=isinstance(script.parent(function), ast.ClassDef)
    )
    names = (function.name,)
    return files.missing is not None or any(
        any(_handed_on(script, function, other, names)) or _looked_up(script, function, other, names) for other in files
    )


def _handed_on(script: Script, function: ast.AST, other: Script, names: tuple[str, ...]) -> Iterator[ast.expr]:
    """Where a function (or a class that is made by it) is used as a value and not called."""
    cls = script.parent(function)
    made = cls if isinstance(cls, ast.ClassDef) and getattr(function, "name", "") == "__init__" else None
    for mention in other.syntax_index.mentions(*names, *other.import_aliases(names)):
        around = other.parent(mention)
        if other.call_of(mention) is not None or isinstance(around, ast.Attribute):
            continue
        if not isinstance(mention.ctx, ast.Load) or starts_process(
            around, other.parent(around) if around is not None else None
        ):
            continue  # what it is given there is looked at
        if made is not None and _only_names(other, mention):
            continue
        if any(
            value.node is function or (made is not None and _is_made_by(value, made))
            for value in other.inference.possible(mention)
        ):
            yield mention


def _is_made_by(value: Value, cls: ast.ClassDef) -> bool:
    """Whether a value is a class whose objects the constructor of `cls` makes: it, or one that derives from it."""
    return value.kind is Kind.CLASS and value.cls is not None and _defining(value.cls, "__init__") is cls


def _brought_from_elsewhere(other: Script, names: tuple[str, ...]) -> str | None:
    """Where a file that may import a function by ways that are not seen names something that may be it."""
    for mention in other.syntax_index.mentions(*names, *other.import_aliases(names)):
        if not isinstance(mention.ctx, ast.Load) or isinstance(other.parent(mention), ast.Attribute):
            continue
        if _may_be_brought(other, mention):
            return f"`{other.source(mention)}` in {_line(other, mention)} may be it"
    handed = {part.asname or part.name for each in other.find(ast.ImportFrom) for part in each.names}
    for mention in other.syntax_index.mentions(*handed.difference(names)):
        if isinstance(mention, ast.Name) and _is_handed_on_as(other, mention, names):
            return f"`{mention.id}` in {_line(other, mention)} may be it"
    return None


def _is_handed_on_as(script: Script, mention: ast.Name, names: tuple[str, ...]) -> bool:
    """Whether a name is imported from a file that has it from elsewhere, where it is called by one of some names."""
    external = [value.name or "" for value in script.inference.possible(mention) if value.kind is Kind.EXTERNAL]
    return any(each.rpartition(".")[2] in names and script.project.is_from_elsewhere(script, each) for each in external)


def _may_be_brought(script: Script, mention: ast.expr) -> bool:
    """Whether a name, or an attribute of a module, may come from a file of the project by a way that is not seen: a
    `sys.path` that nobody knows, or a module that is imported by a computed name."""
    owner = mention.value if isinstance(mention, ast.Attribute) else None
    values = script.inference.possible(mention)
    if any(each.kind is Kind.EXTERNAL and script.project.is_from_elsewhere(script, each.name or "") for each in values):
        return True
    if Kind.UNKNOWN not in values.kinds:
        return False
    if owner is not None and name_lookups.MODULES_AT_RUN_TIME.search(script.text):
        return Kind.UNKNOWN in script.inference.possible(owner).kinds
    if isinstance(mention, ast.Name) and not script.definitions(mention):
        return any(script.project.is_from_elsewhere(script, star) for star, _ in script.module_scope.stars)
    return False


def _looked_up(script: Script, function: ast.AST, other: Script, names: tuple[str, ...]) -> str | None:
    """Where a function may be reached by a name that is computed."""
    part = next(name_lookups.lookups(other, script, function, names), None)
    return None if part is None else f"`{other.source(part)}` in {_line(other, part)} may be a call of it"


def _candidate_calls(other: Script, wanted: tuple[str, ...]) -> Iterator[ast.Call]:
    """Calls under one of these names."""
    names = (*wanted, *other.import_aliases(wanted))
    looked_up = (other.parent(call) for call in other.syntax_index.calls_named("getattr"))
    return itertools.chain(
        other.syntax_index.calls_named(*names),
        (
            call
            for call in looked_up
            if isinstance(call, ast.Call) and (member := name_lookups.named_member(call.func)) and member[1] in names
        ),
    )


def _enters(other: Script, call: ast.Call, function: ast.AST, cls: ast.AST | None) -> bool | None:
    """Whether a call may enter a function, itself or as constructor or `forward` of what is called; None where it
    is not known what is called."""
    entered = _entered(other, other.inference.possible(call.func))
    name = getattr(function, "name", "")
    if function in entered or (name in ("__init__", "forward", "__call__") and (cls, name) in entered):
        return True
    receiver = name_lookups.receiver(call.func)
    if not isinstance(cls, ast.ClassDef) or receiver is None:
        return False
    receivers = other.inference.possible(receiver)
    return None if Kind.UNKNOWN in receivers.kinds else False


@once
def _entered(other: Script, callees: Values) -> frozenset[ast.AST | tuple[ast.AST | None, str]]:  # noqa: ARG001  # it keeps the answers
    """The functions that a call of these may enter, and the classes of whose bodies it may enter a constructor,
    `forward` or `__call__`, with the name of that."""
    entered: set[ast.AST | tuple[ast.AST | None, str]] = set()
    for value in callees:
        if value.node is not None:
            entered.add(value.node)
        if value.cls is not None:
            names = ("__init__",) if value.kind is Kind.CLASS else ("forward", "__call__")
            entered.update((_defining(value.cls, name), name) for name in names)
    return frozenset(entered)


@once
def _defining(ref: ClassRef, method: str) -> ast.ClassDef | None:
    """The class of a lineage that gives a method its body."""
    return next((file.enclosing_class(function) for file, function in methods(ref, method)), None)


def arguments_for(script: Script, function: ast.AST, parameter: str) -> Iterator[tuple[Script, ast.expr]]:
    """The expressions that known call sites pass for a parameter; `callers(…).missing` tells whether there may be
    others."""
    for other, call in callers(script, function):
        bound = is_bound(script, function, other, call)
        found = bind_argument(function, call, parameter, bound=bound)
        if found is not None:
            yield other, found
        elif unpacks(call):
            yield from handed_on(other, call, function, parameter, bound=bound) or ()
    for other, call in starts(script, function):
        handed = handed_over(function, call, parameter)
        if handed is not None:
            yield other, handed


def may_be_left_out(script: Script, function: ast.AST, parameter: str) -> bool:
    """Whether a call site that is known writes no argument for a parameter itself: it takes the default, or what the
    call unpacks."""
    return any(
        bind_argument(function, call, parameter, bound=is_bound(script, function, other, call)) is None
        for other, call in callers(script, function)
    )


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
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    in_place = name.endswith("_") and not name.startswith("_")
    if not name or not (name in METHODS or name in _OF_LIBRARIES or in_place or _is_foreign(script, call.func)):
        return False
    return not any(name in _member_names(each) or _puts_object(each, name) for each in files)


@fixpoint(False, True)
def _puts_object(script: Script, name: str) -> bool:
    """Whether a file may put an object into another one under a name: as an attribute, or by a call of other than
    a library's functions. Numbers and texts are none."""
    for stored in script.syntax_index.stored(name):
        statement = script.parent(stored)
        if not isinstance(statement, ast.Assign) or not script.inference.possible(statement.value).kinds <= _PLAIN:
            return True
    return any(
        not script.inference.possible(each.value).kinds <= _PLAIN
        for each in script.find(ast.keyword)
        if each.arg == name and not _is_of_library(script, each)
    )


def _is_of_library(script: Script, keyword: ast.keyword) -> bool:
    """Whether a keyword is an argument of torch's functions, or of a library that holds no models."""
    call = script.parent(keyword)
    name = script.qualname(call.func) if isinstance(call, ast.Call) else None
    if name is None or not isinstance(call, ast.Call) or script.is_project_name(call.func):
        return False
    return name.partition(".")[0] in HOLDING_NO_MODELS | {"torch"}


@once
def _member_names(script: Script) -> frozenset[str]:
    """The names of class bodies and texts under which a file may put objects into others."""
    names: set[str] = set()
    for scope, known in script.reaching_definitions.scopes.items():
        if isinstance(scope, ast.ClassDef):
            names.update(name for name, bound in known.definitions.items() if any(each.how != "def" for each in bound))
    texts = (each for each in script.find(ast.Constant) if isinstance(each.value, str))
    names.update(str(each.value) for each in texts if not _is_setting(script, each))
    return frozenset(names)


def _is_setting(script: Script, text: ast.Constant) -> bool:
    """Whether a text is an argument of torch's functions, `reduction="mean"`, or one of two devices and no more:
    `"cuda" if … else "cpu"`."""
    part: ast.AST = text
    around = script.parent(part)
    while isinstance(around, ast.IfExp | ast.keyword):
        if isinstance(around, ast.IfExp) and all(_is_device(each) for each in (around.body, around.orelse)):
            return True
        part, around = around, script.parent(around)
    if not isinstance(around, ast.Call) or part is around.func or script.is_project_name(around.func):
        return False
    name = script.qualname(around.func) or ""
    return name.startswith("torch.") and not name.startswith("torch.nn.Module.")


def _is_device(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and str(part.value).partition(":")[0] in ("cpu", "cuda")


def _is_foreign(script: Script, expression: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether an object was made by a library that never holds a model, of nothing that is the project's:
    `plt.figure(figsize=(4, 4))`."""
    qualified = script.qualname(expression) if isinstance(expression, ast.Name | ast.Attribute) else None
    if qualified is not None:
        return qualified.partition(".")[0] in HOLDING_NO_MODELS and not script.is_project_name(expression)
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


class _InstanceCalls(NamedTuple):
    """The calls of what can be an object that was stored under a name."""

    entering: dict[ast.AST | tuple[ast.AST | None, str], list[ast.Call]]
    """By what they may enter: see `_entered`."""
    unknown: list[ast.Call]
    """Those whose receiver may be anything."""
    of_elements: list[ast.Call]


@fixpoint(_InstanceCalls({}, [], []), None)
def _instance_calls(script: Script) -> _InstanceCalls | None:
    """All of a file, sorted once for all classes: not those of a builtin, a library function, a plain method or the
    constructor of a base class. None where what is called depends on itself, and does not settle."""
    found = _InstanceCalls({}, [], [])
    never = {*script.plain_callees, "__init__"}
    for call in script.find(ast.Call):
        if last_name(call.func) in never:
            continue
        for target in _entered(script, script.inference.possible(call.func)):
            found.entering.setdefault(target, []).append(call)
        receiver = name_lookups.receiver(call.func)
        if receiver is not None and Kind.UNKNOWN in script.inference.possible(receiver).kinds:
            found.unknown.append(call)
        if calls_element(script, call):
            found.of_elements.append(call)
    return found


def _line(other: Script, node: ast.expr) -> str:
    return f"line {node.lineno}" + (f" of {other.path.name}" if other.path is not None else "")


def _only_names(script: Script, mention: ast.expr) -> bool:
    """Whether a class is told of, and not made: as an annotation, as a base, by `isinstance(x, A)`, to torch."""
    node: ast.AST = mention
    for around in script.ancestors(mention):
        match around:
            case ast.Call(func=function):
                called = script.qualname(function) or ""
                told = isinstance(function, ast.Name) and function.id in _TELLING and not script.definitions(function)
                return told or called.startswith(("torch.", "typing.")) or node is function
            case ast.Assign(targets=[ast.Name()]) if node is around.value and script.function(around) is None:
                return node is mention  # a name for it, by which it is looked for, too
            case ast.Compare() | ast.ExceptHandler() | ast.ClassDef() | ast.match_case() | ast.JoinedStr():
                return True
            case ast.arg() | ast.AnnAssign() | ast.FunctionDef() | ast.AsyncFunctionDef():
                others = (getattr(around, "value", None), *getattr(around, "decorator_list", ()))
                return node not in others
            case ast.Subscript(value=value) if node is value:
                return True  # `A[int]`
            case ast.Tuple() | ast.List() | ast.Set() | ast.BinOp() | ast.Subscript() | ast.keyword() | ast.Starred():
                node = around
            case _:
                return False
    return False


def _aliases(script: Script, name: str) -> Iterator[str]:
    """Other names of a module for a class: `Legacy = Trainer`."""
    for mention in script.syntax_index.mentions(name):
        match script.parent(mention):
            case ast.Assign(targets=[ast.Name(id=alias)], value=value) if value is mention:
                yield alias


def _may_be_class(script: Script, function: ast.expr) -> bool:
    """Whether a class may be called by something else than its name, or that of a module and its."""
    match function:
        case ast.Subscript() | ast.Call():
            return True
        case ast.Name():
            return any(each.how in ("assign", "for", "param", "walrus") for each in script.definitions(function))
        case _:
            return False
