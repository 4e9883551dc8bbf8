"""What is assigned through the namespace of an object: `vars(engine)["log"] = f`, `self.__dict__.update(options)`;
where a file looks through the names of its own, and which these are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.dataflow.definitions import Qualified
from autoaccel.dataflow.qualified_names import canonical
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.library_models.python_names import BUILTINS, LOOKING, TEXT_RUNNERS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

_READING_METHODS = frozenset("items keys values get copy __contains__ __len__ __iter__".split())
_READERS = LOOKING | frozenset(  # functions that only read what they are handed
    """dict list tuple set sorted iter any all deepcopy copy dump dumps pformat pprint Namespace info debug
    warning""".split()
)

_SHOWING = frozenset("len list sorted dict set tuple print pprint str repr iter enumerate reversed filter map".split())
_OF_MODULE = re.compile(r"\b(dir|vars|getmembers)\(")
_CHOOSING = frozenset("isinstance issubclass callable isupper isfunction isclass ismethod".split())


@once
def namespaces(script: Script) -> tuple[tuple[ast.expr, ast.expr | None], ...]:
    """The namespaces that a file mentions, and the objects that they are of; None for a module's that is reached
    through one of its functions."""
    found: list[tuple[ast.expr, ast.expr | None]] = []
    for mention in script.syntax_index.mentions("__dict__"):
        if isinstance(mention, ast.Attribute):
            found.append((mention, mention.value))
    for mention in script.syntax_index.mentions("__globals__", "__code__"):
        if isinstance(mention, ast.Attribute) and (mention.attr != "__code__" or isinstance(mention.ctx, ast.Store)):
            found.append((mention, None))
    for call in script.syntax_index.calls_named("vars"):
        if len(call.args) == 1:
            loaded = any(each.attr == "modules" for each in script.within(call.args[0], ast.Attribute))
            found.append((call, None if loaded else call.args[0]))
    return tuple(found)


def binds(script: Script, namespace: ast.expr, name: str) -> bool:
    """Whether a use of a namespace may bind a name in it."""
    if not isinstance(getattr(namespace, "ctx", ast.Load()), ast.Load):
        return True  # `self.__dict__ = shared`
    parent = script.parent(namespace)
    match parent:
        case ast.Subscript(value=value, slice=key, ctx=context) if value is namespace:
            return not isinstance(context, ast.Load) and (not isinstance(key, ast.Constant) or key.value == name)
        case ast.Attribute(attr="update") if isinstance(call := script.parent(parent), ast.Call):
            return not _is_restoring(script, call) and _updates(call, name)
        case ast.Attribute(attr=method):
            return method not in _READING_METHODS
        case ast.Call(func=function, args=arguments) if namespace in arguments:
            return last_name(function) not in _READERS | {"update"}
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.keyword(arg=str()):
            return True
        case ast.Return() | ast.Yield() | ast.Lambda() | ast.IfExp() | ast.BoolOp() | ast.Tuple() | ast.List():
            return True  # whoever gets it may write to it
        case _:
            return False


def bound_values(script: Script, namespace: ast.expr, name: str) -> Iterator[ast.expr]:
    """The values that a use of a namespace binds a name to, where it says so: `vars(x)["log"] = f`."""
    parent = script.parent(namespace)
    around = script.parent(parent) if parent is not None else None
    match parent:
        case ast.Subscript(value=value, slice=ast.Constant(value=key), ctx=ast.Store()) if value is namespace:
            if key == name and isinstance(around, ast.Assign) and parent in around.targets:
                yield around.value
        case ast.Attribute(attr="setdefault" | "__setitem__"):
            match around:
                case ast.Call(args=[ast.Constant(value=key), value]) if key == name:
                    yield value
        case ast.Attribute(attr="update") if isinstance(around, ast.Call) and not _is_restoring(script, around):
            yield from (each.value for each in around.keywords if each.arg == name)
            for argument in around.args:
                for made in script.inference.possible(argument):
                    keys = made.node.keys if isinstance(made.node, ast.Dict) else []
                    values = made.node.values if isinstance(made.node, ast.Dict) else []
                    pairs = zip(keys, values, strict=True) if made.script is script else ()
                    yield from (value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name)


def own(script: Script) -> Iterator[ast.Call]:
    """Where a file asks for the names of its own module: `globals()`, at the top level `vars()` and `locals()`."""
    for call in script.syntax_index.calls_named("globals", "vars", "locals"):
        if not call.args and (getattr(call.func, "id", "") == "globals" or script.function(call) is None):
            yield call


def binds_own(script: Script, name: str) -> bool:
    """Whether a file binds a name of its own module by `globals()`."""
    return any(binds(script, call, name) for call in own(script))


@once
def listed(script: Script) -> ast.Call | None:
    """Where a file asks for all names of its own module, and does not choose among them by what they are: one more of
    them shows. `globals()["name"]` asks for one, `isinstance` beside it chooses."""
    for each in (script, *script.project.starring(script)):
        found = [call for call in each.syntax_index.calls_named("dir") if not call.args and each.function(call) is None]
        for call in (*found, *own(each)):
            if _lists(each, call):
                return call
    for path in script.project.importer_paths(script):
        looks = _OF_MODULE.search(script.project.readable_text(path))
        other = script.project.script(path) if looks else None
        for call in other.syntax_index.calls_named("dir", "vars", "getmembers") if other is not None else ():
            if other is not None and call.args and any(each.node is script.tree for each in other.values(call.args[0])):
                if _lists(other, call):
                    return call
    return None


def _lists(script: Script, names: ast.expr, *, followed: bool = False) -> bool:
    around = script.parent(names)
    match around:
        case ast.Assign(targets=[ast.Name() as target]) if not followed:
            uses = (use for made in script.definitions(target) for use in script.uses(made))
            return any(_lists(script, use, followed=True) for use in uses)
        case ast.Attribute(attr="items" | "keys" | "values" | "copy"):
            pass
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated) if iterated is names:
            pass
        case ast.Call(func=function) if last_name(function) in _SHOWING:
            pass
        case _:
            return False
    statement = script.statement(names)
    calls = [*script.within(statement, ast.Call)] if statement is not None else []
    return not any(_chooses(call) for call in calls)


def _chooses(call: ast.Call) -> bool:
    """`isinstance(value, int)`, `name.isupper()`, `name.startswith("lr")`"""
    match call:
        case ast.Call(func=ast.Attribute(attr="startswith" | "endswith"), args=[ast.Constant(value=str() as text)]):
            return not text.startswith("_")
        case _:
            return last_name(call.func) in _CHOOSING


def _is_restoring(script: Script, call: ast.Call) -> bool:
    """`self.__dict__.update(state)` of an object that was pickled: what it had before."""
    return getattr(script.function(call), "name", None) == "__setstate__"


def _updates(call: ast.Call, name: str) -> bool:
    for argument in call.args:
        if not isinstance(argument, ast.Dict) or not all(isinstance(key, ast.Constant) for key in argument.keys):
            return True
        if any(isinstance(key, ast.Constant) and key.value == name for key in argument.keys):
            return True
    return any(each.arg in (None, name) for each in call.keywords)


def taken_by_star(module: Script, name: str) -> bool:
    """Whether `from module import *` may take a name: one that it lists, where its list is written down; one that is
    public, where it has none."""
    definitions = module.module_scope.definitions.get("__all__", ())
    if not definitions:
        return not name.startswith("_")
    listed = definitions[0].value
    if len(definitions) != 1 or not isinstance(listed, ast.List | ast.Tuple) or module.uses(definitions[0]):
        return True
    return any(not isinstance(each, ast.Constant) or each.value == name for each in listed.elts)


def may_change(script: Script, table: ast.expr) -> bool:
    """Whether a use of a table of names is no mere look at it."""
    match script.parent(table):
        case ast.Subscript(value=value, ctx=ast.Load()) if value is table:
            return False
        case ast.Attribute(attr="items" | "keys" | "values" | "get" | "copy"):
            return False
        case ast.For() | ast.comprehension() | ast.Compare():
            return False
        case _:
            return True


@once
def names(module: Script) -> tuple[tuple[Script, str], ...] | None:
    """The names of a module, each with the file that gives it its value; None where there may be others. Those with two
    underscores around them are left out."""
    return _names(module, frozenset())


def _names(module: Script, above: frozenset[Script]) -> tuple[tuple[Script, str], ...] | None:
    scope = module.module_scope
    if "__getattr__" in scope.definitions or any(may_change(module, call) for call in own(module)):
        return None
    runs = (
        isinstance(each.func, ast.Name) or (known is not None and known.name.startswith("builtins."))
        for each in module.syntax_index.calls_named(*TEXT_RUNNERS)
        for known in (module.reaching_definitions.qualified(each.func),)  # `qualname` asks for the names of modules
    )
    if any(runs) or module.syntax_index.calls_named("setattr") or "sys.modules" in module.text:
        return None
    found = {(module, name): None for name in scope.definitions if not is_dunder(name)}
    for star in scope.stars:
        source = module.project.imported(module, *star)
        if source is None or source[1] is not None:
            return None
        if source[0] in above | {module}:
            continue
        given = _names(source[0], above | {module})
        if given is None:
            return None
        found |= {each: None for each in given if taken_by_star(source[0], each[1])}
    return tuple(found)


@once
def starred_libraries(script: Script) -> dict[str, Qualified]:
    """The names that a file gets from libraries through the star imports of files of the project, and what they stand
    for: imported there, all of one place, bound nowhere else. Empty where a star may bring other names, or none."""
    if not script.module_scope.stars or script.package or (known := names(script)) is None:
        return {}
    stars = (each for each in script.find(ast.ImportFrom) if each.names[0].name == "*")
    if not all(isinstance(script.parent(each), ast.Module) for each in stars):
        return {}
    scopes = script.reaching_definitions.scopes.values()
    givers: dict[str, list[Script]] = {}
    for giver, name in known:
        givers.setdefault(name, []).append(giver)
    found: dict[str, Qualified] = {}
    for name, (giver, *others) in givers.items():
        bound = giver.module_scope.definitions[name]
        (target, level), *more = dict.fromkeys((each.target, each.level) for each in bound)
        if others or more or not target or level or any(each.how != "import" for each in bound):
            continue
        if name in BUILTINS or name in giver.replaced_names or any(name in each.definitions for each in scopes):
            continue
        if any(each.id == name and isinstance(each.ctx, ast.Del) for each in giver.find(ast.Name)):
            continue
        if not giver.package and not any(each.project.is_local(each, target, 0) for each in (script, giver)):
            found[name] = Qualified(canonical(target), target, level)
    return found


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
