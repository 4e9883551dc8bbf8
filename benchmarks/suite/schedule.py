"""Who gets how much of the time: every script once, then once more, then those of which least is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoaccel.measure.benching.report import Interval

_CLOSE = 1.05  # a gain that another pair of processes might turn into a loss
_GATE = 0.97


@dataclass(frozen=True, slots=True)
class Unit:
    """One process of each of some columns of a script."""

    script: str
    columns: tuple[str, ...]
    seed: int
    """Also the number of the process that forks."""
    seconds: float = 0.0
    """That it should take."""


def planned(columns: Mapping[str, tuple[str, ...]], paired: Sequence[str], rounds: int) -> list[Unit]:
    """All columns first; after that only those that are measured in pairs, where there are any but the original."""
    units = [Unit(script, each, 0) for script, each in columns.items()]
    for seed in range(1, rounds):
        for script, each in columns.items():
            kept = tuple(column for column in each if column in paired)
            if len(kept) > 1:
                units.append(Unit(script, kept, seed))
    return units


def allowance(units: Sequence[Unit], left: float) -> float:
    """Seconds for the first of the units that are left, by its columns; none where the time is over."""
    total = sum(_weight(each) for each in units)
    return max(0.0, left) * _weight(units[0]) / total if units else 0.0


def _weight(unit: Unit) -> float:
    return 1.0 + len(unit.columns)


def needy(found: Mapping[str, Interval], processes: Mapping[str, int], most: int) -> list[str]:
    """Scripts whose gain is in doubt, the most doubtful first: those of which fewest processes were seen, then those
    that come closest to the gate."""

    def in_doubt(script: str) -> bool:
        interval = found[script]
        return processes[script] < most and (interval.median < _CLOSE or interval.low < _GATE)

    return sorted(filter(in_doubt, found), key=lambda each: (processes[each], abs(found[each].median - _GATE)))
