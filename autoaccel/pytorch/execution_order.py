"""When code runs: within the body of a loop, or after a call, through whatever leads to it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import Function
from autoaccel.pytorch.loader_calls import repeats

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script

Place = tuple["Script", ast.AST]
CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__"})


def runs_within(
    home: Script, node: ast.AST, script: Script, outer: ast.AST, makes_batches: Collection[ast.AST] = ()
) -> bool:
    """Whether `node` may run inside the body of `outer`, directly or through calls, however many.

    A function that is handed over may be called whenever it pleases others, but for code that `makes_batches`, and for
    functions that hold `outer` themselves.
    """
    extents = extents_of(script, outer)
    around = set(_functions_around(script, outer))
    pending: list[Place] = [(home, node)]
    seen: set[Function] = set()
    while pending:
        home, node = pending.pop()
        if any(home is where and node is not loop and in_body(home, node, loop) for where, loop in extents):
            return True
        function = home.function(node)
        if function is None or function in seen:
            continue
        seen.add(function)
        callers = home.callers(function)
        if function not in makes_batches:
            if _files_naming(home, function)[1] is not None:
                return True
            mentions = list(_mentions(home, function))
            if mentions and function not in around:
                return True
            pending.extend(mentions)
        if any(home.in_scope(function, kind) for kind in (ast.Yield, ast.YieldFrom)):
            readers = [_reader(other, call) for other, call in callers]
            if any(reader is None or reader in extents for reader in readers):
                return True
        pending.extend(callers)
        pending.extend(_called_by_name(home, function))
    return False


def runs_after(home: Script, node: ast.AST, script: Script, call: ast.Call) -> bool:
    """Whether a place may run after a loader was made: between two passes, when its workers hold a copy already."""
    pending: list[Place] = [(home, node)]
    seen: set[Function] = set()
    while pending:
        home, node = pending.pop()
        function = home.function(node)
        if home is script and function is script.function(call):
            if node.lineno >= call.lineno or repeats(home, node, script, call):  # type: ignore[attr-defined]
                return True
            continue
        if function is None:  # another file, which is imported first, or imports this one
            if repeats(home, node, script, call) or home is not script:
                return True
            continue
        if function not in seen:
            seen.add(function)
            callers = home.callers(function)
            if _files_naming(home, function)[1] is not None:
                return True
            pending.extend((*callers, *_called_by_name(home, function)))
    return False


def _reader(script: Script, call: ast.Call) -> Place | None:
    """The loop whose header calls a generator, which runs whenever the loop asks for more."""
    for loop in script.ancestors(call):
        if isinstance(loop, ast.For | ast.comprehension):
            return (script, loop) if script.inside(call, loop.iter) else None
    return None


def _functions_around(script: Script, node: ast.AST) -> Iterator[Function]:
    """The functions in which a place runs: its own, those that call it, and so on."""
    pending: list[Place] = [(script, node)]
    seen: set[Function] = set()
    while pending:
        home, node = pending.pop()
        function = home.function(node)
        if function is not None and function not in seen:
            seen.add(function)
            yield function
            pending.extend(home.callers(function))
            pending.extend(_mentions(home, function))


def extents_of(script: Script, outer: ast.AST) -> list[Place]:
    """A loop, and the loops that draw from it where it is part of a generator."""
    found: list[Place] = [(script, outer)]
    for home, loop in found:
        function = home.function(loop)
        yields = any(home.in_scope(loop, kind) for kind in (ast.Yield, ast.YieldFrom))
        for other, call in home.callers(function) if function is not None and yields else ():
            loops = (each for each in other.ancestors(call) if isinstance(each, ast.For | ast.comprehension))
            around = next(loops, None)
            place = (other, around or other.function(call) or other.tree)
            if place not in found:
                found.append(place)
    return found


def in_body(script: Script, node: ast.AST, outer: ast.AST) -> bool:
    match outer:
        case ast.For() | ast.AsyncFor():
            return any(script.inside(node, each) for each in (outer.target, *outer.body))
        case ast.comprehension():
            whole = script.parent(outer)
            return whole is not None and script.inside(node, whole) and not script.inside(node, outer.iter)
        case _:
            return script.inside(node, outer)


def _files_naming(home: Script, function: Function) -> tuple[tuple[Script, ...], str | None]:
    """The files that may call a function by its name, and why there may be more."""
    name = getattr(function, "name", None)
    if name is None:
        return (home,), "it has no name by which to find its callers"
    method = isinstance(home.parent(function), ast.ClassDef)
    of_instances = method and name in ("forward", "__call__")
    return home.project.calling(home, None if of_instances else name, method=method)


def _called_by_name(home: Script, function: Function) -> Iterator[Place]:
    """Calls that may enter a function, to go by its name: what they call is not known, or is what it overrides."""
    name = getattr(function, "name", None)
    if name is None or name in CONSTRUCTORS:
        return
    files, _ = _files_naming(home, function)
    cls = home.parent(function)
    method = isinstance(cls, ast.ClassDef)
    bases = (
        {each.node for each in home.project.lineage(home.class_ref(cls))} if isinstance(cls, ast.ClassDef) else set()
    )
    for other in files:
        for call in other.tree_index.calls_named(name):
            callees = other.callees(call)
            unknown = not callees and Kind.UNKNOWN in other.values(call.func).kinds
            overridden = any(where.parent(callee) in bases for where, callee in callees if callee is not function)
            if overridden or (unknown and isinstance(call.func, ast.Attribute) is method):
                yield other, call


def _is_property(function: Function) -> bool:
    """Whether a method runs where an attribute is read or assigned to."""
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return any(
        (each.id if isinstance(each, ast.Name) else getattr(each, "attr", ""))
        in ("property", "cached_property", "setter", "deleter")
        for each in decorators
    )


def _mentions(home: Script, function: Function) -> Iterator[Place]:
    """Where a function is mentioned without being called: whoever it is handed to may call it."""
    name = getattr(function, "name", None)
    if name is None or _is_property(function):
        return
    files, _ = _files_naming(home, function)
    for other in files:
        for mention in other.tree_index.mentions(name):
            parent = other.parent(mention)
            called = isinstance(parent, ast.Call) and parent.func is mention
            if not called and any(value.node is function for value in other.values(mention)):
                yield other, mention
