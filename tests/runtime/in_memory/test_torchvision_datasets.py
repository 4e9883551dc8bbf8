"""torchvision's datasets and transforms; with torchvision itself where it is installed, else with the stand-in."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from tests.runtime.in_memory.comparing import left_to_torch, same, whole

COUNT = 19
Transforms = Callable[[Any], Any]

TRANSFORMS: dict[str, Transforms] = {
    "tensor": lambda t: t.ToTensor(),
    "normalised": lambda t: t.Compose([t.ToTensor(), t.Normalize((0.1307,), (0.3081,))]),
    "nested": lambda t: t.Compose([t.Compose([t.ToTensor()]), t.Compose([]), t.Normalize([0.5], [0.5], inplace=True)]),
    "augmented": lambda t: t.Compose([t.RandomCrop(28, padding=4), t.RandomHorizontalFlip(), t.ToTensor(),
                                      t.Normalize([0.5], [0.5])]),
    "cropped": lambda t: t.Compose([t.RandomCrop((20, 24)), t.ToTensor()]),
    "nothing to crop": lambda t: t.Compose([t.RandomCrop(28), t.RandomCrop(28), t.ToTensor()]),
    "flipped as tensors": lambda t: t.Compose([t.RandomHorizontalFlip(0.3), t.ToTensor(), t.RandomHorizontalFlip(0.9),
                                               t.Normalize([0.5], [0.5])]),
    "one draw": lambda t: t.Compose([t.RandomHorizontalFlip(), t.ToTensor()]),
    "padded unevenly": lambda t: t.Compose([t.RandomCrop((30, 26), padding=(1, 2, 3, 4), fill=7), t.ToTensor()]),
    "padded in pairs": lambda t: t.Compose([t.Pad((1, 3), fill=255), t.RandomCrop(25), t.ToTensor()]),
    "twice": lambda t: t.Compose([t.RandomCrop(20), t.RandomCrop(18, padding=2), t.RandomHorizontalFlip(1.0),
                                  t.RandomHorizontalFlip(0), t.ToTensor()]),
    "resized": lambda t: t.Compose([t.Resize(32), t.ToTensor(), t.Normalize([0.5], [0.5])]),
    "resized, then cropped": lambda t: t.Compose([t.Compose([t.Resize((17, 40)), t.CenterCrop((16, 38))]), t.Pad(1),
                                                  t.RandomCrop(13, padding=2), t.RandomHorizontalFlip(), t.ToTensor()]),
    "grey": lambda t: t.Compose([t.Grayscale(), t.ToTensor(), t.Normalize((0.5,), (0.5,))]),
    "in three channels": lambda t: t.Compose([t.Resize(9), t.Grayscale(3), t.ToTensor(),
                                              t.Normalize([0.5, 0.4, 0.3], [0.5])]),
}  # fmt: skip

UNKNOWN: dict[str, tuple[Transforms, str]] = {
    "resized as a tensor": (lambda t: t.Compose([t.ToTensor(), t.Resize(32)]), "Resize of a tensor"),
    "resized after a crop": (lambda t: t.Compose([t.RandomCrop(20), t.Resize(32), t.ToTensor()]), "were padded"),
    "resized by a subclass": (lambda t: t.Compose([type("Resize", (t.Resize,), {})(9), t.ToTensor()]), "not known"),
    "resized to nothing": (lambda t: t.Compose([t.Resize((0, 4)), t.ToTensor()]), "Resize fails"),
    "a function": (lambda t: t.Compose([t.ToTensor(), lambda x: x]), "function is not known"),
    "Lambda": (lambda t: t.Compose([t.ToTensor(), t.Lambda(lambda x: x)]), "Lambda is not known"),
    "a subclass": (lambda t: type("ToTensor", (t.ToTensor,), {})(), "ToTensor is not known"),
    "padded where needed": (lambda t: t.Compose([t.RandomCrop(40, pad_if_needed=True), t.ToTensor()]), "pads where"),
    "a colour": (lambda t: t.Compose([t.RandomCrop(28, padding=2, fill=(1,)), t.ToTensor()]), "not one value"),
    "no list": (lambda t: t.Compose(iter([t.ToTensor()])), "not in a list"),
    "mean of another kind": (
        lambda t: t.Compose([t.ToTensor(), t.Normalize(torch.zeros(1), torch.ones(1))]),
        "not a list of numbers",
    ),
    "bytes": (lambda t: t.PILToTensor(), "PILToTensor is not known"),
    "a tensor twice": (lambda t: t.Compose([t.ToTensor(), t.ToTensor()]), "ToTensor of a tensor"),
}  # fmt: skip


@pytest.fixture
def make(torchvision: ModuleType) -> Callable[..., Any]:
    """Makes a dataset of torchvision that was not read from files."""
    numbers = np.random.RandomState(0)
    planes = numbers.randint(0, 256, (COUNT, 3, 32, 32)).astype(np.uint8)
    data = {
        "MNIST": {"data": torch.from_numpy(planes[:, 0, :28, :28].copy()), "targets": torch.arange(COUNT)},
        "FashionMNIST": {"data": torch.arange(COUNT * 900).view(COUNT, 30, 30).to(torch.uint8),
                         "targets": torch.arange(COUNT).to(torch.uint8)},
        "CIFAR10": {"data": planes.transpose(0, 2, 3, 1), "targets": list(range(COUNT))},
        "CIFAR100": {"data": np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), "targets": list(range(COUNT))},
        "SVHN": {"data": np.asfortranarray(planes.transpose(2, 3, 1, 0)).transpose(3, 2, 0, 1),
                 "labels": np.arange(COUNT)},
    }  # fmt: skip

    def made(name: str, transform: Any) -> Any:
        kind: Any = getattr(torchvision.datasets, name)
        dataset = kind.__new__(kind)
        vars(dataset).update(data[name], root="", transform=transform, target_transform=None, train=True)
        return dataset

    return made


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", ["MNIST", "CIFAR10", "CIFAR100"])
def test_transforms(make: Any, torchvision: ModuleType, name: str, transform: str) -> None:
    def loader(**options: Any) -> DataLoader[Any]:
        return DataLoader(make(name, TRANSFORMS[transform](torchvision.transforms)), **options)

    same(lambda: loader(batch_size=5, shuffle=True), leave=1)
    same(lambda: loader(batch_size=1, sampler=[3, 5, 3]), passes=1)
    same(lambda: loader(batch_size=8))


@pytest.mark.parametrize("name", ["FashionMNIST", "SVHN"])
def test_datasets(make: Any, torchvision: ModuleType, name: str) -> None:
    for transform in ("normalised", "augmented"):
        dataset = make(name, TRANSFORMS[transform](torchvision.transforms))
        same(lambda: DataLoader(dataset, batch_size=5, shuffle=True))  # noqa: B023 - it is called here
        same(lambda: DataLoader(Subset(dataset, range(2, 17)), batch_size=5, shuffle=True))  # noqa: B023


def test_the_default_dtype(make: Any, torchvision: ModuleType) -> None:
    """Flips draw in the default dtype too."""
    t = torchvision.transforms
    loaders = [DataLoader(make("MNIST", TRANSFORMS[each](t)), batch_size=4) for each in ("normalised", "one draw")]
    torch.set_default_dtype(torch.float64)
    try:
        same(lambda: loaders[0])
        same(lambda: loaders[1])
        assert next(whole(loaders[1]))[0].dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    same(lambda: loaders[0])


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown_transforms(make: Any, torchvision: ModuleType, case: str) -> None:
    transform, reason = UNKNOWN[case]
    left_to_torch(lambda: DataLoader(make("MNIST", transform(torchvision.transforms))), reason)


def test_unknown_datasets(make: Any, torchvision: ModuleType) -> None:
    tensor = torchvision.transforms.ToTensor()

    def changed(**attributes: Any) -> Callable[[], DataLoader[Any]]:
        dataset = make("MNIST", tensor)
        vars(dataset).update(attributes)
        return lambda: DataLoader(dataset)

    left_to_torch(changed(transform=None), "NoneType is not known")
    left_to_torch(changed(target_transform=int), "labels are transformed")
    left_to_torch(changed(data=torch.zeros(9, 28, 28)), "no images of bytes")
    left_to_torch(changed(data=torch.zeros(9, 28, 28, 1, dtype=torch.uint8)), "no images of bytes")
    left_to_torch(changed(data=[1, 2]), "not in memory")
    left_to_torch(changed(targets=torch.zeros(9)), "not whole numbers")
    own = type("MNIST", (torchvision.datasets.MNIST,), {"__getitem__": lambda self, index: index})
    dataset = make("MNIST", tensor)
    dataset.__class__ = own
    left_to_torch(lambda: DataLoader(dataset), "its __getitem__")
    dataset.__class__ = type("MNIST", (torchvision.datasets.MNIST,), {})
    left_to_torch(lambda: DataLoader(dataset), "its __getitem__")


def test_a_changed_method(make: Any, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchvision.transforms.ToTensor, "__call__", lambda self, image: torch.ones(1))
    left_to_torch(lambda: DataLoader(make("MNIST", torchvision.transforms.ToTensor())), "not known")


def test_changed_transforms(make: Any, torchvision: ModuleType) -> None:
    """What is changed between two batches is in the second, as with torch."""
    t = torchvision.transforms

    def changing() -> tuple[Any, list[Callable[[], None]]]:
        flip, normalize = t.RandomHorizontalFlip(0.5), t.Normalize([0.5], [0.5])
        several = t.Compose([flip, t.ToTensor(), normalize])
        dataset = make("MNIST", several)
        return dataset, [
            lambda: setattr(flip, "p", 1.0),
            lambda: setattr(normalize, "mean", [0.25]),
            lambda: several.transforms.append(t.Normalize([1.0], [2.0])),
            lambda: normalize.std.__setitem__(0, 4.0),
            lambda: setattr(dataset, "transform", t.ToTensor()),
            lambda: setattr(dataset, "target_transform", lambda label: label + 100),
        ]

    def seen(iterate: Callable[[DataLoader[Any]], Any]) -> list[Any]:
        torch.manual_seed(0)
        dataset, changes = changing()
        batches = []
        for x, y in iterate(DataLoader(dataset, batch_size=2, shuffle=True)):
            batches.append((x.tolist(), y.tolist(), torch.get_rng_state().tolist()))
            if changes:
                changes.pop(0)()
        return batches

    assert seen(whole) == seen(iter)


def test_hooks_are_called(make: Any, torchvision: ModuleType) -> None:
    flip = torchvision.transforms.RandomHorizontalFlip()
    flip.register_forward_hook(lambda *_: None)
    several = torchvision.transforms.Compose([flip, torchvision.transforms.ToTensor()])
    left_to_torch(lambda: DataLoader(make("MNIST", several)), "was changed")
