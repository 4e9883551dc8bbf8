"""`accel.prefetch` without an accelerator: it looks ahead and copies batches, to other memory of the host.

What the loop gets in the place of a moved tensor reads as nonsense until the loop moves it itself, as it must for a
tensor that was on the host: whatever a loop does with a tensor that it has not asked for shows in its results. Of the
first batch of a pass the tensors are as they are, and one that the loop does not ask for then is never made nonsense:
the script may be one that moves nothing on this machine.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import data

from autoaccel import runtime
from autoaccel.runtime import devices
from autoaccel.runtime.environment import Decision, note
from autoaccel.runtime.loading import copy_stream, prefetcher
from autoaccel.runtime.loading.rebuild_batch import PartsToMove, rebuild

KEPT_ON_HOST = "a batch was moved that the script keeps on the host"

Mark = Callable[[str], None]

# What a loop may call before it moves a tensor: it converts the same way on every device.
_CONVERTING = ("float", "double", "int", "long", "bool", "contiguous", "reshape", "flatten")
# What may be called on parameters of lazy modules before they have a shape.
_OF_LAZY: list[Callable[..., Any]] = vars(nn.parameter)["UninitializedTensorMixin"]._allowed_methods  # noqa: SLF001
# How many batches are remembered: a loop may move one that it got a little earlier.
_REMEMBERED = 16


@dataclass
class MovedPart:
    """One tensor of every batch of a pass: in how many batches it was, and in how many the loop moved it itself."""

    handed: int = 0
    asked: int = 0
    done: int = 0
    """Batches that the loop has left behind."""


@dataclass
class Handed:
    """One tensor of one batch, with all that stands in for it."""

    part: MovedPart
    asked: bool = False
    stands: list[Stand] = field(default_factory=list)

    def ask(self) -> None:
        self.part.asked += not self.asked
        self.asked = True

    def stand(self, nonsense: torch.Tensor, real: torch.Tensor) -> Stand:
        """Let a tensor stand in for another; both are kept, so that their memory becomes nothing else."""
        stand = Stand(self, nonsense, real)
        self.stands.append(stand)
        _stands[_memory(nonsense)] = stand
        return stand

    def forget(self) -> None:
        for stand in self.stands:
            del _stands[_memory(stand.nonsense)]


@dataclass
class Stand:
    """A tensor in the place of the real one."""

    handed: Handed
    nonsense: torch.Tensor
    real: torch.Tensor

    def seen_as(self, view: torch.Tensor) -> torch.Tensor:
        """The real tensor as `view` sees the one that stands in for it."""
        if self.nonsense is self.real:
            return view
        if _geometry(view) == _geometry(self.real):
            return self.real
        return self.real.as_strided(*_geometry(view))


# By the memory of what stands in.
_stands: dict[int, Stand] = {}
_batches: deque[list[Handed]] = deque()
_passes: list[dict[int, MovedPart]] = []


class WatchedEpoch(prefetcher.Epoch):
    """A pass over a loader: watches what the loop does with the parts of its batches that were moved for it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._parts: dict[int, MovedPart] = {}
        self._last: list[Handed] = []
        _passes.append(self._parts)

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except StopIteration:
            self._done()
            raise

    def _hand_over(self, staged: Any) -> Any:
        """The batch for the loop, with nonsense in the place of what it has always asked for so far."""
        batch = super()._hand_over(staged)
        if staged.copied is None:
            return batch
        self._done()
        kept = {id(tensor) for tensor in _tensors(staged.host, self._move)}
        self._last = []
        given: dict[int, torch.Tensor] = {}
        for at, tensor in enumerate(_tensors(batch, self._move)):
            if id(tensor) not in kept:
                part = self._parts.setdefault(at, MovedPart())
                given[id(tensor)] = nonsense(tensor) if 0 < part.asked == part.handed else tensor
                part.handed += 1
                self._last.append(Handed(part))
                self._last[-1].stand(given[id(tensor)], tensor)
        _remember(self._last)
        return rebuild(batch, lambda tensor: given.get(id(tensor), tensor), self._move)

    def _done(self) -> None:
        """The loop is done with its last batch."""
        for handed in self._last:
            handed.part.done = handed.part.handed


