"""Lines that two runs print: the same apart from times, addresses, places, and what varies between equal runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

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
_NOTHING = 1e-3  # numbers below are compared as if they were that large
# Where a run takes place: copies of a folder have other names.
_PATH = re.compile(r"(?<![\w.~])(?:~|\.{0,2})/[\w.+~-][^\s'\",;:)]*")


def _plain(line: str) -> str:
    """A line without what may differ for reasons of its own."""
    return _PATH.sub("/", _GRAPH.sub("", line))


def _shape(line: str) -> str:
    return " ".join("#" if _NUMBER.match(word) else word for word in _WORDS.findall(line))


def shapes(lines: Sequence[str]) -> list[str]:
    """What lines have in common with others that differ from them in their numbers."""
    return [_shape(_plain(line)) for line in lines]


def masks(runs: Sequence[Sequence[str]]) -> dict[str, frozenset[int]]:
    """Of each shape the words that are not the same in all runs, which print as many lines, in any line of that
    shape."""
    found: dict[str, set[int]] = {}
    for lines in zip(*runs, strict=True):
        words = [_WORDS.findall(_plain(line)) for line in lines]
        varying = {at for at, same in enumerate(zip(*words, strict=False)) if len(set(same)) > 1}
        found.setdefault(_shape(_plain(lines[0])), set()).update(varying)
    return {shape: frozenset(varying) for shape, varying in found.items()}


def difference(
    before: Sequence[str], after: Sequence[str], masked: Mapping[str, frozenset[int]], bound: float = 0.0
) -> str | None:
    """The first line that is another, as a phrase; None where all are the same, apart from words that are masked.

    `bound` is how far numbers may be off, relative to themselves.
    """
    for one, two in zip(before, after, strict=False):
        if not _same(one, two, masked, bound):
            return f"printed {_quoted(two)} instead of {_quoted(one)}"
    if len(before) > len(after):
        return f"{_quoted(before[len(after)])} is not printed"
    if len(after) > len(before):
        return f"{_quoted(after[len(before)])} is printed, too"
    return None


def _same(one: str, two: str, masks: Mapping[str, frozenset[int]], bound: float) -> bool:
    one, two = _plain(one), _plain(two)
    if one == two:
        return True
    shape = _shape(one)
    if _shape(two) != shape:
        return False
    masked = masks.get(shape, frozenset()) | _of_time(one)
    words = zip(_WORDS.findall(one), _WORDS.findall(two), strict=True)
    return all(at in masked or close(left, right, bound) for at, (left, right) in enumerate(words) if left != right)


def close(one: str, two: str, bound: float) -> bool:
    """Whether two words are numbers that differ by no more than a part of themselves."""
    try:
        return math.isclose(float(one), float(two), rel_tol=bound, abs_tol=bound * _NOTHING)
    except ValueError:
        return False


def alike(one: str, two: str, bound: float) -> bool:
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
