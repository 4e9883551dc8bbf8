"""One thing that is not as it was, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# The order in which differences are told: what explains others comes first.
KINDS = (
    "failure", "mark", "data", "setting", "count", "loss", "buffer", "parameter", "optimizer", "random", "printed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was."""

    kind: str
    """One of `KINDS`."""
    text: str
    """A phrase: `loss of step 3: 0.69314 instead of 0.69301`."""


def in_order(found: Iterable[Difference]) -> list[Difference]:
    return sorted(found, key=lambda each: KINDS.index(each.kind))


def named(kind: str, name: str) -> str:
    return name if kind == "optimizer" else f"{kind} {name}"


def listed(names: Sequence[str], most: int = 3) -> str:
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
