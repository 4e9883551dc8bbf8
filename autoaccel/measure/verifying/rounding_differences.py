"""Whether two runs differ by no more than rounding, and what comes of that: sums in another order, captured graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from autoaccel.measure.observing.run_record import Entry, RunRecord
from autoaccel.measure.verifying.comparing import Reference, apart, differences, first_loss, structure
from autoaccel.measure.verifying.facts import NUMBERS

_ROUNDING = 1e-5
"""Relative; float32 has a resolution of 6e-8, and some hundred roundings go into a loss before the first differs."""
_GROWN = 0.01
"""What a rounding may have grown to at the end."""


def is_rounding(original: Reference, other: RunRecord, start: Callable[[], RunRecord]) -> bool:
    """Whether nothing but numbers differs: the first loss that does by no more than rounding, the state by no more than
    what comes of that. `start` gives the original after its first step: parameters are measured by how far they went.
    """
    kinds = {each.kind for each in differences(original, other)}
    if structure(original, other) or not kinds <= NUMBERS | {"saved"} or (kinds and kinds <= {"printed", "saved"}):
        return False
    before, after = original.record.losses, other.losses
    index = first_loss(before, after)
    if index is None:
        return _is_near(original.record.state, other.state, start, _ROUNDING)
    if index == min(len(before), len(after)):
        return False
    one, two = before[index].value, after[index].value
    if one is None or two is None or not abs(one - two) <= _ROUNDING * max(abs(one), abs(two)):
        return False
    return _is_near(original.record.state, other.state, start, _GROWN)


def _is_near(before: Sequence[Entry], after: Sequence[Entry], start: Callable[[], RunRecord], limit: float) -> bool:
    """Whether each tensor is off by no more than a part of what tensors of its sort are."""
    known = {(each.kind, each.name): each for each in after}
    pairs = [(each, known[each.kind, each.name]) for each in before]
    off = [(one, apart(one, other)) for one, other in pairs if one.digest != other.digest]
    if not off:
        return True
    sizes = largest(before) | {_PARAMETERS: _way(start().state, before)}
    for entry, distance in off:
        share = _GROWN if entry.kind == "parameter" else limit
        if distance is None or not distance <= share * sizes[sort(entry)]:
            return False
    return True


def largest(state: Iterable[Entry]) -> dict[str, float]:
    """Of each sort of tensors the largest norm."""
    sizes: dict[str, float] = {}
    for entry in state:
        sizes[sort(entry)] = max(sizes.get(sort(entry), 0.0), entry.norm if math.isfinite(entry.norm) else 0.0)
    return sizes


def _way(start: Sequence[Entry], end: Sequence[Entry]) -> float:
    """How far the parameter that went furthest went."""
    known = {each.name: each for each in start if each.kind == "parameter"}
    pairs = [(known[each.name], each) for each in end if each.kind == "parameter" and each.name in known]
    ways = [apart(one, other) or 0.0 for one, other in pairs]
    return max((way for way in ways if math.isfinite(way)), default=0.0)


_PARAMETERS = "norm"


def sort(entry: Entry) -> str:
    """Tensors of one sort are of one magnitude: parameters, and buffers and states of optimizers that are called
    alike."""
    if entry.kind == "parameter":
        return _PARAMETERS
    return f"norm of {entry.name.replace('.', ' ').split()[-1]}"
