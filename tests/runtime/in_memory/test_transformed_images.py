"""Images that torchvision resizes: once, and again where their bytes change."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Subset

from autoaccel.runtime.in_memory import device_placement, eligible_loaders, transformed_images
from autoaccel.runtime.loading.loader_settings import WorkerCount
from autoaccel.runtime.loading.worker_count import Machine
from tests.runtime.in_memory.comparing import as_if, content, found, left_to_torch, same, seed, whole

COUNT = 13
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def make(torchvision: ModuleType) -> Make:
    """Makes a dataset of torchvision of grey images or of colours, with these transforms before `ToTensor`."""

    def made(*first: Any, colours: bool = False, height: int = 28, width: int = 28) -> Any:
        numbers = np.random.RandomState(0).randint(0, 256, (COUNT, height, width, 3)).astype(np.uint8)
        data = numbers if colours else torch.from_numpy(numbers[..., 0].copy())
        t, kind = torchvision.transforms, torchvision.datasets.CIFAR10 if colours else torchvision.datasets.MNIST
        dataset = kind.__new__(kind)
        transform = t.Compose([*first, t.ToTensor(), t.Normalize([0.5], [0.5])])
        targets = list(range(COUNT)) if colours else torch.arange(COUNT)
        vars(dataset).update(
            data=data, targets=targets, transform=transform, target_transform=None, train=True, root=""
        )
        return dataset

    return made


@pytest.fixture
def resized(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often Pillow has resized an image: the length of this."""
    calls: list[int] = []
    plain = Image.Image.resize

    def counted(self: Image.Image, *arguments: Any, **options: Any) -> Image.Image:
        calls.append(1)
        return plain(self, *arguments, **options)

    monkeypatch.setattr(Image.Image, "resize", counted)
    return calls


sides = st.integers(1, 40)
sizes = sides | st.tuples(sides, sides) | st.lists(sides, min_size=1, max_size=2)
MODES = "NEAREST NEAREST_EXACT BILINEAR BICUBIC BOX HAMMING LANCZOS".split()


