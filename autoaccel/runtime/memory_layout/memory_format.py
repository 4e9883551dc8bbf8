"""Pictures in memory channel by channel (contiguous), or pixel by pixel (channels last); their values are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

_DEEPEST: Final = 3


def is_picture(value: object) -> bool:
    """Whether a value is a batch of pictures as scripts make them: four dimensions, floating-point, nothing special."""
    return type(value) is torch.Tensor and value.dim() == 4 and value.is_floating_point() and value.is_contiguous()


def has_two_layouts(tensor: torch.Tensor) -> bool:
    """Whether the two layouts differ: with one channel, or one pixel, they are the same order in memory."""
    return tensor.dim() == 4 and tensor.shape[1] > 1 and tensor.shape[2] * tensor.shape[3] > 1


def to_channels_last(value: Any) -> Any:
    """A copy of pictures pixel by pixel, of a value at hand; all else as it is.

    The copy has these strides even where both layouts are the same order in memory: operations go by them.
    """
    if not is_picture(value):
        return value
    if value.requires_grad and torch.is_grad_enabled():
        return _ToChannelsLast.apply(value)  # type: ignore[no-untyped-call]
    return _copied(value)


class _ToChannelsLast(torch.autograd.Function):
    """The gradient is the script's own again: it lies as the pictures did that it is handed back to."""

    @staticmethod
    def forward(_ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return _copied(value)

    @staticmethod
    def backward(_ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return to_contiguous(gradient)


def _copied(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(value, memory_format=torch.channels_last).copy_(value)


def to_contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The same values channel by channel, with the strides of a new tensor; itself if it lies so."""
    if tensor.stride() == torch.empty(tensor.shape, device="meta").stride():
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor | None]:
    """The tensors in what a model returns; None for what may hold others, and is not looked into."""
    if type(value) is torch.Tensor:
        yield value
    elif type(value) in (tuple, list, dict) and depth < _DEEPEST:
        for each in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(each, depth + 1)
    elif not isinstance(value, (int, float, str, type(None))):
        yield None


def all_contiguous(value: Any, depth: int = 0) -> Any:
    """What a model returns, with its tensors channel by channel."""
    if type(value) is torch.Tensor:
        return to_contiguous(value)
    if depth < _DEEPEST:
        if type(value) in (tuple, list):
            return type(value)(all_contiguous(each, depth + 1) for each in value)
        if type(value) is dict:
            return {key: all_contiguous(each, depth + 1) for key, each in value.items()}
    return value
