"""What is put into lists and dicts after they were made: `xs.append(x)`, `settings["key"] = x`; and into objects of the
project's own classes of dicts: `@MODELS.register("mlp")`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis import decorators, namespaces
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.callables import called_name
from autoaccel.analysis.classes import class_info, owner_name
from autoaccel.analysis.container_uses import outermost, uses
from autoaccel.analysis.name_lookups import receiver
from autoaccel.dataflow.abstract_values import ANY, NOTHING, Items, Kind, Value, Values, any_item, union
from autoaccel.dataflow.call_arguments import bind_argument, unpacks
from autoaccel.dataflow.completeness import CallSite
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.dataflow.syntax_index import last_name
from autoaccel.dataflow.value_parts import element

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef
    from autoaccel.dataflow.definitions import Definition

Store = tuple[int | str | None, Values]
_CHANGING = frozenset("append add insert extend update setdefault __setitem__ appendleft extendleft".split())
_MOVING = frozenset("insert pop remove reverse sort clear popleft rotate popitem".split())
"""Methods after which elements stand elsewhere."""
_EMPTY = frozenset({"builtins.dict", "builtins.list"})
_DICTIONARIES = frozenset({("builtins.dict",), ("collections.OrderedDict",)})
_OF_DICTIONARIES = frozenset({*dir(dict), "__missing__", "move_to_end"}) - {"__init__", "__repr__", "__str__"}
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


def as_mapping(value: Value) -> Value:
    """The mapping that an object of a class is which adds methods to those of a dict, with all that is put into it; any
    other value as it is. What a method calls its own is any of the objects that are made."""
    made, cls = value.node, value.cls
    makers = _makers(cls) if value.kind is Kind.OBJECT and cls is not None else None
    if makers is None or cls is None:
        return value
    meant = [each for each in makers if made in (each[1], cls.node)]
    filled = "__init__" not in class_info(cls).attributes  # by what a call is given
    for script, call in meant:
        if outermost(script, call) != (call, 0) or (filled and (call.args or call.keywords)):
            return value
    stored = tuple(store for script, call in meant for store in _changes(script, call, 0)[0])
    mapping = Value(Kind.MAPPING, made, value.script)
    return mapping._replace(items=_joined(mapping, stored)) if meant else value


@once
def _makers(ref: ClassRef) -> tuple[CallSite, ...] | None:
    """The calls that make the objects of a class; None unless these surely do what a dict does, by all methods that it
    has."""
    script, cls = ref.script, ref.node
    if class_info(ref).bases or class_info(ref).external_bases not in _DICTIONARIES or cls.keywords:
        return None
    if cls.decorator_list or not _OF_DICTIONARIES.isdisjoint(class_info(ref).attributes):
        return None
    plain = (
        (isinstance(each, ast.FunctionDef) and not each.decorator_list and _is_called_by_name(each.name))
        or isinstance(each, ast.Pass)
        or isinstance(getattr(each, "value", None), ast.Constant)
        for each in cls.body
    )
    related = script.project.related(script)
    if any(each.syntax_index.stored(name) for each in related for name in _OF_DICTIONARIES):
        return None
    if any(True for each in related for _ in namespaces.own(each)):
        return None  # `globals()["MODELS"]["mlp"] = …`
    above = (each for each in script.within(cls, ast.Name) if each.id == "super")
    made = {"super().__init__()", f"super({cls.name}, self).__init__()"}
    if not all(plain) or not all(ast.unparse(script.statement(each)) in made for each in above):
        return None
    files = script.project.files_naming(script, cls.name, attribute=False)
    found: list[CallSite] = []
    for other in files:
        for mention in other.syntax_index.mentions(cls.name, *other.import_aliases((cls.name,))):
            around = other.parent(mention)
            if (call := other.call_of(mention)) is not None:
                found.append((other, call))
            elif not isinstance(around, ast.arg | ast.ClassDef):
                if not isinstance(around, ast.Call) or last_name(around.func) not in ("isinstance", "super"):
                    return None
    return tuple(found) if files.missing is None else None


def _is_called_by_name(method: str) -> bool:
    return not method.startswith("__") or method in ("__init__", "__repr__", "__str__")


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
            stored += _stored_by_statement(file, use, made)
    return tuple(stored), moved


def _joined(container: Value, stored: tuple[Store, ...]) -> Items:
    anywhere = union(values for key, values in stored if key is None)
    if container.kind is Kind.SEQUENCE:
        return ((None, union([any_item(container), *(values for _, values in stored)])),)
    items: dict[int | str | None, Values] = {}
    for key, values in container.items:
        items[key] = items.get(key, NOTHING) | values if key is None else values
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
        yield from (store for each in call.args for value in possible(each) for store in _taken_over(value))
    else:
        key = call.args[0] if len(call.args) > 1 and method != "insert" else None
        yield from ((_constant(key), possible(each)) for each in call.args[-1:])


def _stored_by_statement(script: Script, use: ast.expr, made: ast.expr) -> Iterator[Store]:
    """`d[key] = x`, `d[key] += x` and `xs += ys`, of `d` and `xs`."""
    place = script.parent(use)
    possible = script.inference.possible
    match place:
        case ast.AugAssign(target=target, value=value, op=ast.BitOr()) if target is use:
            yield from (store for given in possible(value) for store in _taken_over(given))
            return
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
            if isinstance(key, ast.Slice):
                yield None, element(possible(value), place, script)
            elif _is_own(script, owner) and (parameter := _parameter(script, value)) is not None:
                yield from _given(script, parameter, key, made)
            else:
                yield _constant(key), possible(value)
        case _:
            yield None, ANY


def _taken_over(given: Value) -> Items:
    """What a dict takes over out of another, or of pairs, which are not looked into."""
    return (given.kind is Kind.MAPPING and given.items) or ((None, ANY),)


def _parameter(script: Script, value: ast.expr) -> Definition | None:
    """What is given to a method, or to a decorator that a method makes: `obj` of `self[name] = obj`."""
    definitions = script.definitions(value) if isinstance(value, ast.Name) else ()
    if len(definitions) != 1 or definitions[0].how != "param" or definitions[0].path:
        return None
    return definitions[0] if _method_around(script, definitions[0].scope.node) is not None else None


def _is_own(script: Script, owner: ast.expr) -> bool:
    """Whether what something is put into is the object of the method around."""
    definitions = script.definitions(owner) if isinstance(owner, ast.Name) else ()
    return bool(definitions) and all(
        each.how == "param" and each.name == owner_name(script, each.scope.node) for each in definitions
    )


def _method_around(script: Script, function: ast.AST) -> ast.FunctionDef | None:
    for each in (function, script.function(function)):
        if isinstance(each, ast.FunctionDef) and isinstance(script.parent(each), ast.ClassDef):
            return each
    return None


def _given(script: Script, parameter: Definition, key: ast.expr, made: ast.expr) -> Iterator[Store]:
    """What a method, or the decorator that it makes, is given to be put into its object: by calls of it on the object
    that is `made`, and not on others of its class."""
    function = parameter.scope.node
    method = _method_around(script, function)
    assert method is not None
    assert isinstance(function, ast.FunctionDef)
    calls: list[tuple[Script, ast.Call, Values | None]] = []
    if method is function:
        calls += [(*site, None) for site in script.callers(method)]
        missing = script.callers(method).missing
    else:
        marked = decorators.decorated_by(script, function)
        calls += [(file, mark, value) for file, node in marked for mark, value in _marks(file, node, function)]
        missing = marked.missing
    for file, call, value in calls:
        owner = receiver(call.func)
        owners = file.inference.possible(owner) if owner is not None else ANY
        if owners and all(isinstance(each.node, ast.Call) and each.node is not made for each in owners):
            continue
        bound = is_bound(script, method, file, call)
        if value is None:
            argument = bind_argument(method, call, parameter.name, bound=bound)
            value = ANY if argument is None else file.inference.possible(argument)
        named = _parameter(script, key)
        if named is not None and named.scope.node is method:
            yield _constant(bind_argument(method, call, named.name, bound=bound)), value
        else:
            yield _constant(key), value
    if missing is not None:
        yield None, ANY


def _marks(file: Script, node: ast.AST, function: ast.AST) -> Iterator[tuple[ast.Call, Values]]:
    """The decorators that a method has made, of what they decorate, with that."""
    for mark in getattr(node, "decorator_list", ()):
        if isinstance(mark, ast.Call) and any(each.node is function for each in file.inference.possible(mark)):
            yield mark, Values({decorators.decorated_value(file, node)})


def _constant(key: ast.expr | None) -> int | str | None:
    value = key.value if isinstance(key, ast.Constant) else None
    return value if isinstance(value, int | str) else None
