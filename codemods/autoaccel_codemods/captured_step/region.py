"""The statements of a loop's body that are a training step: from the first forward pass to the optimizer's update."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoaccel.analysis.classes import external_lineage
from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.syntax_index import Loop, breadth_first, is_constant, position
from autoaccel.library_models.tensor_views import RESHAPING
from autoaccel.pytorch.device_moves import device_move
from autoaccel.pytorch.integers import integral
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.pytorch.step_effects import Effect, call_effects, may_run_model
from autoaccel.pytorch.training_steps import Backward, OptimizerStep, ScopeNode, TrainingStep
from autoaccel_codemods.captured_step.called_models import called_models
from autoaccel_codemods.captured_step.movable_statements import (
    clips_always_or_never,
    decides_by_settings,
    is_movable,
    unmovable,
)
from autoaccel_codemods.captured_step.prepared_inputs import is_prepared
from autoaccel_codemods.captured_step.problems import DeclinedError
from autoaccel_codemods.captured_step.shown_statements import is_shown_later, refuse_changed, variable, variables

_NEED_GRADIENTS = frozenset({"parameters", "named_parameters", "param_groups", "weight", "bias", "requires_grad_"})
_NO_TENSORS = frozenset({Kind.MODULE, Kind.OPTIMIZER, Kind.SCHEDULER})
_DEVICE = ast.Name | ast.Attribute | ast.Constant | ast.expr_context
_FORMS = RESHAPING | {"float", "long", "int", "bool", "half", "double"}
_FILLED = frozenset(f"torch.{name}" for name in ("zeros", "ones", "full", "empty"))
ITEM = ".item()"


@dataclass(frozen=True, slots=True, eq=False)
class StepRegion:
    """Statements of the body of `around`, which train `models` by `optimizers`; between them nothing but `shown`: what
    prints or notes numbers, and may as well do so after the step."""

    statements: Sequence[ast.stmt]
    shown: Sequence[ast.stmt]
    around: Loop | ast.FunctionDef
    """What they stand in the body of: a loop, or a function that loops call."""
    scope: ScopeNode
    models: tuple[ast.expr, ...]
    optimizers: tuple[ast.expr, ...]
    aside: Sequence[ast.stmt]
    """Moves of the batch that stand between these statements, below `zero_grad`, and what makes inputs of sizes and
    random numbers: they stay in the loop, before the step."""
    moves: tuple[ast.Call, ...]
    """Copies of the batch to the device, `images.to(device)`: these are made where the step is called."""
    numbers: tuple[ast.Assign, ...]
    """`D_x = output.mean().item()`, a number that nothing else of the step reads: the step hands out the tensor, and it
    is read after it."""
    phase: ast.expr | None
    """The test, of what the loop does not change, by which it trains, or else only evaluates: `if train: …`."""

    @property
    def called_at(self) -> ast.stmt:
        """The statement in whose place the step is called: the first one, or the first below what stays in the loop."""
        below = self.aside[-1].lineno if self.aside else 0
        return next(each for each in self.statements if each.lineno > below)


def starts(script: Script, step: TrainingStep) -> list[int]:
    """Where a step may begin in its loop's body: with the first forward pass, or with a later one, since a policy acts
    before it learns. Raises `DeclinedError`."""
    backwards, updates = _in_order(step)
    loop = _loop(script, backwards[0].call)
    around = {*script.ancestors(loop)}
    for backward in backwards:
        line = f" in line {backward.call.lineno}" if len(backwards) > 1 else ""
        branches = (each for each in script.ancestors(backward.statement) if isinstance(each, ast.If))
        if len(backwards) + len(updates) > 2 and any(each not in around for each in branches):
            raise DeclinedError(f"its backward pass{line} is not made in every step")
        if (other := _loop(script, backward.call)) is not loop:
            place = "function" if isinstance(other, ast.FunctionDef) and isinstance(loop, ast.FunctionDef) else "loop"
            raise DeclinedError(f"its backward pass{line} stands in another {place}")
        tests = None if isinstance(loop, ast.AsyncFor) else _in_body(script, backward.statement, loop)
        if tests is None:
            holder = f"`{loop.name}`" if isinstance(loop, ast.FunctionDef) else "a loop"
            raise DeclinedError(f"its backward pass{line} does not stand in the body of {holder} itself")
        if not _is_plain(backward, last=backward is backwards[-1]):
            raise DeclinedError(f"its backward pass{line} has arguments")
    block = loop.body
    blocks = [script.block(each.statement) for each in backwards]
    for update in updates:
        beside = any(script.block(update.statement) is each for each in blocks)
        if not beside or update.each is not None or update.optimizer is None:
            raise DeclinedError("the optimizer does not step beside the backward pass")
        if any(each is not update.receiver for each in (*update.call.args, *update.call.keywords)):
            raise DeclinedError("the optimizer is given a closure")
    if not updates:
        raise DeclinedError("the optimizer does not step beside the backward pass")
    if position(updates[0].statement) < position(backwards[0].statement):
        raise DeclinedError("the optimizer steps before the backward pass")
    if position(updates[-1].statement) < position(backwards[-1].statement):
        raise DeclinedError(f"no optimizer steps after the backward pass in line {backwards[-1].call.lineno}")
    return _forwards(script, block, _outermost(script, backwards[0].statement, loop))


def _in_order(step: TrainingStep) -> tuple[list[Backward], list[OptimizerStep]]:
    backwards = sorted(step.backwards, key=lambda each: position(each.call))
    return backwards, sorted(step.optimizer_steps, key=lambda each: position(each.call))


def _is_plain(backward: Backward, *, last: bool) -> bool:
    """Whether a backward pass is one of the parameters' gradients; before the last one the graph may be kept for it."""
    keywords = ("inputs",) if last else ("inputs", "retain_graph")
    return not backward.call.args and all(each.arg in keywords for each in backward.call.keywords)


