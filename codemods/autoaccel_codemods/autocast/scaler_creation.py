"""Where the scaler of a training step is made: beside its optimizers, or before the loop that uses them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoaccel.analysis.classes import derived_classes, external_lineage, lineage, methods
from autoaccel.analysis.definite_assignment import always_runs, is_bound, is_empty, is_read, last_binding, stands
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import ClassRef
from autoaccel.dataflow.definitions import Definition
from autoaccel.dataflow.syntax_index import is_constant, position, walk_scope
from autoaccel.library_models.python_names import CLOCKS
from autoaccel.pytorch.device_expressions import precedes
from autoaccel.pytorch.introspection import instances_listed
from autoaccel.pytorch.training_steps import OptimizerStep, ScopeNode, TrainingStep
from autoaccel_codemods.autocast import skip_reasons
from autoaccel_codemods.autocast.blockers import Problem

_SETTING = ("__slots__", "__setattr__")
_CLOSING = ("slots", "frozen")
_OPEN_BASES = ("torch.", "abc.", "builtins.", "typing.")
"""Libraries whose classes take any attribute."""


@dataclass(frozen=True, slots=True, eq=False)
class ScalerCreation:
    """Make a scaler for some optimizers beside a statement: `after` the optimizers, or before the loop that uses them.

    `owner` is the receiver when it becomes an attribute (`self`), else None; `also` are statements of other branches,
    after which it is made as well.
    """

    statement: ast.stmt
    after: bool
    optimizers: tuple[str, ...]
    owner: str | None
    scopes: tuple[ScopeNode, ...]
    also: tuple[ast.stmt, ...] = ()


def scaler_creations(script: Script, step: TrainingStep) -> Iterator[ScalerCreation | Problem]:
    """One scaler beside the optimizers of a step where they surely are made once, else one in each of its functions."""
    optimizers = tuple(dict.fromkeys(_text(script, each) for each in step.optimizer_steps))
    where = {_origin(script, each) for each in step.optimizer_steps}
    scopes = {scope for scope, _ in where}
    creation = None
    if scopes == {"attribute"}:
        creation = _beside_attributes(script, step, optimizers)
        owner = script.enclosing_class(creation.statement) if creation is not None else None
        unfit = None if owner is None else _unfit_for_attribute(script.class_ref(owner))
        if unfit is not None:
            if not all(script.loops(each) for function in step.scopes for each in _sites(step, function)):
                yield step.backwards[0].call, unfit
                return
            # no attribute, which a checkpoint of `vars(self)` would have, or slots refuse: one for each loop
            creation = None
    elif len(where) == 1 and scopes == {"scope"}:
        creation = _beside_definitions(script, step, optimizers)
    if creation is not None:
        yield creation
        return
    for function in step.scopes:
        backwards = [each for each in step.backwards if each.scope is function]
        mine = [each for each in step.optimizer_steps if each.scope is function]
        if scopes == {"attribute"} and _same_object(script, step):
            names = optimizers
        else:
            names = tuple(dict.fromkeys(_text(script, each) for each in mine))
            if not mine or not backwards:
                yield (backwards or mine)[0].call, skip_reasons.STEP_IN_OTHER_FUNCTION
                return
        first = _before(script, function, [*(each.statement for each in backwards), *(each.unit for each in mine)])
        named = [each for each in step.optimizer_steps if _text(script, each) in names]
        unsure = next((each for each in named if not is_bound(script, function, first, each.optimizer)), None)
        if unsure is not None:
            yield unsure.call, _why_unsure(script, function, first, unsure)
            return
        yield ScalerCreation(first, False, names, None, (function,))


def _why_unsure(script: Script, function: ScopeNode, first: ast.stmt, step: OptimizerStep) -> str:
    assert step.optimizer is not None, "a problem otherwise"
    if stands(script, function, first, step.optimizer):
        return skip_reasons.UNSURE_OPTIMIZERS
    bound = script.definitions(step.optimizer) if isinstance(step.optimizer, ast.Name) else ()
    late = bool(bound) and all(isinstance(each.node, ast.stmt) and _reached(script, first, each.node) for each in bound)
    return skip_reasons.LATE_OPTIMIZERS if late else skip_reasons.REMADE_OPTIMIZERS


def _unfit_for_attribute(cls: ClassRef) -> str | None:
    """Why objects of a class had better get no attribute more."""
    if instances_listed(cls):
        return skip_reasons.ATTRIBUTES_LISTED
    deriving = derived_classes(cls)
    for each in (*lineage(cls), *deriving):
        bound = {part.id for part in each.script.in_scope(each.node, ast.Name) if isinstance(part.ctx, ast.Store)}
        own = any(True for _ in methods(each, *_SETTING)) or not bound.isdisjoint(_SETTING)
        decorated = not all(_is_open_dataclass(each.script, decorator) for decorator in each.node.decorator_list)
        made = each.node.keywords or decorated or each.script.syntax_index.stored("__setattr__")
        known = all(name.startswith(_OPEN_BASES) for name in external_lineage(each))
        if own or made or not known:
            return skip_reasons.NO_OTHER_ATTRIBUTES
    return None if deriving.missing is None else skip_reasons.NO_OTHER_ATTRIBUTES


def _is_open_dataclass(script: Script, decorator: ast.expr) -> bool:
    """Whether a decorator only writes methods for the fields, and the class has neither slots nor is it frozen."""
    made, options = (decorator.func, decorator.keywords) if isinstance(decorator, ast.Call) else (decorator, [])
    if script.qualname(made) != "dataclasses.dataclass":
        return False
    return all(each.arg not in (None, *_CLOSING) or is_constant(each.value, False) for each in options)


def _same_object(script: Script, step: TrainingStep) -> bool:
    return len({script.parent(scope) for scope in step.scopes}) == 1


def _text(script: Script, step: OptimizerStep) -> str:
    assert step.optimizer is not None, "a problem otherwise"
    return script.source(step.optimizer)


def _origin(script: Script, step: OptimizerStep) -> tuple[str, ast.AST | None]:
    """Where an optimizer's name lives: an attribute of `self`, a scope that assigns it, or elsewhere."""
    match step.optimizer:
        case ast.Attribute(value=ast.Name(id="self")):
            return "attribute", None
        case ast.Name() as name:
            definitions = script.definitions(name)
            scopes = {definition.scope.node for definition in definitions}
            if len(scopes) == 1 and all(_assigned(definition) for definition in definitions):
                return "scope", scopes.pop()
            return "elsewhere", step.scope
        case _:
            return "elsewhere", step.scope


