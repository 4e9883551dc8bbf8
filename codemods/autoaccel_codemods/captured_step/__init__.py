"""Make the step one CUDA graph.

The host launches some hundred kernels for a step; where they are short, the device waits for it. `accel.step` captures
all of a step, from the forward pass to the optimizer's update, and replays it by one launch. For that the step has to
be a function of its batch: its statements are lifted out of the loop as they are, or out of the function that is called
for each step; loops over time steps or layers may be among them. On a CPU, and with `AUTOACCEL_CUDA_GRAPHS=off`, the
function is called as it stands. What is printed, noted or read as a number, `D_x = output.mean().item()`, between the
forward pass and the update is so after it, unless the step needs it; so are accuracies that go to a meter. A step may
have several backward passes and optimizers, one below the other, as that of a generator and its discriminator has;
inputs that it draws in between, `noise = np.random.normal(…)`, are drawn before it, in the same order.

Left alone:
- steps of which a part stands elsewhere, in a branch or in another function: accumulation, a generator that is trained
  in every fifth step; but one loop may train and evaluate by a name that it does not change, `if train:`, and a
  branch may follow a setting: `if args.smooth:`;
- what the host does in a step: reading values (also `if x.any()`, `int(x)`, shapes that depend on values, such as
  elements picked by a mask, and operations of linear algebra that check how they went), storing, drawing random numbers
  (the device may draw them), copying from or to the device, but for copies of the batch, `model(images.to(device))`,
  and `model.train()` above the forward pass, which go before the step;
- models and functions that are not in sight, or that keep what they compute;
- names that others see: `global`, attributes, those of a notebook's cells; results that are more than values: tensors
  that are printed or kept whole;
- scripts that may keep gradients until the next step, that capture CUDA graphs themselves, or that name no device, and
  steps beside calls of `torch.distributed`; other optimizers than SGD, Adam and AdamW, learning rates that change in
  every step, and batches that are padded to their longest sample: nothing would be captured, or no graph would last.

Before:
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()

After:
    @accel.step(model, optimizer)
    def train_step(images, labels):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    for images, labels in loader:
        loss = train_step(images, labels)
        total += loss.item()
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from typing import Final

from autoaccel.analysis import Script
from autoaccel.dataflow.abstract_values import Kind
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Edit, Finding, Skipped, Tier
from autoaccel.pytorch import cuda_graphs
from autoaccel.pytorch.training_steps import Backward, OptimizerStep, ScopeNode, TrainingStep, training_steps
from autoaccel.rewriting.rule import Rule
from autoaccel_codemods.captured_step import (
    gradient_reads,
    host_effects,
    lifting,
    prospects,
    region,
    result_uses,
    step_function,
)
from autoaccel_codemods.captured_step.problems import DeclinedError

RULE = Rule(
    code="AA403",
    name="captured-step",
    tier=Tier.EXACT,
    needles=(b".backward(",),
    pattern=r"torch",
    references=(
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.CUDAGraph.html",
    ),
    addresses=("launch",),
    order=99,
)
_STEP: Final = "step"


@RULE.check
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A step is lifted whole, or left alone for the first problem that one of these modules has with it.

    In this order:
        prospects     whether a graph would ever be captured, and last
        gradient_reads  what keeps gradients, of which a graph has one set
        movable_statements  which statements may stand in a function of their own
        region        the statements of the loop's body that are the step
        called_models  the models that they run, also by functions
        prepared_inputs  which of those between them make its inputs, and may as well do so before it
        shape_numbers     numbers that follow from the shapes of tensors
        shown_statements  which statements between them may as well be made after it
        measured_values  which values are counted of results, as accuracies are
        note_methods  which methods keep numbers, and do nothing else
        host_effects  what they, and the functions that they enter, do on the host
        lifting       which names go in and out, and where the function stands
        step_function  its text, and what stands in its place in the loop
        type_hints    its annotations, where the code around it has some
        result_uses   whether what comes out is used for its value alone
        problems      the exception by which each of them declines
    """
    named: dict[ScopeNode, set[str]] = {}
    for step in (part for each in training_steps(script) for part in _apart(script, each)):
        if not step.backwards or _is_lifted(script, step):
            continue
        report_at = step.backwards[0].call
        try:
            edits = _lift(script, step, named)
        except (DeclinedError, Incomplete) as problem:
            yield RULE.skip(report_at, str(problem))
            continue
        message = "the host launches the step's kernels one by one"
        yield RULE.finding(report_at, message, *script.import_runtime, *edits)


def _apart(script: Script, step: TrainingStep) -> list[TrainingStep]:
    """Steps of the same optimizers in several functions, of which each makes a whole one: `learn` of a class, and of
    one that derives from it; training as it is, and against an adversary."""
    parts = [
        dataclasses.replace(
            step,
            backwards=tuple(each for each in step.backwards if each.scope is scope),
            optimizer_steps=tuple(each for each in step.optimizer_steps if each.scope is scope),
            scopes=(scope,),
        )
        for scope in step.scopes
    ]
    whole = all(each.backwards and each.optimizer_steps for each in parts)
    return [stage for each in parts for stage in _stages(script, each)] if whole else [step]


def _stages(script: Script, step: TrainingStep) -> list[TrainingStep]:
    """Steps of one function in loops one below the other, by optimizers of their own: a teacher's, then a student's."""
    sites: list[Backward | OptimizerStep] = [*step.backwards, *step.optimizer_steps]
    outermost = {each: next(reversed(script.loops(each.call)), None) for each in sites}
    parts = [
        dataclasses.replace(
            step,
            backwards=tuple(each for each in step.backwards if outermost[each] is loop),
            optimizer_steps=tuple(each for each in step.optimizer_steps if outermost[each] is loop),
        )
        for loop in dict.fromkeys(outermost.values())
    ]
    values = [[value for each in part.optimizer_steps for value in script.values(each.receiver)] for part in parts]
    known = all(each.kind is Kind.OPTIMIZER and isinstance(each.node, ast.Call) for part in values for each in part)
    made = [{each.node for each in part} for part in values]
    own = sum(map(len, made)) == len(set[ast.AST | None]().union(*made))
    return parts if known and own and all(each.backwards and each.optimizer_steps for each in parts) else [step]


def _lift(script: Script, step: TrainingStep, named: dict[ScopeNode, set[str]]) -> Iterator[Edit]:
    if cuda_graphs.captures(script):
        raise DeclinedError(cuda_graphs.REASON)
    prospects.refuse_in_vain(script, step)
    gradient_reads.refuse(script)
    problems = []
    for first in region.starts(script, step):
        try:
            found = region.beginning_at(script, step, first)
            host_effects.refuse(script, found)
            lifted = lifting.plan(script, found)
            result_uses.refuse(script, lifted)
            lifting.refuse_in_vain(script, lifted)
            prospects.refuse_settings(script, found.around)
        except DeclinedError as problem:
            problems.append(problem)
        else:
            return step_function.edits(script, lifted, named)
    raise problems[0]


def _is_lifted(script: Script, step: TrainingStep) -> bool:
    """Whether a function of the step is decorated already."""
    decorators = [
        decorator
        for scope in step.scopes
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in scope.decorator_list
    ]
    return any(isinstance(each, ast.Call) and script.runtime_name(each.func) == _STEP for each in decorators)
