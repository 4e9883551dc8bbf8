"""Max pooling of pictures, on a CPU.

Of pictures that lie channel by channel torch compares one number after the other there, of such that lie pixel by pixel
16 channels at a time (torch 2.13: `aten/src/ATen/native/cpu/MaxPoolKernel.cpp`). Copying them there and back takes a
fraction of what that gains. Values, indices and gradients are the same bit for bit, and lie in memory as torch's do.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from .environment import disabled
from .execution_mode import is_intercepted, is_traced
from .in_place_call import FunctionCall

_FEWEST: Final = 65_536
"""Numbers from which the copies take less time than what they gain."""
_FEWEST_CHANNELS: Final = 8
_WIDEST: Final = 9
"""Pixels to one of the result up to which it pays: of fewer, wider windows torch's own kernel goes through rows."""
_DTYPES: Final = frozenset({torch.float32, torch.bfloat16})
_Size = int | tuple[int, ...]


def max_pool2d(
    input: Tensor,  # noqa: A002 - torch's name for it
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    dilation: _Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`torch.nn.functional.max_pool2d`, whose arguments, results and errors it has.

    Args:
        input: Pictures (N, C, H, W). Torch's own function is called for few of them, on other devices than a CPU, where
            they lie pixel by pixel already, and for other dtypes than float32 and bfloat16.
        kernel_size: Height and width of what is pooled, in pixels.
        stride: How far it moves, in pixels; as far as it is wide by default.
        padding: Pixels at each side that are never the largest.
        dilation: The distance of its pixels.
        ceil_mode: Whether the size of the result is rounded up.
        return_indices: Whether the places of the largest are returned, too.
    """
    if not return_indices and _is_taken(input, kernel_size, stride):
        steps = kernel_size if stride is None else stride
        return MaxPool2DWithIndices.apply(input, kernel_size, steps, padding, dilation, ceil_mode)  # type: ignore[no-untyped-call]
    of_torch: Any = functional.max_pool2d
    return of_torch(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def MaxPool2d(  # noqa: N802 - torch's name for it
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    dilation: _Size = 1,
    return_indices: bool = False,
    ceil_mode: bool = False,
) -> nn.MaxPool2d:
    """A layer of `torch.nn.MaxPool2d` that is run by the function above; copies and pickles of it are torch's.

    Args:
        kernel_size: As that of `max_pool2d`, like all others.
        stride: In pixels.
        padding: In pixels.
        dilation: In pixels.
        return_indices: Whether it gives the places of the largest, too.
        ceil_mode: Whether sizes are rounded up.
    """
    layer = nn.MaxPool2d(kernel_size, stride, padding, dilation, return_indices, ceil_mode)
    FunctionCall(layer, _forward)
    return layer


def _forward(layer: nn.MaxPool2d, input: Tensor) -> Any:  # noqa: A002 - torch's name for it
    return max_pool2d(
        input,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.dilation,
        ceil_mode=layer.ceil_mode,
        return_indices=layer.return_indices,
    )


def _is_taken(pictures: Any, kernel_size: Any, stride: Any) -> bool:
    """Whether pictures are plain, many and lie channel by channel on a CPU, nothing looks on, and it pays."""
    return (
        type(pictures) is Tensor
        and not is_traced()
        and not is_intercepted()
        and pictures.dtype in _DTYPES
        and pictures.device.type == "cpu"
        and pictures.dim() == 4
        and pictures.numel() >= _FEWEST
        and pictures.size(1) >= _FEWEST_CHANNELS
        and _area(kernel_size) > 1
        and _area(kernel_size if stride is None else stride) <= _WIDEST
        and pictures.is_contiguous()
        and not pictures.is_contiguous(memory_format=torch.channels_last)
        and not disabled("max_pool2d")
    )


def _area(size: Any) -> int:
    """Of a size in pixels; 0 for what is none, which is torch's to refuse."""
    if isinstance(size, int):
        return size * size
    return math.prod(size) if isinstance(size, list | tuple) and len(size) == 2 else 0


class MaxPool2DWithIndices(torch.autograd.Function):
    """The largest by torch's kernel for the other layout, gradients by the one for this layout."""

    @staticmethod
    def forward(ctx: Any, pictures: Tensor, *how: Any) -> Tensor:
        """The largest numbers, laid out as the pictures (N, C, H, W)."""
        by_pixel = pictures.contiguous(memory_format=torch.channels_last)
        values, indices = functional.max_pool2d_with_indices(by_pixel, *how)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(pictures, indices.contiguous())
            ctx.how = how
        return torch.empty(values.shape, dtype=values.dtype).copy_(values)  # strides of one pixel are torch's, too

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """What torch's own function gives; it can be differentiated again."""
        pictures, indices = ctx.saved_tensors
        kernel = torch.ops.aten.max_pool2d_with_indices_backward
        return kernel(gradients[0], pictures, *ctx.how, indices), None, None, None, None, None


# The name that `print(pooled)` shows, as of torch's own function.
MaxPool2DWithIndices._backward_cls.__name__ = "MaxPool2DWithIndicesBackward0"  # noqa: SLF001
