"""Functions and classes of the project that hand on, item by item, what they are given to iterate.

`for batch in log.every(loader, 10)`, a `tqdm` of the script's own for where there is none. Nothing else may happen to
an item or to the iterable: what is handed on is neither read, kept nor changed.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autoaccel.analysis.attribute_values import attribute_of
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.classes import methods
from autoaccel.dataflow.abstract_values import ClassRef, Kind, Value, Values, made, union
from autoaccel.dataflow.call_arguments import bind_argument, given_as
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.library_models.library_values import is_loop_wrapper

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script


def wrapped_argument(script: Script, call: ast.Call, *, again: bool = False, endless: bool = False) -> ast.expr | None:
    """The argument whose items, and nothing else, a call gives one by one; None where it may give something else.

    `again`: only if what the call gives can be iterated from its beginning more than once. `endless`: generators that
    begin anew at the end, too.
    """
    found: dict[ast.expr, None] = {}
    for callee in script.inference.possible(call.func):
        argument = _wrapped(script, call, callee, again=again, endless=endless)
        if argument is None:
            return None
        found[argument] = None
    return next(iter(found)) if len(found) == 1 else None


def side_by_side(script: Script, call: ast.Call) -> list[tuple[ast.expr, Definition | None]]:
    """What a `zip` goes over, with the binding of the list that it stands in: `zip(*loaders)` of a list that is spelled
    out and read nowhere else. Where it is not, the starred argument itself comes last: nobody knows the places of those
    after it."""
    found: list[tuple[ast.expr, Definition | None]] = []
    for argument in call.args:
        value = argument.value if isinstance(argument, ast.Starred) else None
        bound = script.definitions(value) if isinstance(value, ast.Name) else ()
        binding = bound[0] if len(bound) == 1 and bound[0].how == "assign" and not bound[0].path else None
        if binding is not None and script.uses(binding) == [value] and not script.additions(binding):
            value = binding.value
        match value:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if not any(
                isinstance(each, ast.Starred) for each in elements
            ):
                found += [(each, binding) for each in elements]
            case _:
                found.append((argument, None))
                if isinstance(argument, ast.Starred):
                    break
    return found


def handed_on(script: Script, function: ast.FunctionDef) -> str | None:
    """The parameter whose items a generator yields, pass after pass in an endless loop as well."""
    return _yielded(script, function, endless=True)


def iterables(values: Values) -> Values:
    """Values as a `for` sees them: objects that hand on what they were made with, or what they keep in an attribute,
    are iterators over that."""
    return union(_iterable(value) for value in values) if any(value.cls is not None for value in values) else values


def _iterable(value: Value) -> Values:
    if value.cls is not None and value.script is not None and isinstance(value.node, ast.Call):
        cls = Value(Kind.CLASS, value.cls.node, cls=value.cls)
        argument = _wrapped(value.script, value.node, cls, again=True, endless=False)
        if argument is not None:
            return passed_on(value.script, value.node, argument)
    if value.kind is Kind.OBJECT and value.cls is not None and (kept := iterated_attribute(value.cls)) is not None:
        return made(Kind.ITERATOR, value.node, value.script, how="pass", items=((None, kept),))
    return Values({value})


def iterated_attribute(ref: ClassRef) -> Values | None:
    """What an object keeps in the attribute whose items a `for` over it gets; None where something else may be done to
    them, or where it keeps an object of the project's, which may."""
    found = next(methods(ref, "__iter__"), None)
    if found is None or any(True for _ in methods(ref, "__next__", "__getattr__", "__getattribute__")):
        return None
    script, iterate = found
    attribute = None if iterate.decorator_list else _attribute_iterated(script, iterate)
    if attribute is None or any(value.node is not iterate for value in attribute_of(ref, "__iter__") or ()):
        return None  # `Loading.__iter__ = cleaned`
    kept = attribute_of(ref, attribute)
    return None if kept is None or any(value.cls is not None for value in kept) else kept


def passed_on(script: Script, call: ast.Call, argument: ast.expr) -> Values:
    """What gives the items of an argument."""
    return made(Kind.ITERATOR, call, script, how="pass", items=((None, script.inference.possible(argument)),))


def _wrapped(script: Script, call: ast.Call, callee: Value, *, again: bool, endless: bool) -> ast.expr | None:
    node, file = callee.node, callee.script
    match callee.kind:
        case Kind.EXTERNAL if is_loop_wrapper(callee.name):
            return call.args[0] if call.args else given_as(call, "iterable")
        case Kind.FUNCTION if isinstance(node, ast.FunctionDef) and file is not None and not node.decorator_list:
            parameter = (None if again else _yielded(file, node, endless=endless)) or _returned(file, node, again=again)
            if parameter is None:
                return None
            return bind_argument(node, call, parameter, bound=is_bound(file, node, script, call))
        case Kind.CLASS if callee.cls is not None and not callee.cls.node.bases:
            made = _iterated_by_class(callee.cls.script, callee.cls.node)
            return None if made is None else bind_argument(made[0], call, made[1], bound=True)
        case _:
            return None