def _assigned(definition: Definition) -> bool:
    return definition.how == "assign" and isinstance(definition.node, ast.Assign | ast.AnnAssign)


def _beside_definitions(script: Script, step: TrainingStep, optimizers: tuple[str, ...]) -> ScalerCreation | None:
    """After the last of the optimizers, when they are made side by side and on every path to the step."""
    made: dict[str, dict[ast.stmt, None]] = {}
    for each in step.optimizer_steps:
        assert isinstance(each.optimizer, ast.Name)
        definitions = script.definitions(each.optimizer)
        if any(_filled_later(script, definition) for definition in definitions):
            return None
        statements = [each.node for each in definitions if isinstance(each.node, ast.stmt)]
        made.setdefault(each.optimizer.id, {}).update(dict.fromkeys(statements))
    groups = [list(statements) for statements in made.values()]
    found = last_binding(script, groups)
    branches = _branches(script, groups[0]) if found is None and len(groups) == 1 else ()
    if branches:
        found = branches[0]
        while isinstance(above := script.parent(found), ast.If):  # that a step is below it is enough
            found = above
    if found is None:
        return None
    scope = script.function(found) or script.tree
    for function in step.scopes:
        if function is not scope and not script.inside(function, scope):
            return None
        if function is scope and not all(_reached(script, found, statement) for statement in _sites(step, function)):
            return None
    if branches:
        return ScalerCreation(branches[0], True, optimizers, None, step.scopes, branches[1:])
    return ScalerCreation(found, True, optimizers, None, step.scopes)


def _branches(script: Script, statements: list[ast.stmt]) -> tuple[ast.stmt, ...]:
    """The assignments of an optimizer in the branches of one `if … elif …` without an `else`: a step that runs in none
    of these cases fails by itself."""
    branches: list[ast.stmt] = []
    first = min(statements, key=position)
    chain = script.parent(first)
    while isinstance(chain, ast.If):
        own = [each for each in statements if each in chain.body]
        if len(own) != 1:
            return ()
        branches += own
        match chain.orelse:
            case []:
                return tuple(branches) if len(branches) == len(statements) else ()
            case [ast.If() as chain]:
                pass
            case _:
                return ()
    return ()


def _filled_later(script: Script, definition: Definition) -> bool:
    """`optimizers = []`, to which optimizers are added afterwards."""
    for use in script.uses(definition):
        match script.parent(use):
            case ast.Attribute(attr="append" | "extend" | "insert" | "update" | "setdefault"):
                return True
            case ast.Subscript(ctx=ast.Store()):
                return True
    return False


def _sites(step: TrainingStep, scope: ast.AST) -> list[ast.stmt]:
    backwards = [each.statement for each in step.backwards if each.scope is scope]
    return [*backwards, *(each.statement for each in step.optimizer_steps if each.scope is scope)]


def _reached(script: Script, statement: ast.stmt, later: ast.stmt) -> bool:
    """Whether control that reaches `later` has passed `statement`, and left it."""
    return precedes(script, statement, later) and not script.inside(later, statement)


