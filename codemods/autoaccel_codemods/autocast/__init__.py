"""Run forwards and losses in mixed precision, with a gradient scaler.

Matrix products and convolutions run several times faster in bfloat16 or float16 on hardware with units for them, and
activations take half the memory. Parameters, gradients and the optimizer stay in float32. Which precision the hardware
suggests is found out when the script runs, and it stays only where steps are measured to be faster with it; the scaler
acts for float16 only.

A training step is converted whole or not at all: every forward, loss, backward, clip and optimizer step that belong
together. Binary cross-entropy of probabilities is computed in float32, outside the region. Evaluation stays in float32
beside training; in a program that only evaluates, the forward pass of a loop is converted, and its result is float32.

Left alone:
- closures (LBFGS), second derivatives, gradients that the script applies or reads by hand, hooks that see gradients in
  any file that shares its objects;
- models in another precision, sharded or remote models, mixed precision of the script's own; models under
  `DataParallel`, whose threads do not take over the precision of a region;
- code that low precision breaks: operations that have no kernels for it on the CPU or on CUDA, such as linear algebra,
  writing by index, custom autograd functions, averages kept by hand;
- steps whose forward or optimizer is not in sight, and a step that is made a single time.

Before:
    output = model(data)
    loss = criterion(output, target)
    loss.backward()
    optimizer.step()

After:
    with accel.autocast(device):
        output = model(data)
        loss = criterion(output, target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.edits import (
    Code,
    Edit,
    Finding,
    InsertAfter,
    InsertBefore,
    Replace,
    Skipped,
    Tier,
    WrapStatements,
)
from autoaccel.pytorch import devices, evaluation_only
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.run_once_code import runs_once
from autoaccel.pytorch.training_steps import Backward, OptimizerStep, ScopeNode, TrainingStep, training_steps
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.autocast import blockers, gradient_scaling, low_precision_flow, regions, skip_reasons
from autoaccel_codemods.autocast.blockers import Problem
from autoaccel_codemods.autocast.gradient_scaling import ScalerCreation, Scaling
from autoaccel_codemods.autocast.regions import Hoist, Region, Regions
from autoaccel_codemods.autocast.step_problems import problem as step_problem

RULE = Rule(
    code="AA301",
    name="autocast",
    tier=Tier.NUMERICS,
    needles=(b"backward", b".eval()"),
    pattern=r"torch|\.backward\(|\.eval\(",
    references=(
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
    ),
    addresses=("compute",),
    order=60,
)


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    # who decides what, and every reason: `skip_reasons`
    names = _Names(script)
    for step in training_steps(script):
        if step.converted:
            continue
        problem = step_problem(step) or next(_step_runs_once(script, step), None)
        if problem is None:
            found = regions.place_regions(script, step)
            # Where float16 is out of the question no gradient needs a scaler.
            scaled = Scaling() if found.needs_range else gradient_scaling.scale_gradients(script, step)
            problem = next(iter((*found.problems, *scaled.problems)), None)
        if problem is None:
            hoists = [hoist for region in found.regions for hoist in region.hoists]
            report_at = step.backwards[0].call
            escaped = low_precision_flow.find(
                script, found.statements(script), hoists, found.code, found.float32_casts, report_at
            )
            problem = next(iter(escaped.problems), None)
        if problem is not None:
            yield RULE.skip(*problem)
            continue
        found.float32_casts += escaped.float32_casts
        edits = _edits(script, step, found, scaled, names)
        yield RULE.finding(step.backwards[0].call, _message(step), *script.import_runtime, *edits)
    if not training_steps(script):
        yield from _evaluation_only(script)


def _evaluation_only(script: Script) -> Iterator[Finding | Skipped]:
    """Forward passes of a program that only evaluates; what comes after them gets float32, as before."""
    for each in evaluation_only.evaluation_forwards(script):
        code = reachable_code(script, [each.statement])
        escaped = low_precision_flow.find(script, [each.statement], [], code, [each.call], each.call)
        found = (
            *blockers.in_code(code, script, each.call),
            *blockers.in_file(script, each.call),
            *blockers.unseen_hooks(script, each.call),
            *escaped.problems,
        )
        if found:
            yield RULE.skip(*found[0])
            continue
        device = devices.visible_device(script, each.statement)
        half = "fp16=False" if blockers.needs_range(code) else None
        header = f"with {script.accel}.autocast({_literal(', '.join(part for part in (device, half) if part))})"
        casts = [Replace(part, Code("{0}.float()", (part,))) for part in (each.call, *escaped.float32_casts)]
        wrapped = WrapStatements(each.statement, each.statement, Code(header), None)
        yield RULE.finding(each.call, "the evaluation runs in float32", *script.import_runtime, wrapped, *casts)


def _step_runs_once(script: Script, step: TrainingStep) -> Iterator[Problem]:
    """A demonstration: there is only one step, which another precision does not make noticeably faster."""
    if step.backwards and all(runs_once(script, each.call) for each in step.backwards):
        yield step.backwards[0].call, skip_reasons.RUNS_ONCE


def _message(step: TrainingStep) -> str:
    count = len(step.backwards)
    return "the training step runs in float32" + (f" ({count} backward passes)" if count > 1 else "")


class _Names:
    """The names of scalers: one free name for the file, numbered where two would meet in one scope."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._given: set[tuple[ast.AST, str]] = set()

    def scaler(self, creation: ScalerCreation) -> str:
        scope: ast.AST = self._script.function(creation.statement) or self._script.tree
        if creation.owner is not None:
            scope = self._script.enclosing_class(creation.statement) or scope
        shared = any(each is not scope for each in creation.scopes)
        number = 1
        base = self._script.free_name("scaler", "grad_scaler", "amp_scaler", "loss_scaler")
        name = base
        while any(known == name and (other is scope or shared) for other, known in self._given):
            number += 1
            name = f"{base}{number}"
        self._given.add((scope, name))
        return name


