"""Why a training step must stay in float32: what is true of one backward of it is a problem of the whole step."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.query import fixpoint, once
from autoaccel.dataflow.syntax_index import is_constant
from autoaccel.pytorch import cuda_graphs, data_parallel, framework_settings
from autoaccel.pytorch.gradients import is_optimizer_step
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.pytorch.step_effects import Effect, call_effects, calls_in, effects
from autoaccel.pytorch.training_steps import (
    Backward,
    OptimizerStep,
    ScopeNode,
    TrainingStep,
    scope_of,
    training_steps,
)
from autoaccel_codemods.autocast import blockers, skip_reasons
from autoaccel_codemods.autocast.blockers import Problem

_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_")
_OF_SIZES = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn"})
_OF_DATA = frozenset({"torch.tensor", "torch.as_tensor"})
_KEEPING_SIZE = frozenset({"to", "cuda", "float", "clone", "detach", "requires_grad_"})
_OWNERS = frozenset({Kind.TENSOR, Kind.BATCH, Kind.OPTIMIZER, Kind.PARAMETER})


def problems(found: TrainingStep) -> Iterator[Problem]:
    """The reasons why a step must be left as it is, each with the node to report it at. They are dear: ask for one."""
    script, backwards, steps = found.script, found.backwards, found.optimizer_steps
    scopes = found.scopes
    report_at = [*(each.call for each in backwards), *(each.call for each in steps)][0]
    for label in sorted(script.frameworks):
        yield report_at, run_by(script, label)
    for scope in scopes:
        elsewhere = _backward_elsewhere(script, scope) or found.crossings.get(scope)
        if elsewhere is not None:
            yield report_at, skip_reasons.PART_ELSEWHERE.format(file=elsewhere)
    if not steps and next(outside_steps(found), None) is None:
        yield report_at, skip_reasons.NO_STEP
    if not backwards:
        yield report_at, skip_reasons.NO_BACKWARD
    for backward in backwards:
        yield from _backward_problems(script, backward)
    for step in steps:
        yield from _step_problems(script, step)
    yield from _tensors_optimized(script, steps)
    yield from _problems_outside(found, report_at)
    for scope in scopes:
        yield from blockers.in_step(script, scope)
    seen: dict[Script, None] = {}
    for other in (script, *(caller for scope in scopes for caller in _caller_scripts(script, scope))):
        if other not in seen:
            seen[other] = None
            yield from (
                (node if other is script else report_at, reason) for node, reason in blockers.in_file(other, report_at)
            )
    yield from blockers.in_relatives(script, report_at)
    for other in script.project.related(script):
        for kept in _kept_methods(other):
            text = skip_reasons.KEPT_METHOD.format(text=other.source(kept))
            yield kept if other is script else report_at, text
    for mention, reason in (
        (data_parallel.replicated_on_any_machine(seen), skip_reasons.THREADS),
        (cuda_graphs.captured(seen), skip_reasons.CAPTURED),
    ):
        if mention is not None:
            yield mention[1] if mention[0] is script else report_at, reason
    if backwards and all(runs_once(script, each.call) for each in backwards):  # a demonstration, which need not be fast
        yield backwards[0].call, skip_reasons.RUNS_ONCE


@once
def _kept_methods(script: Script) -> tuple[ast.expr, ...]:
    """Backwards, optimizer steps and clipping that are not called where they are named: `run = optimizer.step`."""
    found: list[ast.expr] = []
    for read in script.syntax_index.mentions("backward", "step", *_CLIPPING):
        called = script.call_of(read) is not None
        qualified = script.qualname(read) or ""
        if not isinstance(read.ctx, ast.Load) or script.is_project_name(read):
            continue
        if qualified:
            unbound = qualified.startswith(("torch.Tensor.", "torch.optim."))
            kept = qualified.startswith("torch.") and (unbound or not called)
        else:
            kept = not called and isinstance(read, ast.Attribute) and _may_train(script, read)
        if kept:
            found.append(read)
    for call in script.syntax_index.calls_named("getattr", "methodcaller", "attrgetter"):
        named = [each.value for each in call.args[:2] if isinstance(each, ast.Constant)]
        if {"backward", "step", *_CLIPPING}.intersection(each for each in named if isinstance(each, str)):
            found.append(call)
    return tuple(found)


def _may_train(script: Script, method: ast.Attribute) -> bool:
    kinds = script.values(method.value).kinds
    told = method.attr == "backward" or "opt" in script.source(method.value).lower()
    return bool(kinds & _OWNERS) or (told and Kind.UNKNOWN in kinds)


def _caller_scripts(script: Script, scope: ScopeNode) -> Iterator[Script]:
    """The files that call a scope, however far away."""
    pending: list[tuple[Script, ScopeNode]] = [(script, scope)]
    seen: set[ScopeNode] = {scope}
    while pending:
        at, function = pending.pop()
        for other, call in () if isinstance(function, ast.Module) else at.callers(function):
            yield other
            caller = scope_of(other, call)
            if caller not in seen:
                seen.add(caller)
                pending.append((other, caller))


def outside_steps(found: TrainingStep) -> Iterator[ast.Call]:
    """The calls by which functions of the step have others step its optimizers, `schedule.step_and_update()`, as often
    as they go backward."""
    script = found.script
    turns = [(each.scope, script.loops(each.call)[:1]) for each in found.backwards]
    for scope in found.scopes:
        for call in calls_in(script, scope):
            if Effect.STEP not in call_effects(script, call) or is_optimizer_step(script, call):
                continue
            own = any(other is script and function in found.scopes for other, function in script.callees(call))
            if not own and (scope, script.loops(call)[:1]) in turns:
                yield call


def _problems_outside(found: TrainingStep, report_at: ast.AST) -> Iterator[Problem]:
    """The same of the steps in other files, and of what these do about precision themselves."""
    pending = [callee for call in outside_steps(found) for callee in found.script.callees(call)]
    seen = {function for _, function in pending}
    for other, function in pending:
        for step in (step for each in training_steps(other) for step in each.optimizer_steps if step.scope is function):
            yield from ((report_at, reason) for _, reason in _step_problems(other, step))
        if other is not found.script:
            yield from ((report_at, reason) for _, reason in blockers.in_file(other, report_at))
        inner = [each for call in calls_in(other, function) for each in other.callees(call) if each[1] not in seen]
        pending += [each for each in inner if Effect.STEP in effects(*each)]
        seen.update(each for _, each in inner)


def _backward_problems(script: Script, backward: Backward) -> Iterator[Problem]:
    call = backward.call
    if script.qualname(call.func) == "torch.distributed.autograd.backward":
        yield call, skip_reasons.DISTRIBUTED_BACKWARD
    elif backward.loss is call:
        yield call, skip_reasons.UNKNOWN_LOSS
    if isinstance(backward.scope, ast.Lambda):
        yield call, skip_reasons.BACKWARD_IN_LAMBDA
    if backward.scaled:
        yield call, skip_reasons.OWN_SCALER
    elif call.args and script.qualname(call.func) is None and _owns_backward(script, backward):
        yield call, skip_reasons.ENGINE
    for keyword in call.keywords:
        if keyword.arg == "create_graph" and not is_constant(keyword.value, False):
            yield call, skip_reasons.CREATE_GRAPH
    if not isinstance(backward.statement, ast.Expr):
        yield call, skip_reasons.BACKWARD_IN_STATEMENT


def _owns_backward(script: Script, backward: Backward) -> bool:
    """`engine.backward(loss)`: the receiver is no tensor."""
    if script.kind(backward.loss) in (Kind.TENSOR, Kind.BATCH):
        return False
    return "loss" not in script.source(backward.loss).lower() and not _is_computed(script, backward.loss)


@fixpoint(True, False)
def _is_computed(script: Script, loss: ast.expr) -> bool:
    """Whether a model gives a value, or it is computed of what one gives: no engine then."""
    match loss:
        case ast.Name():
            definitions = script.definitions(loss)
            return bool(definitions) and all(
                each.whole is not None and _is_computed(script, each.whole) for each in definitions
            )
        case ast.Call(func=function) if script.kind(function) in (Kind.MODULE, Kind.LOSS_FUNCTION):
            return True
        case ast.Call(func=ast.Attribute(value=part)) | ast.UnaryOp(operand=part) | ast.Subscript(value=part):
            return _is_computed(script, part)
        case ast.BinOp(left=left, right=right):
            return _is_computed(script, left) or _is_computed(script, right)
        case _:
            return False


def _step_problems(script: Script, step: OptimizerStep) -> Iterator[Problem]:
    call = step.call
    if script.kind(call.func.value) is Kind.SCALER:  # type: ignore[attr-defined]
        yield call, skip_reasons.OWN_SCALER
        return
    if call.args or call.keywords:
        yield call, skip_reasons.CLOSURE
    values = script.values(step.receiver)
    for value in values:
        made = value.name or ""
        if made.endswith(".LBFGS"):
            if len(values) == 1 or call.args or call.keywords:  # of several, it cannot step without a closure
                yield call, skip_reasons.LBFGS


def _tensors_optimized(script: Script, steps: Iterable[OptimizerStep]) -> Iterator[Problem]:
    """Optimizers of tensors alone, such as pictures: low precision would show in them. A single number beside models,
    `log_alpha`, is one more weight."""
    held = {each: [*_tensors_held(script, each)] for each in steps}
    for step, tensors in held.items():
        if tensors and (all(held.values()) or not all(_is_one_number(*each) for each in tensors)):
            yield step.call, skip_reasons.OPTIMIZES_TENSORS


def _tensors_held(script: Script, step: OptimizerStep) -> Iterator[tuple[Script, ast.expr]]:
    for made in script.values(step.receiver):
        if made.kind is Kind.OPTIMIZER and made.script is not None and isinstance(made.node, ast.Call):
            parameters = made.node.args[0] if made.node.args else None
            elements = parameters.elts if isinstance(parameters, ast.List | ast.Tuple) else []
            if all(_is_tensor(made.script, each) for each in elements):
                yield from ((made.script, each) for each in elements)


def _is_one_number(script: Script, tensor: ast.expr) -> bool:
    """`torch.zeros(1, requires_grad=True)`, `torch.tensor(0.2).to(device)`: whether it surely has one element."""
    values = script.values(tensor)
    return all(each.script is not None and _makes_one_number(each.script, each.node) for each in values)


def _makes_one_number(script: Script, made: ast.AST | None) -> bool:
    match made:
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _KEEPING_SIZE:
            return _is_one_number(script, inner)
        case ast.Call(func=function, args=sizes) if script.qualname(function) in _OF_SIZES:
            return all(isinstance(each, ast.Constant) and each.value == 1 for each in sizes)
        case ast.Call(func=function, args=[ast.List(elts=[data]) | data, *_]) if script.qualname(function) in _OF_DATA:
            match data:
                case ast.Call(func=logarithm, args=[inner]) if script.qualname(logarithm) == "numpy.log":
                    data = inner
            return script.kind(data) is Kind.NUMBER
        case _:
            return False


def _is_tensor(script: Script, expression: ast.expr) -> bool:
    if script.kind(expression) in (Kind.TENSOR, Kind.BATCH):
        return True
    if not isinstance(expression, ast.Name):
        return False
    made = [definition.value for definition in script.definitions(expression)]
    return any(value is not None and "requires_grad" in script.source(value) for value in made)


def run_by(script: Script, framework: str) -> str:
    """Why what a framework runs is left alone."""
    setting = framework_settings.untaken(script, framework)
    reason = skip_reasons.FRAMEWORK_SETTING if setting else skip_reasons.FRAMEWORK
    return reason.format(label=framework, setting=setting)


def _backward_elsewhere(script: Script, scope: ScopeNode) -> str | None:
    """The other file in which a function goes backward that `scope` calls, perhaps through its own."""
    pending, seen = [scope], {scope}
    for current in pending:  # grows while it is walked
        for call in calls_in(script, current):
            for other, function in script.callees(call):
                if function in seen or Effect.BACKWARD not in effects(other, function):
                    continue
                if other is not script:
                    return other.path.name if other.path is not None else "another file"
                seen.add(function)
                pending.append(function)
    return None
