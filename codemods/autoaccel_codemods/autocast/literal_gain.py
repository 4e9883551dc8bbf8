"""Whether low precision could ever be adopted: regions that stay in float32 are noise."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from autoaccel.analysis.script import Script
from autoaccel.dataflow.abstract_values import Kind, Value
from autoaccel.dataflow.completeness import ScriptNode
from autoaccel.library_models.runtime_trials import STEPS_TO_LOWER
from autoaccel.pytorch.model_size import SMALL, multiplies, parameters_of
from autoaccel.pytorch.training_steps import TrainingStep, scope_of
from autoaccel_codemods.autocast import skip_reasons
from autoaccel_codemods.autocast.blockers import Problem
from autoaccel_codemods.autocast.regions import Regions
from autoaccel_codemods.compile.step_count import times_run


def in_vain(script: Script, step: TrainingStep, placed: Regions) -> Problem | None:
    """Why steps with such regions would stay in float32, as the literal numbers of their file show."""
    report_at = step.backwards[0].call
    steps = _steps(script, step, [region.anchor for region in placed.regions])
    if steps is not None and steps < STEPS_TO_LOWER:
        return report_at, skip_reasons.FEW_STEPS.format(steps=steps)
    reason = small(script, step.forwards, placed.code)
    return None if reason is None else (report_at, reason)


def small(script: Script, forwards: Sequence[ast.Call], code: Iterable[ScriptNode]) -> str | None:
    """Why models are too small to gain, where the code that runs them does nothing else that is large."""
    total = 0
    for function in {script.source(each.func): each.func for each in forwards}.values():
        count = parameters_of(script.values(function))
        if count is None:
            return None
        total += count
    if not forwards or total > SMALL or multiplies(code) or any(_goes_on(script, each) for each in forwards):
        return None
    return skip_reasons.SMALL_MODEL.format(count=f"{total:,}")


def _goes_on(script: Script, forward: ast.Call) -> bool:
    """Whether a model may be given what another one has computed elsewhere, and a caller hands over."""
    for given in forward.args:
        bound = script.definitions(given) if isinstance(given, ast.Name) else ()
        if any(each.how == "param" for each in bound) and any(map(_is_computed, script.values(given))):
            return True
    return False


def _is_computed(value: Value) -> bool:
    """Whether a tensor is what a model gives."""
    if value.kind is not Kind.TENSOR or value.script is None or not isinstance(value.node, ast.Call):
        return False
    return value.script.kind(value.node.func) is Kind.MODULE


def _steps(script: Script, step: TrainingStep, anchors: Sequence[ast.stmt]) -> int | None:
    """How many steps a run makes, where regions are opened once in each."""
    counts = []
    for backward in step.backwards:
        here = backward.scope, script.loops(backward.statement)
        if any((scope_of(script, each), script.loops(each)) != here for each in anchors):
            return None
        counts.append(times_run(script, backward.call))
    known = [each for each in counts if each is not None]
    return max(known) if known and len(known) == len(counts) else None
