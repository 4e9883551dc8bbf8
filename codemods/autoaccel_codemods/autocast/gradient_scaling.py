"""Where gradient scaling acts in a training step: the scaler's place, what is unscaled, where the scale is updated."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autoaccel.analysis.script import Script
from autoaccel.dataflow.call_arguments import given_values
from autoaccel.dataflow.child_nodes import children
from autoaccel.dataflow.syntax_index import breadth_first, position
from autoaccel.pytorch.gradients import backward_or_step_calls, is_backward, is_optimizer_step
from autoaccel.pytorch.step_effects import Effect, call_effects, effects, gradient_reads
from autoaccel.pytorch.training_steps import OptimizerStep, ScopeNode, TrainingStep, common_name
from autoaccel_codemods.autocast import optimized_parameters, skip_reasons, step_problems
from autoaccel_codemods.autocast.backward_slice import blocks
from autoaccel_codemods.autocast.blockers import Problem
from autoaccel_codemods.autocast.optimized_parameters import ParameterSource
from autoaccel_codemods.autocast.optimizer_cycle import Awaited, CycleWalk, Happens
from autoaccel_codemods.autocast.scaler_creation import ScalerCreation, scaler_creations

_OF_OPTIMIZERS = frozenset(  # methods of every optimizer, or of a list or table of them
    """step zero_grad state_dict load_state_dict add_param_group register_step_pre_hook register_step_post_hook
    train eval items values keys get append""".split()
)


@dataclass(frozen=True, slots=True, eq=False)
class Unscale:
    """Unscale the gradients of one step's optimizer right before a statement that reads them."""

    before: ast.stmt
    step: OptimizerStep


@dataclass(slots=True, eq=False)
class Scaling:
    """What scaling takes in one training step. Where there are `obstacles` it gets no scaler, and no float16; backward
    passes that are not in sight are `problems` of the whole step."""

    updates: list[ast.stmt] = field(default_factory=list)
    unscales: list[Unscale] = field(default_factory=list)
    creations: list[ScalerCreation] = field(default_factory=list)
    obstacles: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def scale_gradients(script: Script, step: TrainingStep) -> Scaling:
    scaling = Scaling(obstacles=list(_unnamed(step)), problems=list(_unseen_backwards(script, step)))
    if scaling.obstacles:
        return scaling
    for scope in step.scopes:
        steps = [each for each in step.optimizer_steps if each.scope is scope]
        alone = all(_same(script, step.optimizer_steps[0], each) for each in step.optimizer_steps)
        scaling.updates += _updates(script, steps, alone=alone)
        _unscale(script, scope, steps, step.scopes, scaling)
    for made in scaler_creations(script, step):
        if isinstance(made, ScalerCreation):
            scaling.creations.append(made)
        else:
            scaling.obstacles.append(made)
    for each in step.optimizer_steps:
        for problem in _round(script, step, each, scaling.updates):
            unseen = problem[1] == skip_reasons.NO_BACKWARD
            (scaling.problems if unseen else scaling.obstacles).append(problem)
    return scaling


def _unnamed(found: TrainingStep) -> Iterator[Problem]:
    """Steps of optimizers that no scaler can be given in their place."""
    for call in step_problems.outside_steps(found):
        yield call, skip_reasons.STEPPED_OUTSIDE
    for step in found.optimizer_steps:
        if not isinstance(step.statement, ast.Expr):
            yield step.call, skip_reasons.STEP_RESULT_USED
        if isinstance(step.scope, ast.Lambda):
            yield step.call, skip_reasons.STEP_IN_LAMBDA
        if step.optimizer is None:
            yield step.call, skip_reasons.UNNAMED_OPTIMIZERS
        elif any(isinstance(part, ast.Call) for part in breadth_first(step.optimizer)):
            yield step.call, skip_reasons.COMPUTED_OPTIMIZER


# -- updates


