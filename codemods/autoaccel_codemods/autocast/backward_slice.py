"""Which statements a loss depends on: the backward slice of every `backward()` of a training step.

The slice is taken at the level of statement lists. It climbs from the backward's block to the blocks around it, and
from a function that is handed the loss (or what it is made of) to the calls of that function in the same file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from autoaccel.analysis.name_lookups import is_of_comprehension
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import once
from autoaccel.dataflow.syntax_index import walk_scope
from autoaccel.pytorch.step_effects import Effect, call_effects, effects, may_run_model
from autoaccel.pytorch.training_steps import Backward

MUTATORS = frozenset("append extend insert update add setdefault appendleft push".split())
_OBJECTS = (Kind.MODULE, Kind.OPTIMIZER, Kind.LOADER, Kind.DATASET, Kind.LOSS_FUNCTION, Kind.SCHEDULER)
_COMPOUND = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.TryStar | ast.Match


@once
def variables(script: Script, node: ast.AST) -> frozenset[str]:
    """What an expression or statement reads: names, and attributes of `self` one level deep."""
    reads = [each for each in script.in_scope(node, ast.Name) if isinstance(each.ctx, ast.Load)]
    names = {each.id for each in reads if not is_of_comprehension(script, each)} - {"self"}
    attributes = script.in_scope(node, ast.Attribute)
    own = (each.attr for each in attributes if isinstance(each.value, ast.Name) and each.value.id == "self")
    return frozenset(names.union(f"self.{each}" for each in own))


def target_variables(target: ast.expr, *, whole: bool = False) -> set[str]:
    """What an assignment to a target changes; writing a part changes the whole. With `whole` no parts count."""
    match target:
        case ast.Name(id=name):
            return {name}
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return {f"self.{name}"}
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value) if not whole:
            return target_variables(value)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return {name for element in elements for name in target_variables(element, whole=whole)}
        case _:
            return set()


@once
def changed(script: Script, statement: ast.stmt) -> frozenset[str]:
    """The variables that a statement (with everything nested in it) may give a value. A function has its own."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset()
    return frozenset(_changed(script, statement))


def _changed(script: Script, statement: ast.stmt) -> Iterator[str]:
    for part in script.in_scope(statement, ast.AST):
        match part:
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from target_variables(target)
            case (
                ast.AugAssign(target=target)
                | ast.AnnAssign(target=target)
                | ast.For(target=target)
                | ast.NamedExpr(target=target)
            ):
                yield from target_variables(target)
            case ast.withitem(optional_vars=ast.expr() as target):
                yield from target_variables(target)
            case ast.Call(func=ast.Attribute(value=owner, attr=method)):
                if method in MUTATORS or (method.endswith("_") and not method.startswith("_")):
                    yield from target_variables(owner)
                elif isinstance(owner, ast.Name) and owner.id == "self":
                    yield from _attributes_set(script, part)


def _attributes_set(script: Script, call: ast.Call) -> set[str]:
    """The attributes of `self` that a method call of the same object assigns, in whatever methods that calls."""
    found: set[str] = set()
    pending, seen = [(script, call)], set[ast.AST]()
    while pending:
        file, made = pending.pop()
        for other, function in file.callees(made):
            if function in seen or not isinstance(other.parent(function), ast.ClassDef):
                continue
            seen.add(function)
            for part in walk_scope(function):
                if isinstance(part, ast.Assign):
                    for target in part.targets:
                        found |= {name for name in target_variables(target) if name.startswith("self.")}
                elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                    if isinstance(part.func.value, ast.Name) and part.func.value.id == "self":
                        pending.append((other, part))
    return found


def sets_everything(statement: ast.stmt) -> set[str]:
    """Names that a statement surely overwrites, so that earlier values do not matter."""
    if isinstance(statement, ast.Assign):
        return {name for target in statement.targets for name in target_variables(target, whole=True)}
    return set()


def blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The statement lists directly inside a compound statement."""
    found: list[list[ast.stmt]] = []
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if isinstance(block, list) and block and isinstance(statement, _COMPOUND):
            found.append(block)
    for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        found.append(handler.body)
    return found


def _comes_of_model(script: Script, expression: ast.expr) -> bool:
    """Whether what a name or expression holds is made by a call that may run a model."""
    if script.kind(expression) in _OBJECTS:
        return False
    pending, seen = [expression], {expression}
    for node in pending:
        for part in walk_scope(node):
            if isinstance(part, ast.Call) and may_run_model(script, part):
                return True
            followed = isinstance(part, ast.Name) and script.kind(part) not in _OBJECTS
            for definition in script.definitions(part) if followed else ():  # type: ignore[arg-type]
                if definition.value is not None and definition.how != "with" and definition.value not in seen:
                    seen.add(definition.value)
                    pending.append(definition.value)
    return False


class Slice:
    """The statements that some losses depend on, whole at the outermost level at which they can be wrapped."""

    def __init__(
        self,
        script: Script,
        unwrappable: Callable[[ast.stmt], bool],
        computes_both: Callable[[ast.Call], bool] | None,
    ) -> None:
        self.script = script
        self.statements: set[ast.stmt] = set()
        self.unresolved = False
        self.handed: list[ast.expr] = []  # forwards that are arguments of calls which go backward
        self.elsewhere: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Script]] = []
        """Functions that are handed what forwards in other files give, and these."""
        self.unseen: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]] = []
        """Functions that files which are not read may hand anything, and why these are not."""
        self._unwrappable = unwrappable
        self._computes_both = computes_both
        self._seen: set[tuple[ast.AST, frozenset[str]]] = set()

    def add(self, backward: Backward) -> bool:
        """Take the slice of one backward; False when it meets no forward."""
        needed = set(variables(self.script, backward.loss))
        found = Effect.FORWARD in effects(self.script, backward.loss)
        return self._climb(backward.statement, needed) or found

    def _climb(self, statement: ast.stmt, needed: set[str], outward: bool = True) -> bool:
        """From just before a statement to the start of its function, then on to the callers."""
        script = self.script
        function = script.function(statement)
        key = (statement, frozenset(needed))
        if key in self._seen:
            return False
        self._seen.add(key)
        found = False
        loops = script.loops(statement)
        repeated = True  # what runs once, before the loops, stays as it is
        current: ast.AST | None = statement
        while isinstance(current, ast.stmt):
            if loops and current is loops[-1]:
                repeated = False
            block = script.block(current)
            found |= self._block(block[: block.index(current)], needed, repeated)
            parent = script.parent(current)
            while parent is not None and not isinstance(parent, ast.stmt | ast.Module):
                parent = script.parent(parent)
            if parent is function or isinstance(parent, ast.Module | ast.ClassDef | None):
                break
            if isinstance(parent, ast.For) and target_variables(parent.target) & needed:
                # Each round gives them anew, whatever they were before the loop.
                needed -= target_variables(parent.target, whole=True)
                needed |= variables(script, parent.iter)
            elif isinstance(parent, ast.With):
                for item in parent.items:
                    if item.optional_vars is not None and target_variables(item.optional_vars) & needed:
                        needed |= variables(script, item.context_expr)
            current = parent
        if outward and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= self._callers(function, needed)
        return found

    def _callers(self, function: ast.FunctionDef | ast.AsyncFunctionDef, needed: set[str]) -> bool:
        """What the callers pass: the arguments, and the attributes of `self` that they set before."""
        script = self.script
        parameters = {
            argument.arg for argument in (*function.args.args, *function.args.kwonlyargs, *function.args.posonlyargs)
        }
        attributes = {name for name in needed if name.startswith("self.")}
        if not (needed & parameters or attributes):
            return False
        found = False
        in_class = isinstance(script.parent(function), ast.ClassDef)
        unread = script.project.files_naming(script, function.name, attribute=in_class).missing
        if unread is not None and needed & parameters:
            self.unseen.append((function, unread))
        for other, call in script.callers(function):
            if other is not script:
                self.unresolved = True
                handed = (other.argument(call, function, each, script) for each in sorted(needed & parameters))
                if any(each is not None and _comes_of_model(other, each) for each in handed):
                    self.elsewhere.append((function, other))
                continue
            passed = set(attributes)
            for parameter in sorted(needed & parameters):
                argument = script.argument(call, function, parameter)
                if argument is not None:
                    passed |= variables(script, argument)
                    if Effect.FORWARD in effects(script, argument):
                        found = True
                        self.handed.append(argument)
            found |= self._climb(script.statement(call), passed)
        return found

    def _sensitive_results(self, statement: ast.stmt) -> Iterator[tuple[ast.stmt, ast.expr, bool]]:
        """What functions return that compute a forward together with a loss that cannot stand in a region, and whether
        that is no binary cross-entropy."""
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
            return
        both = Effect.FORWARD | Effect.SENSITIVE
        for part in self.script.in_scope(statement, ast.Call):
            sensitive = call_effects(self.script, part) & both == both
            wanted = both if sensitive else Effect.FORWARD
            if sensitive or (self._computes_both is not None and self._computes_both(part)):
                for other, function in self.script.callees(part):
                    if other is self.script and effects(other, function) & wanted == wanted:
                        for inner in other.in_scope(function, ast.Return):
                            if inner.value is not None:
                                yield inner, inner.value, not sensitive

    def _within(self, statement: ast.stmt, needed: set[str], repeated: bool) -> bool:
        """The blocks of a compound statement: branches are apart from one another, rounds of a loop are not."""
        found, before = False, set[str]()
        for block in blocks(statement):
            own = set(needed)
            found |= self._block(block, own, repeated)
            while isinstance(statement, ast.For | ast.AsyncFor | ast.While) and not own <= needed:
                needed |= own
                own = set(needed)
                found |= self._block(block, own, repeated)
            before |= own
        if isinstance(statement, ast.With | ast.AsyncWith) or (isinstance(statement, ast.If) and statement.orelse):
            needed.clear()  # one of the blocks runs
        needed |= before
        if isinstance(statement, ast.For):
            needed |= variables(self.script, statement.iter)
        return found

    def _block(self, statements: list[ast.stmt], needed: set[str], repeated: bool = True) -> bool:
        """Walk a run of statements backwards, adding those that give a needed variable its value."""
        found = False
        for statement in reversed(statements):
            hits = changed(self.script, statement) & needed
            if not hits:
                continue
            if isinstance(statement, _COMPOUND) and self._unwrappable(statement):
                found |= self._within(statement, needed, repeated)
                continue
            inner = list(self._sensitive_results(statement)) if repeated else []
            if inner:
                for returned, value, outside in inner:
                    found |= Effect.FORWARD in effects(self.script, value)
                    if outside or Effect.SENSITIVE in effects(self.script, value):
                        self.statements.add(returned)
                    found |= self._climb(returned, set(variables(self.script, value)), outward=False)
            elif repeated:
                self.statements.add(statement)
                found |= Effect.FORWARD in effects(self.script, statement)
            needed -= sets_everything(statement)
            needed |= variables(self.script, statement)
        return found
