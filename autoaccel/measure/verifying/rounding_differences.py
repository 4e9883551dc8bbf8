"""Whether two runs differ by no more than rounding, and what comes of that: sums in another order, captured graphs.

The proof is in float64, where it shrinks as roundings do (`tolerances`). Where a script does not run in float64 it is
judged over the whole trajectory in float32: by what one rounding of the parameters grows to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autoaccel.measure.observing.run_record import Entry, Loss, RunRecord
from autoaccel.measure.verifying import printed, written_files
from autoaccel.measure.verifying.comparing import Reference, differences, first_loss, other_tensors, structure
from autoaccel.measure.verifying.facts import NUMBERS, apart, is_whole
from autoaccel.measure.verifying.leeway import Leeway
from autoaccel.measure.verifying.regrouping import regrouped
from autoaccel.measure.verifying.tolerances import (
    DOUBLE,
    PARAMETERS,
    ROUNDING,
    SINGLE,
    STATE,
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


@dataclass(frozen=True, slots=True)
class Strictness:
    """How far numbers may stray in float32."""

    relative: float
    """Losses, relative to themselves, and what is printed and saved."""
    times: float
    """What one rounding of each parameter grows to, where there is one in each step."""


STRICT = Strictness(_FIRST, 10)
COARSE = Strictness(_GROWN, 100)
"""What no rounding makes, however it grows."""


def may_be_rounding(original: Reference, other: RunRecord) -> bool:
    """Whether nothing but numbers differs, and the first loss that does by no more than rounding."""
    kinds = {each.kind for each in differences(original, other)}
    if structure(original, other) or not kinds <= NUMBERS | {"portion", "saved"}:
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
    known = replace(original, record=before)
    if any(True for _ in beyond(known, after, tolerances)):
        return True
    return _says_otherwise(known, after, Leeway(tolerances.bound(before), STATE, in_bytes=True))


def _says_otherwise(original: Reference, other: RunRecord, leeway: Leeway) -> bool:
    """Whether lines and files differ by more than there is leeway for."""
    before = original.record
    if original.prints:
        bound = leeway.of_lines(before.printed, lambda run: run.printed)
        if printed.difference(before.printed, other.printed, original.masks, bound) is not None:
            return True
    return any(True for _ in written_files.differences(original.files, before, other, leeway))


# -- in float32


def is_rounding(
    original: Reference,
    other: RunRecord,
    start: Callable[[], RunRecord],
    disturbed: Callable[[], RunRecord] | None = None,
    strictness: Strictness = STRICT,
) -> bool:
    """Whether two runs differ by rounding: the first loss that does by no more than one, those after it, the state, and
    what is printed and saved by no more than what comes of that.

    `start` gives the original after its first step: parameters are measured by how far they went. `disturbed` gives it
    with all its parameters rounded once.
    """
    if not may_be_rounding(original, other):
        return False
    before, after, _ = regrouped(original.record, other)
    known = replace(original, record=before)
    if trains_alike(original, other):
        is_near = _is_near(before.state, after.state, start, strictness, disturbed, limit=_FIRST)
        grows = None if _is_same(before.state, after.state) else disturbed
        return is_near and not _strays(known, after, Leeway(_FIRST, _FIRST), grows, strictness)
    if not _is_near(before.state, after.state, start, strictness, disturbed):
        return False
    if not _are_near(known.record.losses, after.losses, original.record, disturbed, strictness):
        return False
    leeway = Leeway(strictness.relative, strictness.relative, in_bytes=True, trained=True)
    return not _strays(known, after, leeway, disturbed, strictness)


def trains_alike(original: Reference, other: RunRecord) -> bool:
    """Whether all losses are the same, bit for bit."""
    before, after, _ = regrouped(original.record, other)
    return first_loss(before.losses, after.losses) is None


def is_trained_alike(original: Reference, other: RunRecord) -> bool:
    """Whether the state is the same in the end, too."""
    return trains_alike(original, other) and _is_same(original.record.state, other.state)


def _is_same(before: Sequence[Entry], after: Sequence[Entry]) -> bool:
    return not any(True for _ in other_tensors(before, after))


def _are_near(
    before: Sequence[Loss],
    after: Sequence[Loss],
    original: RunRecord,
    disturbed: Callable[[], RunRecord] | None,
    strictness: Strictness,
) -> bool:
    """Whether losses stay as near as roundings leave them."""
    found = list(distances(before, after))
    if disturbed is None or max(found, default=0.0) <= strictness.relative:
        return True
    grown, most = list(growth(original, disturbed())), 0.0
    if len(grown) != len(found):
        return True  # they are in other portions, or the push made another run of it
    for distance, other_distance in zip(found, grown, strict=True):
        most = max(most, other_distance)
        if not distance <= strictness.relative + strictness.times * most:
            return False
    return True


def _strays(
    original: Reference,
    other: RunRecord,
    leeway: Leeway,
    disturbed: Callable[[], RunRecord] | None,
    strictness: Strictness,
) -> bool:
    """Whether lines and files differ by more than there is leeway for, and by more than roundings grow to."""
    if not _says_otherwise(original, other, leeway):
        return False
    if disturbed is None:
        return True
    grown = max(growth(original.record, disturbed()), default=0.0) * strictness.times
    wider = replace(leeway, relative=leeway.relative + grown, disturbed=disturbed(), times=strictness.times)
    return _says_otherwise(original, other, wider)


def _is_near(
    before: Sequence[Entry],
    after: Sequence[Entry],
    start: Callable[[], RunRecord],
    strictness: Strictness,
    disturbed: Callable[[], RunRecord] | None = None,
    *,
    limit: float = _GROWN,
) -> bool:
    """Whether each tensor is off by no more than a part of what tensors of its sort are, or than roundings grow to;
    what counts something, by no more than that."""
    found = _apart_by(before, after)
    if not found:
        return True
    sizes = largest(before) | {PARAMETERS: _way(start().state, before)}

    def allowed(entry: Entry) -> float:
        part = 0.0 if is_whole(entry) else _GROWN if entry.kind == "parameter" else limit
        return part * sizes[sort(entry)]

    far = [(entry, distance) for entry, distance in found if not distance <= allowed(entry)]
    if not far or disturbed is None:
        return not far
    grown: dict[str, float] = {}
    for entry, distance in _apart_by(before, disturbed().state):
        if math.isfinite(distance):
            grown[sort(entry)] = max(grown.get(sort(entry), 0.0), distance)
    return all(distance <= strictness.times * grown.get(sort(entry), 0.0) for entry, distance in far)


def _apart_by(before: Sequence[Entry], after: Sequence[Entry]) -> list[tuple[Entry, float]]:
    """The tensors that differ, and by how much: without bounds where nothing is known of it."""
    found = [(one, apart(one, other)) for one, other in other_tensors(before, after)]
    return [(one, math.inf if distance is None else distance) for one, distance in found]


def _way(start: Sequence[Entry], end: Sequence[Entry]) -> float:
    """How far the parameter that went furthest went."""
    ways = [apart(one, other) or 0.0 for one, other in other_tensors(start, end) if one.kind == "parameter"]
    return max((way for way in ways if math.isfinite(way)), default=0.0)
