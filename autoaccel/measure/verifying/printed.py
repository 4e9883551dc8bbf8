"""Lines that two runs print: the same apart from times, addresses, places, and what varies between equal runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_WORDS = re.compile(r"0x[0-9a-fA-F]+|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[^\W\d]+|\S")
_NUMBER = re.compile(r"[-+]?(?:\d|\.\d)|0x")
# What depends on how fast the machine is. A minimum is written as a minute is, but a number follows it.
_OF_TIME = re.compile(
    r"(?:\b(?:time|eta|elapsed|took|duration|speed)\b\W{0,4}[-+\d.:e]+)"
    r"|(?:[\d.]+(?:e[-+]?\d+)? ?(?:[mun]?s|secs?|seconds?|mins|minutes?|hours?|[a-z]+/s(?:ec)?)\b)"
    r"|(?:[\d.]+ ?min\b(?!\s*[:=]|\s+[-+]?\d*\.\d))"
    r"|(?:\b\d+:\d\d(?::\d\d)?(?:\.\d+)?\b)",
    re.IGNORECASE,
)
# A printed tensor shows whether a graph was built, which is what no_grad is there to change.
_GRAPH = re.compile(r",\s*(?:grad_fn=<[^>]*>|requires_grad=True)")
_CHANCE = 4  # significant digits of a time that equal runs do not have in common by chance
_NOTHING = 1e-3  # numbers below are compared as if they were that large
_FINE = 0.01  # of a number: how much its last digit is at most where it may be rounded up or down
# Where a run takes place: copies of a folder have other names.
_PATH = re.compile(r"(?<![\w.~])(?:~|\.{0,2})/[\w.+~-][^\s'\",;:)]*")


@dataclass(frozen=True, slots=True)
class Masks:
    """What is not the same in equal runs, which print as many lines."""

    words: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Of each shape the words that vary in any line of that shape."""
    paths: bool = True
    """Whether paths may vary."""

    def joined(self, other: Masks) -> Masks:
        """What varies in either."""
        both = {**self.words, **other.words}
        words = {each: self.words.get(each, frozenset()) | other.words.get(each, frozenset()) for each in both}
        return Masks(words, self.paths or other.paths)


