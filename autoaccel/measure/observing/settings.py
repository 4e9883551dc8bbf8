"""State that is not a tensor of its own, exactly spelled: groups of optimizers, schedulers, training mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from autoaccel.measure.observing.fingerprints import digest_of
from autoaccel.measure.observing.modules import parts

_DEEP = 10  # what refers to itself ends here


def of_module(name: str, module: nn.Module) -> Iterator[tuple[str, str]]:
    """Whether a module is in training mode, and which modules inside it are not as it is."""
    yield f"{name}.training", repr(module.training)
    for path, inner in parts(module):
        if inner.training is not module.training:
            yield f"{name}.{path}.training", repr(inner.training)


def of_optimizer(name: str, optimizer: Optimizer) -> Iterator[tuple[str, str]]:
    """What each group says, and numbers among the state of a parameter."""
    for number, group in enumerate(optimizer.param_groups, 1):
        for key, value in group.items():
            if key != "params":
                yield f"{name} group {number}.{key}", spelled(value)
        for index, parameter in enumerate(group["params"], 1):
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, (bool, int, float, str)):
                    yield f"{name} group {number} parameter {index}.{key}", spelled(value)


def of_scheduler(name: str, scheduler: LRScheduler) -> Iterator[tuple[str, str]]:
    """Its state, as far as it has come."""
    for key, value in sorted(scheduler.__dict__.items()):
        if key not in ("optimizer", "_initial_step") and not callable(value):
            yield f"{name}.{key}", spelled(value)


def spelled(value: Any, depth: int = 0) -> str:
    """Without rounding, and without addresses."""
    if depth > _DEEP:
        return "…"
    if isinstance(value, Tensor):
        return repr(value.item()) if value.numel() == 1 else f"tensor {digest_of(value)}"
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(spelled(each, depth + 1) for each in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{spelled(key)}: {spelled(each, depth + 1)}" for key, each in value.items()) + "}"
    return getattr(value, "__qualname__", type(value).__qualname__)
