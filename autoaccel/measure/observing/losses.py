"""What goes backward: every root, unscaled, without rounding."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from autoaccel.measure.observing.fingerprints import digest_of
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.record import Loss


class Losses:
    """The roots of all backwards. Single numbers are read at the end, so that no accelerator is waited for."""

    def __init__(self) -> None:
        self._found: list[Loss | tuple[Tensor, int]] = []

    def install(self, observation: Observation) -> None:
        self._events = observation.events
        observation.events.before_backward.append(self._keep)

    def contribute(self) -> dict[str, Any]:
        return {"losses": tuple(each if isinstance(each, Loss) else _number(*each) for each in self._found)}

    def _keep(self, roots: list[Tensor]) -> None:
        step = self._events.steps
        for root in roots:
            if root.numel() == 1 and not root.is_complex():
                self._found.append((root.detach().clone(), step))
            else:
                self._found.append(Loss(digest_of(root), None, step))


def _number(root: Tensor, step: int) -> Loss:
    value = float(root)
    return Loss(value.hex(), value, step)