def _updates(script: Script, steps: list[OptimizerStep], *, alone: bool) -> Iterator[ast.stmt]:
    """The statements after which the scale is updated: once an iteration, after its last step.

    An optimizer that is `alone` may step several times in an iteration, with an update after each.
    """
    units = sorted({each.unit for each in steps}, key=position)
    runs: list[list[ast.stmt]] = []
    by_block: dict[int, list[ast.stmt]] = {}
    for unit in units:
        by_block.setdefault(id(script.block(unit)), []).append(unit)
    for mine in by_block.values():
        run = [mine[0]]
        for unit in mine[1:]:
            block = script.block(unit)
            between = block[block.index(run[-1]) + 1 : block.index(unit)]
            if alone or any(_leaves(statement) for statement in between):
                runs.append(run)
                run = [unit]
            else:
                run.append(unit)
        runs.append(run)
    for run in runs:
        others = [other for other in runs if other is not run]
        if not any(_covered(script, run[0], other) or _follower(script, other, run[0]) for other in others):
            followers = [each for other in others if (each := _follower(script, run, other[0])) is not None]
            yield max([run[-1], *followers], key=position)


def _follower(script: Script, run: list[ast.stmt], unit: ast.stmt) -> ast.stmt | None:
    """The statement behind a run that holds another step on the gradients of the same backward passes."""
    block = script.block(run[-1])
    for statement in block[block.index(run[-1]) + 1 :]:
        if Effect.BACKWARD in effects(script, statement) or _leaves(statement):
            return None
        if script.inside(unit, statement):
            return statement
    return None


def _covered(script: Script, unit: ast.stmt, run: list[ast.stmt]) -> bool:
    """Whether a nested step lies between two steps of an outer run, whose update serves it too."""
    block = script.block(run[0])
    for ancestor in script.ancestors(unit):
        if isinstance(ancestor, ast.For | ast.While | ast.FunctionDef):
            break
        if isinstance(ancestor, ast.stmt) and script.block(ancestor) is block:
            return block.index(run[0]) < block.index(ancestor) < block.index(run[-1]) and not _leaves(ancestor)
    return False


def _leaves(statement: ast.stmt) -> bool:
    """Whether control may leave the iteration within a statement."""
    pending: list[tuple[ast.AST, bool]] = [(statement, False)]
    while pending:
        node, inner = pending.pop()
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not inner):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        nested = inner or isinstance(node, ast.For | ast.While | ast.AsyncFor)
        pending.extend((child, nested) for child in children(node))
    return False


# -- unscaling


def _unscale(
    script: Script, scope: ScopeNode, steps: list[OptimizerStep], scopes: Sequence[ScopeNode], scaling: Scaling
) -> None:
    """Unscale before the first read of gradients between backward and step; reads anywhere else forbid it."""
    reads = _Reads(script, scopes)
    handled: dict[ast.AST, list[OptimizerStep]] = {}
    unscaled: set[ast.stmt] = set()
    for step in steps:
        block = script.block(step.unit)
        at = block.index(step.unit)
        uses: list[ast.stmt] = []
        for statement in reversed(block[:at]):
            if Effect.BACKWARD in effects(script, statement):
                if reads.of(statement):
                    scaling.obstacles.append((statement, skip_reasons.READ_BESIDE_BACKWARD))
                break
            looked_up = Effect.LOOKUP in effects(script, statement)
            if (looked_up or reads.of(statement)) and not any(statement is other.unit for other in steps):
                uses.append(statement)
            if (unseen := _unseen_method(script, step, statement)) is not None:
                scaling.obstacles.append((unseen, skip_reasons.UNSEEN_METHOD))
        for use in uses:
            for read in reads.of(use):
                handled.setdefault(read, []).append(step)
        unscaled.update(uses)
        if uses:
            first = _innermost(reads, uses[-1]) if len(uses) == 1 else uses[-1]
            scaling.unscales.append(Unscale(first, step))
        elif guarded := _guarded(script, reads, step):
            for read in guarded:
                handled.setdefault(read, []).append(step)
            scaling.unscales.append(Unscale(script.statement(guarded[0]), step))
    for read in reads.of(scope):
        if read not in handled and not _harmless(script, read, steps):
            scaling.obstacles.append((read, skip_reasons.READ_WHILE_SCALED))
            return
        named = [each for each in steps if read in handled and _names(script, read, each)]
        if any(each not in handled[read] for each in named):
            scaling.obstacles.append((read, skip_reasons.READ_WHILE_SCALED))
            return
        optimizers = [(script, each.receiver) for each in handled.get(read, steps)]
        if not all(
            optimized_parameters.is_held(each, optimizers) for each in optimized_parameters.read_at(script, read)
        ):
            scaling.obstacles.append((read, skip_reasons.READ_STAY_SCALED))
            return
    around = {loop for step in steps for loop in script.loops(step.unit)[:1]}
    for call in script.in_scope(scope, ast.Call):
        if Effect.LOOKUP in call_effects(script, call) and around.intersection(script.loops(call)):
            if not any(script.inside(call, each) for each in unscaled) and not _harmless(script, call, steps):
                scaling.obstacles.append((call, skip_reasons.LOOKED_UP_WHILE_SCALED))
                return


