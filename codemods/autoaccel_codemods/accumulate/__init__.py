"""Step every few batches.

The gradients of several batches are added up before the optimizer steps: the training of a batch so many times as
large, in the memory of one. `--set accumulate=4` says of how many, 4 unless it is set. The last window of an epoch may
be shorter: it is stepped, too, and its losses are divided by its own length. Gradients are clipped, the scaler is
updated and a schedule by steps goes on once a window. Losses that are logged stay those of single batches.

It is another training than before, so this rule has to be selected, and not quite that of the larger batch: batch
normalization takes its statistics from each batch alone and moves its averages with each, dropout draws other numbers,
losses over all pairs of a batch see fewer of them, and where the last batch of a window is smaller than the others, its
samples count more. The learning rate is yours to choose; schedules that count optimizer steps count fewer of them.

Left alone:
- steps of several optimizers or backward passes, closures (LBFGS), steps that stand elsewhere than in the body of a
  loop over a loader, or under a condition: what accumulates already;
- loaders that have no length, and loops that end or go on in the middle: `break`, `continue`, `return`;
- schedules by batches that are made for a number of steps (`OneCycleLR`, `CosineAnnealingLR`, `LambdaLR`): there would
  be fewer steps;
- losses that are sums over the batch, or of which nothing shows that they are averages;
- what reads or changes gradients, parameters or the optimizer in each batch: averages of weights, hooks, learning rates
  that are set by hand.

Before:
    for i, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()

After:
    for i, (images, labels) in enumerate(loader):
        if i % 4 == 0:
            optimizer.zero_grad()
        loss = criterion(model(images), labels)
        (loss / min(4, len(loader) - i // 4 * 4)).backward()
        if (i + 1) % 4 == 0 or i + 1 == len(loader):
            optimizer.step()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autoaccel.analysis import Script
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.edits import Code, Edit, Finding, Replace, Skipped, Tier, WrapStatements, literal
from autoaccel.pytorch.training_steps import Backward, TrainingStep, training_steps
from autoaccel.rewriting.rule import Rule, Setting
from autoaccel_codemods.accumulate import batch_count, bystanders, loss_averages, updates
from autoaccel_codemods.captured_step.problems import DeclinedError

RULE = Rule(
    code="AA604",
    name="accumulate",
    tier=Tier.OPT_IN,
    needles=(b"backward",),
    pattern=r"zero_grad",
    references=("https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation",),
    order=5,  # before all that edits the same lines: they find what this one has made of them
    settings=(Setting("accumulate", default=4, least=2),),
)


@RULE.check
def check(script: Script, *, accumulate: int) -> Iterator[Finding | Skipped]:
    """A step is made of several batches, or left alone for the first problem that one of these has with it.

    In this order:
        updates        the statements of the loop's body that belong to the update: once a window
        loss_averages  whether the loss is an average over the batch: a sum must not be divided
        bystanders     what else the loop does with the model, the optimizer or gradients in each batch
        batch_count    which batch it is, and how many there are
    """
    for step in training_steps(script):
        if not step.backwards or not step.optimizer_steps:
            continue
        try:
            edits = tuple(_edits(script, step, accumulate))
        except (DeclinedError, Incomplete) as problem:
            yield RULE.skip(step.backwards[0].call, str(problem))
            continue
        message = f"each batch is a step; {accumulate} of them make one in the same memory"
        yield RULE.finding(step.backwards[0].call, message, *edits)


def _edits(script: Script, step: TrainingStep, number: int) -> Iterator[Edit]:
    found = updates.find(script, step)
    loss_averages.refuse(script, found)
    bystanders.refuse(script, found)
    count = batch_count.find(script, found.loop)
    yield from count.edits
    begins, ends, length = (literal(each) for each in count.window(number))
    for clearing in found.clearing:
        yield WrapStatements(clearing, clearing, Code(f"if {begins}"))
    yield _divided(found.backward, length)
    for run in found.runs:
        yield WrapStatements(run[0], run[-1], Code(f"if {ends}"))


def _divided(backward: Backward, length: str) -> Edit:
    """The backward pass of a loss that is divided by the number of batches in its window."""
    if backward.scaled:
        assert isinstance(backward.loss, ast.Call)
        return Replace(backward.loss.args[0], Code(f"{{0}} / {length}", (backward.loss.args[0],)))
    if backward.loss in backward.call.args:
        return Replace(backward.loss, Code(f"{{0}} / {length}", (backward.loss,)))
    if isinstance(backward.loss, ast.Name | ast.Attribute | ast.Call):
        return Replace(backward.loss, Code(f"({{0}} / {length})", (backward.loss,)))
    # `(a + b).backward()` loses its parentheses
    return Replace(backward.call, Code(f"({{0}} / {length}).backward()", (backward.loss,)))
