"""What a sample is made of, and putting a batch together as torch's default collate does."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from .columns import Column
from .row_indices import RowIndices

# One function from a batch's values to other values, the same for each sample.
TensorStep: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
Route: TypeAlias = Callable[[RowIndices], RowIndices]


@dataclass
class SamplePart:
    """One tensor of a batch.

    route: from the batch's indices to those in the column.
    steps: what is done to the values.
    scalar: the sample holds a single number whose dtype torch chooses when batches are put together: the first batch
    shows which.
    """

    column: Column
    route: Route | None = None
    steps: tuple[TensorStep, ...] = ()
    scalar: bool = False
    dtype: torch.dtype | None = field(default=None, init=False)

    def rows(self, rows: RowIndices) -> RowIndices:
        return rows if self.route is None else self.route(rows)

    def host(self, rows: RowIndices) -> torch.Tensor:
        return self.finish(self.column.host(self.rows(rows)))

    def finish(self, values: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            values = step(values)
        if self.dtype is not None:
            values = values.to(self.dtype)
        if self.steps and not (values.is_contiguous() and values.untyped_storage().nbytes() == values.nbytes):
            values = values.clone(memory_format=torch.contiguous_format)
        return values


# A part, or a list or dict of samples. (Of a tuple default collate makes a list.)
Sample: TypeAlias = "SamplePart | list[Any] | dict[Any, Any]"

PartPath: TypeAlias = "tuple[Any, ...]"


def map_parts(sample: Sample, change: Callable[[SamplePart, PartPath], Any], path: PartPath = ()) -> Any:
    """The same structure with something else in the place of each part; `change` is told the path that leads to it."""
    if isinstance(sample, SamplePart):
        return change(sample, path)
    if isinstance(sample, list):
        return [map_parts(item, change, (*path, at)) for at, item in enumerate(sample)]
    return {key: map_parts(item, change, (*path, key)) for key, item in sample.items()}


def take_dtypes(sample: Sample, batch: Any) -> None:
    """Take from the first batch what torch alone decides; one of another structure fails in the comparison."""

    def take(part: SamplePart, path: PartPath) -> None:
        expected = functools.reduce(operator.getitem, path, batch)
        if part.scalar and isinstance(expected, torch.Tensor):
            part.dtype = expected.dtype

    with contextlib.suppress(LookupError, TypeError):
        map_parts(sample, take)
