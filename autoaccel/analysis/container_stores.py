"""What is put into lists and dicts after they were made: `xs.append(x)`, `settings["key"] = x`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis.passed_functions import bound_to
from autoaccel.dataflow.abstract_values import ANY, NOTHING, Items, Kind, Value, Values, any_item, union
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.syntax_index import position
from autoaccel.dataflow.value_parts import element
from autoaccel.library_models.python_names import CONTAINERS

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.definitions import Definition

Use = tuple["Script", ast.expr | None]
Store = tuple[int | str | None, Values]
_CHANGING = frozenset("append add insert extend update setdefault __setitem__ appendleft extendleft".split())
_COPYING = frozenset({"copy.copy", "copy.deepcopy"})
_MOVING = frozenset("insert pop remove reverse sort clear popleft rotate popitem".split())
"""Methods after which elements stand elsewhere."""
_OF_ELEMENTS = frozenset({"key", "collate_fn", "worker_init_fn"})
"""Arguments that are functions, and are called with elements at most."""
_SHUFFLING = frozenset({"random.shuffle", "numpy.random.shuffle"})
_CHANGING_FUNCTIONS = ("heapq.", "bisect.insort", "operator.")
"""Beginnings of the names of library functions that change what they are given."""


def with_stores(script: Script, made: ast.expr, container: Value) -> Value:
    """A container with what is put into it later among its elements; with what is not known where it goes out of
    sight."""
    if container.kind not in (Kind.SEQUENCE, Kind.MAPPING) or (not container.items and not isinstance(made, ast.List)):
        return container  # nothing is known of its elements as it is
    stored: list[Store] = []
    moved = False
    for file, use in _uses(script, made):
        method = None if use is None else _method(file, use)
        if use is None or (method is not None and method.attr in _CHANGING and file.call_of(method) is None):
            stored.append((None, ANY))  # also by `add = xs.append`
        elif method is not None:
            moved |= method.attr in _MOVING
            call = file.call_of(method)
            stored += _stored_by_method(file, method.attr, call) if call and method.attr in _CHANGING else ()
        else:
            moved |= _moves(file, use)
            stored += _stored_by_statement(file, use)
    if not stored and not (moved and container.kind is Kind.SEQUENCE):
        return container
    return container._replace(items=_joined(container, stored))


def _joined(container: Value, stored: list[Store]) -> Items:
    anywhere = union(values for key, values in stored if key is None)
    if container.kind is Kind.SEQUENCE:
        return ((None, union([any_item(container), *(values for _, values in stored)])),)
    items = dict(container.items)
    for key, values in stored:
        items[key] = items.get(key, items.get(None, NOTHING)) | values
    return tuple((key, values | anywhere) for key, values in items.items())


def _uses(script: Script, made: ast.expr) -> Iterator[Use]:
    """The expressions that stand for a container, from the one that makes it: under its names and attributes, in the
    functions that it is passed to, where it is returned, out of other containers; None where it goes out of sight."""
    pending: list[tuple[Script, ast.expr, int]] = [(script, made, 0)]
    seen = {(made, 0)}
    while pending:
        file, use, depth = pending.pop()
        if depth == 0:
            yield file, use
        within = [] if depth == 0 else [(each, depth - 1) for each in _elements(file, use)]
        around = [(each, depth + 1) for each in _holders(file, use)]
        same = [(each, depth) for each in _other_uses(file, use, made)]
        for (where, other), deep in (*within, *around, *same):
            if other is None or deep > script.project.bounds.nesting:
                yield where, None
            elif (other, deep) not in seen:
                seen.add((other, deep))
                pending.append((where, other, deep))


def _other_uses(script: Script, use: ast.expr, made: ast.expr) -> Iterator[Use]:
    """What else stands for what an expression stands for."""
    around = script.parent(use)
    match around:
        case ast.Assign(targets=targets):
            for target in targets if use is around.value else ():
                yield from _reads(script, target, use)
        case ast.AnnAssign(target=target):
            yield from _reads(script, target, use)
        case ast.AugAssign(target=ast.Name() as target) if target is use:
            for definition in script.definitions(target):
                yield from _read(script, definition)
        case ast.Tuple() if (name := script.syntax_index.bound_name(use)) is not None:
            yield from _reads(script, name, use)
        case ast.NamedExpr(target=target):
            yield script, around
            yield from _reads(script, target, use)
        case ast.IfExp() | ast.BoolOp():
            if use is not getattr(around, "test", None):
                yield script, around
        case ast.BinOp(op=ast.Mult()):
            yield script, around
        case ast.Attribute(attr="copy") if (call := script.call_of(around)) is not None:
            yield script, call  # the same value to the analysis
        case ast.Call() | ast.keyword() | ast.arguments():
            yield from _passed(script, use, around, made)
        case ast.Return() if (function := script.function(around)) is not None:
            callers = script.callers(function)
            yield from callers.seen
            if callers.missing is not None and not script.inside(made, function):  # whoever calls it gets another one
                yield script, None
        case ast.Yield() | ast.YieldFrom() | ast.Lambda() | ast.GeneratorExp():
            yield script, None


def _passed(script: Script, use: ast.expr, around: ast.AST, made: ast.expr) -> Iterator[Use]:
    """What stands for an argument in the function that gets it."""
    call = script.parent(around) if isinstance(around, ast.keyword) else around
    if isinstance(around, ast.keyword) and around.arg is None:
        return  # `f(**d)`: a copy
    if isinstance(call, ast.Call) and script.qualname(call.func) in _COPYING:
        yield script, call  # the same value to the analysis
    if isinstance(call, ast.Call) and (script.qualname(call.func) or "").startswith(_CHANGING_FUNCTIONS):
        yield script, None
    bound = bound_to(script, use)
    for where, definition in bound or ():
        yield from _read(where, definition)
    of_library = isinstance(call, ast.Call) and _leaves_as_it_is(script, call)
    if bound is None and not of_library and not _is_last_use(script, use, made):
        yield script, None


def _leaves_as_it_is(script: Script, call: ast.Call) -> bool:
    """Whether a call enters no code of the project that is not seen: those of libraries leave what they get as it is,
    unless they get a function of the project beside it, to call it: `partial(f, d)`, `Thread(target=f, args=(d,))`."""
    function = call.func
    receiver = function.value if isinstance(function, ast.Attribute) and script.qualname(function) is None else function
    known = script.inference.possible(receiver)
    if any(each.cls is not None or each.kind in (Kind.UNKNOWN, Kind.FUNCTION, Kind.MODULE) for each in known):
        return False
    beside = [*call.args, *(each.value for each in call.keywords if each.arg not in _OF_ELEMENTS)]
    return not any(
        isinstance(each, ast.Lambda) or Kind.FUNCTION in script.inference.possible(each).kinds for each in beside
    )


def _is_last_use(script: Script, use: ast.expr, made: ast.expr) -> bool:
    """Whether nothing that is in sight reads a container after a use of it: it has no name, or none below."""
    if script.inside(made, use):
        return True
    function = script.function(use)
    if not isinstance(use, ast.Name) or function is None or function is not script.function(made):
        return False
    loop = next((each for each in script.ancestors(use) if isinstance(each, ast.For | ast.While)), None)
    if loop is not None and not script.inside(made, loop):
        return False
    others = (each for definition in script.definitions(use) for each in script.uses(definition))
    return all(each is use or position(each) < position(use) for each in others)


def _holders(script: Script, use: ast.expr) -> Iterator[Use]:
    """What stands for the containers that one is put into."""
    around = script.parent(use)
    match around:
        case ast.List() | ast.Tuple() | ast.Dict() | ast.ListComp() | ast.DictComp():
            yield script, around
        case ast.Assign(targets=targets, value=value) if value is use:
            for target in targets:
                if isinstance(target, ast.Subscript):
                    yield from _named(script, target.value)
        case ast.Call(func=ast.Attribute(value=outer, attr=method)) if method in _CHANGING:
            yield from _named(script, outer)


def _named(script: Script, outer: ast.expr) -> Iterator[Use]:
    """What stands for the object of a name or attribute."""
    match outer:
        case ast.Name():
            for definition in script.definitions(outer):
                yield from _read(script, definition)
        case ast.Attribute(attr=name):
            yield from _mentions(script, name, attribute=True)
        case _:
            yield script, None


def _elements(script: Script, outer: ast.expr) -> Iterator[Use]:
    """Where what lies in a container is taken out of it."""
    around = script.parent(outer)
    match around:
        case ast.Subscript(value=value, ctx=ast.Load()) if value is outer:
            yield script, around
        case ast.For(iter=iterable, target=target) | ast.comprehension(iter=iterable, target=target):
            if iterable is outer:
                yield from _reads(script, target, outer)
        case ast.Attribute(attr="get" | "pop" | "setdefault"):
            if (call := script.call_of(around)) is not None:
                yield script, call
        case ast.Attribute(attr="values"):
            if (call := script.call_of(around)) is not None:
                yield from _elements(script, call)
        case ast.Attribute(attr="items") | ast.Starred():
            yield script, None
        case ast.Call(func=ast.Name(id=name)) if name in CONTAINERS:
            yield script, None


def _reads(script: Script, target: ast.expr, value: ast.expr) -> Iterator[Use]:
    """Where a target that a value is bound to is read."""
    match target:
        case ast.Name():
            for definition in script.definitions(target):
                if definition.value is not None and script.inside(value, definition.value):
                    yield from _read(script, definition)
        case ast.Attribute(attr=name):
            yield from _mentions(script, name, attribute=True)


def _read(script: Script, definition: Definition) -> Iterator[Use]:
    yield from ((script, each) for each in (*script.uses(definition), *script.additions(definition)))
    if definition.scope.parent is None:
        for file, mention in _mentions(script, definition.name, attribute=False):
            if file is not script:
                yield file, mention


def _mentions(script: Script, name: str, *, attribute: bool) -> Iterator[Use]:
    """Where a name of a module, or an attribute, is mentioned in all files in which it may be."""
    files = script.project.files_naming(script, name, attribute=attribute)
    for file in files:
        mentions = file.syntax_index.mentions(name)
        yield from ((file, each) for each in mentions if not attribute or isinstance(each, ast.Attribute))
    if files.missing is not None:
        yield script, None


def _method(script: Script, use: ast.expr) -> ast.Attribute | None:
    """`xs.append`, of `xs`."""
    around = script.parent(use)
    return around if isinstance(around, ast.Attribute) and around.value is use else None


def _moves(script: Script, use: ast.expr) -> bool:
    """Whether a statement lets elements stand elsewhere: `del xs[0]`, `random.shuffle(xs)`, of `xs`."""
    around = script.parent(use)
    match around:
        case ast.Subscript(value=value, ctx=ast.Del()):
            return value is use
        case ast.Call(func=function):
            return script.qualname(function) in _SHUFFLING
        case _:
            return False


def _stored_by_method(script: Script, method: str, call: ast.Call) -> Iterator[Store]:
    possible = script.inference.possible
    if unpacks(call):
        yield None, ANY
    elif method in ("extend", "extendleft"):
        yield from ((None, element(possible(each), call, script)) for each in call.args)
    elif method == "update":
        yield from ((each.arg, possible(each.value)) for each in call.keywords)
        for given in (value for each in call.args for value in possible(each)):
            yield from given.items or [(None, ANY)]
    else:
        key = call.args[0] if len(call.args) > 1 and method != "insert" else None
        yield from ((_constant(key), possible(each)) for each in call.args[-1:])


def _stored_by_statement(script: Script, use: ast.expr) -> Iterator[Store]:
    """`d[key] = x`, `d[key] += x` and `xs += ys`, of `d` and `xs`."""
    place = script.parent(use)
    possible = script.inference.possible
    match place:
        case ast.AugAssign(target=target, value=value) if target is use:
            yield None, element(possible(value), place, script)
            return
        case ast.Subscript(value=owner, slice=key, ctx=ast.Store()) if owner is use:
            pass
        case _:
            return
    match script.parent(place):
        case (
            ast.Assign(value=value) | ast.AugAssign(value=value) | ast.AnnAssign(value=ast.expr() as value) as around
        ) if place in getattr(around, "targets", [place]):
            stored = possible(value)
            yield _constant(key), element(stored, place, script) if isinstance(key, ast.Slice) else stored
        case _:
            yield None, ANY


def _constant(key: ast.expr | None) -> int | str | None:
    value = key.value if isinstance(key, ast.Constant) else None
    return value if isinstance(value, int | str) else None
