"""Transforms on PIL images and tensors; random ones draw from `torch`, in the order in which torchvision draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

Size = int | Sequence[int]


class InterpolationMode(Enum):
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_FILTERS = {
    InterpolationMode.NEAREST: Image.Resampling.NEAREST,
    InterpolationMode.NEAREST_EXACT: Image.Resampling.NEAREST,  # the same on images
    InterpolationMode.BILINEAR: Image.Resampling.BILINEAR,
    InterpolationMode.BICUBIC: Image.Resampling.BICUBIC,
    InterpolationMode.BOX: Image.Resampling.BOX,
    InterpolationMode.HAMMING: Image.Resampling.HAMMING,
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


def _planes(image: Any) -> Tensor:
    """A PIL image or HWC array as a CHW tensor, with the strides of HWC."""
    array = np.array(image, copy=True)
    return torch.from_numpy(array[:, :, None] if array.ndim == 2 else array).permute(2, 0, 1)


class ToTensor:
    """PIL image or HWC array to a CHW tensor; bytes become floats in [0, 1]."""

    def __call__(self, pic: Any) -> Tensor:
        tensor = _planes(pic).contiguous()
        return tensor.to(dtype=torch.get_default_dtype()).div(255) if tensor.dtype == torch.uint8 else tensor


class PILToTensor:
    """PIL image to a CHW tensor of bytes."""

    def __call__(self, pic: Any) -> Tensor:
        return _planes(pic)


class ConvertImageDtype(nn.Module):
    """Bytes to floats in [0, 1]; floats to other floats."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        if image.dtype == self.dtype or image.is_floating_point():
            return image.to(self.dtype)
        return image.to(self.dtype) / float(torch.iinfo(image.dtype).max)


class ToPILImage:
    def __call__(self, image: Tensor) -> Image.Image:
        array = image.mul(255).byte().permute(1, 2, 0).numpy()
        return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


class Normalize(nn.Module):
    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Tensor) -> Tensor:
        mean = torch.as_tensor(self.mean, dtype=tensor.dtype, device=tensor.device)
        std = torch.as_tensor(self.std, dtype=tensor.dtype, device=tensor.device)
        target = tensor if self.inplace else tensor.clone()
        if (std == 0).any():
            raise ValueError("std evaluated to zero")
        return target.sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


class Resize(nn.Module):
    """An integer is the length of the shorter side."""

    def __init__(
        self,
        size: Size,
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias

    def forward(self, img: Image.Image) -> Image.Image:
        if self.max_size is not None:
            raise NotImplementedError("the stand-in knows no longest side")
        sides = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        if len(sides) == 1:
            width, height = (int(sides[0] * side / min(img.size)) for side in img.size)
        else:
            height, width = sides
        return img if img.size == (width, height) else img.resize((width, height), _filter(self.interpolation))


class CenterCrop(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = _pair(size)

    def forward(self, image: Image.Image) -> Image.Image:
        height, width = self.size
        left, top = round((image.width - width) / 2), round((image.height - height) / 2)
        return image.crop((left, top, left + width, top + height))


def _expanded(image: Image.Image, padding: Size, fill: Any, mode: str) -> Image.Image:
    if mode != "constant":
        raise NotImplementedError("the stand-in pads with one value only")
    border = padding if isinstance(padding, int) else tuple(padding)
    bands = len(image.getbands())
    return ImageOps.expand(image, border=border, fill=(fill,) * bands if bands > 1 and isinstance(fill, int) else fill)


class Pad(nn.Module):
    def __init__(self, padding: Size, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, image: Image.Image) -> Image.Image:
        return _expanded(image, self.padding, self.fill, self.padding_mode)


class Grayscale(nn.Module):
    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Image.Image) -> Image.Image:
        grey = img.convert("L")
        return grey if self.num_output_channels == 1 else grey.convert("RGB")


class RandomHorizontalFlip(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        if torch.rand(1) < self.p:
            return img.flip(-1) if isinstance(img, Tensor) else img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return img


class RandomVerticalFlip(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        if torch.rand(1) < self.p:
            return img.flip(-2) if isinstance(img, Tensor) else img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
        return img


class RandomCrop(nn.Module):
    def __init__(
        self,
        size: Size,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size, self.padding, self.pad_if_needed = _pair(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def forward(self, img: Image.Image) -> Image.Image:
        if self.padding is not None:
            img = _expanded(img, self.padding, self.fill, self.padding_mode)
        height, width = self.size
        if self.pad_if_needed:
            border = (max(0, width - img.width), max(0, height - img.height))
            img = _expanded(img, border, self.fill, self.padding_mode) if any(border) else img
        if img.height < height or img.width < width:
            raise ValueError("the crop is larger than the image")
        if (img.height, img.width) == (height, width):
            return img.crop((0, 0, width, height))
        top = int(torch.randint(0, img.height - height + 1, size=(1,)).item())
        left = int(torch.randint(0, img.width - width + 1, size=(1,)).item())
        return img.crop((left, top, left + width, top + height))


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
