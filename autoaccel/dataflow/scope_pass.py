"""The statements of one scope in the order they may run: what each binds, and which bindings reach each name.

Branches join, loops run twice (enough for definitions carried round), `break`, `continue`, `return` and `raise` end a
path."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from autoaccel.dataflow.child_nodes import children
from autoaccel.dataflow.context_managers import may_swallow
from autoaccel.dataflow.definitions import (
    STAR,
    BindingKind,
    Bindings,
    Definition,
    ElementPath,
    Scope,
    ScopeNode,
    bound_names,
    imported_names,
    join,
    merge_states,
    state_raised,
)
from autoaccel.dataflow.syntax_index import SyntaxIndex
from autoaccel.notebooks.cells import cells

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_PLAIN = frozenset(
    {ast.keyword, ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.Subscript, ast.Slice, ast.Tuple, ast.List}
    | {ast.Dict, ast.IfExp, ast.Starred, ast.JoinedStr, ast.FormattedValue}
)


class Reached:
    """What the passes over the scopes of one module have found so far."""

    def __init__(self, tree: SyntaxIndex) -> None:
        self.tree = tree
        self.walrus = bool(tree.within(tree.module, ast.NamedExpr))
        self.binds_outward = any(tree.find(ast.Global, ast.Nonlocal))
        self.scopes: dict[ast.AST, Scope] = {}  # every one that was met; a deferred one has no definitions yet
        self.deferred: dict[ast.AST, ScopePass] = {}  # functions whose bodies nobody has asked for yet
        self.definitions: dict[ast.Name, tuple[Definition, ...]] = {}  # that may reach a name
        self.added_to: dict[ast.Name, tuple[Definition, ...]] = {}  # what targets of `x += y` held before
        self.outer: list[tuple[ast.Name, Scope]] = []  # names that are read from outer scopes, not yet resolved
        self.order: dict[Definition, int] = {}
        self.interned: dict[tuple[ast.AST, str, ElementPath, BindingKind], Definition] = {}


class ScopePass:
    """Runs one scope; nested scopes run when theirs is met, after which outer names are resolved."""

    def __init__(self, reached: Reached, scope: Scope) -> None:
        self.reached = reached
        self.scope = scope
        self.state: Bindings | None = {}
        self.breaks: list[list[Bindings | None]] = []
        self.continues: list[list[Bindings | None]] = []
        self.tried: list[list[Definition]] = []  # what the `try` statements around here have bound so far
        self.local: frozenset[str] = frozenset()
        reached.scopes[scope.node] = scope

    def run(self, body: list[ast.stmt]) -> None:
        bound = dict.fromkeys(bound_names(self.scope.node, self.scope, walrus=self.reached.walrus))
        self.local = frozenset(bound) - self.scope.global_names
        for name in bound:  # in an order that does not depend on how names are hashed
            if name in self.local and name not in self.scope.nonlocal_names:
                self.scope.definitions.setdefault(name, [])
        notebook = cells(self.reached.tree.text) if self.scope.parent is None else None
        if notebook is None:
            self.block(body)
        else:
            self.in_any_order(body, frozenset(notebook.markers))

    def in_any_order(self, body: list[ast.stmt], starts: frozenset[int]) -> None:
        """The cells of a notebook. The interpreter lives on, and each may run again after any other: where one begins,
        a name may hold whatever any of them leaves it with."""
        ends: list[Bindings | None] = []
        for statement in body:
            if statement.lineno in starts:
                ends.append(None if self.state is None else dict(self.state))
                if self.state is None:  # an exception ends the cell alone
                    self.state = merge_states(ends) or {}
            self.visit(statement)
        left = merge_states([*ends, self.state]) or {}
        for statement in body:
            if statement.lineno in starts:
                self.state = dict(left)
            self.visit(statement)
        for scope in self.reached.scopes.values():
            if scope.parent is self.scope:
                scope.entry = merge_states([scope.entry, left]) or {}

    # -- statements

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def visit(self, node: ast.stmt) -> None:
        method = _VISITS.get(type(node))
        if method is not None:
            method(self, node)
        else:
            self.read_children(node)

    def read_children(self, node: ast.AST) -> None:
        for child in children(node):
            self.read(child)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.read(node.value)
        for target in node.targets:
            self.bind(target, node, "assign", node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.read(node.annotation)
        if node.value is not None:
            self.read(node.value)
            self.bind(node.target, node, "assign", node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.read(node.value)
        if isinstance(node.target, ast.Name):
            self.record(node.target)
            added = self.reached.added_to
            added[node.target] = join(added.get(node.target, ()), self.reached.definitions.get(node.target, ()))
        self.bind(node.target, node, "aug", node.value)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.read(node.iter)
        self.loop(node.body, node.orelse, lambda: self.bind(node.target, node, "for", node.iter))

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.loop(node.body, node.orelse, lambda: self.read(node.test), tests=True)

    def loop(self, body: list[ast.stmt], orelse: list[ast.stmt], head: object, tests: bool = False) -> None:
        entry = self.state
        for _ in range(2):
            self.breaks.append([])
            self.continues.append([])
            self.state = None if entry is None else dict(entry)
            head()  # type: ignore[operator]
            tested = None if self.state is None else dict(self.state)
            self.block(body)
            again = merge_states([self.state, *self.continues.pop()])
            broken = self.breaks.pop()
            entry = merge_states([entry, again])
        self.state = merge_states([entry, tested]) if tests else (None if entry is None else dict(entry))
        self.block(orelse)
        self.state = merge_states([self.state, *broken])

    def visit_Break(self, _: ast.Break) -> None:
        if self.breaks:
            self.breaks[-1].append(self.state)
        self.state = None

    def visit_Continue(self, _: ast.Continue) -> None:
        if self.continues:
            self.continues[-1].append(self.state)
        self.state = None

    def visit_Return(self, node: ast.Return | ast.Raise) -> None:
        self.read_children(node)
        self.state = None

    visit_Raise = visit_Return

    def visit_If(self, node: ast.If) -> None:
        self.read(node.test)
        before = self.state
        self.state = None if before is None else dict(before)
        self.block(node.body)
        after = self.state
        self.state = None if before is None else dict(before)
        self.block(node.orelse)
        self.state = merge_states([after, self.state])

    def cut_short(self, run: Callable[[], None]) -> Bindings | None:
        """Go through a part that may be left anywhere within it; what names may be bound to behind it."""
        entry = None if self.state is None else dict(self.state)
        self.tried.append([])
        run()
        return state_raised(entry, self.tried.pop())

    def visit_Try(self, node: ast.Try) -> None:
        entry = None if self.state is None else dict(self.state)
        made: list[Definition] = []
        self.tried.append(made)
        self.block(node.body)
        raised = state_raised(entry, made)
        self.block(node.orelse)
        ends = [self.state]
        for handler in node.handlers:
            self.state = None if raised is None else dict(raised)
            if handler.type is not None:
                self.read(handler.type)
            if handler.name:
                self.define(handler.name, handler, "except", None, ())
            self.block(handler.body)
            ends.append(self.state)
        self.tried.pop()
        if node.finalbody:  # also on the way out of anything before it: an exception, `return`, `break`
            self.state = state_raised(entry, made)
            self.block(node.finalbody)
        self.state = merge_states(ends)
        if node.finalbody:
            self.block(node.finalbody)

    visit_TryStar = visit_Try

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.read(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, node, "with", item.context_expr)
        if any(may_swallow(self.reached.tree, item.context_expr) for item in node.items):
            self.state = self.cut_short(lambda: self.block(node.body))
        else:
            self.block(node.body)

    visit_AsyncWith = visit_With

    def visit_Match(self, node: ast.Match) -> None:
        self.read(node.subject)
        before = self.state
        ends: list[Bindings | None] = [before]
        for case in node.cases:
            self.state = None if before is None else dict(before)
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self.define(name, part, "match", None, ())
                elif isinstance(part, ast.expr):
                    self.read(part)
            if case.guard is not None:
                self.read(case.guard)
            self.block(case.body)
            ends.append(self.state)
        self.state = merge_states(ends)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, target, level in imported_names(node):
            self.define(name, node, "import", None, (), target=target, level=level)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.visit_Import(node)
        self.scope.stars.extend((node.module or "", node.level) for alias in node.names if alias.name == "*")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.read(decorator)
        self.read_signature(node.args)
        if node.returns is not None:
            self.read(node.returns)
        self.define(node.name, node, "def", None, ())
        self.nested(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.read(part)
        self.define(node.name, node, "class", None, ())
        self.nested(node, node.body)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.record(target)
                if self.state is not None:
                    self.state[target.id] = ()
            else:
                self.read(target)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        pass

    visit_Nonlocal = visit_Global

    # -- scopes

    def nested(self, node: ScopeNode, body: list[ast.stmt]) -> None:
        if node in self.reached.scopes:  # the second turn round a loop
            return
        run = ScopePass(self.reached, self.inner(node))
        if isinstance(node, ast.ClassDef):
            run.run(body)
        elif self.reached.binds_outward:
            run.function(node)
        else:
            self.reached.deferred[node] = run

    def function(self, node: ast.AST) -> None:
        """A function, when somebody asks for something in it."""
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        self.state, self.breaks, self.continues = {}, [], []
        self.parameters(node.args)
        self.run(node.body)

    def inner(self, node: ScopeNode) -> Scope:
        scope = Scope(node, self.scope)
        scope.entry = dict(self.state or {})
        scope.born = len(self.reached.order) - 1
        return scope

    def parameters(self, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: dict[ast.arg, ast.expr | None] = {}
        if arguments.defaults:
            defaults.update(zip(positional[-len(arguments.defaults) :], arguments.defaults, strict=True))
        defaults.update(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
        for argument in (*positional, *arguments.kwonlyargs):
            self.define(argument.arg, argument, "param", defaults.get(argument), ())
        for starred in (arguments.vararg, arguments.kwarg):
            if starred is not None:
                self.define(starred.arg, starred, "param", None, (STAR,))

    def read_signature(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.read(default)
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation is not None:
                self.read(argument.annotation)

    # -- expressions

    def read(self, node: ast.AST) -> None:
        kind = type(node)  # half of all nodes are names, attributes, calls and constants: those go first
        if kind is ast.Name:
            self.record(node)  # type: ignore[arg-type]
        elif kind is ast.Attribute:
            self.read(node.value)  # type: ignore[attr-defined]
        elif kind is ast.Call:
            self.read_children(node)
        elif kind is ast.Constant:
            pass
        elif kind in _PLAIN:
            if self.reached.walrus and kind in (ast.BoolOp, ast.IfExp):
                self.state = self.cut_short(lambda: self.read_children(node))
            else:
                self.read_children(node)
        elif isinstance(node, ast.NamedExpr):
            self.read(node.value)
            self.bind(node.target, node, "walrus", node.value)
        elif isinstance(node, ast.Lambda):
            self.read_signature(node.args)
            if node not in self.reached.scopes:
                run = ScopePass(self.reached, self.inner(node))
                run.parameters(node.args)
                run.local = frozenset(bound_names(node, run.scope, walrus=self.reached.walrus))
                run.read(node.body)
        elif isinstance(node, _COMPREHENSIONS):
            self.read_comprehension(node)
        elif isinstance(node, ast.stmt):
            self.visit(node)
        else:
            self.read_children(node)

    def read_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        """Inline, since it runs at once; its targets hide names of the scope only inside it, where a walrus binds names
        that the next round and the scope go on with."""
        before, local = self.state, self.local
        nodes = ast.walk(node) if self.reached.walrus else ()
        kept = {part.target.id for part in nodes if isinstance(part, ast.NamedExpr)}
        for _ in range(2 if kept else 1):
            self.read_round(node)
            after, self.state, self.local = self.state, before, local
            if kept and before is not None and after is not None:
                self.state = {**before, **{name: join(before.get(name, ()), after.get(name, ())) for name in kept}}

    def read_round(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        for generator in node.generators:
            self.read(generator.iter)
            hidden = {part.id for part in ast.walk(generator.target) if isinstance(part, ast.Name)}
            self.local |= hidden
            if self.state is not None:
                self.state = dict(self.state)
            self.bind(generator.target, generator, "for", generator.iter, transient=True)
            for condition in generator.ifs:
                self.read(condition)
        if isinstance(node, ast.DictComp):
            self.read(node.key)
            self.read(node.value)
        else:
            self.read(node.elt)

    def record(self, name: ast.Name) -> None:
        if name.id in self.local and name.id not in self.scope.nonlocal_names:
            reached = () if self.state is None else self.state.get(name.id, ())
            if reached or not isinstance(self.scope.node, ast.ClassDef):
                known = self.reached.definitions.get(name)
                self.reached.definitions[name] = reached if known is None else join(known, reached)
                return
        self.reached.definitions.setdefault(name, ())
        self.reached.outer.append((name, self.scope))

    def bind(
        self,
        target: ast.expr,
        node: ast.AST,
        how: BindingKind,
        value: ast.expr | None,
        path: ElementPath = (),
        transient: bool = False,
    ) -> None:
        match target:
            case ast.Name():
                definition = self.define(target.id, node, how, value, path, transient=transient)
                self.reached.definitions[target] = (definition,)
            case ast.Tuple() | ast.List():
                starred = False
                for index, element in enumerate(target.elts):
                    if isinstance(element, ast.Starred):
                        starred = True
                        self.bind(element.value, node, how, value, (*path, STAR), transient)
                    else:
                        step = index - len(target.elts) if starred else index
                        self.bind(element, node, how, value, (*path, step), transient)
            case ast.Starred():
                self.bind(target.value, node, how, value, (*path, STAR), transient)
            case _:
                self.read_children(target)

    def define(
        self,
        name: str,
        node: ast.AST,
        how: BindingKind,
        value: ast.expr | None,
        path: ElementPath,
        *,
        target: str | None = None,
        level: int = 0,
        transient: bool = False,
    ) -> Definition:
        key = (node, name, path, how)
        definition = self.reached.interned.get(key)
        scope = self.scope
        outward = not transient and (name in scope.global_names or name in scope.nonlocal_names)
        if definition is None:
            definition = Definition(name, node, "global" if outward else how, scope, value, path, target, level)
            self.reached.interned[key] = definition
            self.reached.order[definition] = len(self.reached.order)
            if not transient:
                owner = (scope.lookup(name) or scope.module) if outward else scope
                owner.definitions.setdefault(name, []).append(definition)
        if self.state is not None:
            self.state[name] = (definition,)
            for made in () if transient else self.tried:
                made.append(definition)
        return definition


_VISITS: dict[type[ast.AST], Callable[[ScopePass, Any], None]] = {
    getattr(ast, name.removeprefix("visit_")): method
    for name, method in vars(ScopePass).items()
    if name.startswith("visit_")
}
