"""Gradients that overflow where a script scales them: what happens once in hundreds of steps, and on some devices only.

A scaler that is off on this machine is on. The first loss that is scaled in each of some steps is infinite, and so are
its gradients: the scaler has to leave that step out, and nobody else may take it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from autoaccel.measure.observing.hooks import around
from autoaccel.measure.observing.observation import Observation, Observer
from autoaccel.runtime.amp.grad_scaler import Scaler


class Overflows(Observer):
    """Provokes them. To be installed before what listens to scalers: it is to see losses as the script has them."""

    def __init__(self, steps: tuple[int, ...]) -> None:
        self._due = sorted(steps)
        self._provoked = 0
        self._scalers: dict[int, GradScaler] = {}

    def install(self, observation: Observation) -> None:
        events, signature = observation.events, inspect.signature(GradScaler.__init__)

        @around(GradScaler, "__init__")
        def create(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs)
            given.arguments["enabled"] = True
            if given.arguments.get("device", "cuda") == "cuda" and not torch.cuda.is_available():
                given.arguments["device"] = "cpu"
            plain(*given.args, **given.kwargs)

        @around(GradScaler, "scale")
        def scale(plain: Callable[..., Any], scaler: GradScaler, outputs: Any) -> Any:
            if not scaler.is_enabled():
                return plain(scaler, outputs)
            if not isinstance(scaler, Scaler):  # whose scale is rehearsed, another one at each update
                self._scalers[id(scaler)] = scaler
            scaled = plain(scaler, outputs)
            if not self._due or events.steps < self._due[0]:
                return scaled
            self._due.pop(0)
            self._provoked += 1
            return _infinite(scaled)

    def contribute(self) -> dict[str, Any]:
        scales = tuple(each.get_scale() for each in self._scalers.values())
        return {"overflows": self._provoked, "scales": scales}


def _infinite(scaled: Any) -> Any:
    """The same losses, without bounds; their gradients are infinite or no numbers."""
    if isinstance(scaled, Tensor):
        return scaled * torch.inf
    return type(scaled)(map(_infinite, scaled)) if isinstance(scaled, (list, tuple)) else scaled
