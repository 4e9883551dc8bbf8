"""Where the parts of a batch are put together: on the host, or on the device that the loop moves them to.

A part that the loop moves comes on the device already. After the first batches, when the program has taken the memory
that it needs, its source is kept there as a whole where it fits; else, and before, the batch's rows are put together
on the host, in page-locked memory, and sent without holding up the host. Copies go again where memory becomes short.

A change of the source shows before the next batch by torch's count of changes. Of what is not counted (NumPy's writes
to the arrays of torchvision's datasets, `x.data.mul_(2)`) a change of all rows shows by a sample of them before the
next batch, one of single rows by a sum over everything before the next pass.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from .. import devices
from ..loading.rebuild_batch import PartsToMove
from .batch_equality import bits
from .columns import Tensors
from .row_indices import RowIndices, Unfit, sent
from .sample_structure import SamplePart

SHARE: Final = 0.1  # of the device's free memory that all copies may take together
LEAST_USED: Final = 64  # batches between two changes of a tensor, for a copy of it to be worth making again
PATIENCE: Final = 32  # batches before anything is kept: then optimizers have their state, and kernels their workspace
_SAMPLED: Final = 512  # numbers of a source that are looked at before each batch, spread over all of it
_SEGMENTS: Final = 509  # of a source's memory, summed up one by one and one on top of the other: no rows of data fit it
_WORDS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # of so many bytes

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
    sample: torch.Tensor
    sampled: torch.Tensor  # as it was
    sums: tuple[torch.Tensor, ...]
    used: int | None = 0

    @classmethod
    def of(cls, source: torch.Tensor, device: torch.device) -> Copy:
        sample = _sample(source)
        values = source.contiguous().to(device, copy=True)
        seen = source._version, source.data_ptr(), source.shape  # noqa: SLF001
        return cls(values, *seen, sample, sample.clone(), sums(source))

    def unchanged(self, source: torch.Tensor, thoroughly: bool) -> bool:
        return (
            self.version == source._version  # noqa: SLF001
            and self.memory == source.data_ptr()
            and self.shape == source.shape
            and self.values.dtype == source.dtype
            and torch.equal(self.sample, self.sampled)
            and (not thoroughly or all(map(torch.equal, self.sums, sums(source))))
        )


def _sample(source: torch.Tensor) -> torch.Tensor:
    """Some numbers of a tensor, as bits, on its own memory; they do not keep the tensor itself."""
    seen, wanted = source.data, _SAMPLED
    if seen.element_size() in _WORDS:
        seen = seen.view(_WORDS[seen.element_size()])
    for dimension in range(seen.dim()):
        share = max(1, round(wanted ** (1 / (seen.dim() - dimension))))
        step = max(1, -(-seen.shape[dimension] // share))
        seen = seen[(slice(None),) * dimension + (slice(step // 2, None, step),)]
        wanted //= max(1, seen.shape[dimension])
    return seen


def sums(source: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What tells two contents of a tensor apart: sums over segments of its memory, in both directions, and the rest."""
    order = sorted(range(source.dim()), key=source.stride, reverse=True)
    flat = bits(source.permute(order))
    if flat.storage_offset() % 8:
        flat = flat.clone()
    whole = flat.numel() // (8 * _SEGMENTS) * 8 * _SEGMENTS
    table = flat[:whole].view(torch.int64).view(_SEGMENTS, -1)
    return table.sum(0), table.sum(1), flat[whole:].clone()


_NOTHING: Final = torch.empty(0)
_NONE: Final = Copy(_NOTHING, 0, 0, torch.Size(), _NOTHING, _NOTHING, (), None)
# The copies by the identity of what they were made of, for all loaders: train and validation parts share one.
_copies: Final[dict[tuple[int, torch.device], tuple[weakref.ref[Any], Copy]]] = {}


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
        entries = () if isinstance(move, str) else tuple(move)
        types = {each for each in entries if isinstance(each, type)}
        places = [each if isinstance(each, tuple) else (each,) for each in entries if not isinstance(each, type)]
        self._places = places or ([()] if types or isinstance(move, str) else [])
        within = not types or types >= {list, dict}  # torch collates to no other containers
        self._depth = 1 if move == "tensors" else math.inf if within else 0
        self._free = free
        self._batches = 0
        self._verified: set[int] = set()  # sources in this pass

    def begin_pass(self) -> None:
        """Everything kept is looked at thoroughly before it is used again."""
        self._verified.clear()

    def begin_batch(self) -> None:
        self._batches += 1

    def due(self) -> bool:
        """Whether the next batch is the first one that is looked up on the device: it has to be proven again."""
        return self.device is not None and self._batches == PATIENCE

    def release(self) -> None:
        """Give back the memory of the device, for good."""
        if self.device is not None:
            _release(_numbered(self.device))

    def look(self, part: SamplePart, rows: RowIndices, path: tuple[Any, ...]) -> torch.Tensor:
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
        return any(path[: len(each)] == each and len(path) - len(each) <= self._depth for each in self._places)

    def _kept(self, part: SamplePart, device: torch.device) -> torch.Tensor | None:
        """The part's source on the device, as it is now; None where it is not to be kept there."""
        column = part.column
        if self._batches <= PATIENCE or not isinstance(column, Tensors) or (source := column.kept()) is None:
            return None
        thoroughly = id(source) not in self._verified
        self._verified.add(id(source))
        values = copied(source, device, self._free, thoroughly)
        if values is None:
            return None
        for view in column.views:
            values = view(values)
        return values


def copied(source: Any, device: torch.device, free: FreeMemory, thoroughly: bool = False) -> torch.Tensor | None:
    """A copy on a device of a tensor or an array, made again when that was changed; None if it is too large, if it
    changes often, or where memory has become short.
    """
    key = (id(source), device)
    tensor = source if isinstance(source, torch.Tensor) else torch.from_numpy(source)
    reference, copy = _copies.pop(key, (None, None))
    if copy is None or reference is None or reference() is not source:
        copy = _copy(tensor, device, free)
    elif copy.used is not None:
        if copy.unchanged(tensor, thoroughly):
            copy.used += 1
        else:
            copy = _copy(tensor, device, free) if copy.used >= LEAST_USED else _NONE
    _copies[key] = (weakref.ref(source, lambda _: _copies.pop(key, None)), copy)
    if copy.used and copy.used % LEAST_USED == 0 and _taken(device) > free(device):
        _release(device)
        return None
    return None if copy.used is None else copy.values


def _copy(source: torch.Tensor, device: torch.device, free: FreeMemory) -> Copy:
    taken = _taken(device)
    if source.nbytes + taken > SHARE * (free(device) + taken):
        return _NONE  # for good: to ask a device for its free memory takes too long to do it for every batch
    return Copy.of(source, device)


def _taken(device: torch.device) -> int:
    """Bytes of all copies on a device."""
    return sum(each.values.nbytes for (_, place), (_, each) in _copies.items() if place == device)


def _release(device: torch.device) -> None:
    for key, (reference, _) in list(_copies.items()):
        if key[1] == device:
            _copies[key] = (reference, _NONE)


def anywhere(part: SamplePart) -> bool:
    """Whether a part's values come out the same on every device: nothing is computed but what a table holds."""
    return all(getattr(step, "anywhere", False) for step in part.steps)
