"""Loops that give one sample for each item of what is the same in each process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.call_arguments import given_as, given_values
from autoaccel.dataflow.syntax_index import position
from autoaccel.library_models.python_names import CONTAINER_CHANGES

_OPENERS = frozenset("open io.open gzip.open bz2.open lzma.open codecs.open pathlib.Path.open".split())
_LISTINGS = frozenset("glob.glob os.listdir".split())
_READERS = frozenset("csv.reader csv.DictReader".split())
_PASSING_ON = frozenset("enumerate zip reversed sorted list tuple len itertools.chain".split())
_STEADY = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE})
_ITERABLE = frozenset({Kind.SEQUENCE, Kind.ARRAY, Kind.TENSOR, Kind.MAPPING})
_FIXED = _STEADY | {Kind.DTYPE, Kind.DEVICE}
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete)
_FACTORIES = frozenset(
    f"{library}.{name}" for library in ("torch", "numpy") for name in ("zeros", "ones", "empty", "full", "zeros_like")
)
_LETTING = frozenset("open no_grad inference_mode File ZipFile".split())
"""Context managers that swallow no exception."""
_NEW = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.BinOp, ast.Constant)
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class PlainLoop:
    """The loop of a stream. `divided` says whether it is one already."""

    node: ast.For
    divided: bool


def plain_loop(script: Script, method: ast.FunctionDef) -> PlainLoop | str:
    """The loop of an `__iter__` that gives one sample for each item, the same in each process; else why it does not."""
    if method.decorator_list or not method.args.args:
        return "how its stream is iterated is not seen"
    if _asks_for_workers(script, method):
        return "its stream divides itself"
    body, before = method.body, list[ast.stmt]()
    while body:
        *first, last = body
        before += [each for each in first if not _is_docstring(each)]
        if isinstance(last, ast.For):
            break
        if not isinstance(last, ast.With):
            return "its stream is more than one plain loop"
        before.append(last)
        body = last.body
    loop = body[-1]
    assert isinstance(loop, ast.For)
    reading = _Reading(script, method, loop)
    source = loop.iter
    divided = isinstance(source, ast.Call) and script.runtime_name(source.func) == "shard"
    if isinstance(source, ast.Call) and divided:
        source = source.args[0]
    if (reason := reading.problem_before(before) or _one_for_each(script, method, loop)) is not None:
        return reason
    if not reading.is_steady(source):
        return f"`{script.source(source)}` is not known to be the same in each of them"
    reason = reading.problem_within()
    return PlainLoop(loop, divided) if reason is None else reason


def _asks_for_workers(script: Script, method: ast.FunctionDef) -> bool:
    mentioned = script.syntax_index.mentions("get_worker_info", "worker_info")
    cls = script.parent(method)
    return any(script.inside(each, cls or method) for each in mentioned)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _straight(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run for each item: of a block, and of those `with` blocks in it that end by no exception."""
    for statement in body:
        if not isinstance(statement, ast.With):
            yield statement
        elif all(_last(getattr(each.context_expr, "func", each.context_expr)) in _LETTING for each in statement.items):
            yield from _straight(statement.body)


def _one_for_each(script: Script, method: ast.FunctionDef, loop: ast.For) -> str | None:
    """Why a loop may give another number of samples than one for each item."""
    yields = [each for each in script.within(method, ast.Yield) if script.function(each) is method]
    direct = [each for each in _straight(loop.body) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Yield)]
    if len(yields) != 1 or len(direct) != 1 or loop.orelse:
        return "its stream does not give one sample for each item"
    if any(isinstance(each, _LEAVING) for each in script.within(method, ast.AST)):
        return "its stream skips items, or ends early"
    if any(isinstance(each, _DEFINING) and each is not method for each in script.within(method, ast.AST)):
        return "its stream is more than one plain loop"
    return None


