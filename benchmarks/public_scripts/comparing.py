"""Whether two runs trained the same, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.public_scripts.running import Outcome

_OF_TIME = re.compile(r"(?<![a-z])(time|eta|elapsed|seconds|ms|[0-9.]+ ?m?s)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two runs; empty when they trained the same."""

    parts: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        return ", ".join(self.parts) if self.parts else "equal"


def stable_output(first: Outcome, second: Outcome) -> Outcome:
    """`first` with the printed lines blanked that differ between two identical runs, or may: they speak of time."""
    pairs = zip(first.output, second.output, strict=False)
    kept = tuple(line if line == other and not _OF_TIME.search(line) else "" for line, other in pairs)
    return replace(first, output=kept if len(first.output) == len(second.output) else ())


def first_difference(one: Sequence[str], other: Sequence[str]) -> int | None:
    """Index of the first unequal element, or of the end of the shorter; None when equal."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))


def compare(reference: Outcome, other: Outcome) -> Difference:
    """Losses, steps, final state, status and stable output of `other` against `reference`."""
    parts = []
    if (reference.status, reference.error) != (other.status, other.error):
        parts.append(f"{other.status} {other.error}".strip())
    where = first_difference(reference.losses, other.losses)
    if where is not None:
        parts.append(f"loss {where} of {len(reference.losses)}")
    if reference.steps != other.steps:
        parts.append(f"{other.steps} steps for {reference.steps}")
    if reference.state != other.state:
        parts.append("parameters")
    if reference.random != other.random:
        parts.append("random state")
    if reference.output:
        lines = tuple(line if expected else "" for line, expected in zip(other.output, reference.output, strict=False))
        differing = first_difference(reference.output, lines) if len(reference.output) == len(other.output) else -1
        if differing is not None:
            parts.append("number of printed lines" if differing < 0 else f"printed line {differing + 1}")
    return Difference(tuple(parts))
