"""Functions and methods that a program reaches by a name which it computes: `getattr(agent, mode)(x)`.

Whoever asks for the callers of a function is told of these: they may be calls of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis import namespaces, type_tests
from autoaccel.analysis.attributes import may_be_instance
from autoaccel.analysis.classes import is_plain_object, lineage
from autoaccel.analysis.rebound_names import is_handed_on
from autoaccel.analysis.uncalled_methods import is_in_uncalled_method
from autoaccel.dataflow.abstract_values import ANY, NOTHING, Kind, Value
from autoaccel.dataflow.bounds import TABLES
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.library_values import CALLING_NOTHING
from autoaccel.library_models.python_names import LOOKING, NAMESPACES, TEXT_RUNNERS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef
    from autoaccel.dataflow.definitions import Definition

_READING = ("getattr", "methodcaller", "attrgetter")
_MEMBER_METHODS = ("__getattribute__", "__getattr__")
MODULES_AT_RUN_TIME = re.compile(
    r"\b(import_module|__import__|run_module|run_path|spec_from_file_location|SourceFileLoader|load_source|find_spec"
    r"|resolve_name|load_module|iter_entry_points|entry_points)\b|\b(sys\.modules|pydoc\.locate)\b"
)
_NOT_CALLING = LOOKING | {"dir", "getattr", "setattr"}  # builtins that call none of their arguments


def is_of_comprehension(script: Script, name: ast.Name) -> bool:
    """Whether a name is one that a comprehension binds for itself: `k` of `sum(losses[k] for k in losses)`."""
    found = script.definitions(name)
    return bool(found) and all(isinstance(each.node, ast.comprehension) for each in found)


def named_member(call: ast.expr) -> tuple[ast.expr, str] | None:
    """The object and the name of `getattr(object, "name")`."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str() as name), *_]):
            return owner, name
        case _:
            return None


def member_may_be(script: Script, call: ast.Call, names: Iterable[str]) -> bool:
    """Whether `getattr(object, name)` tells so much of a name that it may be one of these."""
    key = call.args[1] if len(call.args) > 1 else None
    told = isinstance(key, ast.Constant | ast.JoinedStr | ast.BinOp)
    return told and any(may_be_named(script, key, name) for name in names)


def is_own_method(script: Script, expression: ast.expr) -> bool:
    """Whether an expression surely is a method that the project defines, of an object of its own class: what torch does
    under the same name, it does only where its body says so."""
    if not isinstance(expression, ast.Attribute):
        return False
    owners = script.inference.possible(expression.value)
    functions = script.inference.possible(expression)
    return (
        bool(owners and functions)
        and all(is_plain_object(owner) for owner in owners.unordered())
        and all(_is_method(value) for value in functions.unordered())
    )


def _is_method(value: Value) -> bool:
    if value.kind is not Kind.FUNCTION or not isinstance(value.node, ast.FunctionDef) or value.script is None:
        return False
    return isinstance(value.script.parent(value.node), ast.ClassDef)


def mentions(script: Script, names: Collection[str]) -> list[ast.expr]:
    """Where a file names one of these functions of torch, or a member of some object that is called so, or computes a
    name that may be one; methods of the project's own are none."""
    spelled = script.syntax_index.mentions(*names, *script.import_aliases(tuple(sorted(names))))
    plain = [
        each
        for each in spelled
        if (script.qualname(each) or "torch.").startswith("torch.") and not is_own_method(script, each)
    ]
    computed = (each for each in script.syntax_index.calls_named("getattr") if member_may_be(script, each, names))
    return [*plain, *computed]


def receiver(function: ast.expr) -> ast.expr | None:
    """The object of `object.name` and of `getattr(object, "name")`."""
    if isinstance(function, ast.Attribute):
        return function.value
    member = named_member(function)
    return None if member is None else member[0]


