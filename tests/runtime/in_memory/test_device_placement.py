"""What is kept on a device: here the device is the host, which has all but the waiting."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split

from autoaccel.runtime.in_memory import batch_fetcher, device_placement
from autoaccel.runtime.in_memory.device_placement import LEAST_USED, copied
from autoaccel.runtime.in_memory.sample_structure import SamplePart
from tests.runtime.in_memory.comparing import as_if, content

HERE = torch.device("cpu")
PLENTY = 2**30


@pytest.fixture(autouse=True)
def no_copies(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """None of another test; those of this one are made at once."""
    copies: dict[Any, Any] = {}
    monkeypatch.setattr(device_placement, "_copies", copies)
    monkeypatch.setattr(device_placement, "PATIENCE", 0)
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


@pytest.mark.parametrize(
    ("move", "kept"),
    [
        ("all", "xyz"),
        ("tensors", "x"),
        ((dict, list, tuple), "xyz"),
        ((dict,), ""),
        (("x", "rest", torch.Tensor), "x"),
        (("rest", dict, list), "yz"),
        ((), ""),
    ],
)
def test_what_lies_in_containers(move: Any, kept: str, no_copies: dict[Any, Any]) -> None:
    class Nested(Dataset[Any]):
        def __init__(self) -> None:
            self.x, self.y, self.z = torch.randn(8, 2), torch.arange(8), torch.randn(8)

        def __len__(self) -> int:
            return 8

        def __getitem__(self, i: int) -> Any:
            return {"x": self.x[i], "rest": (self.y[i], self.z[i])}

    dataset = Nested()
    loader = DataLoader(dataset, batch_size=3)
    assert content(list(as_if("cpu", loader, move=move).begin())) == content(list(loader))
    assert {key for key, _ in no_copies} == {id(getattr(dataset, name)) for name in kept}


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


def test_nothing_is_kept_before_the_program_has_taken_its_memory(
    no_copies: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optimizers make their state in the first steps, kernels their workspace; the way of later batches is proven."""
    monkeypatch.setattr(device_placement, "PATIENCE", 5)
    proofs: list[int] = []
    prove = batch_fetcher.WholeBatchFetcher._prove

    def proven(fetcher: Any, lookup: Any, indices: Any) -> Any:
        proofs.append(indices.listed()[0])
        return prove(fetcher, lookup, indices)

    monkeypatch.setattr(batch_fetcher.WholeBatchFetcher, "_prove", proven)
    loader = DataLoader(TensorDataset(torch.arange(32.0)), batch_size=2)
    kept = []
    for at, (batch,) in enumerate(as_if("cpu", loader).begin()):
        assert batch.tolist() == [2.0 * at, 2.0 * at + 1]
        kept.append(bool(no_copies))
    assert kept == [False] * 5 + [True] * 11
    assert proofs == [0, 10]


def test_copies_go_when_memory_becomes_short(no_copies: dict[Any, Any]) -> None:
    memory = [PLENTY]
    tensor, other = torch.zeros(30), torch.zeros(30)

    def left(_: torch.device) -> int:
        return memory[0]

    for _ in range(LEAST_USED):
        assert copied(tensor, HERE, left) is not None
        assert copied(other, HERE, left) is not None
    memory[0] = 200  # less than the two of them take
    assert copied(tensor, HERE, left) is None
    assert copied(other, HERE, left) is None
    assert not any(copy.values.nbytes for _, copy in no_copies.values())
    memory[0] = PLENTY
    assert copied(tensor, HERE, left) is None


def test_copies_go_when_a_batch_finds_no_memory(no_copies: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(TensorDataset(torch.arange(12.0)), batch_size=2)
    known = as_if("cpu", loader)
    batches = known.begin()
    first = [next(batches)[0].tolist() for _ in range(2)]

    def short(part: Any, values: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(SamplePart, "finish", short)
        third = next(batches)[0].tolist()
    assert [*first, third, *(batch.tolist() for (batch,) in batches)] == [[2.0 * at, 2.0 * at + 1] for at in range(6)]
    assert "out of memory" in known.given_up
    assert not any(copy.values.nbytes for _, copy in no_copies.values())


@pytest.mark.parametrize("shape", [(600,), (600, 3), (40, 28, 28), (3, 70_000)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bool, torch.bfloat16])
def test_changes_that_are_not_counted_are_seen(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """All rows at once before the next batch, single ones before the next pass."""
    torch.manual_seed(0)
    tensor = torch.randint(0, 2, shape).to(dtype)
    for _ in range(LEAST_USED + 1):
        assert torch.equal(copied(tensor, HERE, free), tensor)  # type: ignore[arg-type]
    version = tensor._version
    tensor.data.copy_(tensor.flip(0).logical_not().to(dtype))
    assert tensor._version == version
    assert torch.equal(copied(tensor, HERE, free), tensor)  # type: ignore[arg-type]
    for mirrored in (False, True):
        for _ in range(LEAST_USED):
            copied(tensor, HERE, free)
        tensor.data[len(tensor) // 3].fill_(1)
        tensor.data[1].zero_()
        copied(tensor, HERE, free, thoroughly=True)
        for _ in range(LEAST_USED):
            copied(tensor, HERE, free)
        if mirrored:
            tensor.data.copy_(tensor.flip(-1))
        else:
            tensor.data[len(tensor) // 3].zero_()
        assert torch.equal(copied(tensor, HERE, free, thoroughly=True), tensor)  # type: ignore[arg-type]


def test_what_was_not_counted_is_right_in_the_next_pass(no_copies: dict[Any, Any]) -> None:
    dataset = TensorDataset(torch.arange(600.0))
    loader = DataLoader(dataset, batch_size=2)
    known = as_if("cpu", loader)
    for change in range(3):
        assert content(list(known.begin())) == content(list(loader))
        dataset.tensors[0].data[13] = 1000.0 + change
    assert all(copy.used is not None for _, copy in no_copies.values())


@pytest.mark.parametrize("name", ["MNIST", "CIFAR10"])
def test_images_of_torchvision_are_kept(torchvision: ModuleType, name: str, no_copies: dict[Any, Any]) -> None:
    """Read from files they are in memory that is not torch's own, or in arrays."""
    kind: Any = getattr(torchvision.datasets, name)
    dataset = kind.__new__(kind)
    images: Any = np.random.RandomState(0).randint(0, 256, (64, 3, 32, 32)).astype(np.uint8).transpose(0, 2, 3, 1)
    if name == "MNIST":
        images = torch.frombuffer(bytearray(64 * 784), dtype=torch.uint8).view(64, 28, 28)
        assert not images.untyped_storage().resizable()
    to_tensor = torchvision.transforms.ToTensor()
    vars(dataset).update(data=images, targets=list(range(64)), transform=to_tensor, target_transform=None)
    loader = DataLoader(dataset, batch_size=4)
    known = as_if("cpu", loader)
    assert content(list(known.begin())) == content(list(loader))
    assert list(no_copies) == [(id(images), HERE)]
    images[5] = 200  # NumPy's writes are not counted
    assert content(list(known.begin())) == content(list(loader))