def _guarded(script: Script, reads: _Reads, step: OptimizerStep) -> list[ast.AST]:
    """The reads of gradients of an optimizer that steps under a condition, `if encoder_optimizer is not None:`, where
    they come between the backward pass and that, are handed the optimizer, and stand under the same condition."""
    guard = script.parent(step.unit)
    if not isinstance(guard, ast.If) or step.unit not in guard.body:
        return []
    block = script.block(guard)
    found: list[ast.AST] = []
    for statement in reversed(block[: block.index(guard)]):
        if Effect.BACKWARD in effects(script, statement):
            break
        found = [*(read for read in reads.of(statement) if _names(script, read, step)), *found]
    found.sort(key=position)
    test = script.source(guard.test)
    return found if all(_stands_under(script, read, test) for read in found) else []


def _stands_under(script: Script, read: ast.AST, test: str) -> bool:
    """Whether code runs only under a condition."""
    child = read
    for around in script.ancestors(read):
        if isinstance(around, ast.If) and child in around.body and script.source(around.test) == test:
            return True
        if isinstance(around, ast.FunctionDef | ast.For | ast.While):
            return False
        child = around
    return False


def _names(script: Script, read: ast.AST, step: OptimizerStep) -> bool:
    """Whether a call that reads gradients is handed the optimizer of a step."""
    given = given_values(read) if isinstance(read, ast.Call) else []
    named = (each for each in given if isinstance(each, ast.Name | ast.Attribute))
    return any(_is_optimizer(script, each, script, step) for each in named)