def lookups(other: Script, script: Script, function: ast.AST, names: tuple[str, ...]) -> Iterator[ast.expr]:
    """Where a file computes a name under which it may reach a function of a script, to call it."""
    cls = script.parent(function)
    owner = cls if isinstance(cls, ast.ClassDef) and getattr(function, "name", "") != "__init__" else None
    wanted = {*names, *other.import_aliases(names)}
    plain = isinstance(function, ast.FunctionDef) and not isinstance(cls, ast.ClassDef)
    local = owner is None and script.function(cls or function) is not None
    for part, receiver, key in _lookups(other):
        if local and (other is not script or receiver is not None):
            continue  # no object has it
        if not any(may_be_named(other, key, name) for name in wanted):
            continue
        if not (_runs(other, part, wanted) or may_be_called(other, part) or _gives_all(other, part, plain=plain)):
            continue
        if _is_called_by_name(other, part, wanted):
            continue  # one of those that are looked at
        owners = NOTHING if receiver is None else other.inference.possible(receiver)
        holding = [value for value in owners if _may_hold(other, value, script, owner, wanted)]
        unseen = all(value.kind is Kind.UNKNOWN for value in holding)
        if receiver is None or (holding and not (unseen and is_in_uncalled_method(other, part))):
            yield part
    if owner is None and not local and (other is script or not wanted.isdisjoint(other.module_scope.definitions)):
        made = other.syntax_index.mentions("__subclasses__") if isinstance(cls, ast.ClassDef) else []
        yield from (*_kept_tables(other, plain=plain), *made)


def reads_member(other: Script, ref: ClassRef, name: str) -> bool:
    """Whether a file may get at an attribute of an instance of a class by a text that is its name, or by way of the
    namespace, and does not just call it: `getattr(self, "options")["workers"] = 2`."""
    tables = [table for table in namespaces.namespaces(other) if not _is_looked_at(other, table[0])]
    named = [
        (part, owner)
        for part, owner, key in _lookups(other)
        if (owner is not None or last_name(getattr(part, "func", part)) in (*_READING, *TEXT_RUNNERS))
        and (owner is None or other.call_of(part) is None)
        and may_be_named(other, key, name)
    ]
    return any(
        owner is None
        or may_be_instance(other, owner, ref, unknown=False)
        or (may_be_instance(other, owner, ref) and not is_in_uncalled_method(other, part))
        for part, owner in (*named, *(table for table in tables if table[1] is not None))
    )


def _is_looked_at(script: Script, table: ast.expr) -> bool:
    around = script.parent(table)
    return isinstance(around, ast.Call) and around.func is not table and last_name(around.func) in LOOKING


def _kept_tables(other: Script, *, plain: bool) -> Iterator[ast.expr]:
    """Where the names of a file are kept as a table or handed on, so that a function may be called out of it."""
    for name in other.syntax_index.mentions("globals"):
        if isinstance(name, ast.Name) and not other.definitions(name):
            call = other.parent(name)
            made = isinstance(call, ast.Call) and call.func is name
            if not made or _is_kept(other, call, plain=plain):  # type: ignore[arg-type]
                yield name


def _is_kept(script: Script, table: ast.expr, depth: int = TABLES, *, plain: bool) -> bool:
    """Whether a table of names goes where it is not seen what becomes of it."""
    around = script.parent(table)
    match around:
        case ast.Subscript(value=value, ctx=context) if value is table:
            told = isinstance(context, ast.Load) and not isinstance(around.slice, ast.Constant)
            return depth < TABLES and told and may_be_called(script, around)
        case ast.Attribute(attr="items" | "values"):
            call = script.parent(around)
            return not isinstance(call, ast.Call) or _are_kept(script, call, plain=plain)
        case ast.Attribute(attr=method):
            known = depth == TABLES and method in ("get", "pop")  # looked at for what they are asked
            return not known and method not in ("keys", "update", "setdefault", "clear", "__contains__")
        case ast.Assign(targets=[ast.Name() as target]) if depth:
            uses = (use for made in script.definitions(target) for use in script.uses(made))
            return any(_is_kept(script, use, depth - 1, plain=plain) for use in uses)
        case ast.Call(func=ast.Name(id=name)):
            return name not in _NOT_CALLING | {"sorted", "list", "set", "tuple", "exec", "eval", "iter"}
        case ast.For() | ast.comprehension() | ast.Compare() | ast.Expr():
            return False
        case _:
            return True


