"""Where the values of one part of a sample come from: tensors, arrays and lists, read anew for every batch.

A column holds the script's own object, never a copy of it: what the script changes between two batches is in the
second. (Copies on a device are `device_placement`'s.) A list of tensors is no column: to notice which of them was
changed since they were stacked costs more time than stacking those of a batch again, as torch does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import torch

from ..loading.copy_stream import plain
from .row_indices import RowIndices, Unfit, picked

View: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


class Tensors:
    """A tensor, indexed along its first dimension, or an array of numpy, through a tensor on the same memory.

    views: how to look at the tensor, as other tensors on its memory, before it is indexed.
    library: whether a library made it of a file, for itself: nobody else is likely to write to its memory.
    """

    __slots__ = ("library", "source", "views")

    def __init__(self, source: Any, views: Sequence[View] = ()) -> None:
        self.source = source
        self.views = tuple(views)
        self.library = False

    def host(self, rows: RowIndices) -> torch.Tensor:
        """The values of a batch in memory of their own, on the host; the first dimension is the batch's."""
        seen = self.seen()
        if seen.device.type == "cpu":
            return seen.index_select(0, rows.tensor)
        return seen.index_select(0, rows.inside(seen.shape[0]).on(seen.device))  # a script's own tensors on a device

    def seen(self) -> torch.Tensor:
        """The tensor that is indexed, on the script's memory."""
        tensor = self.source if isinstance(self.source, torch.Tensor) else torch.from_numpy(self.source)
        for view in self.views:
            tensor = view(tensor)
        return tensor

    def kept(self) -> Any:
        """The tensor or array that a device could keep in the place of this column; None where changes would go
        unnoticed.
        """
        # memory that came from elsewhere (numpy, a file) can be changed by others: no version would tell
        source = self.source
        if not isinstance(source, torch.Tensor):
            return source if self.library else None
        return source if not source.is_cuda and (self.library or source.untyped_storage().resizable()) else None


class Numbers:
    """A list of Python's numbers, all of one type in every batch."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Sequence[Any]) -> None:
        self.numbers = numbers

    def host(self, rows: RowIndices) -> torch.Tensor:
        values = picked(self.numbers, rows.listed())
        kinds = set(map(type, values))
        if kinds == {int}:
            return torch.tensor(values, dtype=torch.int64)
        if kinds == {float}:
            return torch.tensor(values, dtype=torch.float64)
        raise Unfit


class Indices:
    """The indices themselves."""

    def host(self, rows: RowIndices) -> torch.Tensor:
        return rows.tensor.clone()


class Column(Protocol):
    """Looks up one part of a sample for a whole batch."""

    def host(self, rows: RowIndices) -> torch.Tensor:
        """The values of a batch in memory of their own, on the host; the first dimension is the batch's."""


def column(source: Any) -> Column | None:
    """The column over an attribute of a dataset; None for what is not understood."""
    if isinstance(source, torch.Tensor):
        plain_rows = plain(source, ("cpu", "cuda")) and source.dim() and not source.is_inference()
        return Tensors(source) if plain_rows else None
    if type(source) in (list, tuple):
        return Numbers(source) if source and set(map(type, source)) in ({int}, {float}) else None
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(source) is numpy.ndarray and _numeric(source):
        return Tensors(source)
    return None


def _numeric(array: Any) -> bool:
    """Whether a tensor can be laid on an array's memory, without a warning and for good."""
    right = array.dtype.kind in "biuf" and array.dtype.isnative and array.ndim and array.flags.writeable
    try:
        return bool(right) and torch.from_numpy(array) is not None
    except (TypeError, ValueError):  # a dtype or strides that torch has not
        return False
