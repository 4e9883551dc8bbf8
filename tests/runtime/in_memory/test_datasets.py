"""torch's own datasets, with every kind of loader: whole batches are torch's, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)

from tests.runtime.in_memory.comparing import left_to_torch, same, whole

COUNT = 23
X = torch.arange(COUNT * 6, dtype=torch.float32).view(COUNT, 2, 3).sin()
Y = torch.arange(COUNT) % 5
NAN = X.clone()
NAN[3, 0] = float("nan")
ODD = X.view(torch.int32).clone()
ODD[:, 0, 0] = 0x7FC00123  # a NaN with a payload
PAIR = TensorDataset(X, Y)


class Flags(TensorDataset):
    """Changes nothing about how samples are had."""


DATASETS: dict[str, Dataset[Any]] = {
    "a pair": PAIR,
    "one tensor": TensorDataset(X),
    "numbers": TensorDataset(Y),
    "a subclass": Flags(X, Y),
    "many dtypes": TensorDataset(*(Y.to(each) for each in (torch.bool, torch.uint8, torch.int16, torch.float16,
                                                           torch.bfloat16, torch.float64, torch.complex64))),
    "NaN with payloads": TensorDataset(NAN, ODD.view(torch.float32)),
    "not contiguous": TensorDataset(X.permute(0, 2, 1), X[:, 0], X.transpose(1, 2)[:, 1:], Y.view(-1, 1)[:, 0]),
    "channels last": TensorDataset(torch.randn(COUNT, 4, 4, 3).permute(0, 3, 1, 2)),
    "expanded": TensorDataset(torch.ones(1, 3).expand(COUNT, 3)),
    "with offset": TensorDataset(torch.randn(COUNT + 4, 2)[4:]),
    "memory of numpy": TensorDataset(torch.from_numpy(np.arange(COUNT * 2.0).reshape(COUNT, 2))),
    "no elements": TensorDataset(torch.zeros(COUNT, 0, 2)),
    "the same tensor twice": TensorDataset(X, X),
    "subset": Subset(PAIR, range(3, 20)),
    "subset of a subset": Subset(Subset(PAIR, list(range(20, 2, -1))), [0, 5, 5, -1, 7, 9, 3, 2]),
    "subset by tensor": Subset(PAIR, torch.randperm(COUNT)),  # type: ignore[arg-type]
    "subset by array": Subset(PAIR, np.arange(COUNT)[::-1].copy()),  # type: ignore[arg-type]
    "split": random_split(PAIR, [10, 13], generator=torch.Generator().manual_seed(3))[1],
}  # fmt: skip


def loaders(dataset: Any) -> dict[str, dict[str, Any]]:
    count = len(dataset)
    return {
        "in order": {"batch_size": 4},
        "shuffled": {"batch_size": 5, "shuffle": True},
        "one by one": {"batch_size": 1, "shuffle": True},
        "all at once": {"batch_size": 64},
        "without the rest": {"batch_size": 3, "drop_last": True, "shuffle": True},
        "own generator": {"batch_size": 4, "shuffle": True, "generator": torch.Generator().manual_seed(5)},
        "replacement": {"batch_size": 4, "sampler": RandomSampler(dataset, replacement=True, num_samples=9)},
        "weighted": {"batch_size": 4, "sampler": WeightedRandomSampler([1.0, 3.0] * (count // 2), count)},
        "some": {"batch_size": 2, "sampler": SubsetRandomSampler([3, 1, 0])},
        "batch sampler": {"batch_sampler": BatchSampler(SequentialSampler(dataset), 4, drop_last=True)},
        "lists of batches": {"batch_sampler": [[1, 2], [0], [3, 3, 3]]},
        "numpy's numbers": {"batch_size": 2, "sampler": list(np.arange(4)), "drop_last": False},
        "workers that need none": {"batch_size": 4, "worker_init_fn": print, "persistent_workers": False},
    }


@pytest.mark.parametrize("dataset", DATASETS)
def test_datasets(dataset: str) -> None:
    same(lambda: DataLoader(DATASETS[dataset], batch_size=4, shuffle=True))
    same(lambda: DataLoader(DATASETS[dataset], batch_size=1), passes=1)


@pytest.mark.parametrize("options", loaders(PAIR))
@pytest.mark.parametrize("dataset", ["a pair", "subset of a subset"])
def test_loaders(dataset: str, options: str) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(DATASETS[dataset], **loaders(DATASETS[dataset])[options])

    same(make, passes=3)
    same(make, passes=3, leave=0)


def test_no_samples() -> None:
    loader = DataLoader(TensorDataset(X[:0], Y[:0]))
    assert list(whole(loader)) == []


def test_batches_are_memory_of_their_own() -> None:
    loader = DataLoader(PAIR, batch_size=COUNT)
    ((x, y),) = whole(loader)
    ((again, _),) = whole(loader)
    x.zero_()
    y.zero_()
    assert torch.equal(again, X)
    ((third, labels),) = whole(loader)
    assert torch.equal(third, X)
    assert torch.equal(labels, Y)
    third.resize_(COUNT * 7)


class Counting(TensorDataset):
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index)  # type: ignore[no-untyped-call]


class Whole(TensorDataset):
    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return [self[index] for index in indices]


class Guarded(TensorDataset):
    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Computing(TensorDataset):
    @property
    def tensors(self) -> Any:
        return (X,)

    @tensors.setter
    def tensors(self, value: Any) -> None:
        pass


class Endless(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(5))


class OwnSubset(Subset[Any]):
    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return super().__getitems__(indices)  # type: ignore[arg-type]


class Special(torch.Tensor):
    """A subclass may do anything when it is indexed."""


def loader_of(dataset: Any, **options: Any) -> Callable[[], DataLoader[Any]]:
    return lambda: DataLoader(dataset, **{"batch_size": 2, **options})


LEFT: dict[str, tuple[Callable[[], DataLoader[Any]], str]] = {
    "own samples": (loader_of(Counting(X, Y)), "its __getitem__"),
    "own batches": (loader_of(Whole(X)), "__getitems__ of its own"),
    "own attributes": (loader_of(Guarded(X)), "computes its attributes"),
    "a property": (loader_of(Computing(X)), "not a plain attribute"),
    "iterable": (loader_of(Endless()), "has no indices"),
    "own subset": (loader_of(OwnSubset(PAIR, [1, 2, 3])), "not torch's own Subset"),
    "subset of anything": (loader_of(Subset(Counting(X), [1, 2])), "its __getitem__"),
    "gradients": (loader_of(TensorDataset(X.clone().requires_grad_())), "not plain numbers"),
    "a subclass of tensors": (loader_of(TensorDataset(X.as_subclass(Special))), "not plain numbers"),
    "sparse": (loader_of(TensorDataset(torch.eye(4).to_sparse())), "not plain numbers"),
    "conjugated": (loader_of(TensorDataset(torch.ones(3, dtype=torch.complex64).conj())), "not plain numbers"),
    "several datasets": (loader_of(ConcatDataset([PAIR, PAIR])), "decides by `idx < 0`"),
    "stacked datasets": (loader_of(StackDataset(PAIR, PAIR)), "__getitems__ of its own"),
    "a list": (loader_of([X[0], X[1]]), "a list of samples"),
    "a range": (loader_of(range(9)), "its __getitem__"),
    "own collate": (loader_of(PAIR, collate_fn=lambda samples: samples), "function of the script"),
    "samples, not batches": (loader_of(PAIR, batch_size=None), "hands out samples"),
    "own workers": (loader_of(PAIR, num_workers=1), "the script chose workers"),
    "own iteration": (
        lambda: type("Own", (DataLoader,), {"__iter__": lambda self: iter(())})(PAIR),
        "makes its iterators itself",
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_left_to_torch(case: str) -> None:
    make, reason = LEFT[case]
    left_to_torch(make, reason)