def _edits(script: Script, step: TrainingStep, found: Regions, scaled: Scaling, names: _Names) -> Iterator[Edit]:
    for region in found.regions:
        yield from _region(script, region, found, "" if scaled.creations else "fp16=False")
    for statement, call, name in found.loads:
        yield InsertBefore(statement, Code(f"{name} = {{0}}", (call,)))
        yield Replace(call, Code(name))
    hoisted = {hoist.expression for region in found.regions for hoist in region.hoists}
    for expression in found.float32_casts:
        if expression not in hoisted:
            yield Replace(expression, Code("{0}.float()", (expression,)))
    if scaled.creations:
        yield from _scaling(script, step, found, scaled, names)
    else:
        for backward, name in found.losses.items():
            yield Replace(backward.loss, Code(name))


def _scaling(script: Script, step: TrainingStep, found: Regions, scaled: Scaling, names: _Names) -> Iterator[Edit]:
    scalers: dict[ScopeNode, str] = {}
    for creation in scaled.creations:
        name = names.scaler(creation)
        owner = "" if creation.owner is None else f"{creation.owner}."
        made = Code(_literal(f"{owner}{name} = {script.accel}.grad_scaler({', '.join(creation.optimizers)})"))
        yield InsertAfter(creation.statement, made) if creation.after else InsertBefore(creation.statement, made)
        for scope in creation.scopes:
            scalers[scope] = name if creation.owner is None else f"self.{name}"
    for backward in step.backwards:
        yield _backward(backward, scalers[backward.scope], found)
    for each in step.steps:
        yield Replace(each.call, Code(f"{scalers[each.scope]}.step({{0}})", (each.receiver,)))
    for unscale in scaled.unscales:
        yield InsertBefore(
            unscale.before, Code(_literal(_unscaling(script, unscale.step, scalers[unscale.step.scope])))
        )
    for statement in scaled.updates:
        scope = script.function(statement) or script.tree
        yield InsertAfter(statement, Code(f"{scalers[scope]}.update()"))


def _literal(text: str) -> str:
    """Source text as a template without holes."""
    return text.replace("{", "{{").replace("}", "}}")


def _unscaling(script: Script, step: OptimizerStep, scaler: str) -> str:
    unscale = f"{scaler}.unscale_({script.source(step.receiver)})"
    if step.each is None:
        return unscale
    target, iterated = (script.source(each) for each in step.each)
    return f"for {target} in {iterated}:\n    {unscale}"


def _backward(backward: Backward, scaler: str, found: Regions) -> Edit:
    name = found.losses.get(backward)
    if name is not None:
        return Replace(backward.loss, Code(f"{scaler}.scale({name})"))
    call, loss = backward.call, backward.loss
    if isinstance(loss, ast.Name | ast.Attribute | ast.Call) or call.args or call.keywords:
        return Replace(loss, Code(f"{scaler}.scale({{0}})", (loss,)))
    # `(a + b).backward()` loses its parentheses
    return Replace(call, Code(f"{scaler}.scale({{0}}).backward()", (loss,)))


def _region(script: Script, region: Region, found: Regions, half: str) -> Iterator[Edit]:
    device = devices.visible_device(script, region.anchor)
    arguments = ", ".join(each for each in (device, half) if each)
    header = f"with {script.accel}.autocast({_literal(arguments)})"
    tail = _tail(region.hoists)
    if region.first is not None and region.last is not None:
        yield WrapStatements(region.first, region.last, Code(header), tail)
    elif tail is not None and region.before is not None:
        body = tail.text.replace("\n", "\n    ")
        yield InsertBefore(region.before, Code(f"{header}:\n    {body}", tail.holes), below_comments=True)
    for hoist in region.hoists:
        if all(hoist.expression is not backward.loss for backward in found.losses):
            is_cast = hoist.expression in found.float32_casts
            yield Replace(hoist.expression, Code(f"{hoist.name}.float()" if is_cast else hoist.name))


def _tail(hoists: list[Hoist]) -> Code | None:
    if not hoists:
        return None
    lines = [f"{hoist.name} = {{{index}}}" for index, hoist in enumerate(hoists)]
    return Code("\n".join(lines), tuple(hoist.expression for hoist in hoists))
