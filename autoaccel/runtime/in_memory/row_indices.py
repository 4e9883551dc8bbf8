"""The indices of one batch, as the main process and a device need them."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import torch


class Unfit(Exception):  # noqa: N818 - a fact about the batch, not a defect
    """This batch cannot be looked up whole; sample by sample it may be possible."""


class RowIndices:
    """Indices along the first dimension of what samples are taken from: integers, in the order of the batch."""

    __slots__ = ("_ends", "_moved", "_on", "_through", "_whole", "indices", "tensor")

    def __init__(self, tensor: torch.Tensor, indices: Sequence[int] | None = None) -> None:
        self.tensor = tensor
        self.indices = indices
        self._whole: tuple[RowIndices, int] | None = None  # what these are a slice of, and where it begins
        self._ends: tuple[int, int] | None = None
        self._on: dict[torch.device, torch.Tensor] = {}
        self._through: dict[int, RowIndices] = {}
        self._moved: dict[tuple[int, int], RowIndices] = {}

    def __len__(self) -> int:
        return self.tensor.shape[0]

    def part(self, start: int, stop: int) -> RowIndices:
        """Some of these, one after the other; they share what is known of all, and the copy on a device."""
        part = RowIndices(self.tensor[start:stop])
        part._whole = self, start
        return part

    def listed(self) -> Sequence[int]:
        """The indices as Python's numbers."""
        if self.indices is None:
            self.indices = self.tensor.tolist()
        return self.indices

    def on(self, device: torch.device) -> torch.Tensor:
        """The indices on a device; the copy does not hold up the host."""
        if self._whole is not None:
            whole, start = self._whole
            return whole.on(device)[start : start + len(self)]
        if device not in self._on:
            self._on[device] = sent(self.tensor, device)
        return self._on[device]

    def inside(self, size: int) -> RowIndices:
        """These, if all can be looked up; on a device a wrong index would end the program."""
        if self._whole is not None:
            self._whole[0].inside(size)
            return self
        if self._ends is None:  # parts of a sample share it
            least, most = torch.aminmax(self.tensor)
            self._ends = int(least), int(most)
        if not (self._ends[0] >= 0 and self._ends[1] < size):
            raise Unfit
        return self

    def moved(self, times: int, plus: int) -> RowIndices:
        """These, each of them times a number and plus another."""
        if (times, plus) not in self._moved:  # parts of a sample share it
            self._moved[times, plus] = RowIndices(self.tensor * times + plus)
        return self._moved[times, plus]

    def through(self, table: Any) -> RowIndices:
        """The indices that stand in a table at these; the table is read now, as it is."""
        if id(table) not in self._through:  # parts of a sample share it
            self._through[id(table)] = self._read(table)
        return self._through[id(table)]

    def _read(self, table: Any) -> RowIndices:
        if isinstance(table, torch.Tensor):
            return RowIndices(_of_integers(table).index_select(0, self.tensor))
        if isinstance(table, (list, tuple, range)):
            return rows(picked(table, self.listed()))
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(table) is numpy.ndarray:
            return RowIndices(_of_integers(torch.from_numpy(table)).index_select(0, self.tensor))
        raise Unfit


def rows(indices: Any) -> RowIndices:
    """The rows that a sampler named: a list of Python's or numpy's whole numbers; anything else is unfit."""
    if isinstance(indices, RowIndices):
        return indices
    if not isinstance(indices, (list, tuple)) or not indices:
        raise Unfit
    kinds = set(map(type, indices))
    if kinds != {int}:
        numpy = sys.modules.get("numpy")
        if numpy is None or not kinds <= {int, numpy.int64, numpy.int32}:
            raise Unfit
    return RowIndices(torch.tensor(indices, dtype=torch.int64), indices)


def picked(values: Sequence[Any], indices: Sequence[int]) -> Sequence[Any]:
    """Some elements of a sequence."""
    if len(indices) == 1:
        return (values[indices[0]],)
    found: tuple[Any, ...] = operator.itemgetter(*indices)(values)
    return found


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the host on a device: from page-locked memory (kept until the copy is done) nothing has to wait."""
    if device.type == "cpu" or tensor.device.type != "cpu":
        return tensor
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def _of_integers(table: torch.Tensor) -> torch.Tensor:
    if table.dtype not in (torch.int64, torch.int32) or table.dim() != 1:
        raise Unfit
    return table.to(torch.int64)