def _beside_attributes(script: Script, step: TrainingStep, optimizers: tuple[str, ...]) -> ScalerCreation | None:
    """After the last assignment of the optimizers as attributes, when one method of the class that surely has run
    assigns each of them once.
    """
    owners = {script.parent(scope) for scope in step.scopes}
    owner = owners.pop()
    if owners or not isinstance(owner, ast.ClassDef):
        return None
    wanted = {each.optimizer.attr for each in step.optimizer_steps if isinstance(each.optimizer, ast.Attribute)}
    found: dict[str, list[ast.stmt]] = {}
    emptied: dict[str, list[ast.stmt]] = {}
    for each in owner.body:
        for part in walk_scope(each) if isinstance(each, ast.FunctionDef) else ():
            if isinstance(part, ast.Assign):
                for name in _attributes(part.targets):
                    if name in wanted and not is_empty(part.value):
                        found.setdefault(name, []).append(part)
                    elif name in wanted and isinstance(part.value, ast.Constant):
                        emptied.setdefault(name, []).append(part)
    if set(found) != wanted or any(len(statements) != 1 for statements in found.values()):
        return None
    method = script.function(next(iter(found.values()))[0])
    if not isinstance(method, ast.FunctionDef) or not method.args.args:
        return None
    groups = [
        [*statements, *(each for each in emptied.get(name, ()) if script.function(each) is method)]
        for name, statements in found.items()
    ]
    last = last_binding(script, groups)
    if last is None or not (always_runs(script, last, method) or _fails_without(script, step, method)):
        return None
    inside = _sites(step, method)
    if any(not _reached(script, last, statement) for statement in inside):
        return None
    if not _constructs(script, owner, method) and set(step.scopes) != {method}:
        return None
    return ScalerCreation(last, True, optimizers, method.args.args[0].arg, step.scopes)


def _constructs(script: Script, cls: ast.ClassDef, method: ast.FunctionDef) -> bool:
    """Whether a method surely runs where an object of a class is made."""
    if method.name != "__post_init__":
        return method.name == "__init__"
    ref = script.class_ref(cls)
    options = {option.arg for each in cls.decorator_list if isinstance(each, ast.Call) for option in each.keywords}
    generated = any(_is_open_dataclass(script, each) for each in cls.decorator_list) and "init" not in options
    deriving = derived_classes(ref)
    return generated and not any(True for _ in methods(ref, "__init__")) and not deriving and deriving.missing is None


def _fails_without(script: Script, step: TrainingStep, method: ast.FunctionDef) -> bool:
    """Whether a constructor that makes the optimizers of a step under a condition, `if self.isTrain:`, makes no object
    whose step runs without them: each of its functions reads one on every path, or only such functions call it."""
    if method.name != "__init__" or method in step.scopes:
        return False
    read = [each.optimizer for each in step.optimizer_steps if each.optimizer is not None]
    needing: set[ast.AST] = {scope for scope in step.scopes if any(is_read(script, scope, each) for each in read)}
    return all(_is_run_by(script, needing, scope, frozenset()) for scope in step.scopes)


def _is_run_by(script: Script, needing: set[ast.AST], scope: ast.AST | None, inner: frozenset[ast.AST]) -> bool:
    """Whether a function is one of some, or only such functions of the file call it, over any number of calls."""
    if scope in needing:
        return True
    if not isinstance(scope, ast.FunctionDef) or scope in inner:
        return False
    callers = script.callers(scope)
    if callers.missing is not None or not callers:
        return False
    around = inner | {scope}
    return all(file is script and _is_run_by(script, needing, file.function(call), around) for file, call in callers)


def _attributes(targets: Sequence[ast.expr]) -> Iterator[str]:
    for target in targets:
        match target:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                yield name
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                yield from _attributes(elements)


def _before(script: Script, scope: ScopeNode, statements: list[ast.stmt]) -> ast.stmt:
    """The outermost loop of a function around its first site, from which on the other sites see a new name, too."""
    first = min(statements, key=position)
    loops = script.loops(first)
    outermost: ast.stmt = loops[-1] if loops else first
    block = script.block(outermost)
    if all(any(script.inside(site, each) for each in block[block.index(outermost) :]) for site in statements):
        return _above_clocks(script, block, outermost)
    around = [each for each in (first, *script.ancestors(first)) if isinstance(each, ast.stmt)]
    return next(each for each in around if script.parent(each) is scope)


def _above_clocks(script: Script, block: Sequence[ast.stmt], statement: ast.stmt) -> ast.stmt:
    """A statement, or the first of `end = time.time()` right above it: what is timed begins where it did."""
    for above in reversed(block[: block.index(statement)]):
        if not isinstance(above, ast.Assign) or not isinstance(above.value, ast.Call):
            break
        if script.qualname(above.value.func) not in CLOCKS:
            break
        statement = above
    return statement
