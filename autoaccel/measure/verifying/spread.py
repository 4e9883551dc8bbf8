"""Whether rewritten runs lie within the run-to-run spread of the original.

Runs of the original under several seeds say how much of a difference a seed makes. Rewritten runs under the same seeds
pass when, on the average, they are not further from the original than that: a change of precision must not matter more
than a change of seed. What is looked at are mean losses over parts of the training, and at its end the norms of
parameters, buffers and optimizer states, which are alike in all seeds where they mean something.

For each figure the mean of the rewritten runs may be off the mean of the original runs by what Student's distribution
allows for two groups of runs that differ in nothing but the seed (corrected for the number of figures, one false alarm
in `1 / LEVEL` even then), plus the resolution of the number format. Since the seeds are the same in both, a right
rewrite stays far below that: it is accepted early, and false alarms are much rarer still.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autoaccel.measure.observing.run_record import Entry, Loss, RunRecord
from autoaccel.measure.verifying.tolerances import sort

LEVEL = 0.002
"""Probability that some figure of runs that differ only by seed is found outside."""
FEWEST = 3
"""Seeds before anything is accepted."""

HALF = 2**-8
"""Relative resolution of bfloat16, the coarsest of the formats that training computes in."""
FLOAT32_RESOLUTION = 2**-18
"""Of float32, with room for what rounding grows to in some dozens of steps."""

_PARTS = 4  # of the training, whose mean losses are compared
_MOST_SERIES = 4  # kinds of losses that a script has: of generator and discriminator, of micro-batches
_LONGEST_CYCLE = 8  # backwards until the same kind comes again


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the original and of the rewritten runs. `allowed` is how far apart the means may be."""

    name: str
    original: float
    rewritten: float
    spread: float
    """Standard deviation between runs of the original."""
    allowed: float
    resolution: float

    @property
    def distance(self) -> float:
        return abs(self.rewritten - self.original)

    @property
    def excess(self) -> float:
        """How many times the allowed distance it is off."""
        return self.distance / self.allowed if self.allowed else (math.inf if self.distance else 0.0)

    @property
    def is_close(self) -> bool:
        """Whether another seed would make more of a difference."""
        return self.distance <= self.spread + self.resolution


@dataclass(frozen=True, slots=True)
class Judgement:
    """What runs under several seeds say. Without a verdict, more seeds are needed."""

    within: bool | None
    seeds: int
    figures: tuple[Figure, ...] = ()
    reason: str = ""
    """What is outside of the spread, or that there is nothing to compare."""
    spreads: bool = True
    """Whether the original runs differ at all."""

    @property
    def end(self) -> Figure | None:
        """The loss over the last part of the training."""
        return next((each for each in reversed(self.figures) if each.name.startswith("loss")), None)


def judge(
    original: Sequence[RunRecord], rewritten: Sequence[RunRecord], *, last: bool, resolution: float = HALF
) -> Judgement:
    """Compare runs under the same seeds, in the same order. `last`: no more seeds will come, so there is a verdict."""
    seeds = len(rewritten)
    broken = diverged(original, rewritten)
    if broken is not None:
        return Judgement(False, seeds, reason=broken)
    before, after = [_numbers(each) for each in original], [_numbers(each) for each in rewritten]
    names = [name for name in before[0] if all(name in each for each in (*before, *after))]
    if not names:
        return Judgement(True if last else None, seeds, reason="there is no loss that could be compared")
    figures = _figures(names, before, after, resolution)
    spreads = any(each.spread > 0 for each in figures)
    worst = max(figures, key=lambda each: each.excess)
    enough = len(original) >= FEWEST and seeds >= FEWEST
    if enough and all(each.is_close for each in figures):
        return Judgement(True, seeds, figures, spreads=spreads)
    if worst.excess > 1 and (last or len(original) > FEWEST):
        return Judgement(False, seeds, figures, told(worst), spreads)
    return Judgement(True if last else None, seeds, figures, spreads=spreads)


def diverged(original: Sequence[RunRecord], rewritten: Sequence[RunRecord]) -> str | None:
    """The first loss of a rewritten run that is no number, where the original under the same seed has one, unless as
    many runs of the original diverge themselves; or a tensor that is none, and is one in all runs of the original."""
    before, after = [first_broken(each.losses) for each in original], [first_broken(each.losses) for each in rewritten]
    if sum(map(bool, before)) < sum(map(bool, after)):
        loss = next(now for was, now in zip(before, after, strict=False) if now and not was)
        return f"loss of step {loss.step + 1}: {loss.value}"
    sound = set.intersection(*({each.name for each in record.state if _is_finite(each)} for record in original))
    broken = (each for record in rewritten for each in record.state if each.name in sound and not _is_finite(each))
    return next((f"{each.name}: {each.norm}" for each in broken), None)


def _is_finite(entry: Entry) -> bool:
    """A mask is infinite by design."""
    return math.isfinite(entry.norm)


