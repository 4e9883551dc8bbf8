"""Decorators that keep what they decorate, so that others may call it: `@register("small")`; and what puts functions of
its own in the place of a class's methods."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autoaccel.analysis import name_lookups
from autoaccel.analysis.classes import lineage
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.completeness import Answer, ScriptNode
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import last_name

if TYPE_CHECKING:
    from autoaccel.analysis.script import Script
    from autoaccel.dataflow.abstract_values import ClassRef

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_DECORATED = ast.FunctionDef | ast.ClassDef
_USED_OTHERWISE = "it is used otherwise than as a decorator"
_BUILTIN = frozenset({"staticmethod", "classmethod", "property"})
_OF_PROPERTIES = frozenset({"setter", "getter", "deleter"})
_PLAIN = sys.stdlib_module_names | {"torch", "numpy", "numba", "pytest", "typing_extensions", "jaxtyping", "typeguard"}
_SPACES = frozenset({"vars", "dir", "setattr", "getmembers"})
_WRAPPING = frozenset({"functools.wraps", "functools.update_wrapper"})


def keeping(script: Script, made: ast.AST) -> ast.expr | None:
    """The decorator of a function or class that may hand it to others; None where there is none."""
    return next((each for each in getattr(made, "decorator_list", ()) if _keeps(script, each)), None)


def seeing(script: Script, made: ast.AST) -> ast.expr | None:
    """The decorator of a function that may see what it is called with: any but those of Python and of libraries that do
    nothing to arguments."""
    return next((each for each in getattr(made, "decorator_list", ()) if not _is_plain(script, each)), None)


@once
def decorated_by(script: Script, function: ast.FunctionDef) -> Answer[ScriptNode]:
    """The functions and classes that a function decorates: as `@keep`, or as what `@keep("small")` gives. These are all
    where it is used for nothing else."""
    outer = script.function(function)
    maker = outer if isinstance(outer, ast.FunctionDef) else function
    if maker is not function and not _is_only_returned(script, function, maker):
        return Answer(missing=_USED_OTHERWISE)
    method = isinstance(script.parent(maker), ast.ClassDef)
    files = script.project.files_naming(script, maker.name, attribute=method)
    found: list[ScriptNode] = []
    missing = files.missing
    for other in files:
        for mention in other.syntax_index.mentions(maker.name, *other.import_aliases((maker.name,))):
            if not isinstance(mention.ctx, ast.Load):
                continue
            used: ast.expr = mention
            if maker is not function and (call := other.call_of(mention)) is not None:
                used = call
            owner = other.parent(used)
            values = other.inference.possible(used)
            if isinstance(owner, _DECORATED) and used in owner.decorator_list:
                below = owner.decorator_list[owner.decorator_list.index(used) + 1 :]
                if values and all(value.node is function for value in values.unordered()):
                    if all(_is_plain(other, each) for each in below):
                        found.append((other, owner))
                        continue
            handed_on = (function, maker)  # or what makes it, under another name
            if not values or any(value.kind is Kind.UNKNOWN or value.node in handed_on for value in values.unordered()):
                missing = missing or _USED_OTHERWISE
        if missing is None and any(True for _ in name_lookups.lookups(other, script, maker, (maker.name,))):
            missing = _USED_OTHERWISE
    return Answer(tuple(found), missing)


def decorated_value(script: Script, node: ast.AST) -> Value:
    """What a decorator is given of a class or function."""
    if isinstance(node, ast.ClassDef):
        return Value(Kind.CLASS, node, script, cls=script.class_ref(node))
    return Value(Kind.FUNCTION, node, script)


def _is_only_returned(script: Script, function: ast.FunctionDef, maker: ast.FunctionDef) -> bool:
    reads = [each for each in script.within(maker, ast.Name) if each.id == function.name]
    return bool(reads) and all(isinstance(script.parent(each), ast.Return) for each in reads)


@once
def wrapping_methods(ref: ClassRef) -> str | None:
    """What may put others in the place of the methods that a class has or inherits: a decorator of the class, a
    metaclass, an `__init_subclass__`, as it is written; None where nothing does."""
    for each in lineage(ref):
        for decorator in each.node.decorator_list:
            made = decorator.func if isinstance(decorator, ast.Call) else decorator
            if any(_looks_through(value.script, value.node) for value in each.script.inference.possible(made)):
                return f"@{each.script.source(decorator)}"
        for keyword in each.node.keywords:
            meta = each.script.inference.possible(keyword.value) if keyword.arg == "metaclass" else ()
            if any(value.cls is not None and _handles_body(value.cls) for value in meta):
                return f"metaclass={each.script.source(keyword.value)}"
        for part in each.node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init_subclass__":
                if _looks_through(each.script, part):
                    return part.name
    return None


def _handles_body(metaclass: ClassRef) -> bool:
    """Whether a metaclass does more with what stands in the body of a class than to make the class of it."""
    for each in lineage(metaclass):
        for part in each.node.body:
            if not isinstance(part, ast.FunctionDef) or part.name not in ("__new__", "__init__", "__prepare__"):
                continue
            body = {argument.arg for argument in part.args.args[3:]}
            reads = (name for name in each.script.within(part, ast.Name) if name.id in body)
            if not all(_makes_class(each.script, name) for name in reads) or _looks_through(each.script, part):
                return True
    return False


def _makes_class(script: Script, read: ast.Name) -> bool:
    """`super().__new__(mcs, name, bases, body)`"""
    call = script.parent(read)
    return isinstance(call, ast.Call) and last_name(call.func) in ("__new__", "__init__", "type")


def _looks_through(script: Script | None, function: ast.AST | None) -> bool:
    """Whether code looks at all that a class has, or binds what it has by names that it computes."""
    if script is None or not isinstance(function, _FUNCTIONS):
        return False
    calls = (last_name(call.func) for call in script.within(function, ast.Call))
    spaces = (each.attr for each in script.within(function, ast.Attribute))
    return not _SPACES.isdisjoint(calls) or "__dict__" in spaces


def _is_plain(script: Script, decorator: ast.expr) -> bool:
    """`@staticmethod`, `@name.setter`, `@torch.no_grad()`"""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(function, ast.Name) and function.id in _BUILTIN and not script.definitions(function):
        return True
    if isinstance(function, ast.Attribute) and function.attr in _OF_PROPERTIES:
        return True
    qualified = script.qualname(function)
    return qualified is not None and not script.is_project_name(function) and qualified.partition(".")[0] in _PLAIN


def _keeps(script: Script, decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    if _is_plain(script, decorator):
        return False
    if script.qualname(function) is not None and not script.is_project_name(function):
        return True
    return any(
        value.script is None
        or not isinstance(value.node, _FUNCTIONS)
        or not _passes_on(value.script, value.node, made=isinstance(decorator, ast.Call))
        for value in script.inference.possible(function)
    )


def _passes_on(script: Script, decorator: _FUNCTIONS, *, made: bool) -> bool:
    """Whether a decorator of the project (`made` by the call of one) gives what it is handed back, or a function that
    calls it with its own arguments."""
    inner = [each for each in decorator.body if isinstance(each, _FUNCTIONS)]
    taking = inner if made else [decorator]
    if not taking:
        return False
    for function in taking:
        names = {each.arg for each in (*function.args.posonlyargs, *function.args.args)}
        reads = (each for each in script.within(function, ast.Name) if each.id in names)
        if not all(_is_harmless(script, each) for each in reads if isinstance(each.ctx, ast.Load)):
            return False
    return True


def _is_harmless(script: Script, read: ast.Name) -> bool:
    around = script.parent(read)
    match around:
        case ast.Return() | ast.Attribute(ctx=ast.Load()):
            return True
        case ast.Call(func=function) if function is read:
            return set(_given(around)) <= _parameters(script, around)
        case ast.Call(func=function):
            return script.qualname(function) in _WRAPPING
        case _:
            return False


def _given(call: ast.Call) -> Iterator[str | None]:
    """The names that a call hands on; None for what is none."""
    for each in given_values(call):
        inner = each.value if isinstance(each, ast.Starred) else each
        yield inner.id if isinstance(inner, ast.Name) else None


def _parameters(script: Script, call: ast.Call) -> set[str | None]:
    function = script.function(call)
    if not isinstance(function, _FUNCTIONS):
        return set()
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {each.arg for each in named if each is not None}