def _are_kept(script: Script, pairs: ast.Call, *, plain: bool) -> bool:
    """Whether all that a table of names holds goes where it may be called; where a loop goes through names and values,
    that is seen. With `plain` functions are asked for, which no test for classes lets through."""
    loop = script.parent(pairs)
    if not isinstance(loop, ast.For | ast.comprehension) or loop.iter is not pairs:
        return True
    elements = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    values = [each for each in elements[-1:] if isinstance(each, ast.Name)]
    uses = [use for each in values for made in script.definitions(each) for use in script.uses(made)]
    parts = [(each, around) for each in uses if isinstance(around := script.parent(each), ast.Subscript)]
    if any(part.value is use and may_be_called(script, part) for use, part in parts):
        return True  # `for pair in pairs: pair[1](x)`
    return not values or any(
        may_be_called(script, use, deep=False) and not (plain and type_tests.holds_class(script, use)) for use in uses
    )


def _runs(script: Script, part: ast.expr, wanted: set[str]) -> bool:
    """Whether `exec(text)` may call one of some functions itself, as far as its text tells."""
    match part:
        case ast.Call(func=ast.Name(id="eval" | "exec") as name) if _is_own(script, name):
            return False
        case ast.Call(func=ast.Name(id="eval" | "exec"), args=[ast.Constant(value=str() as text), *_]):
            return not wanted.isdisjoint(re.findall(r"\w+", text))
        case ast.Call(func=ast.Name(id="eval" | "exec")):
            return True
        case _:
            return False


def _is_called_by_name(other: Script, part: ast.expr, wanted: set[str]) -> bool:
    member = named_member(part)
    return member is not None and member[1] in wanted and other.call_of(part) is not None


def _lookups(other: Script) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """What is read by a computed name, of which object (None: of any), and under which name (None: any)."""
    for call in other.syntax_index.calls_named(*_READING, *NAMESPACES, *TEXT_RUNNERS):
        name = last_name(call.func)
        if isinstance(call.func, ast.Name) and _is_own(other, call.func):
            continue
        if name == "getattr" and len(call.args) > 1:
            yield call, call.args[0], call.args[1]
        elif name in ("methodcaller", "attrgetter"):
            yield from ((call, None, key) for key in (call.args if name == "attrgetter" else call.args[:1]) or (None,))
        elif name in TEXT_RUNNERS and isinstance(call.func, ast.Name):
            yield call, None, None
        elif name in NAMESPACES and isinstance(call.func, ast.Name):
            yield from _of_table(other, call, call.args[0] if call.args else None)
    for call in other.syntax_index.calls_named("locate", "resolve_name"):
        if call.args and other.qualname(call.func) in ("pydoc.locate", "pkgutil.resolve_name"):
            yield call, None, call.args[0]
    for call in other.syntax_index.calls_named("run_path", "run_module"):
        for table in (call, *_kept_under(other, call)):
            yield from _of_table(other, table, None)
    for call in other.syntax_index.calls_named(*_MEMBER_METHODS):
        match call:
            case ast.Call(args=[owner, key]) | ast.Call(func=ast.Attribute(value=owner), args=[key]):
                yield call, owner, key
    for table in other.syntax_index.mentions("__dict__"):
        if isinstance(table, ast.Attribute):
            yield from _of_table(other, table, table.value)
    for call in other.syntax_index.calls_named("getmembers"):
        if call.args:
            yield call, call.args[0], None


def _kept_under(other: Script, call: ast.Call) -> Iterator[ast.Name]:
    """The uses of the name that what a call gives is bound to."""
    match other.parent(call):
        case ast.Assign(targets=[ast.Name() as target]):
            yield from (use for each in other.definitions(target) for use in other.uses(each))


def _is_own(script: Script, name: ast.Name) -> bool:
    """Whether a name surely is a function of the project that is called like one of Python's, `eval(model, loader)`."""
    definitions = script.definitions(name)
    return bool(definitions) and (all(each.how == "def" for each in definitions) or script.is_project_name(name))


def _has_functions(other: Script, value: Value) -> bool:
    """Whether functions are in the namespace of an object: of a class or a module, not of an instance."""
    if value.kind is Kind.EXTERNAL:
        return other.project.is_from_elsewhere(other, value.name or "")
    return value.kind is Kind.CLASS or value.how == "module"