@dataclass(frozen=True, slots=True)
class Bound:
    """How far numbers may be off."""

    relative: float = 0.0
    """To themselves."""
    counts: bool = False
    """Whether that goes for whole numbers, too: what is counted may depend on what was rounded."""
    last_digit: bool = False
    """Whether their last digit may be rounded up or down."""
    grown: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Of words of a shape what is allowed at least, as a number."""


EXACT = Bound()


def growth(before: Sequence[str], disturbed: Sequence[str], times: float) -> dict[str, dict[int, float]]:
    """`Bound.grown`: so many times as much as numbers are off in any line of a shape."""
    found: dict[str, dict[int, float]] = {}
    for one, two in zip(map(_plain, before), map(_plain, disturbed), strict=False):
        shape = _shape(one)
        if one != two and shape == _shape(two):
            known = found.setdefault(shape, {})
            for at, (this, that) in enumerate(zip(_WORDS.findall(one), _WORDS.findall(two), strict=True)):
                known[at] = max(known.get(at, 0.0), times * _off(this, that))
    return found


def _off(one: str, two: str) -> float:
    """How far two numbers are apart; not at all where they are none."""
    try:
        off = abs(float(one) - float(two))
    except ValueError:
        return 0.0
    return off if math.isfinite(off) else 0.0


def _plain(line: str) -> str:
    """A line without what may differ for reasons of its own."""
    return _PATH.sub("/", _GRAPH.sub("", line))


def _shape(line: str) -> str:
    return " ".join("#" if _NUMBER.match(word) else word for word in _WORDS.findall(line))


def shapes(lines: Sequence[str]) -> list[str]:
    """What lines have in common with others that differ from them in their numbers."""
    return [_shape(_plain(line)) for line in lines]


def masks(runs: Sequence[Sequence[str]]) -> Masks:
    """What varies between runs that should be equal."""
    found: dict[str, set[int]] = {}
    paths = False
    for lines in zip(*runs, strict=True):
        words = [_WORDS.findall(_plain(line)) for line in lines]
        varying = {at for at, same in enumerate(zip(*words, strict=False)) if len(set(same)) > 1}
        found.setdefault(_shape(_plain(lines[0])), set()).update(varying)
        paths = paths or len({tuple(_PATH.findall(line)) for line in lines}) > 1
    return Masks({shape: frozenset(varying) for shape, varying in found.items()}, paths)


def difference(
    before: Sequence[str], after: Sequence[str], masked: Masks, bound: Bound = EXACT, *, verb: str = "printed"
) -> str | None:
    """The first line that is another, as a phrase; None where all are the same, apart from words that are masked.

    Args:
        before: What the original printed.
        after: What the other run printed.
        masked: What equal runs of the original do not have in common.
        bound: How far numbers may be off.
        verb: What is said of lines.
    """
    for one, two in zip(before, after, strict=False):
        if not _same(one, two, masked, bound):
            return f"{verb} {_quoted(two)} instead of {_quoted(one)}"
    if len(before) > len(after):
        return f"{_quoted(before[len(after)])} is not {verb}"
    if len(after) > len(before):
        return f"{_quoted(after[len(before)])} is {verb}, too"
    return None


def _same(one: str, two: str, masks: Masks, bound: Bound) -> bool:
    if not masks.paths and _PATH.findall(one) != _PATH.findall(two):
        return False
    one, two = _plain(one), _plain(two)
    if one == two:
        return True
    shape = _shape(one)
    if _shape(two) != shape:
        return False
    left, right = _WORDS.findall(one), _WORDS.findall(two)
    known = masks.words.get(shape)
    masked = known or frozenset()
    # What is as long as chance does not make it, and repeats itself, is called like a time and is none.
    masked |= {at for at in _of_time(one) if known is None or _digits(left[at]) < _CHANCE}
    pairs = enumerate(zip(left, right, strict=True))
    grown = bound.grown.get(shape, {})
    return all(
        at in masked or close(this, that, bound, grown.get(at, 0.0)) for at, (this, that) in pairs if this != that
    )


def _digits(word: str) -> int:
    """How many significant digits a number has."""
    return len(re.sub(r"\D", "", re.split("[eE]", word)[0]).strip("0"))


def close(one: str, two: str, bound: Bound, grown: float = 0.0) -> bool:
    """Whether two words are numbers that differ by no more than what is allowed, or than `grown`."""
    try:
        left, right = float(one), float(two)
    except ValueError:
        return False
    relative = bound.relative if bound.counts or not (_is_whole(one) and _is_whole(two)) else 0.0
    if math.isclose(left, right, rel_tol=relative, abs_tol=max(relative * _NOTHING, grown)):
        return True
    unit = max(_unit(one), _unit(two)) if bound.last_digit else 0.0
    return abs(left - right) < 1.5 * unit <= 1.5 * _FINE * abs(left)


def _is_whole(word: str) -> bool:
    return word.lstrip("+-").isdigit()


def _unit(word: str) -> float:
    """What the last digit of a number counts; nothing where it is a whole one."""
    mantissa, _, exponent = word.lower().partition("e")
    _, point, digits = mantissa.partition(".")
    return 10.0 ** (int(exponent or 0) - len(digits)) if point else 0.0


def alike(one: str, two: str, bound: Bound) -> bool:
    """Whether two texts are the same but for numbers that are `close`."""
    left, right = _WORDS.findall(one), _WORDS.findall(two)
    pairs = zip(left, right, strict=False)
    return len(left) == len(right) and all(this == that or close(this, that, bound) for this, that in pairs)


def _of_time(line: str) -> set[int]:
    """The words that speak of time, which may be equal in two runs by chance."""
    spans = [match.span() for match in _OF_TIME.finditer(line)]
    words = enumerate(_WORDS.finditer(line))
    return {at for at, word in words if any(start <= word.start() < end for start, end in spans)}


def _quoted(line: str, most: int = 60) -> str:
    line = line.strip()
    return repr(line if len(line) <= most else f"{line[:most]}…")
