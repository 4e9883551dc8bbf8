"""What no good rewrite does, wherever it can be seen from outside."""

from __future__ import annotations

from typing import Any

import torch

from autoaccel.measure.observing.observation import Observation

BACKWARD_IN_AUTOCAST = "a backward ran inside an autocast region"
STEP_IN_AUTOCAST = "an optimizer stepped inside an autocast region"
_DEVICES = ("cpu", "cuda", "xpu", "mps")


class Marks:
    """Looks at every backward and step; other parts note theirs by `observation.mark`."""

    def install(self, observation: Observation) -> None:
        self._observation = observation
        observation.events.before_backward.append(lambda _: self._look(BACKWARD_IN_AUTOCAST))
        observation.events.before_step.append(lambda _: self._look(STEP_IN_AUTOCAST))

    def contribute(self) -> dict[str, Any]:
        return {"marks": dict(self._observation.marks)}

    def _look(self, phrase: str) -> None:
        if any(torch.is_autocast_enabled(kind) for kind in _DEVICES):
            self._observation.mark(phrase)