def _of_table(
    other: Script, table: ast.expr, owner: ast.expr | None
) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    match other.parent(table):
        case ast.Subscript(value=value, slice=key, ctx=ast.Load()) as part if value is table:
            yield part, owner, key
        case ast.Attribute(attr="get" | "pop") as method:
            call = other.call_of(method)
            if call is not None and call.args:
                yield call, owner, call.args[0]
        case ast.Attribute(attr="items" | "values") as method if owner is not None:
            call = other.call_of(method)
            if call is not None and any(_has_functions(other, value) for value in other.inference.possible(owner)):
                yield call, owner, None


def _gives_all(other: Script, part: ast.expr, *, plain: bool) -> bool:
    """`for name, method in vars(Trainer).items()`, `inspect.getmembers(metrics)`"""
    match part:
        case ast.Call(func=ast.Attribute(attr="items" | "values" | "getmembers") | ast.Name(id="getmembers")):
            return _are_kept(other, part, plain=plain)
        case _:
            return False


def may_be_named(script: Script, key: ast.expr | None, name: str, seen: frozenset[ast.expr] = frozenset()) -> bool:
    """Whether a computed text may be a name; `seen` are the names that it is bound to on the way, which add none."""
    match key:
        case ast.Constant(value=str() as text):
            return name in re.split(r"[.:]", text)
        case ast.JoinedStr(values=parts):
            return name.startswith(_told(parts[:1])) and name.endswith(_told(parts[-1:]))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return name.startswith(_told([left])) and name.endswith(_told([right]))
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod()):
            return name.startswith(text.partition("%")[0])
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")):
            return name.startswith(text.partition("{")[0])
        case ast.Name() if key in seen:
            return False
        case ast.IfExp(body=body, orelse=orelse):
            return may_be_named(script, body, name, seen) or may_be_named(script, orelse, name, seen)
        case ast.Name():
            if (handed := _handed(script, key)) is not None:
                return any(name in text.split(".") for text in handed)
            texts = [each for definition in script.definitions(key) for each in _texts(definition)]
            seen |= {key}
            return not texts or any(may_be_named(script, each, name, seen) for each in texts)
        case _:
            return True


