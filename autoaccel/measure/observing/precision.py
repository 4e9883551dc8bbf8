"""Sees what rewritten code does inside its autocast regions, and to gradients that are scaled.

Neither shows in numbers where autocast computes in float32; in lower precision the script would train worse, or fail.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from autoaccel import runtime
from autoaccel.runtime.amp.grad_scaler import Scaler, has_gradients

CLIPPED_SCALED = "gradients were clipped while they were scaled"
NEVER_SCALED = "a scaler stepped an optimizer before any loss was scaled"
STEPPED_ALONE = "an optimizer stepped by itself after its loss was scaled"
CROSS_ENTROPY_INSIDE = "binary cross-entropy of probabilities ran inside an autocast region"

Mark = Callable[[str], None]

_CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "clip_grad_norm")


class Region:
    """An autocast region that is counted while it is open."""

    open = 0
    exempt = 0
    """Regions with autocast switched off that are open: what runs in them runs in full precision."""

    def __init__(self, opened: contextlib.AbstractContextManager[object]) -> None:
        self._opened = opened

    def __enter__(self) -> object:
        Region.open += 1
        return self._opened.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        Region.open -= 1
        return self._opened.__exit__(*error)


def install(mark: Mark) -> Callable[[torch.optim.Optimizer], None]:
    """Watch from now on; `mark` gets a phrase for each thing that no good rewrite does. What is returned wants to know
    of every step of an optimizer before it is made."""
    _count_regions()
    _count_exemptions()
    _watch_cross_entropy(mark)
    scaled = _scaled_gradients(mark)
    look_at_step = _steps_of_scalers(mark)
    for module in (torch.nn.utils, torch.nn.utils.clip_grad):
        for name in _CLIPPING:
            if hasattr(module, name):
                vars(module)[name] = _watched_clipping(getattr(module, name), scaled, mark)
    return look_at_step


def _count_regions() -> None:
    autocast = runtime.autocast

    @functools.wraps(autocast)
    def counted(*args: Any, **kwargs: Any) -> contextlib.AbstractContextManager[object]:
        region = autocast(*args, **kwargs)
        # nothing steps inside a graph, and a graph is no place for a counter
        return region if torch.compiler.is_compiling() else Region(region)

    vars(runtime)["autocast"] = counted


def _count_exemptions() -> None:
    enter, leave = torch.autocast.__enter__, torch.autocast.__exit__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        Region.exempt += not self._enabled
        return enter(self)  # type: ignore[no-untyped-call]

    @functools.wraps(leave)
    def left(self: Any, *error: Any) -> Any:
        Region.exempt -= not self._enabled
        return leave(self, *error)

    for name, method in (("__enter__", entered), ("__exit__", left)):
        setattr(torch.autocast, name, method)


def _watch_cross_entropy(mark: Mark) -> None:
    """CUDA refuses it in half precision, where the logarithm of a probability overflows; a CPU does not."""
    plain = torch.nn.functional.binary_cross_entropy

    @functools.wraps(plain)
    def watched(*args: Any, **kwargs: Any) -> torch.Tensor:
        if not torch.compiler.is_compiling() and Region.open and not Region.exempt:
            mark(CROSS_ENTROPY_INSIDE)
        return plain(*args, **kwargs)

    vars(torch.nn.functional)["binary_cross_entropy"] = watched


def _scaled_gradients(mark: Mark) -> weakref.WeakSet[torch.optim.Optimizer]:
    """The optimizers whose gradients are scaled at this moment; kept up to date by what is done with scalers."""
    scaled: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
    scale, unscale, step = Scaler.scale, Scaler.unscale_, Scaler.step

    @functools.wraps(scale)
    def noting_scale(self: Scaler, outputs: Any) -> Any:
        result = scale(self, outputs)
        if result is not outputs:
            scaled.update(self.optimizers())
        return result

    @functools.wraps(unscale)
    def noting_unscale(self: Scaler, optimizer: torch.optim.Optimizer) -> None:
        unscale(self, optimizer)
        scaled.discard(optimizer)

    @functools.wraps(step)
    def noting_step(self: Scaler, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        if self.is_enabled() and self._scale is None and has_gradients(optimizer):
            mark(NEVER_SCALED)
        result = step(self, optimizer, *args, **kwargs)
        scaled.discard(optimizer)
        return result

    for name, method in (("scale", noting_scale), ("unscale_", noting_unscale), ("step", noting_step)):
        setattr(Scaler, name, method)
    return scaled


def _steps_of_scalers(mark: Mark) -> Callable[[torch.optim.Optimizer], None]:
    """Gradients of a scaled loss that overflowed must not be applied; only the scaler's own step sees to that."""
    due: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
    scale, step = Scaler.scale, Scaler.step
    steps_under_way = 0

    @functools.wraps(scale)
    def noting_scale(self: Scaler, outputs: Any) -> Any:
        result = scale(self, outputs)
        if result is not outputs:
            due.update(self.optimizers())
        return result

    @functools.wraps(step)
    def noting_step(self: Scaler, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        nonlocal steps_under_way
        steps_under_way += 1
        try:
            return step(self, optimizer, *args, **kwargs)
        finally:
            steps_under_way -= 1
            due.discard(optimizer)

    def look(optimizer: torch.optim.Optimizer) -> None:
        if optimizer in due and not steps_under_way:
            mark(STEPPED_ALONE)
        due.discard(optimizer)

    for name, method in (("scale", noting_scale), ("step", noting_step)):
        setattr(Scaler, name, method)
    return look


def _watched_clipping(
    clip: Callable[..., Any], scaled: Iterable[torch.optim.Optimizer], mark: Mark
) -> Callable[..., Any]:
    @functools.wraps(clip)
    def watched(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters)  # it may be a generator, which can be read once
        if _any_of(parameters, scaled):
            mark(CLIPPED_SCALED)
        return clip(parameters, *args, **kwargs)

    return watched


def _any_of(given: Any, optimizers: Iterable[torch.optim.Optimizer]) -> bool:
    """Whether one of these parameters has a gradient and belongs to one of these optimizers."""
    wanted = {id(each) for each in ([given] if isinstance(given, torch.Tensor) else given) if each.grad is not None}
    groups = (group for optimizer in optimizers for group in optimizer.param_groups)
    return bool(wanted) and any(id(parameter) in wanted for group in groups for parameter in group["params"])
