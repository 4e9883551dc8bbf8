"""What processes that train together do otherwise than one process does, but for rounding.

They add in another order, so numbers are compared within a bound, which is what roundings may have grown to. How often
what is done, on which batches, with which random numbers and settings must be the same on each of them. Files are
written by one of them, and so is what is printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autoaccel.measure.changes import known_as
from autoaccel.measure.launching import WITH_OTHERS
from autoaccel.measure.observing.run_record import FAILED, Entry, Loss, RunRecord, Written
from autoaccel.measure.verifying import comparing, printed
from autoaccel.measure.verifying.comparing import Reference, apart
from autoaccel.measure.verifying.facts import Difference, in_order, named
from autoaccel.measure.verifying.rounding_differences import largest, sort
from autoaccel.reports.counting import counted, listed

DOUBLE, SINGLE = 1e-12, 1e-5
"""How far losses may be off, relative to themselves, before it is looked at how roundings grow in this script."""
MOST: Mapping[float, float] = {DOUBLE: 1e-6, SINGLE: 1e-2}
"""How far at most, however they grow."""
_GROWTH = 100  # times what one rounding of each parameter grows to: there are more of them
_STATE = 1e-6  # of the largest tensor of its sort
_SIGNAL = "signal"
_TOPIC = "distribute"  # of the runtime's decisions


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


def growth(original: RunRecord, disturbed: RunRecord) -> tuple[float, ...]:
    """By how much losses differ, relative to themselves, in a run whose parameters were disturbed by a rounding."""
    return tuple(_distances(original.losses, disturbed.losses))


def off(original: RunRecord, ranks: Sequence[RunRecord]) -> float:
    """How far losses of some rank are off at most, relative to themselves."""
    return max((distance for record in ranks for distance in growth(original, record)), default=0.0)


def differences(
    original: Reference, alone: RunRecord, ranks: Sequence[RunRecord], tolerances: Tolerances
) -> list[Difference]:
    """All that is not as one process does it; of what several ranks do alike only what the first of them does. `alone`
    is one process that runs the same text as the ranks.
    """
    if failure := failed(ranks):
        return [failure]
    found: dict[tuple[str, str], Difference] = {}
    for rank, record in enumerate(ranks):
        for each in _of_rank(original, record, tolerances):
            where = f" on rank {rank}" if rank else ""
            found.setdefault((each.kind, each.text), Difference(each.kind, f"{each.text}{where}"))
    if original.prints:
        bound = max(tolerances.allowed(len(original.record.losses)), _STATE)
        line = printed.difference(original.record.printed, ranks[0].printed, original.masks, bound)
        found.update({} if line is None else {("printed", line): Difference("printed", line)})
    for rank, record in enumerate(ranks[1:], 1):
        if record.printed and not _joined(record):
            text = f"rank {rank} prints {record.printed[0].strip()!r}, too"
            found.setdefault(("printed", "too"), Difference("printed", text))
    return in_order([*found.values(), *files(original.record, alone, ranks)])


def notes(ranks: Sequence[RunRecord]) -> Iterator[str]:
    """What is right, and may not be what is wanted."""
    lines = max((len(record.printed) for record in ranks[1:]), default=0)
    if lines:
        yield f"the first {counted(lines, 'line')} of what is printed come from every process, before they join"
    for each in ranks[0].decisions:
        model = each.topic.removeprefix(f"{_TOPIC} ")
        if model != each.topic and each.value == "False":
            yield f"each process computes all of what {model} does: {each.reason}"


def failed(ranks: Sequence[RunRecord]) -> Difference | None:
    """Why a run failed, as the rank says for which it was not another one that failed."""
    wrong = [(rank, record) for rank, record in enumerate(ranks) if record.ending == FAILED]
    if not wrong:
        return None
    rank, record = min(wrong, key=lambda each: (_because_of_others(each[1]), each[1].seconds))
    return Difference("failure", f"rank {rank}: {comparing.failed(record).removeprefix('it ')}")


def _because_of_others(record: RunRecord) -> int:
    kind = "" if record.failure is None else record.failure.kind
    return 2 if kind == WITH_OTHERS else 0 if kind == _SIGNAL else 1


def _joined(record: RunRecord) -> bool:
    """Whether the runtime has made a process one of several."""
    return any(each.topic == _TOPIC for each in record.decisions)


# -- one rank


def _of_rank(original: Reference, record: RunRecord, tolerances: Tolerances) -> Iterator[Difference]:
    before = original.record
    bound = max(tolerances.allowed(len(before.losses)), _STATE)
    yield from comparing.structure(original, record, partial(_same_setting, bound=bound))
    if "data" not in original.unsteady:
        yield from comparing.data(before, record)
    yield from _losses(before.losses, record.losses, tolerances.allowed)
    if tolerances.relative == DOUBLE:
        yield from _state(before.state, record.state)
    if "random" not in original.unsteady:
        yield from comparing.random(before, record)


def _same_setting(before: str | None, after: str | None, *, bound: float) -> bool:
    return before == after or (before is not None and after is not None and printed.alike(before, after, bound))


def _losses(before: Sequence[Loss], after: Sequence[Loss], allowed: Callable[[int], float]) -> Iterator[Difference]:
    for index, distance in enumerate(_distances(before, after)):
        if not distance <= allowed(index):
            yield Difference("loss", f"{_line(after[index].where)}{comparing.other_loss(before, after, index)}")
            return


def _distances(before: Sequence[Loss], after: Sequence[Loss]) -> Iterator[float]:
    """Relative to the loss or, where it comes close to nothing, to a part of the largest so far."""
    largest = 0.0
    for one, other in zip(before, after, strict=False):
        if one.value is None or other.value is None or one.exact == other.exact:
            yield 0.0
            continue
        largest = max(largest, abs(one.value)) if math.isfinite(one.value) else largest
        off = abs(one.value - other.value)
        yield off / max(abs(one.value), 1e-3 * largest, 1e-300) if off else 0.0


def _state(before: Sequence[Entry], after: Sequence[Entry]) -> Iterator[Difference]:
    """The first tensor that is off by more than a part of the largest of its sort."""
    known = {(each.kind, each.name): each for each in after}
    sizes = largest(before)
    for entry in before:
        other = known.get((entry.kind, entry.name))
        if other is None or entry.digest == other.digest or entry.shape != other.shape:
            continue
        off = apart(entry, other)
        if off is not None and not off <= _STATE * sizes[sort(entry)] and math.isfinite(entry.norm):
            yield Difference(entry.kind, f"{named(entry.kind, entry.name)} is off by {off / (entry.norm or 1):.1g}")
            return


def _line(where: str) -> str:
    """`file:line: `, as the user knows the file."""
    path, _, line = where.rpartition(":")
    return f"{known_as(Path(path))}:{line}: " if path else ""


# -- files


def files(original: RunRecord, alone: RunRecord, ranks: Sequence[RunRecord]) -> list[Difference]:
    """Files that several ranks write, or one that one process does not write; what is saved by other names.

    What one process writes once and not again, such as what it downloads, or what is called by the time, is not missed.
    """
    again = {each.path for each in alone.written}
    expected = {each.path: each for each in original.written if each.path in again}
    steady = len(expected) == len(again) == len(original.written)
    by_rank = [{each.path: each for each in record.written} for record in ranks]
    found: list[Difference] = []
    for path in dict.fromkeys(path for each in by_rank for path in each):
        writers = [rank for rank, written in enumerate(by_rank) if path in written]
        first = by_rank[writers[0]][path]
        name = known_as(Path(path))
        if len(writers) > 1:
            text = f"{_line(by_rank[writers[1]][path].where)}{name} is written by ranks {listed([*map(str, writers)])}"
            found.append(Difference("file", text))
        elif path not in expected and steady:
            text = f"{_line(first.where)}{name} is written by rank {writers[0]}, and not by one process"
            found.append(Difference("file", text))
        elif path in expected and (key := _other_key(expected[path], first)) is not None:
            found.append(Difference("saved", f"{_line(first.where)}{name} {key}"))
    missing = [path for path in expected if not any(path in each for each in by_rank)]
    found.extend(Difference("file", f"{known_as(Path(path))} is not written") for path in missing)
    return found


def _other_key(before: Written, after: Written) -> str | None:
    one, other = dict.fromkeys(before.holds), dict.fromkeys(after.holds)
    if gone := next((each for each in one if each not in other), None):
        new = next((each for each in other if each not in one), None)
        return f"holds `{new}` instead of `{gone}`" if new else f"does not hold `{gone}`"
    new = next((each for each in other if each not in one), None)
    return f"holds `{new}`, too" if new else None