def _unseen_method(script: Script, step: OptimizerStep, statement: ast.stmt) -> ast.Call | None:
    """A call of a method of an optimizer that torch's optimizers do not have and that is not seen."""
    for call in script.in_scope(statement, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr not in _OF_OPTIMIZERS and not script.callees(call):
            if script.source(call.func.value) == script.source(step.receiver) or _is_optimizer(
                script, call.func.value, script, step
            ):
                return call
    return None


class _Reads:
    """Reads of gradients; calls of functions that are looked at for themselves do not count."""

    def __init__(self, script: Script, scopes: Sequence[ScopeNode]) -> None:
        self._script = script
        self._scopes = scopes

    def of(self, node: ast.AST) -> list[ast.AST]:
        if Effect.GRADIENTS not in effects(self._script, node):
            return []
        return [read for read in gradient_reads(self._script, node) if not self._enters_step(read)]

    def _enters_step(self, read: ast.AST) -> bool:
        """Steps of optimizers of the project read gradients too, through the scaler."""
        if isinstance(read, ast.Call) and is_optimizer_step(self._script, read):
            return True
        callees = self._script.callees(read) if isinstance(read, ast.Call) else ()
        return bool(callees) and all(function in self._scopes for _, function in callees)


def _innermost(reads: _Reads, statement: ast.stmt) -> ast.stmt:
    """The nested statement that reads gradients when one branch alone does, and no loop is in between."""
    while isinstance(statement, ast.If) and not reads.of(statement.test):
        branches = [[inner for inner in block if reads.of(inner)] for block in blocks(statement)]
        reading = [branch for branch in branches if branch]
        if len(reading) != 1:
            break
        statement = reading[0][0]
        if len(reading[0]) > 1:
            break
    return statement


def _harmless(script: Script, read: ast.AST, steps: list[OptimizerStep]) -> bool:
    """A read after the step (or before the next backward) of the same block: gradients are unscaled there."""
    for step in steps:
        block = script.block(step.unit)
        at = block.index(step.unit)
        for index, statement in enumerate(block):
            if not script.inside(read, statement):
                continue
            if index > at:
                return not any(Effect.BACKWARD in effects(script, each) for each in block[at + 1 : index + 1])
            before = block[: index + 1]
            after = block[index:at]
            return not any(Effect.BACKWARD in effects(script, each) for each in before) and any(
                Effect.BACKWARD in effects(script, each) for each in after
            )
    return False


# -- from one step to the next


def _same(script: Script, first: OptimizerStep, second: OptimizerStep) -> bool:
    """Whether two steps may be of one optimizer."""
    return _is_optimizer(script, second.receiver, script, first)


def _is_optimizer(script: Script, expression: ast.expr, file: Script, step: OptimizerStep) -> bool:
    named = common_name(script, expression)
    return (
        named is not None
        and step.optimizer is not None
        and optimized_parameters.same(script, named, file, step.optimizer)
    )


def _round(script: Script, found: TrainingStep, step: OptimizerStep, updates: list[ast.stmt]) -> Iterator[Problem]:
    """What must happen between two steps of an optimizer: an update, a backward that is seen, cleared gradients.

    Gradients that no step clears are of the scale before, or of none.
    """
    ends = [each.unit for each in found.optimizer_steps if _same(script, step, each)]
    ways = optimized_parameters.held(script, step.receiver)
    whole = [ParameterSource(script, None)] if not ways else [source for way in ways for source in way]

    def clears(other: Script, node: ast.AST, state: Awaited) -> Awaited:
        for cleared in optimized_parameters.cleared(other, node):
            if cleared.owner is not None:
                if _is_optimizer(cleared.script, cleared.owner, script, step):
                    return Awaited()
                if not cleared.part:
                    owner = cleared.owner
                    state -= {i for i in state if optimized_parameters.covers(cleared.script, owner, whole[i])}
        return state

    def backward(other: Script, node: ast.AST, state: Awaited) -> Awaited:
        return Awaited() if isinstance(node, ast.Call) and is_backward(other, node) else state

    def updated(_: Script, node: ast.AST, state: Awaited) -> Awaited:
        return Awaited() if any(node is each for each in updates) else state

    starts = {step.unit: None}
    everything = Awaited(range(len(whole)))
    for call in found.zero_grads:
        if not clears(script, call, everything):
            starts[script.statement(call)] = None
    for start in starts:
        if _misses(script, start, Awaited({0}), backward, ends):
            yield step.call, skip_reasons.NO_BACKWARD
    if _misses(script, step.unit, Awaited({0}), updated, ends):
        yield step.call, skip_reasons.SEVERAL_STEPS
    if _misses(script, step.unit, everything, clears, ends):
        yield step.call, skip_reasons.UNSURE_CLEARING


def _misses(script: Script, start: ast.stmt, state: Awaited, happens: Happens, ends: Sequence[ast.AST]) -> bool:
    """Whether one of the ends may be reached from behind a statement before all of something has happened."""
    walk = CycleWalk(happens, ends)
    if start not in ends or happens(script, start, state):
        walk.after(script, start, state)
    return walk.ended


def _unseen_backwards(script: Script, found: TrainingStep) -> Iterator[Problem]:
    """Functions that go backward for somebody else's step, where not everyone who calls them is known."""
    report_at = found.backwards[0].call
    for other in dict.fromkeys((script, *script.project.related(script))):
        scopes = dict.fromkeys(
            other.function(call) for call in backward_or_step_calls(other) if is_backward(other, call)
        )
        for scope in scopes:
            pending = [(other, scope)] if scope is not None else []
            seen = {scope}
            for at, function in pending:
                if Effect.STEP in effects(at, function):
                    continue
                callers = at.callers(function)
                if callers.missing is not None or (not len(callers) and at is script):
                    name = getattr(function, "name", "a lambda")
                    yield report_at, skip_reasons.UNSEEN_CALLS.format(name=name)
                    return
                for caller, call in callers:
                    around = caller.function(call)
                    if around is not None and around not in seen:
                        seen.add(around)
                        pending.append((caller, around))


# -- the scaler
