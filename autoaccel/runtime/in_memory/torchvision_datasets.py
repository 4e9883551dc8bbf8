"""torchvision's datasets that hold all images in memory, and those of its transforms that can be done for a batch.

A class counts as torchvision's only if it is the one of that name in the loaded package, with the methods it came
with. Nothing is imported: a script that uses none of it has not loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import torch

from .columns import Column, Numbers, Tensors, column
from .image_transforms import Crop, Flip, Geometry, Normalized, Pad, Pipeline, Scaled, ScaleOrNormalize
from .mutation_guard import MutationGuard, Unsupported, is_librarys
from .sample_structure import Sample, SamplePart
from .transformed_images import TransformedImages


@dataclass(frozen=True)
class ImageLayout:
    """How a dataset keeps its images (axes of one image) and what it calls the labels."""

    axes: str
    targets: str = "targets"


DATASETS: Final = {
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "USPS"), ImageLayout("HW")),
    **dict.fromkeys(("CIFAR10", "CIFAR100"), ImageLayout("HWC")),
    **dict.fromkeys(("SVHN", "STL10"), ImageLayout("CHW", "labels")),
}
_DEFINED: Final = {"FashionMNIST": "MNIST", "KMNIST": "MNIST", "EMNIST": "MNIST", "CIFAR100": "CIFAR10"}


def is_torchvisions(thing: Any, package: str, method: str, defined: str | None = None) -> bool:
    """Whether an object is of a class of torchvision, unchanged."""
    kind = type(thing)
    name = kind.__name__
    module = sys.modules.get(f"torchvision.{package}")
    return getattr(module, name, None) is kind and is_librarys(
        getattr(kind, method, None), "torchvision", f"{defined or name}.{method}"
    )


def read_samples(dataset: Any, guard: MutationGuard) -> Sample | None:
    """The samples of an in-memory dataset; None for another kind of dataset."""
    name = type(dataset).__name__
    layout = DATASETS.get(name)
    if layout is None or not is_torchvisions(dataset, "datasets", "__getitem__", _DEFINED.get(name)):
        return None
    if guard.attribute(dataset, "target_transform") is not None:
        raise Unsupported("the labels are transformed")
    images = column(guard.attribute(dataset, "data"))
    labels = column(guard.attribute(dataset, layout.targets))
    if not isinstance(images, Tensors) or not isinstance(labels, (Tensors, Numbers)):
        raise Unsupported(f"{name}.data is not in memory")
    pixels = images.seen()
    if pixels.dtype != torch.uint8 or pixels.dim() != len(layout.axes) + 1:
        raise Unsupported(f"{name}.data holds no images of bytes")
    size = dict(zip(layout.axes, pixels.shape[1:], strict=True))
    if size.get("C", 3) != 3:
        raise Unsupported(f"{name}.data holds no images of three colours")
    axes = layout.axes
    if axes == "HWC" and not pixels.is_contiguous() and pixels.permute(0, 3, 1, 2).is_contiguous():
        images, axes = Tensors(images.source, (lambda source: source.permute(0, 3, 1, 2),)), "CHW"
    images.library = True
    reading = TransformReader(guard, size["H"], size["W"], size.get("C", 1))
    pipeline = reading.pipeline(guard.attribute(dataset, "transform"), axes)
    looked_up: Column = images
    if reading.first:
        looked_up = TransformedImages(dataset, images, reading.first, reading.image)
    whole = isinstance(labels, Tensors) and labels.seen().dtype != torch.int64
    if isinstance(labels, Tensors) and (labels.seen().dim() != 1 or labels.seen().is_floating_point()):
        raise Unsupported(f"{name}.{layout.targets} are not whole numbers")
    steps = (lambda values: values.to(torch.int64),) if whole else ()
    return [SamplePart(looked_up, steps=(pipeline,)), SamplePart(labels, steps=steps)]


class TransformReader:
    """Reads transforms, following the size of the images; `as_tensor` from the transform on that makes one.

    first: those that are done image by image; `image` is what comes out of them.
    """

    def __init__(self, guard: MutationGuard, height: int, width: int, channels: int) -> None:
        self.guard = guard
        self.height, self.width, self.channels = height, width, channels
        self.as_tensor = False
        self.first: list[Any] = []
        self.image: Any = None
        self.geometry: list[Geometry] = []
        self.values: list[ScaleOrNormalize] = []

    def pipeline(self, transform: Any, axes: str) -> Pipeline:
        """What the transform does to a batch of bytes whose images have these axes."""
        self.read(transform)
        if not self.as_tensor:
            raise Unsupported("the transforms make no tensors")
        if self.first:
            axes = "HW" if self.channels == 1 else "HWC"
        return Pipeline(axes, tuple(self.geometry), tuple(self.values))

    def read(self, transform: Any) -> None:
        kind = type(transform)
        reader = _READERS.get(kind.__name__)
        method = "forward" if isinstance(transform, torch.nn.Module) else "__call__"
        if reader is None or not is_torchvisions(transform, "transforms", method):
            raise Unsupported(f"the transform {kind.__name__} is not known")
        own = vars(transform)
        if "forward" in own or any(self.guard.contents(own.get(name, ())) for name in _HOOKS):
            raise Unsupported(f"the transform {kind.__name__} was changed")
        reader(self, transform)

    def compose(self, transform: Any) -> None:
        for each in steps_of(transform, self.guard):
            self.read(each)

    def to_tensor(self, transform: Any) -> None:
        self._image(transform)
        self.as_tensor = True
        self.values.append(Scaled())

    def normalize(self, transform: Any) -> None:
        mean, std = (self._numbers(transform, name) for name in ("mean", "std"))
        self.guard.attribute(transform, "inplace")
        right = all(len(each) in (1, self.channels) for each in (mean, std))
        if not self.values or not right or not all(torch.as_tensor(std, dtype=torch.float32)):
            raise Unsupported("a normalisation that fails")
        self.values.append(Normalized(mean, std))

    def flip(self, transform: Any) -> None:
        chance = self.guard.attribute(transform, "p")
        if type(chance) not in (float, int):
            raise Unsupported("the chance of a flip is not a number")
        self.geometry.append(Flip(float(chance)))

    def one_by_one(self, transform: Any) -> None:
        """A transform that draws nothing, by itself; the size of what it makes shows with an image of zeros."""
        self._image(transform)
        name = type(transform).__name__
        if self.geometry:
            raise Unsupported(f"{name} of images that were padded, cropped or flipped")
        self._settings(transform)
        self.first.append(transform)
        pillow: Any = sys.modules["PIL.Image"]
        if self.image is None:
            self.image = pillow.new("L" if self.channels == 1 else "RGB", (self.width, self.height))
        try:
            self.image = transform(self.image)
        except Exception:  # whatever it raises, the loader's first sample raises it too
            raise Unsupported(f"{name} fails") from None
        if not isinstance(self.image, pillow.Image) or self.image.mode not in ("L", "RGB"):
            raise Unsupported(f"{name} makes no images of bytes")
        self.width, self.height = self.image.size
        self.channels = len(self.image.mode)

    def pad(self, transform: Any) -> None:
        self._image(transform)
        self._border(transform)

    def random_crop(self, transform: Any) -> None:
        self._image(transform)
        if self.guard.attribute(transform, "pad_if_needed") is not False:
            raise Unsupported("a crop that pads where needed")
        if self.guard.attribute(transform, "padding") is not None:
            self._border(transform)
        height, width = self._size(transform)
        if (height, width) != (self.height, self.width):
            self.geometry.append(Crop(self.height - height + 1, self.width - width + 1, height, width))
        self.height, self.width = height, width

    def _image(self, transform: Any) -> None:
        if self.as_tensor:
            raise Unsupported(f"{type(transform).__name__} of a tensor")

    def _settings(self, transform: Any) -> None:
        """All that a transform holds, for it is called as it is: plain settings, and what every module has."""
        self.guard.method(type(transform), "forward" if isinstance(transform, torch.nn.Module) else "__call__")
        for name in self.guard.contents(vars(transform)):
            value = self.guard.attribute(transform, name)
            values = self.guard.contents(value) if type(value) in (list, tuple) else (value,)
            if name[0] != "_" and not all(type(each) in _PLAIN or isinstance(each, Enum) for each in values):
                raise Unsupported(f"{type(transform).__name__}.{name} is not a plain setting")

    def _border(self, transform: Any) -> None:
        padding, fill, mode = (self.guard.attribute(transform, name) for name in ("padding", "fill", "padding_mode"))
        sides = (padding,) if type(padding) is int else padding
        if type(sides) not in (list, tuple) or {*map(type, sides)} != {int} or min(sides) < 0 or len(sides) == 3:
            raise Unsupported("a padding that is no number")
        if mode != "constant" or type(fill) is not int or not 0 <= fill <= 255:
            raise Unsupported("a padding that is not one value")
        left, top, right, bottom = self.guard.contents(sides) * (4 // len(sides))
        self.geometry.append(Pad(left, top, right, bottom, fill))
        self.height, self.width = self.height + top + bottom, self.width + left + right

    def _size(self, transform: Any) -> tuple[int, int]:
        size = self.guard.attribute(transform, "size")
        if type(size) not in (list, tuple) or [*map(type, size)] != [int, int]:
            raise Unsupported("a size that is no pair of numbers")
        height, width = self.guard.contents(size)
        if not (0 < height <= self.height and 0 < width <= self.width):
            raise Unsupported("a crop that is larger than the images")
        return height, width

    def _numbers(self, transform: Any, name: str) -> tuple[float, ...]:
        numbers: Sequence[Any] = self.guard.attribute(transform, name)
        if type(numbers) not in (list, tuple) or not {*map(type, numbers)} <= {int, float} or not numbers:
            raise Unsupported(f"the {name} is not a list of numbers")
        return self.guard.contents(numbers)


def steps_of(compose: Any, guard: MutationGuard) -> tuple[Any, ...]:
    """The transforms of a `Compose`."""
    several = guard.attribute(compose, "transforms")
    if type(several) not in (list, tuple):
        raise Unsupported("the transforms are not in a list")
    return guard.contents(several)


_PLAIN: Final = (int, float, bool, str, type(None))
_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks")
_READERS: Final[dict[str, Callable[[TransformReader, Any], None]]] = {
    "Compose": TransformReader.compose,
    "ToTensor": TransformReader.to_tensor,
    "Normalize": TransformReader.normalize,
    "RandomHorizontalFlip": TransformReader.flip,
    "RandomCrop": TransformReader.random_crop,
    "Pad": TransformReader.pad,
    **dict.fromkeys(("Resize", "CenterCrop", "Grayscale"), TransformReader.one_by_one),
}
