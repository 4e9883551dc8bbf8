"""Whether two runs differ by no more than rounding, and what comes of that: sums in another order, captured graphs.

The proof is in float64, where it shrinks as roundings do (`tolerances`). Where a script does not run in float64 it is
judged over the whole trajectory in float32: by what one rounding of the parameters grows to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autoaccel.measure.observing.run_record import Entry, RunRecord
from autoaccel.measure.verifying import printed
from autoaccel.measure.verifying.comparing import Reference, apart, differences, first_loss, other_tensors, structure
from autoaccel.measure.verifying.facts import NUMBERS
from autoaccel.measure.verifying.regrouping import regrouped
from autoaccel.measure.verifying.tolerances import (
    DOUBLE,
    PARAMETERS,
    ROUNDING,
    SINGLE,
    Tolerances,
    beyond,
    distances,
    growth,
    largest,
    off,
    sort,
)

_FIRST = 1e-5
"""Relative; float32 has a resolution of 6e-8, and some hundred roundings go into a loss before the first differs."""
_GROWN = 0.01
"""What a rounding may have grown to at the end."""
_ONCE = 10
"""Times what one rounding of each parameter grows to, where there is one in each step."""


def may_be_rounding(original: Reference, other: RunRecord) -> bool:
    """Whether nothing but numbers differs, and the first loss that does by no more than rounding."""
    kinds = {each.kind for each in differences(original, other)}
    if structure(original, other) or not kinds <= NUMBERS | {"saved", "portion"}:
        return False
    if kinds and kinds <= {"printed", "saved"}:
        return False
    before, after, _ = regrouped(original.record, other)
    index = first_loss(before.losses, after.losses)
    if index is None:
        return True
    if index == min(len(before.losses), len(after.losses)):
        return False
    if before.losses[index].value is None or after.losses[index].value is None:
        return False
    return list(distances(before.losses, after.losses))[index] <= _FIRST


# -- in float64


def runs_in_double(original: RunRecord, doubled: RunRecord) -> bool:
    """Whether a run that was to be in float64 does the same, and is."""
    values = [each.value for each in doubled.losses if each.value is not None]
    is_alike = (original.steps, original.backwards) == (doubled.steps, doubled.backwards)
    return is_alike and not doubled.went_wrong and any(value != _single(value) for value in values)


def _single(value: float) -> float:
    """Rounded to the 24 bits of float32."""
    if not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**24), exponent - 24)


def is_rounding_in_double(original: Reference, other: RunRecord, disturbed: Callable[[], RunRecord]) -> bool | None:
    """Whether two runs in float64 differ by rounding; None where what is left may be of parts that stay in float32.

    `disturbed` gives the original with all its parameters rounded once.
    """
    if other.went_wrong and original.record.exit_status != other.exit_status:
        return None
    before, after, _ = regrouped(original.record, other)
    if not _differ(original, other, Tolerances(DOUBLE)):
        return True
    if _differ(original, other, Tolerances(DOUBLE, (math.inf,))):
        return False
    if not _differ(original, other, Tolerances(DOUBLE, growth(original.record, disturbed()))):
        return True
    return None if off(before, [after]) <= ROUNDING[SINGLE] else False


def _differ(original: Reference, other: RunRecord, tolerances: Tolerances) -> bool:
    before, after, _ = regrouped(original.record, other)
    known = Reference(before, original.varying, original.unsteady, original.masks, original.prints)
    if any(True for _ in beyond(known, after, tolerances)):
        return True
    return known.prints and bool(
        printed.difference(before.printed, after.printed, known.masks, tolerances.bound(before))
    )


# -- in float32


def is_rounding(
    original: Reference,
    other: RunRecord,
    start: Callable[[], RunRecord],
    disturbed: Callable[[], RunRecord] | None = None,
) -> bool:
    """Whether two runs differ by rounding: the first loss that does by no more than one, those after it and the state
    by no more than what comes of that.

    `start` gives the original after its first step: parameters are measured by how far they went. `disturbed` gives it
    with all its parameters rounded once.
    """
    if not may_be_rounding(original, other):
        return False
    before, after, _ = regrouped(original.record, other)
    if first_loss(before.losses, after.losses) is None:
        says = original.prints and printed.difference(before.printed, after.printed, original.masks, _FIRST)
        return not says and _is_near(before.state, after.state, start, _FIRST, disturbed)
    if not _is_near(before.state, after.state, start, _GROWN, disturbed):
        return False
    if disturbed is None or off(before, [after]) <= _FIRST:
        return True
    grown, most = list(growth(original.record, disturbed())), 0.0
    if len(grown) != len(before.losses):
        return True  # they are in other portions, or the push made another run of it
    for distance, other_distance in zip(distances(before.losses, after.losses), grown, strict=True):
        most = max(most, other_distance)
        if not distance <= _FIRST + _ONCE * most:
            return False
    return True


def _is_near(
    before: Sequence[Entry],
    after: Sequence[Entry],
    start: Callable[[], RunRecord],
    limit: float,
    disturbed: Callable[[], RunRecord] | None = None,
) -> bool:
    """Whether each tensor is off by no more than a part of what tensors of its sort are, or than roundings grow to."""
    found = _apart_by(before, after)
    if not found:
        return True
    sizes = largest(before) | {PARAMETERS: _way(start().state, before)}
    far = [
        (entry, distance)
        for entry, distance in found
        if not distance <= (_GROWN if entry.kind == "parameter" else limit) * sizes[sort(entry)]
    ]
    if not far or disturbed is None:
        return not far
    grown: dict[str, float] = {}
    for entry, distance in _apart_by(before, disturbed().state):
        if math.isfinite(distance):
            grown[sort(entry)] = max(grown.get(sort(entry), 0.0), distance)
    return all(distance <= _ONCE * grown.get(sort(entry), 0.0) for entry, distance in far)


def _apart_by(before: Sequence[Entry], after: Sequence[Entry]) -> list[tuple[Entry, float]]:
    """The tensors that differ, and by how much: without bounds where nothing is known of it."""
    found = [(one, apart(one, other)) for one, other in other_tensors(before, after)]
    return [(one, math.inf if distance is None else distance) for one, distance in found]


def _way(start: Sequence[Entry], end: Sequence[Entry]) -> float:
    """How far the parameter that went furthest went."""
    ways = [apart(one, other) or 0.0 for one, other in other_tensors(start, end) if one.kind == "parameter"]
    return max((way for way in ways if math.isfinite(way)), default=0.0)
