"""Compiling once: for which arguments, how long it takes, and how many graphs come of it."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

KINDS: Final = 4  # of arguments in an iteration that are compiled for, at most


def graphs_captured() -> int | None:
    """How many graphs dynamo has made in this process; None if this torch does not tell."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    if dynamo is None:
        return 0
    return None if counters is None else int(counters["stats"]["unique_graphs"])


@dataclass(slots=True)
class Compilation:
    """The kinds of arguments it is for, `open` to further ones at first, and what it took."""

    kinds: frozenset[Hashable] = frozenset()
    open: bool = False
    iterations: int = 0
    cost: float = 0.0
    ran: bool = False  # in the iteration in progress
    captured: int | None = 0  # graphs in the iteration in progress
    again: int = 0  # calls that needed new graphs afterwards

    def takes(self, kind: Hashable) -> bool:
        """Whether calls with such arguments go compiled."""
        if self.open and len(self.kinds) < KINDS:
            self.kinds |= {kind}
        return kind in self.kinds
