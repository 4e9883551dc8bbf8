"""How far numbers may be off that are rounded otherwise, and what of two runs is further off than that.

In float64 roundings stay far below what a mistake makes, which does not shrink when numbers get more digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autoaccel.measure.changes import known_as
from autoaccel.measure.observing.run_record import Entry, Loss, RunRecord
from autoaccel.measure.verifying import comparing, printed
from autoaccel.measure.verifying.comparing import Reference, other_tensors
from autoaccel.measure.verifying.facts import Difference, apart, is_whole, named

DOUBLE, SINGLE = 1e-12, 1e-5
"""How far losses may be off, relative to themselves, before it is looked at how roundings grow in this script."""
MOST: Mapping[float, float] = {DOUBLE: 1e-6, SINGLE: 1e-2}
"""How far at most, however they grow."""
ROUNDING: Mapping[float, float] = {DOUBLE: 2.0**-52, SINGLE: 2.0**-23}
"""One rounding, relative."""
STATE = 1e-6
"""How far the state may be off, relative to the largest tensor of its sort."""
_GROWTH = 100  # times what one rounding of each parameter grows to: there are more of them


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far numbers may be off."""

    relative: float
    """`DOUBLE` or `SINGLE`."""
    grown: tuple[float, ...] = ()
    """By loss: what roundings were seen to grow to."""

    def allowed(self, index: int) -> float:
        """Of one loss, relative to itself."""
        grown = max(self.grown[: index + 1], default=0.0)
        return min(self.relative + _GROWTH * grown, MOST[self.relative])

    def bound(self, record: RunRecord) -> float:
        """Of what is said at the end of a run: settings, lines."""
        return max(self.allowed(len(record.losses)), STATE)


def growth(original: RunRecord, disturbed: RunRecord) -> tuple[float, ...]:
    """By how much losses differ, relative to themselves, in a run whose parameters were disturbed by a rounding."""
    return tuple(distances(original.losses, disturbed.losses))


def off(original: RunRecord, runs: Iterable[RunRecord]) -> float:
    """How far losses of some run are off at most, relative to themselves."""
    return max((distance for record in runs for distance in growth(original, record)), default=0.0)


def distances(before: Sequence[Loss], after: Sequence[Loss]) -> Iterator[float]:
    """Relative to the loss or, where it comes close to nothing, to a part of the largest so far."""
    largest = 0.0
    for one, other in zip(before, after, strict=False):
        if one.value is None or other.value is None or one.exact == other.exact:
            yield 0.0
            continue
        largest = max(largest, abs(one.value)) if math.isfinite(one.value) else largest
        off = abs(one.value - other.value)
        yield off / max(abs(one.value), 1e-3 * largest, 1e-300) if off else 0.0


def beyond(original: Reference, record: RunRecord, tolerances: Tolerances) -> Iterator[Difference]:
    """What is another than in the original, and not by rounding; but for lines and files."""
    before = original.record
    yield from comparing.structure(original, record, partial(_same_setting, bound=tolerances.bound(before)))
    if "data" not in original.unsteady:
        yield from comparing.data(before, record)
    yield from _losses(before.losses, record.losses, tolerances.allowed)
    if tolerances.relative == DOUBLE:
        yield from _state(before.state, record.state)
    if "random" not in original.unsteady:
        yield from comparing.random(before, record)


def _same_setting(before: str | None, after: str | None, *, bound: float) -> bool:
    if before is None or after is None:
        return before == after
    return before == after or printed.alike(before, after, printed.Bound(bound, counts=True))


def _losses(before: Sequence[Loss], after: Sequence[Loss], allowed: Callable[[int], float]) -> Iterator[Difference]:
    for index, distance in enumerate(distances(before, after)):
        if not distance <= allowed(index):
            yield Difference("loss", f"{line(after[index].where)}{comparing.other_loss(before, after, index)}")
            return


def _state(before: Sequence[Entry], after: Sequence[Entry]) -> Iterator[Difference]:
    """The first tensor that is off by more than a part of the largest of its sort."""
    sizes = largest(before)
    for entry, other in other_tensors(before, after):
        off = apart(entry, other) if entry.shape == other.shape else None
        allowed = 0.0 if is_whole(entry) else STATE * sizes[sort(entry)]
        if off is not None and not off <= allowed and math.isfinite(entry.norm):
            yield Difference(entry.kind, f"{named(entry.kind, entry.name)} is off by {off / (entry.norm or 1):.1g}")
            return


def line(where: str) -> str:
    """`file:line: `, as the user knows the file."""
    path, _, number = where.rpartition(":")
    return f"{known_as(Path(path))}:{number}: " if path else ""


def largest(state: Iterable[Entry]) -> dict[str, float]:
    """Of each sort of tensors the largest norm."""
    sizes: dict[str, float] = {}
    for entry in state:
        sizes[sort(entry)] = max(sizes.get(sort(entry), 0.0), entry.norm if math.isfinite(entry.norm) else 0.0)
    return sizes


PARAMETERS = "norm"
"""The sort of all parameters."""


def sort(entry: Entry) -> str:
    """Tensors of one sort are of one magnitude: parameters, and buffers and states of optimizers that are called
    alike."""
    if entry.kind == "parameter":
        return PARAMETERS
    return f"norm of {entry.name.replace('.', ' ').split()[-1]}"
