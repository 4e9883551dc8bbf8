"""What is kept on a device: here the device is the host, which has all but the waiting."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split

from autoaccel.runtime.in_memory import device_placement
from autoaccel.runtime.in_memory.device_placement import LEAST_USED, copied
from tests.runtime.in_memory.comparing import as_if, content

HERE = torch.device("cpu")
PLENTY = 2**30


@pytest.fixture(autouse=True)
def no_copies(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    copies: dict[Any, Any] = {}
    monkeypatch.setattr(device_placement, "_copies", copies)
    return copies


def free(_: torch.device) -> int:
    return PLENTY


def test_the_parts_that_the_loop_moves_are_kept(no_copies: dict[Any, Any]) -> None:
    x, y = torch.randn(20, 3), torch.arange(20)
    loader = DataLoader(TensorDataset(x, y), batch_size=4)
    batches = as_if("cpu", loader, move=(0,)).begin()
    assert content(list(batches)) == content(list(loader))
    assert list(no_copies) == [(id(x), HERE)]
    assert no_copies[id(x), HERE][1].values.data_ptr() != x.data_ptr()


def test_parts_by_name_and_further_down(no_copies: dict[Any, Any]) -> None:
    class Named(Dataset[Any]):
        def __init__(self) -> None:
            self.x, self.y, self.z = torch.randn(8, 2), torch.arange(8), torch.randn(8)

        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> Any:
            return {"x": self.x[i], "rest": (self.y[i], self.z[i])}

    dataset = Named()
    loader = DataLoader(dataset, batch_size=3)
    batches = as_if("cpu", loader, move=("x", ("rest", 1))).begin()
    assert content(list(batches)) == content(list(loader))
    assert {key for key, _ in no_copies} == {id(dataset.x), id(dataset.z)}


def test_loaders_share_a_copy(no_copies: dict[Any, Any]) -> None:
    dataset = TensorDataset(torch.randn(20, 3))
    one, other = (DataLoader(part, batch_size=4) for part in random_split(dataset, [12, 8]))
    for loader in (one, other, one):
        assert content(list(as_if("cpu", loader).begin())) == content(list(loader))
    assert len(no_copies) == 1


def test_a_copy_goes_with_its_tensor(no_copies: dict[Any, Any]) -> None:
    tensor = torch.zeros(3)
    assert copied(tensor, HERE, free) is not None
    del tensor
    gc.collect()
    assert not no_copies


def test_what_others_can_change_is_not_kept(no_copies: dict[Any, Any]) -> None:
    numbers = np.arange(12.0).reshape(6, 2)
    dataset = TensorDataset(torch.from_numpy(numbers))
    loader = DataLoader(dataset, batch_size=2)
    batches = as_if("cpu", loader).begin()
    next(batches)
    numbers[:] = 5
    assert next(batches)[0].tolist() == [[5.0, 5.0]] * 2
    assert not no_copies


@pytest.mark.parametrize("memory", [0, 2399])
def test_what_takes_too_much_is_not_kept(memory: int, no_copies: dict[Any, Any]) -> None:
    """A tenth of what is free, of which the copies that are there were taken."""
    first, second = torch.zeros(30), torch.zeros(31)

    def left(_: torch.device) -> int:
        return memory - sum(int(each.values.nbytes) for _, each in no_copies.values())

    assert (copied(first, HERE, left) is not None) is (memory > 0)
    assert copied(second, HERE, left) is None


def test_a_device_is_asked_for_its_memory_once() -> None:
    asked: list[torch.device] = []

    def left(device: torch.device) -> int:
        asked.append(device)
        return 0

    tensor = torch.zeros(30)
    for _ in range(3):
        assert copied(tensor, HERE, left) is None
    assert len(asked) == 1


def test_a_changed_tensor_is_copied_again() -> None:
    tensor = torch.zeros(4)
    for value in (1.0, 2.0):
        for _ in range(LEAST_USED + 1):
            assert torch.equal(copied(tensor, HERE, free), tensor)  # type: ignore[arg-type]
        tensor.fill_(value)
    assert torch.equal(copied(tensor, HERE, free), tensor)  # type: ignore[arg-type]


def test_a_tensor_that_changes_all_the_time_is_not() -> None:
    tensor = torch.zeros(4)
    assert copied(tensor, HERE, free) is not None
    tensor.add_(1)
    assert copied(tensor, HERE, free) is None
    assert copied(tensor, HERE, free) is None


def test_changes_between_batches_are_seen() -> None:
    def seen(resident: bool) -> list[Any]:
        dataset = TensorDataset(torch.arange(60.0).view(30, 2))
        loader = DataLoader(dataset, batch_size=3)
        values = []
        for _ in range(2):
            for at, (x,) in enumerate(as_if("cpu", loader).begin() if resident else loader):
                values.append(x.tolist())
                if at in (2, 7):
                    dataset.tensors[0].mul_(-1)
                if at == 5:
                    dataset.tensors = (torch.ones(30, 1),)
        return values

    assert seen(resident=True) == seen(resident=False)


@pytest.mark.parametrize("index", [99, -1])
def test_no_index_outside_reaches_the_device(index: int) -> None:
    loader = DataLoader(TensorDataset(torch.arange(4)), batch_size=2, sampler=[0, 1, 2, index])

    def outcome(batches: Any) -> Any:
        try:
            return [batch[0].tolist() for batch in batches]
        except IndexError as failure:
            return str(failure)

    assert outcome(as_if("cpu", loader).begin()) == outcome(loader)
