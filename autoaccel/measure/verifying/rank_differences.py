"""What processes that train together do otherwise than one process does, but for rounding.

They add in another order, so numbers are compared within a bound, which is what roundings may have grown to. How often
what is done, on which batches, with which random numbers and settings must be the same on each of them. Files are
written by one of them, and so is what is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from autoaccel.measure.changes import known_as
from autoaccel.measure.launching import WITH_OTHERS
from autoaccel.measure.observing.run_record import FAILED, RunRecord, Written
from autoaccel.measure.verifying import comparing, printed
from autoaccel.measure.verifying.comparing import Reference
from autoaccel.measure.verifying.facts import Difference, in_order
from autoaccel.measure.verifying.tolerances import Tolerances, beyond, line
from autoaccel.reports.counting import counted, listed

_SIGNAL = "signal"
_TOPIC = "distribute"  # of the runtime's decisions


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
        for each in beyond(original, record, tolerances):
            where = f" on rank {rank}" if rank else ""
            found.setdefault((each.kind, each.text), Difference(each.kind, f"{each.text}{where}"))
    if original.prints:
        bound = printed.Bound(tolerances.bound(original.record), counts=True)
        said = printed.difference(original.record.printed, ranks[0].printed, original.masks, bound)
        found.update({} if said is None else {("printed", said): Difference("printed", said)})
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
            text = f"{line(by_rank[writers[1]][path].where)}{name} is written by ranks {listed([*map(str, writers)])}"
            found.append(Difference("file", text))
        elif path not in expected and steady:
            text = f"{line(first.where)}{name} is written by rank {writers[0]}, and not by one process"
            found.append(Difference("file", text))
        elif path in expected and (key := _other_key(expected[path], first)) is not None:
            found.append(Difference("saved", f"{line(first.where)}{name} {key}"))
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
