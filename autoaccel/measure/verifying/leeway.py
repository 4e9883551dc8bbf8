"""How far what a run says and writes may be off where it rounds otherwise: its lines, and the numbers in its files.

Names, keys, shapes and how many there are must be the same whatever is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from autoaccel.measure.observing.run_record import Entry, RunRecord, Written
from autoaccel.measure.verifying import printed
from autoaccel.measure.verifying.facts import apart
from autoaccel.measure.verifying.printed import Bound

Lines = Callable[[RunRecord], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Leeway:
    """How much room there is for rounding."""

    relative: float = 0.0
    """Numbers in texts, to themselves."""
    tensors: float = 0.0
    """Tensors, to the largest of their sort in the same file."""
    in_bytes: bool = False
    """Whether numbers may be rounded in files whose bytes are all that is known of them."""
    trained: bool = False
    """Whether what is trained was rounded, and all that is made of it."""
    disturbed: RunRecord | None = None
    """The original, rounded otherwise: what differs there may differ as much, `times` over."""
    times: float = 0.0

    def of_lines(self, before: Sequence[str], lines: Lines) -> Bound:
        """Of some lines of the original; `lines` gives those of another run."""
        grown = {} if self.disturbed is None else printed.growth(before, lines(self.disturbed), self.times)
        return Bound(self.relative, counts=self.trained, last_digit=self.trained, grown=grown)

    def far(self, before: Written, after: Written) -> Iterator[str]:
        """The lines of what one checkpoint holds that another does not hold, or not as near as it has to be."""
        known, others = ({each.name: each for each in written.numbers} for written in (before, after))
        sizes, grown = _largest((each.name, each.norm) for each in before.numbers), self._grown(before)
        contents = dict(zip(after.holds, after.contents, strict=True))
        for line, digest in zip(before.holds, before.contents, strict=True):
            if contents.get(line) == digest:
                continue
            off = _apart(known[line], others.get(line)) if line in known and line in contents else math.inf
            allowed = max(self.tensors * sizes.get(_sort(line), 0.0), grown.get(_sort(line), 0.0))
            if not off <= allowed:
                yield line

    def _grown(self, before: Written) -> dict[str, float]:
        """By sort, how far tensors are off in a run that is rounded otherwise."""
        if self.disturbed is None:
            return {}
        disturbed = next((each for each in self.disturbed.written if each.path == before.path), before)
        known = {each.name: each for each in disturbed.numbers}
        pairs = ((each, known.get(each.name, each)) for each in before.numbers)
        return _largest((one.name, self.times * _apart(one, other)) for one, other in pairs)


EXACTLY = Leeway()


def _apart(one: Entry, other: Entry | None) -> float:
    """Without bounds where nothing is known of it."""
    off = None if other is None else apart(one, other)
    return math.inf if off is None else off


def _sort(line: str) -> str:
    """The last name of a key: tensors that are called alike are of one magnitude."""
    return line.partition(":")[0].rpartition(".")[2]


def _largest(known: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Of each sort the largest number."""
    found: dict[str, float] = {}
    for line, size in known:
        if math.isfinite(size):
            found[_sort(line)] = max(found.get(_sort(line), 0.0), size)
    return found
