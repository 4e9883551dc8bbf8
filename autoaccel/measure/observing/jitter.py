"""A small push: how far a run strays that differs in the last digits tells how much a difference means."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from autoaccel.measure.observing.observation import Observation


class Jitter:
    """Multiplies what an optimizer trains by nearly one, once, after its first step."""

    def install(self, observation: Observation) -> None:
        self._strength = observation.request.jitter
        # not `torch.Generator`, whose seeds are moved; and no stream of the script
        self._generator = torch._C.Generator().manual_seed(observation.request.seed)  # noqa: SLF001
        self._pushed: list[Optimizer] = []
        observation.events.after_step.append(self._push)

    def contribute(self) -> dict[str, Any]:
        return {}

    @torch.no_grad()
    def _push(self, optimizer: Optimizer | None) -> None:
        if optimizer is None or any(optimizer is pushed for pushed in self._pushed):
            return
        self._pushed.append(optimizer)
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            if parameter.is_floating_point() and parameter.layout is torch.strided:
                noise = torch.randn(parameter.shape, generator=self._generator, device="cpu", dtype=torch.float32)
                parameter.mul_((1 + self._strength * noise).to(parameter.device, parameter.dtype))
