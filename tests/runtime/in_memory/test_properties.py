"""Any tensors, any subset, any loader: batches and generators are torch's."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Subset, TensorDataset

from tests.runtime.in_memory.comparing import same

DTYPES = (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.float16)


@st.composite
def tensors(draw: st.DrawFn, count: int) -> torch.Tensor:
    """A tensor of `count` samples, maybe a view of a larger one."""
    shape: list[int] = draw(st.lists(st.integers(0, 4), max_size=3))
    tensor = torch.arange(2 * count * max(1, torch.Size(shape).numel())).to(draw(st.sampled_from(DTYPES)))
    tensor = tensor[: 2 * count * torch.Size(shape).numel()].view(2 * count, *shape)
    tensor = tensor[::2] if draw(st.sampled_from((False, True))) else tensor[count:]
    if shape and draw(st.sampled_from((False, True))):
        tensor = tensor.transpose(1, len(shape))
    return tensor


@st.composite
def datasets(draw: st.DrawFn) -> Any:
    count = draw(st.integers(1, 12))
    dataset: Any = TensorDataset(*(draw(tensors(count)) for _ in range(draw(st.integers(1, 3)))))
    for _ in range(draw(st.integers(0, 2))):
        indices = draw(st.lists(st.integers(-len(dataset), len(dataset) - 1), min_size=1, max_size=14))
        # from the end of tensors, torch is asked: indices from the end of a list of indices are found in it
        inner = [index % len(dataset) for index in indices] if isinstance(dataset, TensorDataset) else indices
        dataset = Subset(dataset, inner)
    return dataset


@given(datasets(), st.integers(1, 7), st.booleans(), st.booleans(), st.none() | st.integers(0, 3))
@settings(max_examples=40)
def test_batches(dataset: Any, size: int, shuffle: bool, drop: bool, leave: int | None) -> None:
    same(lambda: DataLoader(dataset, batch_size=size, shuffle=shuffle, drop_last=drop), leave=leave)
