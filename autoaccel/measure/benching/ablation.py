"""What each rule is worth: the script with one rule only, and with all rules but one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoaccel.measure.benching.report import Contribution, Interval
from autoaccel.measure.changes import Change, Changes

MOST_AT_A_TIME = 4
"""Beside the original: each contender waits for all others, and a machine does not stay the same for ever."""
_ROOM = 0.7  # of the memory that is free


@dataclass(frozen=True, slots=True)
class AblatedRule:
    """One rule with findings here. A subset is empty where nothing is left of it."""

    code: str
    name: str
    changes: int
    alone: tuple[Change, ...]
    without: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Subset:
    """A contender that has some of the changes."""

    name: str
    changes: tuple[Change, ...] = ()


def rules(changes: Changes) -> list[AblatedRule]:
    """The rules that have findings. A change whose needs another rule covers is not among those of its rule alone."""
    found = {}
    for code in sorted({each.record.code for each in changes}):
        its = [each for each in changes if each.record.code == code]
        found[code] = AblatedRule(code, its[0].record.name, len(its), changes.closed(its), changes.without(its))
    return list(found.values())


def subsets(changes: Changes) -> list[Subset]:
    """Who has to run beside the original and the rewritten script: each set of changes once."""
    seen = {frozenset(changes.all), frozenset[Change]()}
    found = []
    for name, chosen in _named(rules(changes)):
        if frozenset(chosen) not in seen:
            seen.add(frozenset(chosen))
            found.append(Subset(name, chosen))
    return found


def contributions(changes: Changes, measured: Mapping[frozenset[Change], Interval]) -> tuple[Contribution, ...]:
    """In the order of their worth alone; None for what was not measured."""
    found = []
    for each in rules(changes):
        alone, without = (measured.get(frozenset(some)) if some else None for some in (each.alone, each.without))
        found.append(Contribution(each.code, each.name, each.changes, alone, without))
    return tuple(sorted(found, key=lambda each: each.alone.median if each.alone else 0.0, reverse=True))


def groups(candidates: Sequence[Subset], room: int) -> list[list[Subset]]:
    """Those that run at the same time, as even as they can be."""
    count = -(-len(candidates) // max(1, min(room, MOST_AT_A_TIME)))
    return [list(candidates[number::count]) for number in range(count)]


def room(free: int, needed: int) -> int:
    """How many contenders fit into memory beside the original, at least one; both in bytes, 0 where not known."""
    if not free or not needed:
        return MOST_AT_A_TIME
    return max(1, int(free * _ROOM / needed) - 1)


def _named(found: Sequence[AblatedRule]) -> Iterator[tuple[str, tuple[Change, ...]]]:
    for each in found:
        yield f"only {each.code}", each.alone
    for each in found:
        yield f"without {each.code}", each.without