def _handed(script: Script, key: ast.Name) -> list[str] | None:
    """The texts that all callers of a function hand it for a parameter; None where they may be others: `def call(self,
    hook)`, of which every call is `self.call("on_epoch_end")`."""
    definitions = script.definitions(key)
    if not definitions or any(each.how != "param" for each in definitions):
        return None
    nodes = [value.node for value in script.inference.possible(key).unordered()]
    texts = [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return texts if len(texts) == len(nodes) else None


def _told(parts: list[ast.expr]) -> str:
    match parts:
        case [ast.Constant(value=str() as text)]:
            return text
        case _:
            return ""


def _texts(definition: Definition) -> list[ast.expr | None]:
    """The texts that a binding gives its name, as far as they stand there; None for what does not."""
    value = definition.value
    if definition.path:
        return [None]
    if definition.how == "assign" and not isinstance(value, ast.Name):
        return [value]
    if definition.how == "for" and isinstance(value, ast.Tuple | ast.List):
        return [each if isinstance(each, ast.Constant) else None for each in value.elts]
    return [None]


def may_be_called(script: Script, part: ast.expr, deep: bool = True) -> bool:
    """Whether what is read may be called, here or by whoever gets it."""
    around = script.parent(part)
    match around:
        case ast.Call(func=function) if function is part:
            return True
        case ast.Call(func=function):
            name = script.qualname(function)
            if isinstance(function, ast.Name) and function.id in _NOT_CALLING and not script.definitions(function):
                return False
            return name is None or not CALLING_NOTHING.fullmatch(name) or script.is_project_name(function)
        case ast.Attribute(attr=name):
            return name.startswith("__")
        case ast.Assign(targets=[ast.Name() as target]) if deep:
            uses = [use for definition in script.definitions(target) for use in script.uses(definition)]
            return any(may_be_called(script, use, deep=False) for use in uses)
        case ast.For() | ast.comprehension() | ast.If() | ast.While() | ast.Assert() | ast.Expr() | ast.Subscript():
            return False
        case ast.FormattedValue() | ast.Compare() | ast.BinOp() | ast.UnaryOp() | ast.AugAssign():
            return False
        case _:
            return True


def is_getter(function: ast.expr) -> bool:
    """Whether a function reads a member of what it is called with: `attrgetter("dataset.fade")`."""
    return isinstance(function, ast.Call) and last_name(function.func) == "attrgetter"


def calls_of(script: Script, function: ast.expr) -> Iterator[ast.Call | None]:
    """The calls of a function that is read without being called, where they are seen: of the name that it gets; None
    for whatever else becomes of it."""
    if is_getter(function):
        read = script.call_of(function)
        yield from calls_of(script, read) if read is not None and script.call_of(read) is None else (read,)
        return
    match script.parent(function):
        case ast.Assign(targets=[ast.Name() as target]):
            for each in script.definitions(target):
                yield from (script.call_of(use) for use in script.uses(each) if may_be_called(script, use))
        case _ if may_be_called(script, function):
            yield None


def _may_hold(other: Script, value: Value, script: Script, owner: ast.ClassDef | None, names: set[str]) -> bool:
    """Whether an object may have a function of a script (a method of `owner`) as an attribute."""
    if value.kind is Kind.OBJECT and value.how == "module" and value.script is not None:
        if owner is not None:
            return False
        return value.script is script or any(
            each.kind is Kind.UNKNOWN or each.script is script
            for name in names
            if _may_have(value.script, name)
            for each in value.script.inference.exported(name)
        )
    if value.kind is Kind.DATASET and value.cls is None:
        return owner is not None  # of a loader
    if value.kind is Kind.EXTERNAL:
        return owner is None and other.project.is_from_elsewhere(other, value.name or "")
    if value.kind is Kind.UNKNOWN:
        return owner is not None or MODULES_AT_RUN_TIME.search(other.text) is not None
    if owner is None or value.cls is None:
        return False
    of_method = {each.node for each in lineage(script.class_ref(owner))}
    return owner in {each.node for each in lineage(value.cls)} or value.cls.node in of_method


def _may_have(module: Script, name: str) -> bool:
    """Whether a module may have a name: its own, one that a star import brings, one that it is given from outside."""
    scope, project = module.module_scope, module.project
    if name in scope.definitions or "__getattr__" in scope.definitions or namespaces.binds_own(module, name):
        return True
    if project.star_import(module, name) is not None or any(
        project.imported(module, *star) is None for star in scope.stars
    ):
        return True
    for other in project.related(module):
        if other.syntax_index.stored(name):
            return True
        for namespace, owner in namespaces.namespaces(other):
            holders = NOTHING if owner is None else other.inference.possible(owner)
            if any(value.node is module.tree for value in holders) and namespaces.binds(other, namespace, name):
                return True
        for call in other.syntax_index.calls_named("setattr"):
            given = other.inference.possible(call.args[0]) if call.args else ANY
            if any(value.node is module.tree for value in given):
                return True
            if Kind.UNKNOWN in given.kinds and is_handed_on(module):
                return True
    return False


def reads_any_name(script: Script) -> bool:
    """Whether a file may read its variables by names that are not seen: `exec(…)`, `globals()[name].backward()`."""
    for call in script.syntax_index.calls_named(*TEXT_RUNNERS, *NAMESPACES):
        if (
            not isinstance(call.func, ast.Name)
            or script.definitions(call.func)
            or (call.args and call.func.id == "vars")
        ):
            continue
        item = script.parent(call)
        if not isinstance(item, ast.Subscript) or script.call_of(item) is None:
            return True
    return any(script.qualname(each) == "sys.modules" for each in script.syntax_index.mentions("modules"))


def runs_text(script: Script, scope: ast.AST) -> bool:
    """Whether code within a function runs text, which may read its variables: `exec(…)`."""
    calls = script.syntax_index.calls_named(*TEXT_RUNNERS)
    return any(
        isinstance(call.func, ast.Name) and not script.definitions(call.func) and script.inside(call, scope)
        for call in calls
    )


def hands_on_names(script: Script, scope: ast.AST) -> bool:
    """Whether code of a scope hands all of its names on: `callback(**locals())`. Formatting them is harmless."""
    for call in script.syntax_index.calls_named("locals", "vars"):
        if not call.args and (script.function(call) or script.tree) is scope and not _is_formatted(script, call):
            return True
    return False


def _is_formatted(script: Script, names: ast.Call) -> bool:
    keyword = script.parent(names)
    around = script.parent(keyword) if isinstance(keyword, ast.keyword) else None
    return isinstance(around, ast.Call) and isinstance(around.func, ast.Attribute) and around.func.attr == "format"