class _Reading:
    """What a loop reads: where its items come from, and what is there before it begins."""

    def __init__(self, script: Script, method: ast.FunctionDef, loop: ast.For) -> None:
        self._script = script
        self._method = method
        self._loop = loop
        self._steady: dict[str, ast.expr] = {}
        """What names are bound to before the loop."""

    def problem_before(self, before: list[ast.stmt]) -> str | None:
        """Why what comes before the loop may differ from process to process, or do what must happen once."""
        for statement in before:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if self.is_steady(value):
                    bound = [(name, value)]
                case ast.With(items=items) if all(self._opens(each.context_expr) for each in items):
                    bound = [
                        (each.optional_vars.id, each.context_expr)
                        for each in items
                        if isinstance(each.optional_vars, ast.Name)
                    ]
                    if len(bound) < len(items):
                        return "its stream is more than one plain loop"
                case ast.Expr(value=ast.Call(func=ast.Name(id="next"), args=[ast.Name(id=name)])) if (
                    name in self._steady
                ):
                    bound = []  # the line with the names of columns
                case _:
                    return f"what its stream does first, in line {statement.lineno}, each of them would do"
            for name, value in bound:
                if name in self._steady:
                    return "its stream is more than one plain loop"
                self._steady[name] = value
        return None

    def is_steady(self, expression: ast.expr) -> bool:
        """Whether an expression gives the same items in the same order whenever and wherever it is evaluated."""
        script = self._script
        match expression:
            case ast.Constant():
                return True
            case ast.Name(id=name) if name in self._steady:
                return True
            case ast.Call(func=function):
                given = given_values(expression)
                called = script.qualname(function) or (
                    function.id if isinstance(function, ast.Name) and not script.definitions(function) else ""
                )
                called = called.removeprefix("builtins.")
                if called == "range":
                    return bool(given) and all(map(self._is_count, given))
                if self._opens(expression):
                    return True
                if called == "sorted" and len(given) == 1 and isinstance(given[0], ast.Call):
                    if script.qualname(given[0].func) in _LISTINGS:
                        return all(map(self.is_steady, given_values(given[0])))
                return called in _PASSING_ON | _READERS and bool(given) and all(map(self.is_steady, given))
            case ast.Name() | ast.Attribute():
                kinds = script.values(expression).kinds
                return bool(kinds) and (kinds <= _STEADY or kinds <= _ITERABLE) and not self._is_unordered(expression)
            case _:
                return False

    def _is_count(self, expression: ast.expr) -> bool:
        """A whole number, for `range` takes nothing else: of constants, names and attributes, lengths of what is
        steady."""
        match expression:
            case ast.Constant() | ast.Name():
                return True
            case ast.Attribute(value=owner):
                return self._is_count(owner)
            case ast.UnaryOp(operand=operand):
                return self._is_count(operand)
            case ast.BinOp(left=left, right=right):
                return self._is_count(left) and self._is_count(right)
            case ast.Call(func=ast.Name(id="len"), args=[_]):
                return self.is_steady(expression)
            case _:
                return False

    def _is_unordered(self, expression: ast.expr) -> bool:
        """`set(words)`, `{"a", "b"}`: another order in each process; or what is not known to be no such thing."""
        return any(
            value.node is None
            or isinstance(value.node, ast.Set | ast.SetComp | ast.GeneratorExp)
            or (isinstance(value.node, ast.Call) and _last(value.node.func) in ("set", "frozenset", "iter", "map"))
            for value in self._script.values(expression)
            if value.kind in _ITERABLE
        )

    def _opens(self, expression: ast.expr) -> bool:
        """Whether an expression opens a file to be read, by a path that is there before the loop."""
        if not isinstance(expression, ast.Call):
            return False
        function = expression.func
        name = self._script.qualname(function) or ""
        if isinstance(function, ast.Name) and not self._script.definitions(function):
            name = function.id
        modes = expression.args[1:2] if name in _OPENERS else expression.args[:1]
        if isinstance(function, ast.Attribute) and not name and function.attr == "open":
            path: ast.expr = function.value  # `self.path.open()`
        elif name in _OPENERS and expression.args:
            path = expression.args[0]
        else:
            return False
        mode = given_as(expression, "mode") or next(iter(modes), None)
        reads = mode is None or (isinstance(mode, ast.Constant) and mode.value in ("r", "rb", "rt"))
        return reads and isinstance(path, ast.Name | ast.Attribute | ast.Constant | ast.JoinedStr)

    def problem_within(self) -> str | None:
        """Why a sample may hang on those before it, or change what comes after."""
        script, loop = self._script, self._loop
        names = script.within(loop, ast.Name)
        items = {each.id for each in script.within(loop.target, ast.Name)}
        own = {each.id for each in names if isinstance(each.ctx, ast.Store)} - items
        straight = [each for each in _straight(loop.body) if isinstance(each, ast.Assign)]
        for name in sorted(own):
            mentions = [each for each in names if each.id == name]
            first = next((each for each in straight if any(script.inside(use, each) for use in mentions)), None)
            reads = [each for each in mentions if isinstance(each.ctx, ast.Load)]
            anew = first is not None and all(
                position(use) >= position(first) and not (script.inside(use, first) and use in reads)
                for use in mentions
            )
            if not anew and not self._is_inner(name):
                return f"`{name}` may hang on earlier items"
        for each in names:
            if isinstance(each.ctx, ast.Load) and not script.inside(each, loop.iter) and each.id not in own | items:
                if each.id in self._steady and not script.values(each).kinds <= _FIXED:
                    return f"`{each.id}` is read beside the loop"
                if each.id == "next" and script.call_of(each) is not None:
                    return "it reads on by `next`"
        return "its stream is changed as it is read" if any(self._changes()) else None

    def _is_inner(self, name: str) -> bool:
        """Whether a name is bound by a comprehension, or by a loop or a `with` that is all that mentions it."""
        script = self._script
        for use in script.within(self._loop, ast.Name):
            if use.id != name:
                continue
            around = [each for each in script.ancestors(use) if script.inside(each, self._loop)]
            if not any(self._binds(each, name) for each in around if each is not self._loop):
                return False
        return True

    def _binds(self, node: ast.AST, name: str) -> bool:
        match node:
            case ast.ListComp(generators=made) | ast.SetComp(generators=made) | ast.GeneratorExp(generators=made):
                targets: list[ast.expr] = [each.target for each in made]
            case ast.DictComp(generators=made):
                targets = [each.target for each in made]
            case ast.For(target=target):
                targets = [target]
            case ast.With(items=items):
                targets = [each.optional_vars for each in items if each.optional_vars is not None]
            case _:
                return False
        return any(each.id == name for target in targets for each in self._script.within(target, ast.Name))

    def _changes(self) -> Iterator[bool]:
        """Whether something is changed that was there before the item: `self.seen.append(x)`, `counts[x] += 1`."""
        script, loop = self._script, self._loop
        for node in script.within(loop, ast.AST):
            match node:
                case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                    yield not self._is_fresh(node)
                case ast.AugAssign(target=ast.Name() as target):
                    yield not self._is_fresh(target) and not script.values(target).kinds <= _FIXED
                case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in CONTAINER_CHANGES or (
                    method.endswith("_") and not method.startswith("_")
                ):
                    yield not self._is_fresh(owner)

    def _is_fresh(self, expression: ast.expr) -> bool:
        """Whether an object is made for the item: a container that is written out, the result of an operation."""
        while isinstance(expression, ast.Subscript | ast.Attribute):
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return isinstance(expression, ast.Call)
        bound = [each for each in self._script.within(self._loop, ast.Assign) if _binds_name(each, expression.id)]
        return bool(bound) and all(
            isinstance(each.value, _NEW)
            or (isinstance(each.value, ast.Call) and self._script.qualname(each.value.func) in _FACTORIES)
            for each in bound
        )


def _binds_name(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def _last(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
