"""Three versions of a text made one: what one side left as it was is taken from the other, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LONG = 1000  # lines from which the exact comparison of frequent lines would take long


@dataclass(frozen=True, slots=True)
class Conflict:
    """Lines that both sides have changed, each otherwise. `line` is where they are in our version, from 1."""

    line: int
    ours: tuple[bytes, ...]
    theirs: tuple[bytes, ...]


def merge(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, tuple[Conflict, ...]]:
    """`ours` with what `theirs` changes in `base`, and where that cannot be, because `ours` has changed it, too."""
    old, mine, other = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    merged: list[bytes] = []
    conflicts = []
    at = at_mine = at_other = 0
    for start, in_mine, in_other, length in _shared(old, mine, other):
        before, here, there = old[at:start], mine[at_mine:in_mine], other[at_other:in_other]
        if here == before:
            merged += there
        elif there in (before, here):
            merged += here
        else:
            conflicts.append(Conflict(at_mine + 1, tuple(here), tuple(there)))
        merged += old[start : start + length]
        at, at_mine, at_other = start + length, in_mine + length, in_other + length
    return b"".join(merged), tuple(conflicts)


def _shared(old: Sequence[bytes], mine: Sequence[bytes], other: Sequence[bytes]) -> Iterator[tuple[int, int, int, int]]:
    """The stretches that all three have, in order, by where they begin in each, and their length; an empty one ends."""
    ours, theirs = (
        iter(difflib.SequenceMatcher(None, old, each, autojunk=len(old) > _LONG).get_matching_blocks())
        for each in (mine, other)
    )
    one, two = next(ours), next(theirs)
    while one.size and two.size:
        start, end = max(one.a, two.a), min(one.a + one.size, two.a + two.size)
        if start < end:
            yield start, start - one.a + one.b, start - two.a + two.b, end - start
        if one.a + one.size == end:
            one = next(ours)
        else:
            two = next(theirs)
    yield len(old), len(mine), len(other), 0
