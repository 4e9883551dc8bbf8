"""CUDA graphs of a module's forward and backward pass, by torch's own graph trees, for steps bound by launches.

A replayed graph writes its results to where it wrote them before. What the script gets hold of is therefore copied:
outputs, the gradients of parameters, and those of inputs. Only where `AUTOACCEL_CUDA_GRAPHS=on` asks for it: the trees
are torch's, the copies are tested without a device, but the two together have not been measured on hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..environment import setting


def wanted() -> bool:
    """Whether the user asked for CUDA graphs."""
    return setting("CUDA_GRAPHS").lower() in ("on", "1", "yes", "true")


class UnfitError(RuntimeError):
    """What a call hands out cannot be copied completely."""


class GraphedCall:
    """A call whose work is captured into graphs, and whose results nobody overwrites."""

    def __init__(self, call: Callable[..., Any], module: nn.Module, *, backend: Any = "cudagraphs") -> None:
        self._call: Callable[..., Any] = torch.compile(call, backend=backend)
        self._module = module
        self._checked = False
        trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
        hook: Callable[[Any, Callable[..., Any]], Any] = torch.Tensor.register_hook
        self._hooks = [hook(parameter, torch.clone) for parameter in trainable]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map_only(torch.Tensor, _own_gradient, (args, kwargs))
        if self._checked:
            return pytree.tree_map(_copied, self._call(*args, **kwargs))
        before = _held(self._module)
        result = self._call(*args, **kwargs)
        if _held(self._module) != before:
            raise UnfitError("the module keeps tensors of its forward pass")
        self._checked = True
        return pytree.tree_map(_copied, result)

    def close(self) -> None:
        """Leave nothing on the parameters."""
        for hook in self._hooks:
            hook.remove()


class _OwnGradient(torch.autograd.Function):
    """The same tensor; its gradient is a copy."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        return gradient.clone()


def _own_gradient(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.requires_grad or not torch.is_grad_enabled():
        return tensor
    result: torch.Tensor = _OwnGradient.apply(tensor)  # type: ignore[no-untyped-call]
    return result


def _copied(leaf: Any) -> Any:
    """A part of what a call hands out; what may hold tensors that nobody sees is refused."""
    if isinstance(leaf, torch.Tensor):
        return leaf.clone()
    if leaf is None or isinstance(leaf, (bool, int, float, complex, str, torch.Size, torch.dtype)):
        return leaf
    raise UnfitError(f"outputs of type {type(leaf).__name__} cannot be copied")


def _held(module: nn.Module) -> Mapping[tuple[int, str], int]:
    """The tensors that a module and those inside it hold as plain attributes."""
    return {
        (id(each), name): id(value)
        for each in module.modules()
        for name, value in vars(each).items()
        if isinstance(value, torch.Tensor)
        or (isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value))
    }
