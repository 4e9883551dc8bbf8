"""Transforms on PIL images and tensors; random ones draw from `torch`, in the order in which torchvision draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

Size = int | Sequence[int]


class InterpolationMode(Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"


_FILTERS = {
    InterpolationMode.NEAREST: Image.Resampling.NEAREST,
    InterpolationMode.BILINEAR: Image.Resampling.BILINEAR,
    InterpolationMode.BICUBIC: Image.Resampling.BICUBIC,
    InterpolationMode.LANCZOS: Image.Resampling.LANCZOS,
}


def _pair(size: Size) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    return (int(size[0]), int(size[0])) if len(size) == 1 else (int(size[0]), int(size[1]))


def _filter(interpolation: Any) -> Image.Resampling:
    return _FILTERS[interpolation] if isinstance(interpolation, InterpolationMode) else Image.Resampling(interpolation)


class Compose:
    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Lambda:
    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        self.lambd = lambd

    def __call__(self, image: Any) -> Any:
        return self.lambd(image)


class ToTensor:
    """PIL image or HWC array to a CHW tensor; bytes become floats in [0, 1]."""

    def __call__(self, image: Any) -> Tensor:
        array = np.array(image)
        if array.ndim == 2:
            array = array[:, :, None]
        tensor = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))
        return tensor.float().div(255) if tensor.dtype == torch.uint8 else tensor


class ToPILImage:
    def __call__(self, image: Tensor) -> Image.Image:
        array = image.mul(255).byte().permute(1, 2, 0).numpy()
        return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


class Normalize:
    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        self.mean, self.std, self.inplace = mean, std, inplace

    def __call__(self, tensor: Tensor) -> Tensor:
        mean = torch.as_tensor(self.mean, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1)
        std = torch.as_tensor(self.std, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1)
        target = tensor if self.inplace else tensor.clone()
        return target.sub_(mean).div_(std)


class Resize:
    """An integer is the length of the shorter side."""

    def __init__(
        self, size: Size, interpolation: Any = InterpolationMode.BILINEAR, antialias: bool | None = True
    ) -> None:
        self.size, self.filter = size, _filter(interpolation)

    def __call__(self, image: Image.Image) -> Image.Image:
        if isinstance(self.size, int):
            scale = self.size / min(image.size)
            width, height = (max(self.size, int(side * scale)) for side in image.size)
        else:
            height, width = _pair(self.size)
        return image.resize((width, height), self.filter)


class CenterCrop:
    def __init__(self, size: Size) -> None:
        self.size = _pair(size)

    def __call__(self, image: Image.Image) -> Image.Image:
        height, width = self.size
        left, top = round((image.width - width) / 2), round((image.height - height) / 2)
        return image.crop((left, top, left + width, top + height))


class Pad:
    def __init__(self, padding: Size, fill: int = 0) -> None:
        self.padding, self.fill = padding, fill

    def __call__(self, image: Image.Image) -> Image.Image:
        border = self.padding if isinstance(self.padding, int) else tuple(self.padding)
        return ImageOps.expand(image, border=border, fill=self.fill)


class Grayscale:
    def __init__(self, num_output_channels: int = 1) -> None:
        self.channels = num_output_channels

    def __call__(self, image: Image.Image) -> Image.Image:
        grey = image.convert("L")
        return grey if self.channels == 1 else grey.convert("RGB")


class RandomHorizontalFlip:
    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, image: Image.Image) -> Image.Image:
        return ImageOps.mirror(image) if torch.rand(1).item() < self.p else image


class RandomVerticalFlip(RandomHorizontalFlip):
    def __call__(self, image: Image.Image) -> Image.Image:
        return ImageOps.flip(image) if torch.rand(1).item() < self.p else image


class RandomCrop:
    def __init__(self, size: Size, padding: int | None = None, pad_if_needed: bool = False, fill: int = 0) -> None:
        self.size, self.padding, self.fill = _pair(size), padding, fill

    def __call__(self, image: Image.Image) -> Image.Image:
        if self.padding is not None:
            image = ImageOps.expand(image, border=self.padding, fill=self.fill)
        height, width = self.size
        if (image.height, image.width) == (height, width):
            return image
        top = int(torch.randint(0, image.height - height + 1, size=(1,)).item())
        left = int(torch.randint(0, image.width - width + 1, size=(1,)).item())
        return image.crop((left, top, left + width, top + height))


class RandomResizedCrop:
    def __init__(
        self,
        size: Size,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: Any = InterpolationMode.BILINEAR,
    ) -> None:
        self.size, self.scale, self.ratio, self.filter = _pair(size), scale, ratio, _filter(interpolation)

    def box(self, image: Image.Image) -> tuple[int, int, int, int]:
        area = image.width * image.height
        bounds = torch.log(torch.tensor(self.ratio))
        for _ in range(10):
            target = area * torch.empty(1).uniform_(*self.scale).item()
            aspect = torch.exp(torch.empty(1).uniform_(float(bounds[0]), float(bounds[1]))).item()
            width, height = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
            if 0 < width <= image.width and 0 < height <= image.height:
                top = int(torch.randint(0, image.height - height + 1, size=(1,)).item())
                left = int(torch.randint(0, image.width - width + 1, size=(1,)).item())
                return left, top, left + width, top + height
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        return left, top, left + side, top + side

    def __call__(self, image: Image.Image) -> Image.Image:
        height, width = self.size
        return image.crop(self.box(image)).resize((width, height), self.filter)
