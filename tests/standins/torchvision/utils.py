"""Image grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor


@torch.no_grad()
def make_grid(
    tensor: Tensor | Sequence[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
    **_: Any,
) -> Tensor:
    """One CHW image from a batch of them, `nrow` to a row."""
    images = tensor if isinstance(tensor, Tensor) else torch.stack(list(tensor))
    while images.dim() < 4:
        images = images.unsqueeze(0)
    if images.size(1) == 1:
        images = images.expand(-1, 3, -1, -1)
    if normalize:
        low, high = value_range if value_range is not None else (float(images.min()), float(images.max()))
        images = images.clamp(low, high).sub(low).div(max(high - low, 1e-5))
    count, channels, height, width = images.shape
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    grid = images.new_full(
        (channels, rows * (height + padding) + padding, columns * (width + padding) + padding), pad_value
    )
    for index in range(count):
        row, column = divmod(index, columns)
        top, left = row * (height + padding) + padding, column * (width + padding) + padding
        grid[:, top : top + height, left : left + width] = images[index]
    return grid


@torch.no_grad()
def save_image(tensor: Tensor | Sequence[Tensor], fp: Any, format: str | None = None, **options: Any) -> None:  # noqa: A002
    """Write a batch as one picture; the folder must exist, as with the original."""
    grid = make_grid(tensor, **options)
    pixels = grid.mul(255).add_(0.5).clamp_(0, 255).permute(1, 2, 0).to("cpu", torch.uint8).numpy()
    Image.fromarray(pixels).save(fp, format=format)
