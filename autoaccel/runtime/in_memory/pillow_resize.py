"""Resizing as Pillow does it, for a batch: the same bytes.

Pillow weighs the pixels of a line, then those of a column, with whole numbers (22 bits after the point), and rounds
to bytes after each. Sums of such products stay far below 2**53: matrix products in float64 give the same numbers in
whatever order they add. The weights are computed in Pillow's order, and tried against Pillow on random images before
they are used: other builds of it (SIMD) weigh in another way.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass
from typing import Any, Final

import torch

from .batched_random import Kinds

BITS: Final = 22
TRIED: Final = 192  # random images: a weight that is off by its last bit shows in about one of 10**4 pixels
MOST: Final = 1_500_000  # multiplications for an image; above, Pillow is faster, which knows where weights are zero


@dataclass(frozen=True)
class Resized:
    """Bilinear, from one size to another, each as height and width."""

    before: tuple[int, int]
    after: tuple[int, int]
    columns_first: bool = False

    kinds: Kinds = ()

    def __call__(self, images: torch.Tensor, drawn: Any = ()) -> torch.Tensor:  # noqa: ARG002 - nothing is drawn
        values = images.permute(0, 3, 1, 2).to(torch.float64)
        for along in (0, 1) if self.columns_first else (1, 0):
            before, after = self.before[along], self.after[along]
            if before != after:
                weights = _weights(before, after, images.device)
                values = _rounded(values @ weights if along else weights.t() @ values)
        return values.permute(0, 2, 3, 1).to(torch.uint8, memory_format=torch.contiguous_format)


@functools.lru_cache(maxsize=32)
def like_pillow(before: tuple[int, int], after: tuple[int, int]) -> Resized | None:
    """What the Pillow at hand does, if it is cheap and can be told; releases differ in what they do first."""
    if after[1] * before[0] * (before[1] + after[0]) > MOST:
        return None
    for columns_first in (False, True):
        if _matches(resized := Resized(before, after, columns_first)):
            return resized
    return None


def _rounded(sums: torch.Tensor) -> torch.Tensor:
    return sums.add_(2 ** (BITS - 1)).mul_(2.0**-BITS).floor_().clamp_(0, 255)


@functools.lru_cache(maxsize=32)
def _weights(before: int, after: int, place: torch.device) -> torch.Tensor:
    """The weight of each pixel before, in each pixel after: whole numbers, as float64; sent once."""
    weights = torch.zeros(before, after, dtype=torch.float64)
    scale = before / after
    support = max(scale, 1.0)
    for pixel in range(after):
        center = (pixel + 0.5) * scale
        first, last = max(0, int(center - support + 0.5)), min(before, int(center + support + 0.5))
        found = [max(0.0, 1.0 - abs((at - center + 0.5) * (1.0 / support))) for at in range(first, last)]
        total = 0.0
        for weight in found:  # the built-in sum adds in a better way than C
            total += weight
        for at, weight in enumerate(found, first):
            weights[at, pixel] = math.floor(0.5 + weight / total * (1 << BITS))
    return weights.to(place)


def _matches(resized: Resized) -> bool:
    """Whether Pillow gives the same for random images; the program's generators are left alone."""
    pillow: Any = sys.modules.get("PIL.Image")
    if pillow is None:
        return False
    chance = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (TRIED, *resized.before, 1), dtype=torch.uint8, generator=chance)
    height, width = resized.after
    for image, mine in zip(images, resized(images), strict=True):
        one = pillow.frombytes("L", resized.before[::-1], bytes(image.flatten().tolist()))
        if one.resize((width, height), pillow.BILINEAR).tobytes() != bytes(mine.flatten().tolist()):
            return False
    return True
