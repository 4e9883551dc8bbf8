"""The tensors that a training step changes: taken down, compared and put back, at the addresses where they are."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import nn

from .. import devices
from ..amp.grad_scaler import parameters_of

GRADIENT: Final = operator.attrgetter("grad")


def memory_of(tensor: torch.Tensor) -> int:
    """The address of a tensor's memory, which its views share."""
    return tensor.untyped_storage().data_ptr()


class TrainingState:
    """Parameters, buffers, gradients and optimizer state of what a step trains."""

    def __init__(self, modules: Sequence[nn.Module], optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.modules = modules
        self.optimizers = optimizers
        held: list[torch.Tensor] = [parameter for module in modules for parameter in module.parameters()]
        held += [parameter for optimizer in optimizers for parameter in parameters_of(optimizer)]
        self.parameters = list({id(each): each for each in held}.values())

    def tensors(self) -> list[torch.Tensor]:
        """All but the gradients, as they are now: who replaces one of them shows here."""
        buffers = {id(each): each for module in self.modules for each in module.buffers()}
        return [*self.parameters, *buffers.values(), *self._optimizer_state()]

    def gradients(self) -> list[torch.Tensor | None]:
        """The gradient of each parameter."""
        return list(map(GRADIENT, self.parameters))

    def set_gradients(self, gradients: Sequence[torch.Tensor | None]) -> None:
        """Let the parameters have these tensors as gradients."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient

    def _optimizer_state(self) -> Iterator[torch.Tensor]:
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                yield from (each for each in state.values() if isinstance(each, torch.Tensor))


class Snapshot:
    """The values of a training state at one moment, and the state of the device's random generator."""

    def __init__(self, state: TrainingState, place: torch.device) -> None:
        self._state = state
        self._module: Any = devices.module_of(place.type)
        self._tensors = state.tensors()
        self._gradients = state.gradients()
        with torch.no_grad():
            self._values = [each.clone() for each in self._tensors]
            self._gradient_values = [None if each is None else each.clone() for each in self._gradients]
        self._generator = self._module.get_rng_state()

    def restore(self) -> None:
        """Put all of it back, at the same addresses."""
        with torch.no_grad():
            for tensor, value in zip(self._tensors, self._values, strict=True):
                tensor.copy_(value)
            for gradient, was in zip(self._gradients, self._gradient_values, strict=True):
                if gradient is not None and was is not None:
                    gradient.copy_(was)
        self._state.set_gradients(self._gradients)
        self._module.set_rng_state(self._generator)

    def values(self) -> list[Any]:
        """What makes two moments the same."""
        return [*self._values, *self._gradient_values, self._generator]
