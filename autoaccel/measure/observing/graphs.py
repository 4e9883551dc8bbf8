"""What a loss was computed from: scripts that train without an optimizer keep their weights in plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor


def leaves(roots: Iterable[Tensor]) -> Iterator[Tensor]:
    """The tensors that gradients are accumulated for, in an order that the graph alone decides."""
    waiting: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(leaf := getattr(node, "variable", None), Tensor):
            yield leaf
        waiting += [before for before, _ in reversed(node.next_functions) if before is not None]
