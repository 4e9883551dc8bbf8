"""Images as bytes, cropped and flipped and turned into floats for a whole batch: the same bits as one by one.

Geometry moves bytes; what it draws is drawn beforehand, in the order of the samples. The values come after it: each
output depends on one byte and its channel, by the very operations of the transforms. On a device these are looked up
in a table that the host computed, for divisions there are not always rounded like here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import torch

from .row_indices import Unfit, sent

# What the transforms draw for one sample, in order: whole numbers below a bound, or (None) a number in [0, 1).
Kinds: TypeAlias = "Sequence[int | None]"


def draw(kinds: Kinds, samples: int) -> list[torch.Tensor]:
    """For each kind the numbers of all samples, shape (samples,): drawn sample by sample, as the transforms do it."""
    drawn = [
        [torch.rand(1) if bound is None else torch.randint(0, bound, (1,)) for bound in kinds] for _ in range(samples)
    ]
    return [torch.cat(each) for each in zip(*drawn, strict=True)]


@dataclass(frozen=True)
class Pad:
    """A border of one value around each image."""

    left: int
    top: int
    right: int
    bottom: int
    fill: int

    kinds: Kinds = ()

    def __call__(self, images: torch.Tensor, drawn: Sequence[torch.Tensor]) -> torch.Tensor:  # noqa: ARG002 - none drawn
        count, height, width, channels = images.shape
        shape = (count, height + self.top + self.bottom, width + self.left + self.right, channels)
        padded = images.new_full(shape, self.fill)
        padded[:, self.top : self.top + height, self.left : self.left + width] = images
        return padded


@dataclass(frozen=True)
class Crop:
    """A part of each image at a random place; `down` and `right` are how many places there are."""

    down: int
    right: int
    height: int
    width: int

    @property
    def kinds(self) -> Kinds:
        return (self.down, self.right)

    def __call__(self, images: torch.Tensor, drawn: Sequence[torch.Tensor]) -> torch.Tensor:
        """Lines are looked up in a view of the memory in which one begins at every byte."""
        count, height, width, channels = images.shape
        length = self.width * channels
        place = images.device
        top, left = (sent(each, place).repeat_interleave(count // len(each)) for each in drawn)
        image = torch.arange(count, device=place)
        line = torch.arange(self.height, device=place)
        starts = (((image * height + top)[:, None] + line) * width + left[:, None]) * channels
        lines = images.view(-1).as_strided((images.numel() - length + 1, length), (1, 1))
        return lines.index_select(0, starts.view(-1)).view(count, self.height, self.width, channels)


@dataclass(frozen=True)
class Flip:
    """Some images, mirrored left and right."""

    chance: float

    kinds: Kinds = (None,)

    def __call__(self, images: torch.Tensor, drawn: Sequence[torch.Tensor]) -> torch.Tensor:
        (number,) = drawn
        chosen = sent(number < self.chance, images.device).repeat_interleave(images.shape[0] // len(number))
        return torch.where(chosen.view(-1, 1, 1, 1), images.flip(2), images)


Geometry: TypeAlias = "Pad | Crop | Flip"


@dataclass(frozen=True)
class Scaled:
    """Bytes to floats in [0, 1], of the default dtype at that moment."""

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        floats = values.to(torch.get_default_dtype(), memory_format=torch.contiguous_format)
        return floats.div_(255)


@dataclass(frozen=True)
class Normalized:
    """Mean and deviation of the channels."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        mean, std = (torch.as_tensor(each, dtype=values.dtype).view(-1, 1, 1) for each in (self.mean, self.std))
        return values.sub_(mean).div_(std)


ScaleOrNormalize: TypeAlias = "Scaled | Normalized"


@dataclass(frozen=True)
class Pipeline:
    """From looked-up bytes to the batch's images.

    layout: "HWC" or "CHW" or (one channel) "HW", as the bytes come.
    """

    layout: str
    geometry: tuple[Geometry, ...]
    values: tuple[ScaleOrNormalize, ...]
    anywhere: ClassVar[bool] = True  # its values are the same on every device
    tables: dict[tuple[torch.device, int, torch.dtype], tuple[torch.Tensor, torch.Tensor]] = field(
        default_factory=dict, compare=False
    )

    @property
    def kinds(self) -> Kinds:
        """What a sample draws."""
        return [kind for each in self.geometry for kind in each.kinds]

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        if images.dtype != torch.uint8:
            raise Unfit
        return self._valued(self._shaped(images))

    def _shaped(self, images: torch.Tensor) -> torch.Tensor:
        """The geometry, on planes or pixels as they lie in memory; N, C, H, W comes out."""
        samples = images.shape[0]
        if self.layout != "HWC":
            images = images.reshape(-1, *images.shape[-2:], 1)
        drawn = draw(kinds, samples) if (kinds := self.kinds) else []
        for each in self.geometry:
            images = each(images, [drawn.pop(0) for _ in each.kinds])
        if self.layout == "HWC":
            return images.permute(0, 3, 1, 2)
        return images.view(samples, -1, *images.shape[1:3])

    def _valued(self, images: torch.Tensor) -> torch.Tensor:
        if images.device.type != "cpu":
            return self._from_table(images)
        for each in self.values:
            images = each(images)
        return images

    def _from_table(self, images: torch.Tensor) -> torch.Tensor:
        channels = images.shape[1]
        key = (images.device, channels, torch.get_default_dtype())
        if key not in self.tables:
            table = torch.arange(256, dtype=torch.uint8).expand(1, channels, 1, 256)
            for each in self.values:
                table = each(table)
            first = torch.arange(0, 256 * channels, 256, dtype=torch.int32).view(-1, 1, 1)
            self.tables[key] = table.reshape(-1).to(images.device), first.to(images.device)
        values, first = self.tables[key]
        at = images.to(torch.int32, memory_format=torch.contiguous_format)  # half the memory of int64
        if channels > 1:
            at.add_(first)
        return values.index_select(0, at.view(-1)).view(at.shape)