def _loop(script: Script, backward: ast.Call) -> Loop | ast.FunctionDef:
    """The loop around a step, or the function that a loop calls for each one. Raises `DeclinedError`."""
    for loop in script.loops(backward):
        return loop
    function = script.function(backward)
    if not isinstance(function, ast.FunctionDef) or runs_once(script, backward):
        raise DeclinedError("its backward pass stands in no loop")
    if not all(_is_static(script, each) for each in function.decorator_list):
        raise DeclinedError(f"`{function.name}` is decorated")
    return function


def _is_static(script: Script, decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "staticmethod" and not script.definitions(decorator)


def _outermost(script: Script, statement: ast.stmt, loop: Loop | ast.FunctionDef) -> ast.stmt:
    """The statement of a loop's own body that another one is part of."""
    return next(each for each in (statement, *script.ancestors(statement)) if each in loop.body)


def _in_body(script: Script, statement: ast.stmt, loop: Loop | ast.FunctionDef) -> list[ast.expr] | None:
    """The tests of a phase, `if train:`, and nothing else, within which a statement stands in a loop's body; None where
    it stands elsewhere."""
    tests: list[ast.expr] = []
    for each in (statement, *script.ancestors(statement)):
        if each in loop.body:
            break
        match script.parent(each):
            case ast.If(test=test, body=body, orelse=[]) if each in body and _is_phase(test):
                tests.append(test)
            case ast.With(items=[ast.withitem(context_expr=given, optional_vars=None)]) if sets_grad(script, given):
                pass
            case _:
                return None
    return tests if len({ast.dump(each) for each in tests}) <= 1 else None


def _is_phase(test: ast.expr) -> bool:
    """Whether a test is one of a name: `train`, `not evaluating`, `phase == "train"`, `optimizer is not None`."""
    match test:
        case ast.Name() | ast.UnaryOp(op=ast.Not(), operand=ast.Name()):
            return True
        case ast.Compare(left=ast.Name(), comparators=[ast.Constant()]):
            return True
        case _:
            return False


def sets_grad(script: Script, given: ast.expr, phase: ast.expr | None = None) -> bool:
    """`torch.set_grad_enabled(train)`, of the phase"""
    match given:
        case ast.Call(func=function, args=[test], keywords=[]) if _is_phase(test):
            same = phase is None or ast.dump(test) == ast.dump(phase)
            return same and script.qualname(function) == "torch.set_grad_enabled"
        case _:
            return False


def beginning_at(script: Script, step: TrainingStep, first: int) -> StepRegion:
    """The statements of a step from one of its `starts` on. Raises `DeclinedError`."""
    backwards, updates = _in_order(step)
    optimizers = [each.optimizer for each in updates if each.optimizer is not None]
    loop = _loop(script, backwards[0].call)
    block = loop.body
    phase = next(iter(_in_body(script, backwards[0].statement, loop) or ()), None)
    last = block.index(_outermost(script, updates[-1].statement, loop))
    while last + 1 < len(block) and _is_upkeep(script, block[last + 1]):
        last += 1
    cleared = [index for index in range(first) if _clears(block[index], phase)]
    if cleared and all(is_movable(each, phase) and not _runs_model(script, each) for each in block[cleared[0] : first]):
        first = cleared[0]
    whole = block[first : last + 1]
    computed = {part for each in whole for part in script.within(each, ast.AST) if isinstance(part, ast.stmt)}
    shown = [each for each in whole if is_shown_later(script, each, computed)]
    aside = _aside(script, whole, shown, phase)
    statements = [each for each in whole if each not in shown and each not in aside]
    for each in statements:
        movable = is_movable(each, phase) or clips_always_or_never(script, each)
        if not movable and not decides_by_settings(script, each):
            raise DeclinedError(unmovable(script, each))
    _refuse_earlier_graphs(script, [*block[:first], *aside], statements)
    models = tuple(called_models(script, statements))
    if not models:
        raise DeclinedError("its forward pass is not in sight")
    scope = script.function(backwards[0].call) or script.tree
    refuse_changed(script, statements, shown)
    moves = _moves(script, statements, loop)
    numbers = tuple(
        each for each in statements if isinstance(each, ast.Assign) and _is_number(script, each, statements)
    )
    trained = tuple({script.source(each): each for each in optimizers}.values())
    return StepRegion(statements, shown, loop, scope, models, trained, aside, moves, numbers, phase)


def _is_number(script: Script, statement: ast.Assign, statements: Sequence[ast.stmt]) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="item"), args=[]) as read):
            rest = [each for each in statements if each is not statement]
            used = {name for each in rest for name in variables(script, each, ast.Load, ast.Store, ast.Del)}
            plain = script.source(read).endswith(ITEM) and read.lineno == read.end_lineno
            return plain and name not in used | variables(script, statement, ast.Load)
        case _:
            return False


