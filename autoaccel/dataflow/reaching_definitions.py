"""Reaching definitions: which bindings a name may refer to where it is read.

One structured pass over each scope, over the body of a function when something in it is asked for. Names read from an
outer scope get every definition that scope gives them, since the time of the call is unknown. A name with no definition
here comes from builtins, a star import, or nowhere: it has none."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from autoaccel.dataflow.definitions import (
    Definition,
    Qualified,
    Scope,
    imported_names,
    join,
)
from autoaccel.dataflow.qualified_names import SAME_FUNCTION, canonical
from autoaccel.dataflow.scope_pass import Reached, ScopePass
from autoaccel.dataflow.syntax_index import SyntaxIndex, position

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar


class ReachingDefinitions:
    """Definitions of every scope of a module, and for every name read the definitions that may reach it.

    Of most files that are looked at for the sake of others, little but the module level is ever asked for. Only where a
    function binds names of others (`global`, `nonlocal`) are all bodies needed to answer anything.
    """

    def __init__(self, tree: SyntaxIndex) -> None:
        self._tree = tree
        self._reached = Reached(tree)
        self._reach = self._reached.definitions
        self._qualified: dict[ast.AST, Qualified | None] = {}
        self._uses: dict[str, dict[Definition, list[ast.Name]]] = {}  # by the name
        ScopePass(self._reached, Scope(tree.module, None)).run(tree.module.body)
        self._resolve_outer()

    @property
    def scopes(self) -> Mapping[ast.AST, Scope]:
        """All scopes by their nodes."""
        return _Scopes(self)  # made anew: held, it would keep this alive

    def analyse(self, node: ast.AST) -> None:
        """Go through the bodies of the functions that hold `node`, and of itself, if that has not been done."""
        if not self._reached.deferred:
            return
        around: list[ast.AST] = []
        current: ast.AST | None = node
        while current is not None:
            around.append(current)
            current = self._tree.function(current)
        for each in reversed(around):
            run = self._reached.deferred.get(each)
            if run is not None:
                run.function(each)  # which may be too deep for the stack: then it stays deferred
                del self._reached.deferred[each]
                self._resolve_outer()

    def complete(self) -> None:
        """Go through all bodies."""
        while self._reached.deferred:
            for node in list(self._reached.deferred):
                self.analyse(node)

    def _mentions(self, name: str) -> list[ast.Name]:
        """The names that are spelled so, in source order; what they mean is known then."""
        found = [each for each in self._tree.mentions(name) if isinstance(each, ast.Name)]
        for each in found:
            self.analyse(each)
        return sorted(found, key=position)

    def clear(self) -> None:
        """Scopes and their definitions hold one another, and a whole tree with them."""
        for scope in self._reached.scopes.values():
            scope.definitions.clear()
            scope.entry.clear()
        self._reached.deferred.clear()

    def definitions(self, name: ast.Name) -> tuple[Definition, ...]:
        """What a name that is read may be bound to; for a name that is written, its own binding."""
        found = self._reach.get(name)
        if found is None:
            self.analyse(name)
            found = self._reach.get(name, ())
        return found

    def qualified(self, expression: ast.AST) -> Qualified | None:
        """What an imported name, or an attribute of one, stands for; None when it is rebound or none."""
        if expression in self._qualified:
            return self._qualified[expression]
        found: Qualified | None = None
        if isinstance(expression, ast.Name):
            if expression.id in self._imported:
                found = self._imported_as(expression)
        elif isinstance(expression, ast.Attribute):
            base = self.qualified(expression.value)
            if base is not None:
                name = canonical(f"{base.name}.{expression.attr}")
                found = Qualified(name, base.target, base.level, (*base.rest, expression.attr))
        elif isinstance(expression, ast.Call) and len(expression.args) == 1 and not expression.keywords:
            maker = self.qualified(expression.func)
            if maker is not None and maker.name in SAME_FUNCTION:
                found = self.qualified(expression.args[0])
        else:
            return None
        self._qualified[expression] = found
        return found

    def _imported_as(self, name: ast.Name) -> Qualified | None:
        sole = self._imported[name.id]
        if sole is not None and self._tree.function(name) is not None:
            return sole
        definitions = self.definitions(name)
        if not definitions or any(each.how != "import" for each in definitions):
            return None
        targets = {(each.target, each.level) for each in definitions}
        target, level = targets.pop()
        return Qualified(canonical(target), target, level) if target and not targets else None

    @cached_property
    def _imported(self) -> dict[str, Qualified | None]:
        """The names that are imported anywhere in the module; with what they stand for in all functions where nothing
        else binds them and the module itself imports them, so that no body need be gone through for their sake."""
        found: dict[str, Qualified | None] = {}
        nodes: list[ast.Import | ast.ImportFrom] = [*self._tree.find(ast.Import), *self._tree.find(ast.ImportFrom)]
        for node in nodes:
            of_module = self._tree.function(node) is None and self._tree.enclosing_class(node) is None
            for name, target, level in imported_names(node):
                meant = Qualified(canonical(target), target, level)
                sole = of_module and name not in self._bound_otherwise and found.get(name, meant) == meant
                found[name] = meant if sole else None
        return found

    @cached_property
    def _bound_otherwise(self) -> set[str | None]:
        """The names that more than imports bind, wherever in the module that is."""
        find = self._tree.find
        named: list[_Named] = [*find(ast.FunctionDef), *find(ast.AsyncFunctionDef), *find(ast.ClassDef)]
        named += [*find(ast.ExceptHandler), *find(ast.MatchAs), *find(ast.MatchStar)]
        return {
            *(each.id for each in find(ast.Name) if not isinstance(each.ctx, ast.Load)),
            *(each.arg for each in find(ast.arg)),
            *(each.name for each in named),
            *(each.rest for each in find(ast.MatchMapping)),
        }

    @cached_property
    def imports(self) -> tuple[Definition, ...]:
        """The names that are imported anywhere in the module."""
        for node in (*self._tree.find(ast.Import), *self._tree.find(ast.ImportFrom)):
            self.analyse(node)
        return tuple(
            each
            for scope in self._in_order()
            for definitions in scope.definitions.values()
            for each in definitions
            if each.how == "import" and each.target
        )

    @cached_property
    def named_calls(self) -> tuple[tuple[ast.Call, Qualified], ...]:
        """The calls of imported names, in source order."""
        calls = ((call, self.qualified(call.func)) for call in self._tree.find(ast.Call))
        return tuple((call, name) for call, name in calls if name is not None)

    def uses(self, definition: Definition) -> list[ast.Name]:
        """The reads that a definition may reach, in source order."""
        known = self._uses.get(definition.name)
        if known is None:
            known = self._uses[definition.name] = {}
            for name in self._mentions(definition.name):
                for each in self._reach.get(name, ()) if not isinstance(name.ctx, ast.Store) else ():
                    known.setdefault(each, []).append(name)
        return known.get(definition, [])

    def additions(self, definition: Definition) -> list[ast.Name]:
        """The targets of augmented assignments (`x += y`) that read what a definition bound; no part of `uses`."""
        self.uses(definition)  # everything that mentions the name is analysed then
        found = [name for name, reached in self._reached.added_to.items() if definition in reached]
        return sorted(found, key=position)

    def before_addition(self, target: ast.Name) -> tuple[Definition, ...]:
        """What the target of an augmented assignment may have been bound to before it."""
        self.analyse(target)
        return self._reached.added_to.get(target, ())

    def before_additions(self, definitions: Iterable[Definition]) -> list[Definition]:
        """What bound a name at first, behind `x += …`."""
        pending = list(definitions)
        for each in pending:
            match each.node:
                case ast.AugAssign(target=ast.Name() as target):
                    pending.extend(other for other in self.before_addition(target) if other not in pending)
        return [each for each in pending if not isinstance(each.node, ast.AugAssign)]

    def _in_order(self) -> list[Scope]:
        """The scopes that were met, in preorder."""
        return [self._reached.scopes[node] for node in self._tree.in_order(list(self._reached.scopes))]

    def _resolve_outer(self) -> None:
        waiting, self._reached.outer = self._reached.outer, []
        for name, scope in waiting:
            outer = scope if scope.parent is None else scope.lookup(name.id)
            found = outer.definitions.get(name.id, []) if outer is not None else []
            if outer is not None and outer is not scope:
                # A definition that was overwritten before the function was made can not be seen by it.
                child = scope.child_on_path(outer)
                entry = child.entry.get(name.id, ())
                found = [
                    each
                    for each in found
                    if each in entry or self._reached.order[each] > child.born or each.how == "global"
                ]
            self._reach[name] = join(self._reach.get(name, ()), found)
        # A name that an inner function rebinds through `global` or `nonlocal` may hold that value wherever it is read.
        if not self._reached.binds_outward:
            return
        rebound = {
            (scope, name): extra
            for scope in self._reached.scopes.values()
            for name, found in scope.definitions.items()
            if (extra := [each for each in found if each.how == "global"])
        }
        for name, known in list(self._reach.items()) if rebound else ():
            owner = known[0].scope if known else None
            if owner is not None and (owner, name.id) in rebound and all(each.scope is owner for each in known):
                self._reach[name] = join(known, rebound[owner, name.id])


class _Scopes(Mapping[ast.AST, Scope]):
    """The scopes of a module by their nodes, each analysed when it is asked for."""

    def __init__(self, reaching: ReachingDefinitions) -> None:
        self._flow = reaching

    def __getitem__(self, node: ast.AST) -> Scope:
        self._flow.analyse(node)
        return self._flow._reached.scopes[node]

    def __iter__(self) -> Iterator[ast.AST]:
        self._flow.complete()
        return (scope.node for scope in self._flow._in_order())

    def __len__(self) -> int:
        self._flow.complete()
        return len(self._flow._reached.scopes)
