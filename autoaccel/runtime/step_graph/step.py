"""`accel.step`: the decorator of a training step that may become one CUDA graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch
from torch import nn

from .. import devices
from ..environment import Decision, disabled, note, setting
from .step_controller import StepController

_Function = TypeVar("_Function", bound=Callable[..., Any])
_KEPT: Final = "_autoaccel_steps"  # on an optimizer, which neither pickles nor copies it


def wanted() -> bool:
    """Whether steps may become CUDA graphs: unless the user has switched them off."""
    return setting("CUDA_GRAPHS").lower() not in ("off", "0", "no", "false") and not disabled("graphs")


def step(*trained: Any) -> Callable[[_Function], _Function]:
    """A decorator for the step of a training loop: where it pays, all of the step becomes one CUDA graph.

    Only on CUDA devices; anywhere else, and with `AUTOACCEL_CUDA_GRAPHS=off`, the function is returned as it is. A
    graph is in force once its replays were equal to plain steps, and faster. Equal is bit for bit, or as close as two
    plain steps are to each other where kernels add in no fixed order. It replays kernels alone: the function may read
    and change nothing on the host, and its results have no autograd graph.

    Args:
        trained: The models that the step runs, and the optimizers that it steps: one or several of each.

    Returns:
        A decorator. Functions with the same code and the same `trained` share one graph.
    """

    def decorated(function: _Function) -> _Function:
        controller = _controller_of(function, trained) if wanted() else None
        if controller is None:
            return function

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return controller.call(function, args, kwargs)

        return run  # type: ignore[return-value]

    return decorated


def _controller_of(function: Callable[..., Any], trained: tuple[Any, ...]) -> StepController | None:
    """Who decides for this code and what it trains: the same one wherever a loop's function is defined again."""
    modules = [each for each in trained if isinstance(each, nn.Module)]
    optimizers = [each for each in trained if isinstance(each, torch.optim.Optimizer)]
    place = next(filter(None, map(devices.module_device, modules)), None)
    if place is None or place.type != "cuda" or not optimizers or not hasattr(function, "__code__"):
        note("step", Decision(False, "no CUDA device" if optimizers and modules else "no model, or no optimizer"))
        return None
    known: dict[Any, StepController] = vars(optimizers[0]).setdefault(_KEPT, {})
    key = (function.__code__, *map(id, trained))
    if key not in known:
        known[key] = StepController(function.__name__, modules, optimizers, place)
    return known[key]
