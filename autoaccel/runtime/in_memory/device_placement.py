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

from .. import devices
from ..loading.rebuild_batch import PartsToMove
from .columns import Tensors
from .row_indices import Rows, Unfit, sent
from .sample_structure import SamplePart

SHARE: Final = 0.1  # of the device's free memory that all copies may take together
LEAST_USED: Final = 64  # batches between two changes of a tensor, for a copy of it to be worth making again

FreeMemory = Callable[[torch.device], int]


def _numbered(device: torch.device) -> torch.device:
    try:
        return devices.numbered(device) if device.type == "cuda" else device
    except AssertionError:  # there is no such device after all
        raise Unfit from None


@dataclass
class Copy:
    """A tensor's copy on a device, and by what a change of the tensor would show.

    used: for how many batches since it was made; None for a tensor that is not copied: it is too large, or changed too
    often.
    """

    values: torch.Tensor
    version: int
    memory: int
    shape: torch.Size
    used: int | None = 0

    def unchanged(self, source: torch.Tensor) -> bool:
        return (
            self.version == source._version  # noqa: SLF001
            and self.memory == source.data_ptr()
            and self.shape == source.shape
            and self.values.dtype == source.dtype
        )


_NONE: Final = Copy(torch.empty(0), 0, 0, torch.Size(), None)
# The copies by the identity of the tensor they were made of, for all loaders: train and validation parts share one.
_copies: Final[dict[tuple[int, torch.device], tuple[weakref.ref[torch.Tensor], Copy]]] = {}


class DevicePlacement:
    """Puts parts together for one loader.

    device: None where everything stays on the host.
    pin: whether what stays there is page-locked, as the loader was asked to do.
    """

    def __init__(
        self, device: torch.device | None, move: PartsToMove, pin: bool = False, free: FreeMemory = devices.free_memory
    ) -> None:
        self.device = device
        self._pin = pin and device is not None and device.type != "cpu"
        self._move = None if isinstance(move, str) else [each if isinstance(each, tuple) else (each,) for each in move]
        self._free = free

    def look(self, part: SamplePart, rows: Rows, path: tuple[Any, ...]) -> torch.Tensor:
        device = None if self.device is None else _numbered(self.device)
        if device is None or not self.moves(path):
            values = part.host(rows)
            return values.pin_memory() if self._pin and values.device.type == "cpu" else values
        at = part.rows(rows)
        if anywhere(part):
            kept = self._kept(part, device)
            if kept is not None:
                return part.finish(kept.index_select(0, at.inside(kept.shape[0]).on(device)))
            return part.finish(sent(part.column.host(at), device))
        return sent(part.finish(part.column.host(at)), device)

    def moves(self, path: tuple[Any, ...]) -> bool:
        """Whether the loop moves the part at a path itself."""
        return self._move is None or any(path[: len(each)] == each for each in self._move)

    def _kept(self, part: SamplePart, device: torch.device) -> torch.Tensor | None:
        """The part's source on the device, as it is now; None where it is not to be kept there."""
        column = part.column
        if not isinstance(column, Tensors) or (source := column.kept()) is None:
            return None
        values = copied(source, device, self._free)
        if values is None:
            return None
        for view in column.views:
            values = view(values)
        return values


def copied(source: torch.Tensor, device: torch.device, free: FreeMemory) -> torch.Tensor | None:
    """A tensor's copy on a device, made again when the tensor was changed; None if it is too large or changes often."""
    key = (id(source), device)
    reference, copy = _copies.pop(key, (None, None))
    if copy is None or reference is None or reference() is not source:
        copy = _copy(source, device, free)
    elif copy.used is not None:
        if copy.unchanged(source):
            copy.used += 1
        else:
            copy = _copy(source, device, free) if copy.used >= LEAST_USED else _NONE
    _copies[key] = (weakref.ref(source, lambda _: _copies.pop(key, None)), copy)
    return None if copy.used is None else copy.values


def _copy(source: torch.Tensor, device: torch.device, free: FreeMemory) -> Copy:
    taken = sum(each.values.nbytes for (_, place), (_, each) in _copies.items() if place == device)
    if source.nbytes + taken > SHARE * (free(device) + taken):
        return _NONE  # for good: to ask a device for its free memory takes too long to do it for every batch
    return Copy(source.contiguous().to(device, copy=True), source._version, source.data_ptr(), source.shape)  # noqa: SLF001


def anywhere(part: SamplePart) -> bool:
    """Whether a part's values come out the same on every device: nothing is computed but what a table holds."""
    return all(getattr(step, "anywhere", False) for step in part.steps)