def told(figure: Figure) -> str:
    """What is outside, in one phrase."""
    ratio = figure.distance / figure.spread if figure.spread > 0 else math.inf
    spread = (
        f"{ratio:.1f} times the spread between runs of the original"
        if ratio < math.inf
        else "runs of the original do not differ"
    )
    return f"{figure.name}: {figure.rewritten:.5g} instead of {figure.original:.5g}, {spread}"


def first_broken(losses: Sequence[Loss]) -> Loss | None:
    return next((each for each in losses if each.value is not None and not math.isfinite(each.value)), None)


def _figures(
    names: Sequence[str], before: Sequence[dict[str, float]], after: Sequence[dict[str, float]], resolution: float
) -> tuple[Figure, ...]:
    count = min(len(before), len(after))
    usual = _usual_spread(names, before)
    limit = quantile(1 - LEVEL / (2 * len(names)), 2 * (len(before) - 1)) if len(before) > 1 else math.inf
    found = []
    for name in names:
        one, other = [each[name] for each in before], [each[name] for each in after]
        spread = _deviation(one)
        # A spread that is small by chance: few runs do not tell it well.
        spread = max(spread, usual.get(_group(name), 0.0) * _scale(name, before))
        grain = resolution * _scale(name, before)
        noise = spread * math.sqrt(1 / len(before) + 1 / count)
        allowed = limit * noise + grain if noise else grain
        found.append(Figure(name, statistics.fmean(one), statistics.fmean(other), spread, allowed, grain))
    return tuple(found)


def _usual_spread(names: Sequence[str], before: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of each group of figures the median of their relative spreads."""
    relative: dict[str, list[float]] = {}
    for name in names:
        scale, deviation = _scale(name, before), _deviation([each[name] for each in before])
        relative.setdefault(_group(name), []).append(deviation / scale if scale else 0.0)
    return {group: statistics.median(each) for group, each in relative.items()}


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _group(name: str) -> str:
    """Mean losses of one series belong together, and norms of tensors of one sort."""
    return name.partition(",")[0] if name.startswith("loss") else name.rpartition(" of ")[0]


def _scale(name: str, before: Sequence[dict[str, float]]) -> float:
    """The magnitude of a figure: the largest of its group, so that a loss near zero has one, too, and the momentum of a
    parameter whose gradient is nothing but rounding."""
    group = _group(name)
    known = (other for other in before[0] if _group(other) == group)
    return max(abs(statistics.fmean(each[other] for each in before if other in each)) for other in known)


# -- figures of one run


def _numbers(record: RunRecord) -> dict[str, float]:
    found = {}
    every = series(record.losses)
    for number, values in enumerate(every[:_MOST_SERIES]):
        which = "loss" if len(every) == 1 else f"loss {number + 1} of {len(every)}"
        parts = min(_PARTS, len(values))
        for part in range(parts):
            first, end = part * len(values) // parts, (part + 1) * len(values) // parts
            found[f"{which}, {_part(part, parts)}"] = statistics.fmean(values[first:end])
    found.update((f"{sort(entry)} of {entry.name}", entry.norm) for entry in record.state if _tells(entry))
    return found


def _tells(entry: Entry) -> bool:
    """Whether the norm of a tensor is alike in all seeds: not of a vector that begins at zero."""
    is_floating = entry.dtype.removeprefix("torch.").startswith(("float", "bfloat"))
    return is_floating and math.isfinite(entry.norm) and (entry.kind == "buffer" or len(entry.shape) > 1)


def _part(part: int, parts: int) -> str:
    if parts == 1:
        return "all steps"
    return {0: "at the start", parts - 1: "at the end"}.get(part, f"part {part + 1} of {parts}")


def series(losses: Sequence[Loss]) -> list[list[float]]:
    """The losses by kind: those of a generator and of a discriminator come in turns."""
    finite = [each for each in losses if each.value is not None and math.isfinite(each.value)]
    if not finite:
        return []
    cycle = _cycle(finite)
    return [[each.value for each in finite[start::cycle] if each.value is not None] for start in range(cycle)]


def _cycle(losses: Sequence[Loss]) -> int:
    """After how many backwards the pattern of steps begins anew."""
    made = [later.step - earlier.step for earlier, later in itertools.pairwise(losses)]
    for length in range(1, min(_LONGEST_CYCLE, len(losses) // 2) + 1):
        if all(one == other for one, other in zip(made, made[length:], strict=False)):
            return length
    return 1


# -- Student's distribution


def quantile(probability: float, freedom: int) -> float:
    """The value that Student's t stays below with a probability above one half; `freedom` is even, as it is for two
    groups of one size."""
    low, high = 0.0, 1.0
    while _student(high, freedom) < probability:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student(middle, freedom) < probability else (low, middle)
    return high


def _student(value: float, freedom: int) -> float:
    """The distribution function, by the finite sum that there is for an even number of degrees of freedom."""
    angle = math.atan(value / math.sqrt(freedom))
    term, total = 1.0, 0.0
    for k in range(0, freedom - 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (k + 1) / (k + 2)
    return 0.5 + math.sin(angle) * total / 2
