"""What a sample is made of, and putting a batch together as torch's default collate does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from .columns import Column
from .row_indices import Rows

# One function from a batch's values to other values, the same for each sample.
Step: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
Route: TypeAlias = Callable[[Rows], Rows]


@dataclass
class Part:
    """One tensor of a batch.

    route: from the batch's indices to those in the column.
    steps: what is done to the values.
    scalar: the sample holds a single number whose dtype torch chooses when batches are put together: the first batch
    shows which.
    """

    column: Column
    route: Route | None = None
    steps: tuple[Step, ...] = ()
    scalar: bool = False
    dtype: torch.dtype | None = field(default=None, init=False)

    def rows(self, rows: Rows) -> Rows:
        return rows if self.route is None else self.route(rows)

    def host(self, rows: Rows) -> torch.Tensor:
        return self.finish(self.column.host(self.rows(rows)))

    def finish(self, values: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            values = step(values)
        if self.dtype is not None:
            values = values.to(self.dtype)
        if self.steps and not (values.is_contiguous() and values.untyped_storage().nbytes() == values.nbytes):
            values = values.clone(memory_format=torch.contiguous_format)
        return values

    def settle(self, expected: Any) -> None:
        """Take from the first batch what torch alone decides."""
        if self.scalar and isinstance(expected, torch.Tensor):
            self.dtype = expected.dtype


# A part, a tuple or list of samples (their type), or a mapping.
Sample: TypeAlias = "Part | Several | Named"


@dataclass(frozen=True)
class Several:
    """A tuple or a list; both become a list."""

    items: Sequence[Sample]


@dataclass(frozen=True)
class Named:
    """A dict."""

    items: Mapping[Any, Sample]


Look: TypeAlias = Callable[[Part, Rows, "tuple[Any, ...]"], torch.Tensor]


def assemble(sample: Sample, rows: Rows, look: Look, path: tuple[Any, ...] = ()) -> Any:
    """The batch; `look` is asked for each part, with the path that leads to it."""
    if isinstance(sample, Part):
        return look(sample, rows, path)
    if isinstance(sample, Several):
        return [assemble(item, rows, look, (*path, at)) for at, item in enumerate(sample.items)]
    return {key: assemble(item, rows, look, (*path, key)) for key, item in sample.items.items()}


def settle(sample: Sample, expected: Any) -> None:
    """Let each part see its values in the first batch, where that has the same structure."""
    if isinstance(sample, Part):
        sample.settle(expected)
    elif isinstance(sample, Several) and isinstance(expected, list) and len(expected) == len(sample.items):
        for item, value in zip(sample.items, expected, strict=True):
            settle(item, value)
    elif isinstance(sample, Named) and isinstance(expected, dict):
        for key, item in sample.items.items():
            settle(item, expected.get(key))
