"""What is put into lists and dicts after they were made: `xs.append(x)`, `settings["key"] = x`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis.callables import called_name
from autoaccel.analysis.container_uses import outermost, uses
from autoaccel.dataflow.abstract_values import ANY, NOTHING, Items, Kind, Value, Values, any_item, union
from autoaccel.dataflow.call_arguments import unpacks
from autoaccel.dataflow.query import fixpoint
from autoaccel.dataflow.value_parts import element

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

Store = tuple[int | str | None, Values]
_CHANGING = frozenset("append add insert extend update setdefault __setitem__ appendleft extendleft".split())
_MOVING = frozenset("insert pop remove reverse sort clear popleft rotate popitem".split())
"""Methods after which elements stand elsewhere."""
_EMPTY = frozenset({"builtins.dict", "builtins.list"})
_SHUFFLING = frozenset({"random.shuffle", "numpy.random.shuffle"})


def with_stores(script: Script, made: ast.expr, container: Value) -> Value:
    """A container with what is put into it later among its elements; with what is not known where it goes out of
    sight."""
    if container.kind not in (Kind.SEQUENCE, Kind.MAPPING) or not (container.items or _is_empty(script, made)):
        return container  # nothing is known of its elements as it is
    stored, moved = _changes(script, *outermost(script, made))
    if not stored and not (moved and container.kind is Kind.SEQUENCE):
        return container
    return container._replace(items=_joined(container, stored))


def _is_empty(script: Script, made: ast.expr) -> bool:
    """`[]`, `{}` or `dict()`, of what makes a container; `model.state_dict()` is none."""
    match made:
        case ast.Call(func=function, args=[], keywords=[]):
            return called_name(script, function) in _EMPTY
        case _:
            return isinstance(made, ast.List | ast.Dict)


@fixpoint(((), False), (((None, ANY),), True))
def _changes(script: Script, made: ast.expr, depth: int) -> tuple[tuple[Store, ...], bool]:
    """What is put into the containers that lie so deep in what is made, and whether their elements change places."""
    stored: list[Store] = []
    moved = False
    for file, use in uses(script, made, depth):
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
    return tuple(stored), moved


def _joined(container: Value, stored: tuple[Store, ...]) -> Items:
    anywhere = union(values for key, values in stored if key is None)
    if container.kind is Kind.SEQUENCE:
        return ((None, union([any_item(container), *(values for _, values in stored)])),)
    items = dict(container.items)
    for key, values in stored:
        items[key] = items.get(key, items.get(None, NOTHING)) | values
    return tuple((key, values | anywhere) for key, values in items.items())


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
