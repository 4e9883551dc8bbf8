"""Bindings of names: what makes them, in which scope, and which of them a name may have at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from autoaccel.dataflow.child_nodes import children
from autoaccel.dataflow.qualified_names import canonical

BindingKind = Literal[
    "assign", "for", "with", "param", "import", "def", "class", "aug", "walrus", "except", "del", "global", "match"
]
ElementPath = tuple[int | str, ...]
ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef

STAR = "*"
# The fields of statements that can bind names where no expression does.
_TARGETS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Expr: (),
    ast.Return: (),
    ast.Raise: (),
    ast.Assert: (),
    ast.Assign: ("targets",),
    ast.AugAssign: ("target",),
    ast.AnnAssign: ("target",),
    ast.If: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.For: ("target", "body", "orelse"),
    ast.AsyncFor: ("target", "body", "orelse"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """One binding of a name.

    `node` is the binding statement (or `ast.arg`, comprehension, handler), `value` the bound expression, or the
    iterated one for `for`, or the context manager for `with`; `path` says which part of the value an unpacking target
    takes. For imports `value` is None and `target` is the qualified name."""

    name: str
    node: ast.AST
    how: BindingKind
    scope: Scope
    value: ast.expr | None = None
    path: ElementPath = ()
    target: str | None = None
    level: int = 0

    @property
    def whole(self) -> ast.expr | None:
        """The expression that an assignment gives the name all of: the one at its place in `a, b = x, y`."""
        value = self.value if self.how == "assign" else None
        for step in self.path:
            match value:
                case ast.Tuple(elts=elements) | ast.List(elts=elements) if isinstance(step, int) and not any(
                    isinstance(each, ast.Starred) for each in elements
                ):
                    value = elements[step] if -len(elements) <= step < len(elements) else None
                case _:
                    return None
        return value


class Qualified(NamedTuple):
    """A qualified name in the canonical spelling: what is imported, from which level, and the attributes after it."""

    name: str
    target: str
    level: int
    rest: tuple[str, ...] = ()

    @property
    def dotted(self) -> str:
        """What is imported and the attributes after it, as written."""
        return ".".join((self.target, *self.rest))

    def under(self, target: str) -> str:
        """The name when the import is one of `target`."""
        name = canonical(target)
        for part in self.rest:
            name = canonical(f"{name}.{part}")
        return name


class Scope:
    """A module, function, lambda or class body and all definitions made in it."""

    __slots__ = ("born", "definitions", "entry", "global_names", "node", "nonlocal_names", "parent", "stars")

    def __init__(self, node: ScopeNode, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.definitions: dict[str, list[Definition]] = {}
        self.global_names: set[str] = set()
        self.nonlocal_names: set[str] = set()
        self.stars: list[tuple[str, int]] = []
        self.entry: Bindings = {}  # what the enclosing scope's names were bound to where this scope was made
        self.born = 0

    @property
    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def lookup(self, name: str) -> Scope | None:
        """The outer scope that binds `name` for code in this scope (class bodies are invisible to their methods)."""
        if name in self.global_names:
            return self.module
        scope = self.parent
        while scope is not None:
            if (
                name in scope.definitions
                and not isinstance(scope.node, ast.ClassDef)
                and name not in scope.global_names
            ):
                return scope
            scope = scope.parent
        return None

    def child_on_path(self, outer: Scope) -> Scope:
        """The scope directly inside `outer` that holds this one."""
        scope = self
        while scope.parent is not None and scope.parent is not outer:
            scope = scope.parent
        return scope


Bindings = dict[str, tuple[Definition, ...]]


def join(first: tuple[Definition, ...], second: Sequence[Definition]) -> tuple[Definition, ...]:
    if not first or first == second:
        return tuple(second)
    merged = dict.fromkeys(first)
    merged.update(dict.fromkeys(second))
    return tuple(merged)


def merge_states(states: Iterable[Bindings | None]) -> Bindings | None:
    merged: Bindings | None = None
    for state in states:
        if state is None:
            continue
        if merged is None:
            merged = dict(state)
            continue
        for name, definitions in state.items():
            known = merged.get(name)
            if known is None:
                merged[name] = definitions
            elif known is not definitions:
                merged[name] = join(known, definitions)
    return merged


def state_raised(entry: Bindings | None, made: Iterable[Definition]) -> Bindings | None:
    """What names may be bound to where a block that made some definitions is left, after whichever of them."""
    if entry is None:
        return None
    found = dict(entry)
    for each in made:
        found[each.name] = join(found.get(each.name, ()), (each,))
    return found


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, int]]:
    """The names that an import binds, each with what it stands for and the level of a relative import."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            target = f"{node.module}.{alias.name}" if node.module else alias.name
            if alias.name != "*":
                yield alias.asname or alias.name, target, node.level
        elif alias.asname:
            yield alias.asname, alias.name, 0
        else:
            bound = alias.name.split(".")[0]
            yield bound, bound, 0


def bound_names(node: ScopeNode, scope: Scope, *, walrus: bool) -> Iterator[str]:
    """Names bound anywhere in a scope's own body; collects `global` and `nonlocal` on the way.

    Without a walrus in the module, expressions that are no targets bind nothing and are passed over.
    """
    arguments = getattr(node, "args", None)
    if isinstance(arguments, ast.arguments):
        for argument in (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ):
            if argument is not None:
                yield argument.arg
    pending: list[ast.AST] = list(node.body) if isinstance(node.body, list) else [node.body]
    while pending:
        current = pending.pop()
        if not walrus and (plain := _TARGETS.get(type(current))) is not None:
            for field in plain:
                value = getattr(current, field)
                pending.extend(value if isinstance(value, list) else (value,))
            continue
        match current:
            case ast.Name(ctx=ast.Load()) | ast.Constant():
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield current.name
                pending.extend(current.decorator_list)
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                for part in ast.walk(current) if walrus else ():
                    if isinstance(part, ast.NamedExpr):
                        yield part.target.id
                continue
            case ast.Name(ctx=ast.Store() | ast.Del()):
                yield current.id
            case ast.Import() | ast.ImportFrom():
                yield from (name for name, _, _ in imported_names(current))
            case ast.Global():
                scope.global_names.update(current.names)
            case ast.Nonlocal():
                scope.nonlocal_names.update(current.names)
            case ast.ExceptHandler() if current.name:
                yield current.name
            case ast.MatchAs() | ast.MatchStar() if current.name:
                yield current.name
            case ast.MatchMapping() if current.rest:
                yield current.rest
        pending.extend(children(current))
