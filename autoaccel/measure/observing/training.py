"""Hooks on torch: every backward and every optimizer step, also those that a scaler leaves out, become events."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from autoaccel.measure.observing.exchange import Beat
from autoaccel.measure.observing.observation import Observation
from autoaccel.measure.observing.record import STOPPED

# What a scaled loss was before it was scaled.
_UNSCALED = "_autoaccel_unscaled"


class Training:
    """Counts backwards and steps, tells of them, and ends the run in time."""

    def __init__(self) -> None:
        self.device = "cpu"
        self.first_step: float | None = None
        self._known: dict[int, Optimizer] = {}

    def install(self, observation: Observation) -> None:
        self._observation = observation
        self._began = time.monotonic()
        self._beat = Beat(observation.exchange)
        self._hook_backward()
        self._hook_scaler()
        self._hook_optimizers()

    def contribute(self) -> dict[str, Any]:
        return {"optimizers": len(self._known), "first_step": self.first_step, "device": self.device}

    def _hook_backward(self) -> None:
        plain = torch.autograd.backward

        @functools.wraps(plain)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if not self._observation.here:
                return plain(tensors, *args, **kwargs)
            self._before_backward([tensors] if isinstance(tensors, Tensor) else list(tensors))
            plain(tensors, *args, **kwargs)
            self._after_backward()

        torch.autograd.backward = backward

    def _before_backward(self, roots: list[Tensor]) -> None:
        events, request = self._observation.events, self._observation.request
        if not events.optimizers and request.steps is not None and events.backwards >= request.steps:
            self._observation.end(STOPPED)  # only now has the script made use of the last gradients
        unscaled = [getattr(root, _UNSCALED, root) for root in roots]
        for told in events.before_backward:
            told(unscaled)

    def _after_backward(self) -> None:
        events = self._observation.events
        events.backwards += 1
        for told in events.after_backward:
            told()
        if not events.optimizers:
            self._stepped(None)

    def _hook_scaler(self) -> None:
        scale, step = torch.amp.GradScaler.scale, torch.amp.GradScaler.step

        @functools.wraps(scale)
        def scaled(scaler: torch.amp.GradScaler, outputs: Any) -> Any:
            result = scale(scaler, outputs)
            _remember(result, outputs)
            return result

        @functools.wraps(step)
        def stepped(scaler: torch.amp.GradScaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            before = self._observation.events.steps
            result = step(scaler, optimizer, *args, **kwargs)
            if self._observation.here and self._observation.events.steps == before:
                self._observation.events.skipped += 1
                self._step_over(optimizer)
            return result

        vars(torch.amp)["GradScaler"].scale = scaled
        vars(torch.amp)["GradScaler"].step = stepped

    def _hook_optimizers(self) -> None:
        create = Optimizer.__init__

        @functools.wraps(create)
        def created(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            self._observation.events.optimizers += 1
            create(optimizer, *args, **kwargs)

        Optimizer.__init__ = created  # type: ignore[method-assign]
        register_optimizer_step_pre_hook(lambda optimizer, *_: self._step_begins(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, *_: self._step_over(optimizer))

    def _step_begins(self, optimizer: Optimizer) -> None:
        if self._observation.here:
            for told in self._observation.events.before_step:
                told(optimizer)

    def _step_over(self, optimizer: Optimizer) -> None:
        if not self._observation.here:
            return
        if id(optimizer) not in self._known:
            self._known[id(optimizer)] = optimizer
            self.device = next((kind for kind in _devices(optimizer) if kind != "cpu"), self.device)
        self._observation.events.steps += 1
        self._stepped(optimizer)

    def _stepped(self, optimizer: Optimizer | None) -> None:
        observation = self._observation
        self._beat(observation.events.steps or observation.events.backwards)
        if self.first_step is None:
            self.first_step = time.monotonic() - observation.began
        for told in observation.events.after_step:
            told(optimizer)
        steps, patience = observation.request.steps, observation.request.patience
        enough = optimizer is not None and steps is not None and observation.events.steps >= steps
        if enough or (patience is not None and time.monotonic() - self._began > patience):
            observation.end(STOPPED)


def _devices(optimizer: Optimizer) -> Iterable[str]:
    return (parameter.device.type for group in optimizer.param_groups for parameter in group["params"])


def _remember(scaled: Any, outputs: Any) -> None:
    """Keep with each scaled tensor what it was made of."""
    if isinstance(outputs, Tensor):
        if isinstance(scaled, Tensor) and scaled is not outputs:
            setattr(scaled, _UNSCALED, outputs)
    elif isinstance(outputs, (list, tuple)):
        for one, other in zip(scaled, outputs):  # noqa: B905 - as long as each other
            _remember(one, other)
