"""What the reader must know to judge the figures, as sentences; none where all is as it should be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from autoaccel.measure.benching.report import Column
from autoaccel.measure.benching.rounds import Series

NOTHING_TO_REWRITE = "no rule changes anything here: the original was measured against itself only"
NO_ROOM = "memory did not suffice for all at once: the noise of the original was not measured"
EVALUATES = "nothing is trained: a step is what the script does with one batch"
NO_DIAGNOSIS = "what binds the script could not be found out"

_FEW_BLOCKS = 10
_BUSY = 0.5  # of the cores, by the load average: then others have much to do here, too


def on_machine(load: float | None, cores: int) -> Iterator[str]:
    """`load` is the average of the last minute, by cores."""
    if load is not None and load > _BUSY:
        yield f"the machine was not idle: a load of {load * cores:.1f} on {cores} cores at the start"


def on_endings(series: Sequence[Series]) -> Iterator[str]:
    """The original first."""
    original, *others = series
    if original.finished:
        yield f"the original ended by itself after {original.steps} steps"
    for each in others:
        if each.finished and each.steps < original.steps:
            yield f"{each.name} ended by itself after {each.steps} steps, the original did not"


def on_figures(original: Column, rewritten: Column | None) -> Iterator[str]:
    count = len(original.blocks)
    if count < _FEW_BLOCKS:
        yield f"only {count} blocks of steps were timed, so intervals are wide; --time makes it more"
    if rewritten is not None:
        yield from _on_sums(original, rewritten)
        yield from _on_losses(original, rewritten)


def _on_sums(original: Column, rewritten: Column) -> Iterator[str]:
    """Evaluation and epochs' ends happen in few blocks: the median does not see them, the sum does."""
    count = min(len(original.step_times), len(rewritten.step_times))
    together = sum(original.step_times[:count]) / sum(rewritten.step_times[:count])
    if not rewritten.speedup.contains(together):
        yield (
            f"over all {count} timed steps together, rewritten is {together:.2f} times as fast as the original: "
            "some steps, such as those with an evaluation, differ from the median one"
        )


def _on_losses(original: Column, rewritten: Column) -> Iterator[str]:
    for (step, before), (_, after) in zip(original.losses, rewritten.losses, strict=False):
        if math.isfinite(before) and not math.isfinite(after):
            yield f"the loss of rewritten is NaN from step {step} on; `autoaccel verify` says more"
            return