def _aside(
    script: Script, block: Sequence[ast.stmt], shown: Sequence[ast.stmt], phase: ast.expr | None
) -> list[ast.stmt]:
    """The statements that may as well be made before those above them, and stay in the loop."""
    found: list[ast.stmt] = []
    for index, each in enumerate(block):
        passed = [other for other in block[:index] if other not in found]
        bound = variables(script, each, ast.Store)
        later = block[index + 1 :]
        if each in shown or not passed or any(bound & variables(script, other, ast.Store) for other in later):
            continue
        moved = all(_clears(other, phase) for other in passed) and (
            _only_move(script, each) or (isinstance(each, ast.Expr) and sets_mode(script, each.value))
        )
        if moved or is_prepared(script, each, passed, found):
            found.append(each)
    kept: list[ast.stmt] = []
    for each in reversed(found):
        if not _makes_inside(script, each) or any(
            variables(script, each, ast.Store) & variables(script, other, ast.Load) for other in kept
        ):
            kept.insert(0, each)
    return kept


def sets_mode(script: Script, expression: ast.expr) -> bool:
    """`model.train()`, `model.eval()`, by the method that torch has."""
    match expression:
        case ast.Call(func=ast.Attribute(value=model, attr="train" | "eval"), args=[], keywords=[]):
            values = script.values(model)
            own = (name for value in values if value.cls is not None for name in external_lineage(value.cls))
            told = values.kinds == {Kind.MODULE} and all(value.cls or value.name for value in values)
            return told and not script.callees(expression) and all(name.startswith("torch.nn.") for name in own)
        case _:
            return False


def _makes_inside(script: Script, statement: ast.stmt) -> bool:
    """Whether a step may as well do this itself: ask for a size, or have the device make a tensor of one number."""
    match statement:
        case ast.Assign(value=ast.Call(func=function, keywords=keywords)) if script.qualname(function) in _FILLED:
            return any(each.arg == "device" for each in keywords)
        case ast.Assign(value=value):
            return integral(script, value)
        case _:
            return False


def _only_move(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement moves tensors to the device, takes them apart or gives them another form, and does nothing
    else: whether gradients are cleared before or after that is the same."""
    calls = script.within(statement, ast.Call)
    moves = [call for call in calls if device_move(script, call) is not None]
    return bool(moves) and all(_is_tensors(script, call) and (call in moves or _forms(call)) for call in calls)


def _is_tensors(script: Script, call: ast.Call) -> bool:
    """Whether a call is of a tensor's method."""
    return isinstance(call.func, ast.Attribute) and script.kind(call.func.value) in (Kind.TENSOR, Kind.BATCH)


def _forms(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _FORMS


def _moves(script: Script, statements: Sequence[ast.stmt], loop: Loop | ast.FunctionDef) -> tuple[ast.Call, ...]:
    """The moves of the loop's batch, where the step sees no more of the batch than that, and does not choose the device
    itself: they may as well be made before it."""
    parts = [part for each in statements for part in breadth_first(each)]
    names = [part for part in parts if isinstance(part, ast.Name)]
    stored = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    found: dict[ast.Name, ast.Call] = {}
    for part in parts:
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name() as moved, attr="to" | "cuda")):
                read = {each.id for each in breadth_first(part) if isinstance(each, ast.Name)}
                made = [each.node for each in script.definitions(moved)]
                plain = all(isinstance(each, _DEVICE) for each in _arguments(part)) and part.lineno == part.end_lineno
                if (
                    plain
                    and read.isdisjoint(stored)
                    and all(each is loop or script.inside(each, loop) for each in made)
                ):
                    if device_move(script, part) is not None:
                        found[moved] = part
    of_batch = [each for each in names if Kind.BATCH in script.values(each).kinds]
    once = len({each.id for each in of_batch}) == len(of_batch)
    return tuple(found[each] for each in of_batch) if once and all(each in found for each in of_batch) else ()


