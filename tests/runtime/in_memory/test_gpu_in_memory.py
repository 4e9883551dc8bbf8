"""What only a CUDA device can show. `pytest -m gpu`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split

from autoaccel import runtime as accel
from autoaccel.runtime.in_memory import device_placement
from autoaccel.runtime.in_memory.eligible_loaders import in_memory_loader
from tests.runtime.in_memory.comparing import content, seed, states

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept on the device from the fourth batch on."""
    monkeypatch.setattr(device_placement, "PATIENCE", 3)


def known(loader: DataLoader[Any], move: Any = "all") -> Any:
    return in_memory_loader(loader, torch.device("cuda"), move)


def passes(loader: Any, count: int = 2) -> list[Any]:
    """WholeBatchFetcher brought to the host, and the generators after each."""
    seen: list[Any] = []
    for _ in range(count):
        for batch in loader:
            seen.append(([content(part.cpu()) for part in batch], states()))
    return seen


def same(make: Any, on_device: tuple[bool, ...]) -> Any:
    seed()
    want = passes(make())
    seed()
    loader = make()
    wrapped = accel.prefetch(loader, "cuda", move=tuple(at for at, is_there in enumerate(on_device) if is_there))
    assert passes(wrapped) == want
    assert tuple(part.is_cuda for part in next(iter(wrapped))) == on_device
    assert not known(loader, wrapped._move).given_up
    return loader


@pytest.mark.parametrize("on_device", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("pin", [False, True])
def test_tensors(on_device: tuple[bool, ...], pin: bool) -> None:
    dataset = TensorDataset(torch.randn(1000, 33), torch.arange(1000))
    loader = same(lambda: DataLoader(dataset, batch_size=64, shuffle=True, pin_memory=pin), on_device)
    batch = next(iter(accel.prefetch(loader, "cuda", move=(0,))))
    assert batch[1].is_pinned() is pin


def test_parts_share_one_copy() -> None:
    dataset = TensorDataset(torch.randn(1000, 33), torch.arange(1000))
    before = len(device_placement._copies)
    for part in random_split(dataset, [700, 300]):
        same(lambda: DataLoader(part, batch_size=64, shuffle=True), (True, True))  # noqa: B023 - it is called here
    assert len(device_placement._copies) == before + 2


class Rows(Dataset[Any]):
    def __init__(self) -> None:
        self.x, self.y = np.random.RandomState(0).randn(500, 7), np.arange(500) % 5

    def __len__(self) -> int:
        return 500

    def __getitem__(self, i: int) -> Any:
        return torch.from_numpy(self.x[i]).float() / 3, int(self.y[i])


def test_tensors_that_are_there_already() -> None:
    dataset = TensorDataset(torch.randn(300, 5, device="cuda"), torch.arange(300, device="cuda"))
    before = len(device_placement._copies)
    same(lambda: DataLoader(dataset, batch_size=32, shuffle=True), (True, True))
    batches = iter(accel.prefetch(DataLoader(dataset, batch_size=2, sampler=[1, 2, 3, 999]), move=()))
    assert next(batches)[1].tolist() == [1, 2]
    with pytest.raises((IndexError, RuntimeError)):
        next(batches)
    assert len(device_placement._copies) == before


def test_arrays_are_sent() -> None:
    dataset = Rows()
    loader = same(lambda: DataLoader(dataset, batch_size=32, shuffle=True), (True, True))
    dataset.x[:] = 1
    assert next(iter(accel.prefetch(loader, "cuda")))[0].eq(torch.tensor(1.0) / 3).all()


@pytest.mark.parametrize("name", ["MNIST", "CIFAR10"])
def test_images(torchvision: ModuleType, name: str) -> None:
    t = torchvision.transforms
    several = [t.RandomCrop(28, padding=4), t.RandomHorizontalFlip(), t.ToTensor()]
    kind: Any = getattr(torchvision.datasets, name)
    dataset = kind.__new__(kind)
    planes = np.random.RandomState(0).randint(0, 256, (300, 32, 32, 3)).astype(np.uint8)
    images = torch.from_numpy(planes[:, :28, :28, 0].copy()).clone() if name == "MNIST" else planes
    channels = 1 if name == "MNIST" else 3
    several.append(t.Normalize([0.1, 0.3, 0.7][:channels], [0.2, 0.3, 0.9][:channels]))
    vars(dataset).update(data=images, targets=list(range(300)), transform=t.Compose(several), target_transform=None)
    same(lambda: DataLoader(dataset, batch_size=64, shuffle=True), (True, True))


def test_changes_are_seen() -> None:
    dataset = TensorDataset(torch.zeros(256, 3))
    batches = iter(accel.prefetch(DataLoader(dataset, batch_size=64), "cuda"))
    assert next(batches)[0].eq(0).all()
    dataset.tensors[0].fill_(2)
    assert next(batches)[0].eq(2).all()
    dataset.tensors[0].fill_(3)
    assert next(batches)[0].eq(3).all()


def test_an_index_outside_raises_and_the_device_lives() -> None:
    loader = DataLoader(TensorDataset(torch.zeros(8, 3)), batch_size=2, sampler=[0, 1, 2, 99])
    with pytest.raises(IndexError):
        list(accel.prefetch(loader, "cuda"))
    assert torch.ones(3, device="cuda").sum().item() == 3


def test_memory_is_handed_out_again_only_when_it_was_read() -> None:
    """WholeBatchFetcher that are dropped at once, while the device is busy."""
    dataset = TensorDataset(torch.arange(4096.0).view(512, 8))
    wrong = torch.zeros((), device="cuda")
    sleep: Any = torch.cuda._sleep
    for _ in range(5):
        for at, (x,) in enumerate(accel.prefetch(DataLoader(dataset, batch_size=8), "cuda")):
            sleep(500_000)
            wrong += (x[:, 0] != torch.arange(at * 8, at * 8 + 8, device="cuda") * 8).sum()
            del x
            torch.full((64,), float("nan"), device="cuda")
    assert wrong.item() == 0
