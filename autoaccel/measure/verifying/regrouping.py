"""Two runs that do the same in other portions: one backward of a sum, an evaluation in batches of another size.

What is only that is said in these words; all else must be the same as ever.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autoaccel.measure.observing.run_record import Loss, Pass, RunRecord
from autoaccel.measure.verifying.facts import Difference
from autoaccel.reports.counting import counted

_ROUNDING = 1e-5  # relative, of a sum in float32


def regrouped(before: RunRecord, after: RunRecord) -> tuple[RunRecord, RunRecord, list[Difference]]:
    """Both runs in the same portions, as far as they do the same, and what of them is in others."""
    before, after, sums = _summed(before, after)
    after, batches = _batched_alike(before, after)
    return before, after, [*sums, *batches]


def _summed(before: RunRecord, after: RunRecord) -> tuple[RunRecord, RunRecord, list[Difference]]:
    """The losses of each step as one, where that makes the same of both."""
    one, other = _sums(before.losses), _sums(after.losses)
    is_same = before.steps == after.steps and [each.step for each in one] == [each.step for each in other]
    if len(before.losses) == len(after.losses) or not is_same or not one or not _is_near(one[0], other[0]):
        return before, after, []
    pairs = zip(_in_steps(before.losses).values(), _in_steps(after.losses).values(), strict=True)
    was, now = next((left, right) for left, right in pairs if left != right)
    text = f"{counted(now, 'backward')} a step instead of {was}, of the same sum of losses"
    summed = [replace(each, losses=losses, backwards=len(one)) for each, losses in ((before, one), (after, other))]
    return summed[0], summed[1], [Difference("portion", text)]


def _in_steps(losses: Sequence[Loss]) -> Counter[int]:
    return Counter(each.step for each in losses)


def _sums(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """By step; nothing where a loss is not a number."""
    if any(each.value is None for each in losses):
        return ()
    found = []
    for step, several in itertools.groupby(losses, key=lambda each: each.step):
        parts = list(several)
        total = math.fsum(each.value or 0.0 for each in parts)
        found.append(parts[0] if len(parts) == 1 else Loss(total.hex(), total, step, parts[0].where))
    return tuple(found)


def _is_near(one: Loss, other: Loss) -> bool:
    left, right = one.value or 0.0, other.value or 0.0
    return abs(left - right) <= _ROUNDING * max(abs(left), abs(right))


def cut_otherwise(before: RunRecord, after: RunRecord) -> bool:
    """Whether passes that were cut short after some batches have other samples, since their batches are larger."""
    pairs = [pair for pair in zip(before.passes, after.passes, strict=False) if not any(each.complete for each in pair)]
    return any(one.loader == other.loader and one.length != other.length for one, other in pairs)


def _batched_alike(before: RunRecord, after: RunRecord) -> tuple[RunRecord, list[Difference]]:
    """Passes in which nothing was trained with the batches of the first run, where they have the same samples."""
    passes = list(after.passes)
    found = list(_other_batches(before.passes, passes))
    for at, _ in found:
        passes[at] = replace(passes[at], batches=before.passes[at].batches, length=before.passes[at].length)
    return replace(after, passes=tuple(passes)), [Difference("portion", text) for _, text in found]


def _other_batches(before: Sequence[Pass], after: Sequence[Pass]) -> Iterator[tuple[int, str]]:
    numbers: Counter[int] = Counter()
    for at, (one, other) in enumerate(zip(before, after, strict=False)):
        numbers[one.loader] += 1
        if one.loader == other.loader and one.batches != other.batches and one.samples and one.samples == other.samples:
            which = f"pass {numbers[one.loader]} over loader {one.loader + 1}"
            now = counted(len(other.batches), "batch", "batches")
            now = f"{now} instead of {len(one.batches)}"
            yield at, f"{which}: the same samples in {now}, and nothing was trained on them"
