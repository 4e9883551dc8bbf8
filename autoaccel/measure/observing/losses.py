"""What goes backward: every root, unscaled, without rounding."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from autoaccel.measure.observing.fingerprints import digest_of
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.record import Loss


class Losses:
    """The roots of all backwards. What is on an accelerator is read at the end: the script runs on unhindered."""

    def __init__(self) -> None:
        self._roots: list[tuple[Tensor, int]] = []

    def install(self, observation: Observation) -> None:
        self._events = observation.events
        observation.events.before_backward.append(self._keep)

    def contribute(self) -> dict[str, Any]:
        return {"losses": tuple(_spelled(root, step) for root, step in self._roots)}

    def _keep(self, roots: list[Tensor]) -> None:
        self._roots += [(root.detach().clone(), self._events.steps) for root in roots]


def _spelled(root: Tensor, step: int) -> Loss:
    if root.numel() == 1 and not root.is_complex():
        value = float(root)
        return Loss(value.hex(), value, step)
    return Loss(digest_of(root), None, step)