@st.composite
def transforms(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Names and arguments of transforms of which one at least is done image by image."""
    kinds = st.one_of(
        st.tuples(st.just("Resize"), sizes, st.sampled_from(MODES), st.sampled_from((True, False, None))),
        st.tuples(st.just("CenterCrop"), sides | st.tuples(sides, sides)),
        st.tuples(st.just("Grayscale"), st.sampled_from((1, 3))),
    )
    first = draw(st.lists(kinds, min_size=1, max_size=3))
    after = draw(st.sampled_from(((), (("Pad", 2),), (("RandomHorizontalFlip",),), (("Pad", 1), ("RandomCrop", 2)))))
    return [*first, *after]


@given(transforms(), st.booleans(), sides, sides, st.data())
@settings(max_examples=60)
def test_any_transforms(
    make: Make,
    torchvision: ModuleType,
    named: list[tuple[Any, ...]],
    colours: bool,
    height: int,
    width: int,
    data: st.DataObject,
) -> None:
    t = torchvision.transforms

    def made() -> list[Any]:
        return [
            t.Resize(rest[0], t.InterpolationMode[rest[1]], antialias=rest[2])
            if name == "Resize"
            else getattr(t, name)(*rest)
            for name, *rest in named
        ]

    try:
        make(*made(), colours=colours, height=height, width=width)[0]
    except Exception:  # nothing is left of the image: torch's business, as it is
        left_to_torch(lambda: DataLoader(make(*made(), colours=colours, height=height, width=width)), "fails")
        return
    order = data.draw(st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=20) | st.none())
    size, subset = data.draw(st.integers(1, 8)), data.draw(st.booleans())

    def loader() -> DataLoader[Any]:
        dataset = make(*made(), colours=colours, height=height, width=width)
        if subset:
            dataset = Subset(dataset, [*range(COUNT - 1, -1, -1)])
        return DataLoader(dataset, batch_size=size, sampler=order, shuffle=order is None)

    same(loader, passes=3)


def test_each_image_once(make: Make, torchvision: ModuleType, resized: list[int]) -> None:
    loader = DataLoader(make(torchvision.transforms.Resize(32)), batch_size=4, shuffle=True)
    for _ in range(3):
        assert len([*whole(loader)]) == 4
    of_zeros, proof = 1, 4
    assert len(resized) == COUNT + of_zeros + proof


def test_images_go_with_their_loader(make: Make, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    living: weakref.WeakSet[Any] = weakref.WeakSet()
    monkeypatch.setattr(transformed_images, "_living", living)
    dataset = make(torchvision.transforms.Resize(32))
    loader = DataLoader(dataset, batch_size=4)
    [*whole(loader)]
    assert len(living) == 1
    dataset.transform.transforms[0].size = 20
    [*whole(loader)]
    assert [each._after.shape for each in living] == [(COUNT, 20, 20)]
    del loader
    gc.collect()
    assert not living


CHANGES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "an image": lambda dataset, resize, t: dataset.data[3].fill_(7),
    "an image behind torch's back": lambda dataset, resize, t: dataset.data.numpy()[3].fill(7),
    "a pixel of each image": lambda dataset, resize, t: dataset.data[:, 5, 5].fill_(9),
    "all images": lambda dataset, resize, t: dataset.data.bitwise_not_(),
    "other images": lambda dataset, resize, t: setattr(dataset, "data", 255 - dataset.data),
    "the shape of the images": lambda dataset, resize, t: dataset.data.resize_(COUNT, 14, 56),
    "their data": lambda dataset, resize, t: setattr(dataset.data, "data", torch.ones(COUNT, 9, 9, dtype=torch.uint8)),
    "labels": lambda dataset, resize, t: dataset.targets.add_(1),
    "the size": lambda dataset, resize, t: setattr(resize, "size", 20),
    "a side": lambda dataset, resize, t: resize.size.__setitem__(0, 20),
    "the interpolation": lambda dataset, resize, t: setattr(resize, "interpolation", t.InterpolationMode.NEAREST),
    "another method": lambda dataset, resize, t: setattr(resize, "forward", lambda image: image),
    "a hook": lambda dataset, resize, t: resize.register_forward_hook(lambda *_: Image.new("L", (3, 3))),
    "another transform": lambda dataset, resize, t: dataset.transform.transforms.__setitem__(0, t.CenterCrop(9)),
    "one more": lambda dataset, resize, t: dataset.transform.transforms.insert(0, t.CenterCrop(9)),
    "a function": lambda dataset, resize, t: dataset.transform.transforms.insert(0, lambda image: image.rotate(90)),
    "random ones": lambda dataset, resize, t: dataset.transform.transforms.insert(0, t.RandomCrop(20)),
}


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("at", [0, 6])
def test_changes(make: Make, torchvision: ModuleType, case: str, at: int) -> None:
    """What changes between two batches of the first pass, or of the second, is in the next one."""
    t = torchvision.transforms

    def batches(iterate: Callable[[DataLoader[Any]], Iterator[Any]]) -> list[Any]:
        seed()
        resize = t.Resize([32, 30])
        dataset = make(resize)
        loader, seen = DataLoader(dataset, batch_size=3, shuffle=True), []
        for _ in range(3):
            left = iterate is not iter and bool(found(loader).given_up)
            for batch in iter(loader) if left else iterate(loader):
                seen.append((content(batch), torch.get_rng_state().tolist()))
                if len(seen) == at + 1:
                    CHANGES[case](dataset, resize, t)
        return seen

    assert batches(whole) == batches(iter)


def test_another_method_of_the_class(make: Make, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(make(torchvision.transforms.Resize(4)), batch_size=3)
    [*whole(loader)]
    batches = whole(loader)
    next(batches)
    monkeypatch.setattr(torchvision.transforms.Resize, "forward", lambda self, img: img)
    assert next(batches)[0].shape == (3, 1, 28, 28)


def test_an_image_that_fails_is_made_again(
    make: Make, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of an attempt that failed counts as made."""
    dataset = make(torchvision.transforms.Resize(4))
    loader = DataLoader(dataset, batch_size=COUNT)
    first = content(next(whole(loader)))
    lookup = found(loader).lookup()
    plain = Image.Image.resize

    def failing(self: Image.Image, *arguments: Any, **options: Any) -> Image.Image:
        if self.getpixel((0, 0)) == 1:
            raise MemoryError
        return plain(self, *arguments, **options)

    monkeypatch.setattr(Image.Image, "resize", failing)
    kept = dataset.data.clone()
    dataset.data[1].fill_(9)
    dataset.data[2].fill_(1)
    for iterate in (whole, iter):
        with pytest.raises(MemoryError):
            next(iterate(loader))
    dataset.data.copy_(kept)
    assert content(next(whole(loader))) == first
    assert lookup is found(loader).lookup()


@pytest.mark.parametrize("wrong", [COUNT, -COUNT - 1])
def test_rows_that_are_not_there(make: Make, torchvision: ModuleType, wrong: int) -> None:
    loader = DataLoader(make(torchvision.transforms.Resize(4)), batch_size=2, sampler=[0, 1, 2, wrong, 3, 4])
    raised = []
    for iterate in (whole, iter):
        batches = iterate(loader)
        next(batches)
        with pytest.raises(IndexError) as failure:
            next(batches)
        raised.append(str(failure.value))
    assert raised[0] == raised[1]


def test_rows_from_the_end(make: Make, torchvision: ModuleType) -> None:
    dataset = make(torchvision.transforms.Resize(4))
    loaders = [DataLoader(dataset, batch_size=2, sampler=[0, 1, -1, 2, 3, 4]) for _ in range(2)]
    assert [*map(content, whole(loaders[0]))] == [*map(content, loaders[1])]


def test_begun_without_gradients_for_good(make: Make, torchvision: ModuleType) -> None:
    loader = DataLoader(make(torchvision.transforms.Resize(4)), batch_size=4)
    want = [*map(content, loader)]
    with torch.inference_mode():
        batches = whole(loader)
        next(batches)
    assert [*map(content, batches)] == want[1:]
    assert not found(loader).given_up
    assert [*map(content, whole(loader))] == want


def test_sent_to_a_device(make: Make, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept on the host; the batch goes."""
    copies: dict[Any, Any] = {}
    monkeypatch.setattr(device_placement, "_copies", copies)
    monkeypatch.setattr(device_placement, "PATIENCE", 0)
    dataset = make(torchvision.transforms.Resize(32))
    dataset.targets = dataset.targets.clone()
    loader = DataLoader(dataset, batch_size=4)
    moved = as_if("cpu", loader, move=(0,))
    for _ in range(2):
        assert [*map(content, moved.begin())] == [*map(content, loader)]
    assert not copies


@pytest.mark.parametrize("free", [math.inf, 10.0 * (28 * 28 + 32 * 32) * COUNT - 1])
def test_more_than_a_tenth_of_the_memory(
    make: Make, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch, free: float
) -> None:
    gc.collect()
    monkeypatch.setattr(transformed_images, "_living", weakref.WeakSet())
    monkeypatch.setattr(transformed_images, "machine", lambda: Machine(1.0, free, math.inf))
    left_to_torch(lambda: DataLoader(make(torchvision.transforms.Resize(32))), "a tenth of the free memory")
    fits = 10.0 * (28 * 28 + 32 * 32) * COUNT
    monkeypatch.setattr(transformed_images, "machine", lambda: Machine(1.0, fits, math.inf))
    kept = DataLoader(make(torchvision.transforms.Resize(32)))
    next(whole(kept))
    left_to_torch(lambda: DataLoader(make(torchvision.transforms.Resize(32))), "a tenth of the free memory")


def test_workers_resize_meanwhile(make: Make, torchvision: ModuleType) -> None:
    resize = torchvision.transforms.Resize(32)
    left_to_torch(lambda: DataLoader(make(resize), num_workers=WorkerCount(2)), "workers resize its images")
    assert len([*whole(DataLoader(make(resize), num_workers=WorkerCount(0)))]) == COUNT


def test_a_loader_of_a_few_batches_is_left_to_torch(
    make: Make, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first batch, which is made twice, is a great part of it."""
    monkeypatch.setattr(eligible_loaders, "_FEWEST_BATCHES", 8)
    dataset = make(torchvision.transforms.Resize(14))
    left_to_torch(lambda: DataLoader(dataset, batch_size=2), "so few batches")
    [*whole(DataLoader(dataset, batch_size=1))]
