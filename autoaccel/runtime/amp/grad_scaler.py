"""The gradient scaler: active where gradients are float16, and transparent everywhere else."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch.amp.grad_scaler import OptState

from ..environment import note
from . import autocast_controller
from .precision import scaling

_OVERFLOWS: Final = 8  # in a row: then float16 will not do, whatever the scale


@dataclass(slots=True)
class _Watch:
    """What is known of a scale: `seen` is what it was some updates ago, None where the script has set it since."""

    seen: float | None
    updates: int = 0
    scale: torch.Tensor | None = None
    """The scale itself, which each update changes in place."""


class Scaler(torch.amp.GradScaler):
    """A `torch.amp.GradScaler` that is active where gradients are float16, and that never breaks a plain loop.

    Differences to torch's: whether it is enabled is settled at the first `scale`, by where the optimizers' parameters
    are then, and where float16 is tried, anew after each `update`, by the precision of the step; where all gradients
    overflow for long, float16 is given up; optimizers without a gradient, and steps before anything was scaled, pass
    through instead of failing an assertion; a step may be left out after its gradients were unscaled and looked at;
    `load_state_dict({})`, the state of an inactive scaler, is accepted.
    """

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer] = ()) -> None:
        super().__init__("cpu", enabled=True)  # always complete; "cpu" keeps torch from probing CUDA
        self._optimizers = tuple(weakref.ref(optimizer) for optimizer in optimizers)
        self._scaled = 0  # losses so far
        self._updated = True  # nothing was scaled since the last update
        self._watch = _Watch(self.get_scale())
        self._left_out: dict[int, dict[str, Any]] = {}  # of steps that were not made, whose overflow is to count yet
        self._restored = False  # to a saved scale
        self._settled: torch.device | None = None  # where the first parameter was when this was settled by a loss
        self._settle()

    def _lazy_init_scale_growth_tracker(self, dev: torch.device) -> None:
        super()._lazy_init_scale_growth_tracker(dev)
        assert self._scale is not None
        shapes = tuple(tuple(each.shape) for optimizer in self.optimizers() for each in parameters_of(optimizer))
        if not shapes:
            return
        before = _latest.get(shapes)
        if not self._restored and before is not None:
            self._scale.copy_(before.scale)  # type: ignore[arg-type]  # it is there with the first loss
            self._watch = replace(before, scale=self._scale)
        else:
            self._watch.scale = self._scale
        _latest[shapes] = self._watch

    def _settle(self) -> None:
        place = _home(self.optimizers())
        self._device = place.type
        decision = scaling(place)
        self._enabled = decision.value
        self._follows = decision.value and not decision.reason.startswith("AUTOACCEL_")  # the precision of the steps

    def _settle_by_loss(self) -> None:
        first = next(iter(self.optimizers()), None)
        some = next(parameters_of(first), None) if first is not None else None
        place = None if some is None else some.device
        if place is None or place != self._settled:
            self._settle()
            self._settled = place

    def optimizers(self) -> Iterator[torch.optim.Optimizer]:
        """The optimizers it was made for that are still alive."""
        return (optimizer for ref in self._optimizers if (optimizer := ref()) is not None)

    def scale(self, outputs: Any) -> Any:
        """Scale a loss, or losses in any nesting of iterables; returns its argument where the scaler is inactive."""
        if self._scale is None:
            self._settle_by_loss()
        if self._updated and self._follows:
            self._enabled = autocast_controller.is_low(self._device)
        self._updated = False
        if not self._enabled:
            return outputs
        self._catch_up()
        self._scaled += 1
        return super().scale(outputs)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the optimizer's gradients by the scale, once per step, before they are clipped or looked at."""
        if not self._enabled or self._scale is None:
            return
        states, known = self._per_optimizer_states, id(optimizer)
        state = states[known]
        left_out = state["stage"] is OptState.UNSCALED and state["scaled"] != self._scaled
        if left_out:
            del states[known]
        super().unscale_(optimizer)  # by the scale that these gradients have
        states[known]["scaled"] = self._scaled
        if left_out:  # the script looked at its last gradients and did not step
            self._left_out[known] = state

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step the optimizer, unless its gradients overflowed."""
        if not torch.compiler.is_compiling():
            autocast_controller.note_optimizer_step()
        if not self._enabled or self._scale is None or not has_gradients(optimizer):
            result: float | None = optimizer.step(*args, **kwargs)
            return result
        if args:  # torch checks the keyword only, and would run the closure's backward on scaled gradients
            raise RuntimeError("a closure cannot be combined with gradient scaling; set AUTOACCEL_DISABLE=amp")
        return super().step(optimizer, **kwargs)

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adapt the scale after the optimizers stepped."""
        self._updated = True
        if not self._enabled or self._scale is None:
            return
        self._catch_up()
        states = self._per_optimizer_states.values()
        if new_scale is None and not any(state["found_inf_per_device"] for state in states):
            self._per_optimizer_states.clear()
            return
        super().update(new_scale)
        if new_scale is None:
            self._look_at_scale()
        else:
            self._watch.seen = None

    def _look_at_scale(self) -> None:
        """Notice a scale that only falls: looked at now and then, for that waits for the device."""
        self._watch.updates += 1
        if self._watch.updates % _OVERFLOWS or not self._follows:
            return
        before, self._watch.seen = self._watch.seen, self.get_scale()
        if before is not None and self._watch.seen <= before * self.get_backoff_factor() ** _OVERFLOWS:
            autocast_controller.note_overflow(self._device, _OVERFLOWS)

    def _catch_up(self) -> None:
        """Adapt the scale to steps that were left out, now that no gradients are left that were scaled by it."""
        if not self._left_out:
            return
        states = self._per_optimizer_states
        self._per_optimizer_states = states.copy()
        self._per_optimizer_states.clear()
        self._per_optimizer_states.update(self._left_out)
        self._left_out.clear()
        self.update()
        self._per_optimizer_states = states

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a saved scale; the empty state of an inactive scaler leaves this one as it is."""
        if state_dict:
            self._restored = True
            self._watch.seen = None
            super().load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_optimizers": ()}  # weak references cannot be pickled


# Keyed weakly by one optimizer of each set: neither the scaler nor its optimizers are kept alive.
_scalers: Final[weakref.WeakKeyDictionary[torch.optim.Optimizer, list[Scaler]]] = weakref.WeakKeyDictionary()


# By the shapes of the parameters that are scaled: of the last scaler of such.
_latest: Final[dict[tuple[tuple[int, ...], ...], _Watch]] = {}


def grad_scaler(*optimizers: Any) -> Scaler:
    """The gradient scaler of these optimizers: always the same one for the same optimizers, in any order.

    The scaler scales only where mixed precision means float16 and is transparent elsewhere, so
    `scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()` is right everywhere.

    Args:
        optimizers: Optimizers, also in lists, tuples, sets and mappings.
    """
    wanted = {id(optimizer): optimizer for optimizer in _flat(optimizers)}
    if not wanted:
        return Scaler()
    for optimizer in wanted.values():
        for scaler in _scalers.get(optimizer, ()):
            if {id(known) for known in scaler.optimizers()} == wanted.keys():
                return scaler
    scaler = Scaler(wanted.values())
    _scalers.setdefault(next(iter(wanted.values())), []).append(scaler)
    note("gradient scaling", scaling(_home(scaler.optimizers())))
    return scaler


def is_scaled(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a scaler of this optimizer scales its gradients now."""
    known = (scaler for scalers in _scalers.values() for scaler in scalers)
    return any(scaler.is_enabled() and any(each is optimizer for each in scaler.optimizers()) for scaler in known)


def _flat(values: Any) -> Iterator[torch.optim.Optimizer]:
    match values:
        case None:  # an optimizer that this run does without
            return
        case Mapping():
            yield from _flat(values.values())
        case _ if isinstance(values, Iterable):
            for value in values:
                yield from _flat(value)
        case _:
            yield values


def _home(optimizers: Iterable[torch.optim.Optimizer]) -> torch.device:
    """Where the optimizers' parameters are: an accelerator if any parameter is on one."""
    places = {parameter.device for optimizer in optimizers for parameter in parameters_of(optimizer)}
    return min(places, key=lambda place: place.type == "cpu", default=torch.device("cpu"))


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """What an optimizer updates."""
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def has_gradients(optimizer: torch.optim.Optimizer) -> bool:
    return any(parameter.grad is not None for parameter in parameters_of(optimizer))
