"""What is compiled, one attempt at it, and the account that all in one process share."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final

import torch

KINDS: Final = 4  # of arguments in an iteration that are compiled for, at most


@dataclass(frozen=True, slots=True)
class CompileTarget:
    """What there is to know of a target beforehand.

    gradients: whether its calls are followed by a backward pass.  steps: parameters whose changes tell steps apart;
    none where each call is one.  stateful: whether calls change buffers.  leaves: how many leaf modules it has.
    planned: steps of the run, if the script says.  facts: by which it is known again in a later run.
    """

    name: str
    place: torch.device
    gradients: bool = True
    steps: tuple[torch.Tensor, ...] = ()
    stateful: bool = False
    leaves: int = 1
    planned: int | None = None
    facts: tuple[object, ...] = ()


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


@dataclass(slots=True)
class SharedBudget:
    """What compiling took so far in this process, and who shares it: side by side they would time one another.

    spent: seconds, whatever for.  cost_factor: how many times as long the last one took as was expected.
    controllers: all there are, each of one target.
    """

    spent: float = 0.0
    cost_factor: float = 1.0
    controllers: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)

    def free(self, asking: object = None) -> bool:
        """Whether nobody else is being compiled or compared."""
        return not any(each.is_compiling for each in list(self.controllers) if each is not asking)

    def learn(self, cost: float, expected: float) -> None:
        """With Inductor's cache on disk it is quicker, on a busy machine slower: so will be the next."""
        self.cost_factor = min(4.0, max(0.1, cost / expected))


def graphs_captured() -> int | None:
    """How many graphs dynamo has made in this process; None if this torch does not tell."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    if dynamo is None:
        return 0
    return None if counters is None else int(counters["stats"]["unique_graphs"])