def receiver(move: ast.Call) -> ast.Name:
    """The part of the batch that one of these `moves` copies."""
    assert isinstance(move.func, ast.Attribute)
    assert isinstance(move.func.value, ast.Name)
    return move.func.value


def _arguments(call: ast.Call) -> Iterator[ast.AST]:
    """What the arguments of a call are made of."""
    for given in (*call.args, *(each.value for each in call.keywords)):
        yield from breadth_first(given)


def _forwards(script: Script, block: list[ast.stmt], backward: ast.stmt) -> list[int]:
    """Where the statements up to the backward pass stand that run a model."""
    runs = [index for index, each in enumerate(block[: block.index(backward) + 1]) if _runs_model(script, each)]
    if not runs:
        raise DeclinedError("its forward pass does not stand beside the backward pass")
    return runs


def _runs_model(script: Script, statement: ast.stmt) -> bool:
    return any(Effect.FORWARD in call_effects(script, call) for call in script.in_scope(statement, ast.Call))


def _refuse_earlier_graphs(script: Script, before: Sequence[ast.stmt], statements: Sequence[ast.stmt]) -> None:
    """What comes into the step has values and no autograd graph: models run before it only where none is made, and
    what it reads is not made of parameters."""
    read = {name for each in statements for name in variables(script, each, ast.Load)}
    for each in before:
        if _makes_no_graph(script, each):
            continue
        if _runs_model(script, each):
            raise DeclinedError(f"line {each.lineno} runs a model before it, and may make a graph that is used in it")
        if not read.isdisjoint(_tensors(script, each)) and _may_need_gradients(script, each):
            raise DeclinedError(f"line {each.lineno} may make what needs gradients, and is used in it")


def _tensors(script: Script, statement: ast.stmt) -> set[str]:
    """The names that a statement binds, of whatever may be tensors."""
    parts: list[ast.Name | ast.Attribute] = [*script.within(statement, ast.Name)]
    parts += script.within(statement, ast.Attribute)
    stored = (each for each in parts if isinstance(each.ctx, ast.Store))
    return {variable(each) for each in stored if script.kind(each) not in _NO_TENSORS}


def _may_need_gradients(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement reads parameters (`sum(each.norm() for each in …)`), asks for gradients or runs what may be a
    model."""
    return any(
        (isinstance(part, ast.Attribute) and part.attr in _NEED_GRADIENTS)
        or (isinstance(part, ast.keyword) and part.arg == "requires_grad" and not is_constant(part.value, False))
        for _, node in reachable_code(script, (statement,))
        for part in breadth_first(node)
    ) or any(may_run_model(script, part) for part in script.within(statement, ast.Call))


def _makes_no_graph(script: Script, statement: ast.stmt) -> bool:
    match statement:
        case ast.With(items=[ast.withitem(context_expr=ast.Call(func=function))], body=body):
            if script.qualname(function) in ("torch.no_grad", "torch.inference_mode"):
                return True
            return script.runtime_name(function) == "autocast" and all(_makes_no_graph(script, each) for each in body)
        case _:
            return False


def _clears(statement: ast.stmt, phase: ast.expr | None = None) -> bool:
    match statement:
        case ast.If(test=test, body=body, orelse=[]):
            return phase is not None and ast.dump(test) == ast.dump(phase) and all(map(_clears, body))
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="zero_grad"))):
            return True
        case _:
            return False


def _is_upkeep(script: Script, statement: ast.stmt) -> bool:
    """What belongs to the update: `scaler.update()`, and gradients that are cleared after it."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="update"), args=[])):
            return script.kind(owner) is Kind.SCALER
        case _:
            return _clears(statement)
