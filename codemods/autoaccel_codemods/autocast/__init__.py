"""Train in mixed precision.

Matrix products and convolutions run several times faster in bfloat16 or float16 on hardware with units for them, and
activations take half the memory. Parameters, gradients and the optimizer stay in float32. Which precision the hardware
suggests is found out when the script runs, and it stays only where steps are measured to be faster with it; the scaler
acts for float16 only.

A training step is converted whole or not at all: every forward, loss, backward, clip and optimizer step that belong
together. Binary cross-entropy of probabilities is computed in float32, outside the region; so are losses, and the last
part of a model, that work in float32 alone: a focal loss of logits, divergences of a student from its teacher (rounding
leaves noise of those that are close), distances as `a² + b² - 2ab` of features, margin heads, spectra.
What steps add up is kept in float32: `self.mean = 0.9 * self.mean + 0.1 * x.mean()`.
Evaluation stays in float32 beside training, but not where one function does both (`if train:
loss.backward()`): there validation figures come from the same region as the training loss. In a program that only
evaluates, the forward pass of a loop is converted, and its result is float32. Scripts that set `cudnn.deterministic`
get the same results in each run: there bfloat16 is used untried. `fp16=False` keeps float16 from steps whose numbers
may not fit it: `masked_fill(mask, -1e9)`, sums over products of a feature map with itself, `log(p + 1e-8)`, and from
programs that ask whether gradients are finite, which the first ones under a scale are not. So it does where nothing
shows how to scale: gradients are read by hand, not cleared for sure, those of a custom autograd function; the optimizer
steps in another function, is made anew, or not on every path. Where there is no bfloat16 such steps stay in float32.

Left alone:
- closures (LBFGS), second derivatives, gradients that the script applies by hand, hooks that see gradients in any file
  that shares its objects, gradients of results (`retain_grad`, `z = h.detach().requires_grad_()`);
- models in another precision, sharded or remote models, mixed precision of the script's own; models that replicas in
  threads share, which do not take over the precision of a region (those under `nn.DataParallel` are left in float32
  when the script runs on several devices, unless it names several itself);
- code that low precision breaks: operations that have no kernels for it on the CPU or on CUDA, such as linear algebra,
  products in place, writing by index into results, custom autograd functions, averages kept by hand, angles by `acos`,
  numbers that bfloat16 cannot hold, `masked_fill(mask, torch.finfo(torch.float32).min)`;
- differences of rounded numbers, of which little is left: `log(1 - p)`, `1 / (1 - p)`, `sqrt(1 - x²)`, distances as
  `a² + b² - 2ab`, variances as `E[x²] - E[x]²`, finite differences of results, results beside a large number, `sin` of
  many turns, ranks of scores, solvers of differential equations;
- losses of the ratio between what a model gives and what it gave before, `exp(log_prob - old_log_prob)` of PPO: those
  that are kept are in float32;
- scripts that learn from a library's environment, or whose region would go around the steps of one of their own: there
  is little to gain;
- steps whose forward or optimizer is not in sight, and a step that is made a single time;
- steps without products or convolutions, of which nothing is faster in low precision: sums of embeddings;
- where literal numbers show that nothing can be gained: models of at most 2,000 parameters, runs of fewer steps than
  it takes to find out;
- what a framework trains (Lightning, Transformers, Accelerate, fastai, Ignite, Composer, DeepSpeed, Keras): `lint -v`
  says which setting does there what rules would.

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

from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.query import once_all
from autoaccel.edits import Code, Finding, Replace, Skipped, Tier, WrapStatements
from autoaccel.library_models.frameworks import SETTING_WORDS
from autoaccel.pytorch import backend_settings, evaluation_only, framework_settings
from autoaccel.pytorch.gradients import GOES_BACKWARD
from autoaccel.pytorch.reachable_code import reachable_code
from autoaccel.pytorch.training_steps import TrainingStep, opens_region, training_steps
from autoaccel.rewriting.rule import Rule, UnderDeterminism
from autoaccel_codemods.autocast import (
    blockers,
    gradient_scaling,
    literal_gain,
    lost_digits,
    low_precision_flow,
    own_precision,
    regions,
    skip_reasons,
    step_problems,
    unsafe_operations,
)
from autoaccel_codemods.autocast.blockers import Problem
from autoaccel_codemods.autocast.gradient_scaling import Scaling
from autoaccel_codemods.autocast.regions import Regions
from autoaccel_codemods.autocast.step_edits import ScalerNames, region_header, step_edits

RULE = Rule(
    code="AA301",
    name="autocast",
    tier=Tier.NUMERICS,
    needles=(b"backward", b".eval()", *(word.encode() for word in SETTING_WORDS)),
    pattern=(GOES_BACKWARD, r"\.eval\(", *SETTING_WORDS),
    references=(
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
    ),
    addresses=("compute",),
    under_determinism=UnderDeterminism.REPEATED,
    order=60,
)


@RULE.check
@once_all
def check(script: Script) -> Iterator[Finding | Skipped]:
    """A training step is converted, or left alone for the first problem that one of these modules has with it.

    In this order; what is in brackets serves the one above it:
        step_problems           whether the backwards and optimizer steps are in sight, and plain
        [blockers]              what the script does about precision and gradients itself
        [own_precision]         whether its own mixed precision is off as it stands
        regions                 which statements run under autocast, and what of them has to stay out
        [statement_kinds]       what a region may begin and end with
        [hoists]                what of a statement gets a name of its own inside a region
        [backward_slice]        the statements that a loss is computed by
        [float32_statements]    losses that stay outside, since they work in float32 alone
        [changed_arguments]     whether a loss changes what it is given, which a copy in float32 would hide
        [sigmoid_bce]           sigmoids that go into a binary cross-entropy, which are computed in float32
        [unsafe_operations]     what does not work in low precision, in all the code that the regions reach
        [filled_numbers]        numbers that it cannot hold, where tensors are filled or bounded by them
        [lost_digits]           differences of rounded numbers, of which little is left
        [expanded_squares]      squared distances and variances by their expanded formulas
        [coarse_steps]          what is finer than the steps of bfloat16
        [value_origins]         what an expression stands for, and what computed it
        [stored_results]        ratios to what the model gave before, which would be of two precisions
        gradient_scaling        what is unscaled where, and where the scale is updated; not asked where numbers do not
                                fit float16, or nothing leaves the CPU: bfloat16 needs no scaler
        [scaler_creation]       where the scaler is made
        [optimized_parameters]  which optimizer holds the parameters whose gradients are read
        [optimizer_cycle]       what must happen between two steps of an optimizer
        low_precision_flow      where results leave the regions, and whether `.float()` mends what is done to them there
        [expression_flow]       the way of a value through the expression in which it stands
        [call_flow]             into functions and out of them
        [storage_flow]          through names, attributes and containers
        [kept_sums]             averages and totals that outlive a call
        [float_tensors]         whether an expression surely is one tensor of decimals
        [tensor_content]        what values hold, joined and mixed
        [operation_content]     what operations of torch give
        [float16_range]         numbers that float16 cannot hold, where they meet low precision
        [gradient_uses]         names of which gradients surely are taken
        literal_gain            whether it could be faster at all, to go by the literal numbers of the file
        step_edits              the edits that all of this comes to
        skip_reasons            every reason for which code is left in float32, in the words of the report

    Of a program that only evaluates, each forward pass of a loop is put to some of them.
    """
    names = ScalerNames(script)
    for step in training_steps(script):
        if step.converted:
            continue
        problem = next(step_problems.problems(step), None)
        if problem is None:
            placed, scaled, problem = _planned(script, step, narrow=True)
            if problem is not None:
                placed, scaled, problem = _planned(script, step, narrow=False)
            if problem is not None:
                apart = _planned(script, step, narrow=True, apart=True)
                placed, scaled, problem = apart if apart[-1] is None else (placed, scaled, problem)
            if any(opens_region(script, each) for each in placed.statements(script)):
                continue  # in a function that only what is kept leads to
            problem = problem or literal_gain.in_vain(script, step, placed)
        if problem is not None:
            yield RULE.skip(problem[0], _of_its_own(script, problem[1]))
            continue
        edits = step_edits(script, step, placed, scaled, names)
        message = _message(step, scaled.obstacles[0][1] if scaled.obstacles else placed.no_float16)
        yield RULE.finding(step.backwards[0].call, message, *script.import_runtime, *edits)
    if not training_steps(script):
        for call, framework in framework_settings.told(script):
            yield RULE.skip(call, step_problems.run_by(script, framework))
        yield from _evaluation_only(script)


def _of_its_own(script: Script, reason: str) -> str:
    own = reason in (skip_reasons.OWN_SCALER, skip_reasons.OWN_MIXED_PRECISION)
    return own_precision.reason(script, reason) if own else reason


def _planned(
    script: Script, step: TrainingStep, *, narrow: bool, apart: bool = False
) -> tuple[Regions, Scaling, Problem | None]:
    """Regions and scalers of a step, and the first problem with them."""
    placed = regions.place_regions(script, step, narrow=narrow, apart=apart)
    if placed.problems:
        return placed, Scaling(), placed.problems[0]
    hoists = [hoist for region in placed.regions for hoist in region.hoists]
    report_at = step.backwards[0].call
    statements = placed.statements(script)
    flow = low_precision_flow.find(script, statements, hoists, placed.float32_casts, report_at, placed.lifted)
    placed.no_float16 = placed.no_float16 or flow.no_float16
    # Where float16 is out of the question no gradient needs a scaler, as on a CPU. Where none can be had, float16 is.
    in_float16 = placed.no_float16 is None and backend_settings.may_leave_the_cpu(script)
    scaled = gradient_scaling.scale_gradients(script, step) if in_float16 else Scaling()
    if scaled.obstacles:
        scaled = Scaling(obstacles=scaled.obstacles, problems=scaled.problems)
    if scaled.problems:
        return placed, scaled, scaled.problems[0]
    placed.float32_casts += flow.float32_casts
    if not flow.computes:
        return placed, scaled, (report_at, skip_reasons.NO_PRODUCTS)
    return placed, scaled, next(iter(flow.problems), None)


def _evaluation_only(script: Script) -> Iterator[Finding | Skipped]:
    """Forward passes of a program that only evaluates; what comes after them gets float32, as before."""
    for each in evaluation_only.evaluation_forwards(script):
        code = reachable_code(script, [each.statement])
        flow = low_precision_flow.find(script, [each.statement], [], [each.call], each.call)
        problems = (
            *unsafe_operations.in_code(code, script, each.call),
            *lost_digits.in_code(code, script, each.call),
            *blockers.in_file(script, each.call),
            *blockers.unseen_hooks(script, each.call),
            *flow.problems,
        )
        if problems:
            yield RULE.skip(*problems[0])
            continue
        if (reason := literal_gain.small(script, [each.call], code)) is not None:
            yield RULE.skip(each.call, reason)
            continue
        no_float16 = unsafe_operations.needs_range(code, script) or flow.no_float16
        float16 = no_float16 is None and backend_settings.may_leave_the_cpu(script)
        header, naming = region_header(script, each.statement, float16=float16)
        casts = [Replace(part, Code("{0}.float()", (part,))) for part in (each.call, *flow.float32_casts)]
        wrapped = WrapStatements(each.statement, each.statement, header, None)
        yield RULE.finding(
            each.call,
            f"the evaluation runs in float32{_unscaled(no_float16)}",
            *script.import_runtime,
            *naming,
            wrapped,
            *casts,
        )


def _message(step: TrainingStep, no_float16: str | None) -> str:
    count = len(step.backwards)
    passes = f" ({count} backward passes)" if count > 1 else ""
    return f"the training step runs in float32{passes}{_unscaled(no_float16)}"


def _unscaled(no_float16: str | None) -> str:
    return "" if no_float16 is None else f"; no float16: {no_float16}"