class HostCopyStream(copy_stream.CopyStream):
    """A device that is the host: copies are made at once."""

    def __init__(self) -> None:
        """There is no stream."""

    def consumer(self) -> str:
        return "consumer"

    def side(self) -> str:
        return "side"

    def record(self, stream: str) -> copy_stream.Event:  # noqa: ARG002 - those of devices need it
        return PastEvent()

    def wait(self, stream: str, event: copy_stream.Event) -> None:
        pass

    def movable(self, tensor: torch.Tensor) -> bool:
        # On the host the script's own `.to` of a view gives that view: what the loop writes to it reaches what the
        # script keeps, here and in the rewritten script, but never a copy.
        return copy_stream.plain(tensor) and tensor._base is None  # noqa: SLF001

    def allocate(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor)

    def copy(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for destination, source in pairs:
            destination.copy_(source)

    def keep(self, sources: list[torch.Tensor], copied: copy_stream.Event) -> None:
        pass


class PastEvent:
    """A point in work that is done at once."""

    def query(self) -> bool:
        return True


def install() -> None:
    """Look ahead on every loader that has workers, whatever the device and whether it pins its batches.

    Without workers fetching ahead would change the order of random draws; there batches are only moved.
    """
    overlaps, accelerators, epoch = prefetcher.overlaps, copy_stream.copy_stream_of, prefetcher.Epoch
    host = HostCopyStream()

    def yes(_: Any) -> bool:
        return True

    def watched(batches: Iterator[Any], stream: copy_stream.CopyStream, *settings: Any) -> prefetcher.Epoch:
        kind = WatchedEpoch if stream is host else epoch
        return kind(batches, stream, *settings)

    vars(prefetcher).update(
        overlaps=lambda device: device.type == "cpu" or overlaps(device),
        pinned=yes,
        arrived=yes,
        copy_stream_of=lambda device: host if device.type == "cpu" else accelerators(device),
        Epoch=watched,
        SMALLEST_BATCH=0,
    )
    vars(runtime)["prefetch"] = functools.wraps(prefetcher.prefetch)(moved_at_least)
    for name in ("to", "cuda", "type", *_CONVERTING):
        method = getattr(torch.Tensor, name)
        setattr(torch.Tensor, name, asking := _asking(name, method))
        if method in _OF_LAZY:
            _OF_LAZY.append(asking)


def moved_at_least(
    loader: Any, device: devices.Device = None, move: PartsToMove = "all", normalize: bool = False
) -> Any:
    """`accel.prefetch`, which would not move the batches of a loader without workers."""
    watched, place = prefetcher.prefetch(loader, device, move, normalize), devices.resolve(device if move else "cpu")
    is_torchs = isinstance(loader, data.DataLoader) and type(loader).__iter__ is data.DataLoader.__iter__
    if getattr(watched, "_ahead", None) is not None or place.type != "cpu" or not is_torchs:
        return watched
    return prefetcher.Prefetched(loader, place, move if isinstance(move, str) else tuple(move), 0, normalize)


def look_back(mark: Mark) -> None:
    """At the end: mark what was moved for a loop that moves other parts of its batches, and never this."""
    for each in _passes:
        parts = [part for part in each.values() if part.done]
        if any(part.asked for part in parts):
            for part in parts:
                if not part.asked:
                    mark(KEPT_ON_HOST)
        elif parts:
            note("prefetch", Decision("in vain", "the loop moves no part of its batches on this machine"))


def _remember(batch: list[Handed]) -> None:
    _batches.append(batch)
    if len(_batches) > _REMEMBERED:
        for handed in _batches.popleft():
            handed.forget()


def nonsense(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor like another, each of whose elements is wrong."""
    if tensor.is_floating_point() or tensor.is_complex():
        return torch.full_like(tensor, float("nan"))
    return torch.bitwise_not(tensor)


def _tensors(batch: Any, move: PartsToMove) -> list[torch.Tensor]:
    """The tensors of a batch that `move` names, always in the same order."""
    found: dict[int, torch.Tensor] = {}
    rebuild(batch, lambda tensor: found.setdefault(id(tensor), tensor), move)
    return list(found.values())


def _memory(tensor: torch.Tensor) -> int:
    memory: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - the address of what holds the numbers
    return memory


def _geometry(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return tuple(tensor.size()), tensor.stride(), int(tensor.storage_offset())


def _asking(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of tensors that tells the real tensor when a loop moves what stands in for it."""

    @functools.wraps(method)
    def called(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not _stands or type(self) is not torch.Tensor or torch.compiler.is_compiling():
            return method(self, *args, **kwargs)
        stand = _stands.get(_memory(self)) if copy_stream.plain(self) else None
        if stand is None or self.dtype is not stand.real.dtype:
            return method(self, *args, **kwargs)
        if _moves(name, args, kwargs):
            stand.handed.ask()
            return method(stand.seen_as(self), *args, **kwargs)
        result = method(self, *args, **kwargs)
        if stand.nonsense is not stand.real and isinstance(result, torch.Tensor) and _memory(result) not in _stands:
            stand.handed.stand(result, method(stand.seen_as(self), *args, **kwargs))
        return result

    return called


def _moves(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call moves a tensor to a device, and does not only convert it."""
    if name == "cuda":
        return True
    given = args[0] if args else next((kwargs[key] for key in ("device", "other", "dtype") if key in kwargs), None)
    return name in ("to", "type") and given is not None and not isinstance(given, torch.dtype)