@once
def _yielded(script: Script, function: ast.FunctionDef, *, endless: bool) -> str | None:
    """The parameter of a generator that does nothing but yield the items of it."""
    source: ast.expr | None = None
    match [*script.in_scope(function, ast.Yield)], [*script.in_scope(function, ast.YieldFrom)]:
        case [handed], []:
            loop = _loop_of(script, handed)
            place: ast.AST | None = loop
            if loop is not None and isinstance(loop.iter, ast.Name | ast.Call):
                source = _items(script, loop)
        case [], [ast.YieldFrom(value=source) as place] if isinstance(script.parent(place), ast.Expr):
            pass
        case _:
            return None
    if not isinstance(source, ast.Name) or not _is_parameter(script, function, source, {source}) or place is None:
        return None
    repeated = script.loops(place)
    forever = endless and all(isinstance(each, ast.While) for each in repeated)
    return source.id if forever or not repeated else None


def _loop_of(script: Script, handed: ast.Yield) -> ast.For | None:
    """The loop whose items are yielded, each in the place where it comes, and not used otherwise."""
    match handed.value, script.parent(handed):
        case ast.Name() as item, ast.Expr():
            definitions = script.definitions(item)
        case _:
            return None
    if len(definitions) != 1 or definitions[0].how != "for" or not isinstance(definitions[0].node, ast.For):
        return None
    loop = definitions[0].node
    loops = script.loops(handed)
    unused = all(use is item for use in script.uses(definitions[0]))
    return loop if unused and loops and loops[0] is loop and not loop.orelse else None


def _items(script: Script, loop: ast.For) -> ast.expr | None:
    """What a loop gets its items from: `for item in source`, `for i, item in enumerate(source)`."""
    match loop.target, loop.iter:
        case ast.Name(), source if not isinstance(source, ast.Call):
            return source
        case ast.Tuple(elts=[_, ast.Name()]), ast.Call(func=ast.Name(id="enumerate") as name, args=[source, *_]):
            return None if script.definitions(name) else source
        case _:
            return None


def _is_parameter(script: Script, function: ast.FunctionDef, source: ast.Name, known: set[ast.expr]) -> bool:
    """Whether a name is a parameter that is used nowhere else, but that its length is asked for."""
    definitions = script.definitions(source)
    if len(definitions) != 1 or definitions[0].how != "param" or definitions[0].scope.node is not function:
        return False
    arguments = function.args
    if source.id not in {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}:
        return False
    return all(use in known or _is_measured(script, use) for use in script.uses(definitions[0]))


def _is_measured(script: Script, use: ast.expr) -> bool:
    match script.parent(use):
        case ast.Call(func=ast.Name(id="len") as name):
            return not script.definitions(name)
        case _:
            return False


@fixpoint(nothing=None, anything=None)
def _returned(script: Script, function: ast.FunctionDef, *, again: bool) -> str | None:
    """The parameter that a function returns as it is, or handed on by something else: `return tqdm(items)`."""
    if any(True for kind in (ast.Yield, ast.YieldFrom) for _ in script.in_scope(function, kind)):
        return None
    returns = [*script.in_scope(function, ast.Return)]
    if len(returns) != 1 or returns[0] is not function.body[-1] or returns[0].value is None:
        return None
    value: ast.expr | None = returns[0].value
    while isinstance(value, ast.Call):
        value = wrapped_argument(script, value, again=again)
    if not isinstance(value, ast.Name) or not _is_parameter(script, function, value, {value}):
        return None
    return value.id


@once
def _iterated_by_class(script: Script, cls: ast.ClassDef) -> tuple[ast.FunctionDef, str] | None:
    """The constructor of a class, and its parameter whose items a `for` over an object of it gets."""
    if cls.decorator_list or cls.keywords:
        return None
    methods = {each.name: each for each in cls.body if isinstance(each, ast.FunctionDef)}
    make, iterate = methods.get("__init__"), methods.get("__iter__")
    if make is None or iterate is None or "__next__" in methods or "__getattr__" in methods:
        return None
    attribute = _attribute_iterated(script, iterate)
    if attribute is None:
        return None
    uses = [each for each in script.within(cls, ast.Attribute) if each.attr == attribute]
    stored = [each for each in uses if isinstance(each.ctx, ast.Store)]
    read = [each for each in uses if each not in stored and not _is_measured(script, each)]
    match [script.parent(each) for each in stored]:
        case [ast.Assign(targets=[_], value=ast.Name() as given)] if script.function(given) is make:
            single = len(read) == 1 and script.function(read[0]) is iterate
            return (make, given.id) if single and _is_parameter(script, make, given, {given}) else None
        case _:
            return None


def _attribute_iterated(script: Script, iterate: ast.FunctionDef) -> str | None:
    """`return iter(self.items)`, or a generator that yields the items of `self.items`."""
    source: ast.expr | None = None
    match iterate.body[-1]:
        case ast.Return(value=ast.Call(func=ast.Name(id="iter") as name, args=[given])) if not script.definitions(name):
            source = given
    yields = [*script.in_scope(iterate, ast.Yield)]
    if source is None and len(yields) == 1 and not any(True for _ in script.in_scope(iterate, ast.YieldFrom)):
        loop = _loop_of(script, yields[0])
        source = _items(script, loop) if loop is not None and not script.loops(loop) else None
    elif yields:
        return None
    match source:
        case ast.Attribute(value=ast.Name(id=receiver), attr=attribute):
            return attribute if [each.arg for each in iterate.args.args] == [receiver] else None
        case _:
            return None
