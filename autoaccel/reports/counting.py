"""Numbers of things in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

TIERS = ("exact", "equivalent", "numerics", "opt-in")


def counted(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def by_tier(tiers: Iterable[str]) -> str:
    """How exact things are: `3 exact, 1 numerics`."""
    numbers = Counter(tiers)
    order = (*TIERS, *sorted(numbers.keys() - set(TIERS)))
    return ", ".join(f"{numbers[tier]} {tier}" for tier in order if tier in numbers)
