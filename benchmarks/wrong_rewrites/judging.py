"""What a rewritten program must do, condition by condition, and what it did that it must not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks.wrong_rewrites.running import (
    AHEAD,
    CAPTURED,
    CHANNELS_LAST,
    DISABLED,
    EARLY,
    FUSED,
    LOW,
    MOVED,
    SCALED,
    TRACED,
    Condition,
    Record,
)

_NUMBER = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?|-?\d+(?:e[+-]?\d+)?|\bnan\b|-?\binf\b")
ROUNDING = (FUSED, CHANNELS_LAST)
"""Conditions under which sums are rounded otherwise."""
# This machine cannot run it at all in bfloat16, which is for the runtime to know.
_CANNOT = ("could not create a primitive", "mkldnn", "not implemented for 'BFloat16'", '"_thnn_fused')


@dataclass(frozen=True, slots=True)
class Find:
    """Something that a rewrite must not do."""

    check: str
    what: str
    """In one line."""

    @property
    def kind(self) -> str:
        """Without what changes from program to program."""
        return f"{self.check}: {re.sub(r'[0-9]+', '#', self.what.split(' | ')[0])[:120]}"


def strict(plain: Record, other: Record) -> str:
    """What is not bit for bit the same; empty if everything is."""
    if other.error != plain.error:
        return f"{other.error or 'no error'} | {other.where}"
    if other.marks:
        return f"mark: {other.marks[0]}"
    if other.steps != plain.steps:
        return f"steps | {other.steps} and not {plain.steps}"
    if other.losses != plain.losses:
        at = next((i for i, pair in enumerate(zip(plain.losses, other.losses, strict=False)) if pair[0] != pair[1]), -1)
        return f"losses | from backward {at} on: {_spelled(other.losses, at)} and not {_spelled(plain.losses, at)}"
    if other.printed != plain.printed:
        return f"printed | {_first(plain.printed, other.printed)}"
    if other.shapes != plain.shapes:
        return "types or shapes of parameters"
    if other.state != plain.state:
        return "parameters, buffers or optimizer"
    if other.random != plain.random:
        return "random numbers"
    return ""


def loose(plain: Record, other: Record) -> str:
    """What low precision does not explain."""
    if other.error != plain.error:
        if any(phrase in other.error for phrase in _CANNOT):
            return ""
        return f"{other.error or 'no error'} | {other.where}"
    if other.marks:
        return f"mark: {other.marks[0]}"
    if len(other.losses) != len(plain.losses) or other.steps != plain.steps:
        return f"steps | {other.steps} and not {plain.steps}"
    if other.shapes != plain.shapes:
        return "types or shapes of parameters"
    for one, two in list(zip(plain.losses, other.losses, strict=True))[:1]:
        if not _near(_number(one), _number(two)):
            return f"losses | {_number(two)} and not {_number(one)}"
    shapes = [tuple(_NUMBER.sub(_sort, line) for line in each.printed) for each in (plain, other)]
    if shapes[0] != shapes[1] and not _lists(plain.printed, other.printed):
        return f"printed | {_first(plain.printed, other.printed, lambda line: _NUMBER.sub(_sort, line))}"
    return ""


def rounded(plain: Record, other: Record, share: float = 0.01) -> str:
    """What sums in another order do not explain: in so few steps, no loss differs by a hundredth."""
    near = loose(plain, other)
    if near or other.error:
        return near
    pairs = [(_number(one), _number(two)) for one, two in zip(plain.losses, other.losses, strict=True)]
    close = partial(math.isclose, rel_tol=share, abs_tol=share / 10)
    apart = [pair for pair in pairs if not close(*pair) and not math.isnan(pair[0])]
    return f"losses | {apart[0][1]} and not {apart[0][0]}" if apart else ""


def ended(plain: Record, other: Record) -> str:
    """Only whether it came to the same end: for workers that draw random numbers of their own."""
    if other.error != plain.error:
        return f"{other.error or 'no error'} | {other.where}"
    if other.steps != plain.steps:
        return f"steps | {other.steps} and not {plain.steps}"
    return f"mark: {other.marks[0]}" if other.marks else ""


def judge(
    condition: Condition, plain: Record, other: Record, vector: Mapping[str, str], *, rounds: bool = False
) -> Find | None:
    """What is wrong with a run under a condition; `rounds` is that of the form that ran (`Forms.rounds`)."""
    compare: Callable[[Record, Record], str]
    if condition in (LOW, TRACED):
        compare = loose
    elif condition in ROUNDING:
        compare = rounded
    elif condition == AHEAD and draws(vector):
        compare = ended
    else:
        assert condition in (MOVED, SCALED, DISABLED, EARLY, AHEAD, CAPTURED)
        compare = rounded if rounds and condition != MOVED else strict
    what = compare(plain, other)
    return Find(condition.name, what) if what else None


def draws(vector: Mapping[str, str]) -> bool:
    """Whether random numbers are drawn where samples are made: workers draw others."""
    return (
        vector.get("dataset", "") in ("noisy torch", "noisy numpy", "noisy python", "own generator")
        or vector.get("collate", "") == "random"
    )


def _number(loss: str) -> float:
    try:
        return float.fromhex(loss)
    except ValueError:
        return 0.0


def _near(one: float, two: float) -> bool:
    if math.isnan(one) or math.isnan(two):
        return math.isnan(one) == math.isnan(two)
    return math.isinf(one) or abs(one - two) <= 0.1 + 0.2 * abs(one)


def _sort(match: re.Match[str]) -> str:
    """Whole numbers stay whole; values are another matter."""
    return "F" if set(match[0]) & set(".naif") else "I"


def _lists(plain: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether lines differ only in how long lists are, as those of counted or chosen things may be."""
    if len(plain) != len(other):
        return False
    forms = [tuple(re.sub(r"\[[^\]]*\]", "[]", _NUMBER.sub(_sort, line)) for line in each) for each in (plain, other)]
    return forms[0] == forms[1]


def _spelled(losses: tuple[str, ...], at: int) -> str:
    return losses[at] if 0 <= at < len(losses) else "none"


def _first(plain: tuple[str, ...], other: tuple[str, ...], form: Callable[[str], str] = str) -> str:
    for one, two in zip(plain, other, strict=False):
        if form(one) != form(two):
            return f"{two!r} and not {one!r}"[:300]
    return f"{len(other)} lines and not {len(plain)}"
