"""What the loop does to a dataset between two batches is in the second, as with torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from tests.runtime.in_memory.comparing import content, found, seed, whole


class Own(Dataset[Any]):
    def __init__(self) -> None:
        self.x = np.arange(40.0).reshape(20, 2)
        self.y = list(range(20))
        self.t = torch.arange(20)
        self.scale = 2
        self.transform: Any = None
        self.table = {"a": torch.arange(20.0)}

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> Any:
        x = self.x[i]
        if self.transform is not None:
            x = self.transform(x)
        return x, self.y[i], self.t[i] * self.scale, self.table["a"][i]


def tensors() -> TensorDataset:
    return TensorDataset(torch.arange(40.0).view(20, 2), torch.arange(20))


def subset() -> Subset[Any]:
    return Subset(tensors(), list(range(20)))


def _resized(tensor: torch.Tensor) -> None:
    tensor.resize_(20, 1)


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "an element": (tensors, lambda data: data.tensors[0].__setitem__(15, 99.0)),
    "all elements": (tensors, lambda data: data.tensors[1].add_(100)),
    "elements behind torch's back": (tensors, lambda data: data.tensors[0].numpy().fill(7)),
    "the data of a tensor": (tensors, lambda data: setattr(data.tensors[0], "data", torch.ones(20, 3))),
    "the shape of a tensor": (tensors, lambda data: _resized(data.tensors[0])),
    "gradients": (tensors, lambda data: data.tensors[0].requires_grad_()),
    "other tensors": (tensors, lambda data: setattr(data, "tensors", (torch.zeros(20, 1), data.tensors[1]))),
    "more tensors": (tensors, lambda data: setattr(data, "tensors", (*data.tensors, torch.ones(20)))),
    "sparse tensors": (tensors, lambda data: setattr(data, "tensors", (torch.eye(20).to_sparse(),))),
    "indices": (subset, lambda data: data.indices.reverse()),
    "other indices": (subset, lambda data: setattr(data, "indices", [0] * 20)),
    "another dataset": (subset, lambda data: setattr(data, "dataset", TensorDataset(torch.ones(20)))),
    "an array": (Own, lambda data: data.x.fill(5)),
    "another array": (Own, lambda data: setattr(data, "x", np.ones((20, 3), dtype=np.float32))),
    "a list": (Own, lambda data: data.y.__setitem__(slice(None), [3.5] * 20)),
    "a mixed list": (Own, lambda data: data.y.__setitem__(17, 0.5)),
    "texts": (Own, lambda data: data.y.__setitem__(slice(None), ["a"] * 20)),
    "a number": (Own, lambda data: setattr(data, "scale", 3)),
    "a table": (Own, lambda data: data.table.__setitem__("a", torch.ones(20))),
    "another table": (Own, lambda data: setattr(data, "table", dict.fromkeys("abcde", torch.zeros(20)))),
    "a transform": (Own, lambda data: setattr(data, "transform", lambda x: x + 1)),
    "a missing attribute": (Own, lambda data: setattr(data, "t", torch.arange(20.0))),
}


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("shuffle", [False, True])
def test_changes(case: str, shuffle: bool) -> None:
    make, change = CHANGES[case]

    def batches(iterate: Callable[[DataLoader[Any]], Iterator[Any]]) -> list[Any]:
        seed()
        dataset, seen = make(), []
        loader = DataLoader(dataset, batch_size=3, shuffle=shuffle)
        try:
            for at, batch in enumerate(iterate(loader)):
                seen.append(repr(batch) if batch[0].requires_grad else content(batch))
                if at == 2:
                    change(dataset)
        except RuntimeError as failure:
            return [*seen, repr(failure)]
        seen += [repr(each) for each in (iterate(loader) if iterate is iter or not _left(loader) else iter(loader))]
        return seen

    assert batches(whole) == batches(iter)


def _left(loader: DataLoader[Any]) -> bool:
    return bool(found(loader).given_up)


def test_another_method(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(Own(), batch_size=3)
    batches = whole(loader)
    next(batches)
    monkeypatch.setattr(Own, "__getitem__", lambda self, i: -i)
    assert next(batches).tolist() == [-3, -4, -5]


def test_a_dataset_that_is_always_another_is_left_to_torch() -> None:
    dataset = Own()
    loader = DataLoader(dataset, batch_size=1)
    for _ in whole(loader):
        dataset.x = dataset.x + 1
    assert "changes all the time" in found(loader).given_up
