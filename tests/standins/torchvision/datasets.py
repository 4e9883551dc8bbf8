"""Datasets with generated content: a pattern for each class plus noise, the same on every machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

Transform = Callable[[Any], Any] | None


def sample_count(train: bool) -> int:
    """Samples in a generated dataset, from the environment."""
    return int(os.environ.get("STANDIN_SAMPLES", "300") if train else os.environ.get("STANDIN_TEST_SAMPLES", "100"))


def generate(count: int, shape: tuple[int, ...], classes: int, seed: int) -> tuple[np.ndarray[Any, Any], list[int]]:
    """`count` uint8 images of `shape` and their labels; every class occurs when there are enough samples."""
    random = np.random.Generator(np.random.PCG64(seed))
    labels = random.permutation(np.arange(count) % classes)
    patterns = np.random.Generator(np.random.PCG64(1234)).integers(0, 192, (classes, *shape))
    images = patterns[labels] + random.integers(0, 64, (count, *shape))
    return images.astype(np.uint8), [int(label) for label in labels]


class VisionDataset(Dataset[tuple[Any, Any]]):
    """What the datasets share: an image and a target, each through its transform."""

    def __init__(self, root: Any, transform: Transform = None, target_transform: Transform = None) -> None:
        self.root = root
        self.transform = transform
        self.target_transform = target_transform

    def image(self, index: int) -> tuple[Image.Image, Any]:
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(*self.image(index))

    def _transformed(self, img: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            img = self.transform(img)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return img, target


class MNIST(VisionDataset):
    """28 x 28 grey images of ten classes."""

    seed: ClassVar[int] = 1
    classes: ClassVar[Sequence[str]] = [f"{digit} - digit" for digit in range(10)]

    def __init__(
        self,
        root: Any = None,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        self.train = train
        images, labels = generate(sample_count(train), (28, 28), 10, self.seed + 100 * train)
        self.data = torch.from_numpy(images)
        self.targets = torch.tensor(labels)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        img, target = self.data[index], int(self.targets[index])
        return self._transformed(Image.fromarray(img.numpy()), target)


class FashionMNIST(MNIST):
    seed = 2


class KMNIST(MNIST):
    seed = 6


class CIFAR10(VisionDataset):
    """32 x 32 colour images of ten classes; `data` is an array (planes in memory) and `targets` a list, as there."""

    seed: ClassVar[int] = 3
    labels: ClassVar[int] = 10

    def __init__(
        self,
        root: Any = None,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        self.train = train
        self.classes = [f"class {label}" for label in range(self.labels)]
        images, self.targets = generate(sample_count(train), (32, 32, 3), self.labels, self.seed + 100 * train)
        self.data = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        img, target = self.data[index], self.targets[index]
        return self._transformed(Image.fromarray(img), target)


class CIFAR100(CIFAR10):
    seed = 4
    labels = 100


class SVHN(VisionDataset):
    """32 x 32 colour images of ten classes; `data` is an array of planes, `labels` another."""

    def __init__(
        self,
        root: Any = None,
        split: str = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        self.split = split
        images, labels = generate(sample_count(split != "test"), (32, 32, 3), 10, 7 + 100 * (split != "test"))
        self.data = images.transpose(0, 3, 1, 2)
        self.labels = np.array(labels, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        img, target = self.data[index], int(self.labels[index])
        return self._transformed(Image.fromarray(np.ascontiguousarray(np.transpose(img, (1, 2, 0)))), target)


class FakeData(VisionDataset):
    """Random images; like the original, a sample is drawn under its own seed and the generator is put back."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Transform = None,
        target_transform: Transform = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(None, transform, target_transform)
        self.size = min(size, sample_count(train=True))
        self.image_size = image_size
        self.num_classes = num_classes
        self.random_offset = random_offset

    def __len__(self) -> int:
        return self.size

    def image(self, index: int) -> tuple[Image.Image, Any]:
        if index >= self.size:
            raise IndexError(index)
        state = torch.get_rng_state()
        torch.manual_seed(index + self.random_offset)
        picture = torch.randint(0, 256, self.image_size, dtype=torch.uint8).permute(1, 2, 0).numpy()
        target = int(torch.randint(0, self.num_classes, size=(1,)).item())
        torch.set_rng_state(state)
        return Image.fromarray(picture), target


def default_loader(path: str) -> Image.Image:
    """A file as an image of three colours."""
    return Image.open(path).convert("RGB")


class ImageFolder(VisionDataset):
    """Real files: one folder a class, images below it."""

    extensions: ClassVar[tuple[str, ...]] = (".jpg", ".jpeg", ".png", ".ppm", ".bmp")

    def __init__(
        self,
        root: Any,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transform, target_transform)
        self.loader = loader
        self.classes = sorted(entry.name for entry in Path(root).iterdir() if entry.is_dir())
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}
        self.samples = [
            (str(path), self.class_to_idx[name])
            for name in self.classes
            for path in sorted((Path(root) / name).rglob("*"))
            if path.suffix.lower() in self.extensions
        ]
        if not self.samples:
            raise FileNotFoundError(f"no image below {root}")
        self.imgs = self.samples
        self.targets = [label for _, label in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def image(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        return self.loader(path), label
