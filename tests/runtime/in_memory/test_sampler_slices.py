"""Slices of one permutation are the lists of torch's samplers, drawn at the same moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import data

from autoaccel import runtime as accel
from autoaccel.runtime.in_memory import row_indices
from autoaccel.runtime.in_memory.row_indices import RowIndices, Unfit
from autoaccel.runtime.in_memory.sampler_slices import slices

SIZES = st.integers(1, 40)


def taken(batches: Iterator[Any], generator: torch.Generator | None) -> list[tuple[list[int], list[int]]]:
    """The batches, each with the state of the generator after it, and the state after the last."""
    found = []
    for batch in batches:
        numbers = batch.listed() if isinstance(batch, RowIndices) else batch
        found.append((list(numbers), state(generator)))
    return [*found, ([], state(generator))]


def state(generator: torch.Generator | None) -> list[int]:
    given: list[int] = (torch.get_rng_state() if generator is None else generator.get_state()).tolist()
    return given


def sampled(count: int, size: int, drop_last: bool, shuffle: bool, number: int | None, own: bool) -> list[Any]:
    both = []
    for ours in (False, True):
        torch.manual_seed(3)
        generator = torch.Generator().manual_seed(5) if own else None
        sampler: Any = data.SequentialSampler(range(count))
        if shuffle:
            sampler = data.RandomSampler(range(count), num_samples=number, generator=generator)
        batches = data.BatchSampler(sampler, size, drop_last)
        found = slices(batches) if ours else iter(batches)
        assert found is not None
        both.append(taken(found, generator))
    return both


@given(SIZES, SIZES, st.booleans(), st.booleans(), st.none() | SIZES, st.booleans())
def test_batches_and_generators_are_torchs(
    count: int, size: int, drop_last: bool, shuffle: bool, number: int | None, own: bool
) -> None:
    plain, sliced = sampled(count, size, drop_last, shuffle, number, own)
    assert sliced == plain


class Sorted(data.RandomSampler):
    """A sampler of the script's own."""

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(super().__iter__()))


@pytest.mark.parametrize(
    "batches",
    [
        data.BatchSampler(Sorted(range(9)), 2, False),
        data.BatchSampler(data.RandomSampler(range(9), replacement=True), 2, False),
        data.BatchSampler(data.SubsetRandomSampler(range(9)), 2, False),
        data.BatchSampler(data.WeightedRandomSampler([0.5] * 9, 9), 2, False),
        data.BatchSampler(range(9), 2, False),
        [[0, 1], [2, 3]],
    ],
    ids=["subclass", "replacement", "subset", "weighted", "a range", "a list"],
)
def test_other_samplers_are_asked_themselves(batches: Any) -> None:
    assert slices(batches) is None


def test_a_torch_that_draws_otherwise_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(self: data.RandomSampler) -> Iterator[int]:
        yield from reversed(torch.randperm(len(self.data_source), generator=self.generator).tolist())

    batches = data.BatchSampler(data.RandomSampler(range(9)), 2, False)
    assert slices(batches) is not None
    monkeypatch.setattr(data.RandomSampler, "__iter__", backwards)
    assert slices(batches) is None


def test_nothing_is_drawn_before_the_first_batch_is_asked_for() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    batches = slices(data.BatchSampler(data.RandomSampler(range(9)), 2, False))
    assert batches is not None
    assert torch.equal(torch.get_rng_state(), before)
    next(batches)
    assert not torch.equal(torch.get_rng_state(), before)


def test_a_device_gets_the_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []

    def sent(tensor: torch.Tensor, _device: torch.device) -> torch.Tensor:
        copies.append(len(tensor))
        return tensor

    monkeypatch.setattr(row_indices, "sent", sent)
    found = slices(data.BatchSampler(data.RandomSampler(range(9)), 2, False))
    assert found is not None
    batches = list(found)
    there = [batch.on(torch.device("cuda")).tolist() for batch in batches]
    assert there == [batch.listed() for batch in batches]
    assert copies == [9]


def test_rows_that_are_not_there_are_refused() -> None:
    found = slices(data.BatchSampler(data.SequentialSampler(range(9)), 2, False))
    assert found is not None
    batch = next(found)
    assert batch.inside(9) is batch
    with pytest.raises(Unfit):
        batch.inside(8)


class Listing(data.TensorDataset):
    """Takes whole batches itself, and is particular about what it is given."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        assert type(indices) is list
        assert all(type(each) is int for each in indices)
        return [self[each] for each in indices]


@pytest.mark.parametrize("kind", [data.TensorDataset, Listing])
def test_passes_over_a_loader_are_the_plain_ones(kind: type[data.TensorDataset]) -> None:
    runs = []
    for prefetched in (False, True):
        torch.manual_seed(1)
        loader = data.DataLoader(kind(torch.arange(23.0)), batch_size=4, shuffle=True)
        seen = []
        for _ in range(3):
            for number, (batch,) in enumerate(accel.prefetch(loader, "cpu") if prefetched else loader):
                seen.append(batch.tolist())
                if number == 3:
                    break
        runs.append((seen, torch.get_rng_state().tolist()))
    assert runs[0] == runs[1]
