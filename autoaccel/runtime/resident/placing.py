"""Where the parts of a batch are put together: on the host, or on the device that the loop moves them to.

A part that the loop moves comes on the device already. Its source is kept there as a whole where it fits and where
every change of it shows; else the batch's rows are put together on the host, in page-locked memory, and sent without
holding up the host.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from ..batches import Move
from .columns import Tensors
from .pixels import Pipeline
from .rows import Rows, Unfit
from .samples import Part

SHARE: Final = 0.1  # of the device's free memory that one dataset's tensors may take together
MOST_SENT: Final = 2**24  # bytes of a batch; a larger one would hold up the loop while it is put together here

FreeMemory = Callable[[torch.device], int]


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated on a device."""
    try:
        free: int = torch.cuda.mem_get_info(device)[0]
    except AssertionError:  # there is no such device after all
        raise Unfit from None
    return free


@dataclass
class Copy:
    """A tensor's copy on a device, and by what a change of the tensor would show."""

    values: torch.Tensor
    version: int
    memory: int
    shape: torch.Size


# The copies by the identity of the tensor they were made of, for all loaders: train and validation parts share one.
_copies: Final[dict[tuple[int, torch.device], tuple[weakref.ref[torch.Tensor], Copy]]] = {}


class Placing:
    """Puts parts together for one loader. device: None where everything stays on the host."""

    def __init__(self, device: torch.device | None, move: Move, free: FreeMemory = free_memory) -> None:
        self.device = device
        self._move = None if isinstance(move, str) else [each if isinstance(each, tuple) else (each,) for each in move]
        self._free = free

    def look(self, part: Part, rows: Rows, path: tuple[Any, ...]) -> torch.Tensor:
        device = self.device
        if device is None or not self.moves(path):
            return part.host(rows)
        at = part.rows(rows)
        if anywhere(part):
            kept = self._kept(part, device)
            if kept is not None:
                return part.finish(kept.index_select(0, at.on(device)))
            return part.finish(self._sent(part.column.host(at)))
        return self._sent(part.finish(part.column.host(at)))

    def moves(self, path: tuple[Any, ...]) -> bool:
        """Whether the loop moves the part at a path itself."""
        return self._move is None or any(path[: len(each)] == each for each in self._move)

    def _sent(self, values: torch.Tensor) -> torch.Tensor:
        if self.device is None or self.device.type == "cpu":
            return values
        return values.pin_memory().to(self.device, non_blocking=True)

    def _kept(self, part: Part, device: torch.device) -> torch.Tensor | None:
        """The part's source on the device, as it is now; None where it is not to be kept there."""
        column = part.column
        source = column.kept() if isinstance(column, Tensors) else None
        if source is None or not isinstance(column, Tensors):
            return None
        values = copied(source, device, self._free)
        if values is None:
            return None
        for view in column.views:
            values = view(values)
        return values


def copied(source: torch.Tensor, device: torch.device, free: FreeMemory) -> torch.Tensor | None:
    """A tensor's copy on a device, made once and again whenever the tensor was changed; None if it would not fit."""
    key = (id(source), device)
    reference, copy = _copies.get(key, (None, None))
    if reference is not None and reference() is source and copy is not None:
        if _unchanged(copy, source):
            return copy.values
        if copy.values.shape == source.shape and copy.values.dtype == source.dtype:
            copy.values.copy_(source)
            copy.version, copy.memory = source._version, source.data_ptr()  # noqa: SLF001
            return copy.values
    _copies.pop(key, None)
    taken = sum(each.values.nbytes for _, each in _copies.values())
    if source.nbytes + taken > SHARE * (free(device) + taken):
        return None
    values = source.contiguous().to(device, copy=True)
    copy = Copy(values, source._version, source.data_ptr(), source.shape)  # noqa: SLF001
    _copies[key] = (weakref.ref(source, lambda _: _copies.pop(key, None)), copy)
    return values


def _unchanged(copy: Copy, source: torch.Tensor) -> bool:
    return (
        copy.version == source._version  # noqa: SLF001
        and copy.memory == source.data_ptr()
        and copy.shape == source.shape
        and copy.values.dtype == source.dtype
    )


def anywhere(part: Part) -> bool:
    """Whether a part's values come out the same on every device: nothing is computed but what a table holds."""
    return all(isinstance(step, Pipeline) for step in part.steps)
