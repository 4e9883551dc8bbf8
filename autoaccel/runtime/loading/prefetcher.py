"""Batches that are on their way to the device before the loop asks for them.

One batch ahead, the prefetcher takes the next batch from the loader's workers and copies it from pinned memory on a
side stream, while the device computes. Values never change, only the time of the copy, which rests on four rules:

1. Destinations are allocated on the stream that computes (the consumer), and the side stream waits for everything the
   consumer had enqueued by then: memory that the allocator hands out again is never written while an earlier use of
   it is pending.
2. The consumer waits for the copy before the batch is handed out; so what happens to the batch later is ordinary
   stream order, and `record_stream` is not needed.
3. A pinned source is kept until its copy has completed.
4. Whatever was staged and is not handed out (break, exception, `close`) is dropped only after the consumer was made
   to wait for it.

Looking ahead must not change what the loader yields either. It is done only where the main process draws no random
numbers while fetching: worker processes, and a sampler that draws when its iteration begins or from a generator of
its own.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils import data

from .. import devices
from ..environment import Decision, disabled, note, whole_number
from ..in_memory import eligible_loaders
from . import glibc_malloc
from .copy_stream import CopyStream, Event, copy_stream_of
from .image_bytes import ImageBytes, images_of
from .loader_settings import may_have_workers
from .loader_statistics import named
from .managed_epoch import foreseeable, managed
from .persistent_workers import begin_epoch as begin_epoch  # verify puts its own in the place of this one
from .persistent_workers import keeps_chosen
from .rebuild_batch import PartsToMove, rebuild
from .stream_epoch import managed_stream
from .torch_iterators import WorkerEpoch, at_hand, generators_of, is_torchs

SMALLEST_BATCH: Final = 2**20  # bytes; below, the events cost more time than the copy takes


def prefetch(loader: Any, device: devices.Device = None, move: PartsToMove = "all", normalize: bool = False) -> Any:
    """Iterate `loader` with the next batch already being copied to `device`.

    Batches of data that lie in memory are looked up whole, as `accel.in_memory` does, on the device where they fit.
    Where the CPU trains, the memory that a batch and its step free stays with the process for the next ones
    (`glibc_malloc`).

    Args:
        loader: Any iterable. What cannot be prefetched without changing what the loop sees is handed back as it is.
        device: Where batches go; None is the current accelerator. With CPU and MPS nothing overlaps: no lookahead.
        move: "all", or the positions or keys of the batch that the loop itself moves; the rest stays on the CPU. With
            () nothing is moved, and `device` does not matter: `accel.in_memory(loader)` says this. "tensors": those
            that are parts of the batch themselves; what containers among its parts hold stays on the CPU. Types, alone
            or after positions: containers of exactly these are looked into, however deep, as a helper does that calls
            itself for what lies in `dict` and `list`; what others hold stays on the CPU.
        normalize: Whether images that torchvision reads, whose pipeline ends with `ToTensor` and maybe `Normalize`, are
            fetched as bytes and made floats where they go, a batch at a time (`image_bytes`). The loop sees the same.

    Returns:
        What has the loader's length and attributes, or the loader itself. The loop keeps its own `.to(device)`, which
        finds the work done.
    """
    home = devices.resolve(device if move else "cpu")
    glibc_malloc.keep_freed_memory(home.type)
    decision = lookahead(loader, home)
    note(f"prefetch {named(loader)}", decision)
    ahead = decision.value
    named_parts = move if isinstance(move, str) else tuple(move)
    prefetched = Prefetched(loader, home, named_parts, ahead or None, normalize)
    runs = managed(loader) or managed_stream(loader) or keeps_chosen(loader)
    if ahead or runs or eligible_loaders.fits(loader, home, named_parts):
        return prefetched
    return loader if prefetched.images() is None else prefetched


def lookahead(loader: Any, device: torch.device) -> Decision:
    """How many batches to look ahead on a loader, and why; 0 is not at all."""
    decision = depth(device)
    reason = unsafe(loader) if decision.value else ""
    return Decision(0, reason) if reason else decision


def depth(device: torch.device) -> Decision:
    """How many batches to look ahead where a loader allows it."""
    if disabled("prefetch"):
        return Decision(0, "AUTOACCEL_DISABLE")
    if not overlaps(device):
        return Decision(0, f"copies to {device.type} cannot overlap with the computation")
    if (wanted := whole_number("PREFETCH_DEPTH")) is not None:
        return Decision(wanted, "AUTOACCEL_PREFETCH_DEPTH")
    return Decision(1, "batches come pinned from workers")


def overlaps(device: torch.device) -> bool:
    """Whether copies to a device can run beside its computation."""
    return device.type in ("cuda", "xpu") and devices.available(device)


def pinned(loader: data.DataLoader[Any]) -> bool:
    """Whether the loader's batches come in page-locked memory."""
    return loader.pin_memory


def unsafe(loader: Any) -> str:
    """Why looking ahead on a loader could change what the loop sees, or would gain nothing; empty when neither."""
    if not is_torchs(loader):
        return f"a {type(loader).__name__} is not iterated by torch's DataLoader"
    if not may_have_workers(loader):
        return "the loader has no workers: fetching ahead would reorder the program's random numbers"
    if not pinned(loader):
        return "the loader does not pin its batches: copies would hold up the host"
    if not foreseeable(loader):
        return f"the sampler {type(loader.sampler).__name__} may draw random numbers between batches"
    return ""


class Prefetched:
    """A loader as the loop sees it: iteration looks ahead, everything else is the loader's own."""

    __slots__ = ("_ahead", "_device", "_loader", "_move", "_normalize")
    _loader: Any

    def __init__(
        self, loader: Any, device: torch.device, move: PartsToMove, ahead: int | None, normalize: bool = False
    ) -> None:
        """device: where the loop moves its batches; ahead: how many are under way there, None without a side stream."""
        given = loader, device, move, ahead, normalize
        for name, value in zip(("_loader", "_device", "_move", "_ahead", "_normalize"), given, strict=True):
            object.__setattr__(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        # of batches in memory none: there is nothing to wait for, and random crops would be drawn before the loop's own
        batches, ahead, images = eligible_loaders.begin(self._loader, self._device, self._move), 0, None
        if batches is None:
            images = self.images()
            batches, ahead = begin_epoch(self._loader, images), self._ahead or 0
            if ahead and not hasattr(batches, "left") and (generators := generators_of(self._loader)):
                batches = WorkerEpoch(batches, generators)
        if self._ahead is None and (images is None or images.device is None):
            return batches
        return Epoch(batches, copy_stream_of(self._device), self._move, ahead, images)

    def images(self) -> ImageBytes | None:
        """What lets a pass fetch images as bytes, where that was asked for and can be done."""
        place = self._device if overlaps(self._device) else None
        return images_of(self._loader, place, self._move) if self._normalize else None

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name in Prefetched.__slots__:  # only while copy or pickle build an empty instance
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._loader, name, value)

    def __repr__(self) -> str:
        return f"{'prefetch' if self._move else 'in_memory'}({self._loader!r})"


def arrived(batches: Iterator[Any]) -> bool:
    """Whether the next batch can be had without waiting for a worker; yes where that cannot be told."""
    own = getattr(batches, "arrived", None)
    return bool(own()) if own is not None else at_hand(batches)


@dataclass(frozen=True, slots=True)
class _Staged:
    """A batch taken from the loader: as it came, and as it will be on the device once `copied` is reached."""

    host: Any
    batch: Any
    consumer: Any
    copied: Event | None


def _nothing_to_copy(batch: Any) -> bool:
    """Whether a batch is seen at a glance to be small, or on a device already."""
    if type(batch) not in (list, tuple):
        return False
    size = 0
    for part in batch:
        if type(part) is not torch.Tensor or part.layout is not torch.strided:
            return False
        if part.is_cpu:
            size += part.nbytes
    return size < SMALLEST_BATCH


def _without_frames(failure: Exception) -> Exception:
    """An exception, and those it came from, without tracebacks."""
    each: BaseException | None = failure
    while each is not None and each.__traceback__ is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    return failure


class Epoch(Iterator[Any]):
    """One pass over a loader's batches, `ahead` of them under way to the device."""

    def __init__(
        self,
        batches: Iterator[Any],
        copy_stream: CopyStream,
        move: PartsToMove,
        ahead: int,
        images: ImageBytes | None = None,
    ) -> None:
        """images: what makes floats of a batch of bytes."""
        self._staged: deque[_Staged] = deque()
        self._failure: Exception | None = None
        self._ended = False  # the loop was told that there are no more
        self._batches = batches
        self._copy_stream = copy_stream
        self._move = move
        self._ahead = ahead
        self._images = images

    def __next__(self) -> Any:
        if not self._staged:
            self._stage(self._take())
        batch = self._hand_over(self._staged.popleft())
        while len(self._staged) < self._ahead and self._failure is None and arrived(self._batches):
            self._look_ahead()
        return batch

    def _take(self) -> Any:
        failure, self._failure = self._failure, None
        try:
            if failure is None:
                return next(self._batches)
            raise failure
        except StopIteration:
            self._ended = True
            raise
        finally:
            del failure  # it refers to this frame, and through it to staged batches and workers

    def _look_ahead(self) -> None:
        try:
            host = next(self._batches)
        except Exception as failure:  # StopIteration too: it belongs to the call that would have met it
            # its frames refer to this object: the cycle would keep workers; a worker's own traceback is in the message
            self._failure = _without_frames(failure)
        else:
            self._stage(host)

    def _stage(self, host: Any) -> None:
        consumer = self._copy_stream.consumer()
        sources = self._movable(host)
        try:
            targets = {id(source): self._copy_stream.allocate(source) for source in sources}
        except torch.OutOfMemoryError:
            # the loop did without a batch of memory more: from now on it moves them itself
            self._move, targets = (), {}
        if not targets:
            self._staged.append(_Staged(host, host, consumer, None))
            return
        # after the allocation: filling fresh memory (deterministic mode does) is consumer work too
        self._copy_stream.wait(self._copy_stream.side(), self._copy_stream.record(consumer))
        self._copy_stream.copy([(targets[id(source)], source) for source in sources])
        copied = self._copy_stream.record(self._copy_stream.side())
        self._copy_stream.keep(sources, copied)
        batch = rebuild(host, lambda tensor: targets.get(id(tensor), tensor), self._move)
        self._staged.append(_Staged(host, batch, consumer, copied))

    def _movable(self, host: Any) -> list[torch.Tensor]:
        """The tensors worth copying: each once, none if all of them together are small."""
        if _nothing_to_copy(host):
            return []
        found: dict[int, torch.Tensor] = {}

        def look(tensor: torch.Tensor) -> torch.Tensor:
            if self._copy_stream.movable(tensor):
                found[id(tensor)] = tensor
            return tensor

        rebuild(host, look, self._move)
        enough = sum(tensor.nbytes for tensor in found.values()) >= SMALLEST_BATCH
        return list(found.values()) if enough else []

    def _hand_over(self, staged: _Staged) -> Any:
        batch = staged.batch
        if staged.copied is not None:
            self._copy_stream.wait(staged.consumer, staged.copied)
            # Memory belongs to the stream it was allocated on: if the program computes on another now, its own `.to`
            # shall allocate.
            batch = staged.batch if self._copy_stream.consumer() == staged.consumer else staged.host
        return batch if self._images is None else self._images.finished(batch)

    def close(self) -> None:
        """Stop: what is staged is dropped, behind its copy. Every end of a loop does this by dropping the iterator."""
        for staged in self._staged:
            if staged.copied is not None:
                self._copy_stream.wait(staged.consumer, staged.copied)
        left = getattr(self._batches, "left", None)
        if left is not None and not self._ended:
            left(len(self._staged))
        self._staged.clear()
        self._failure = None
        self._batches = iter(())

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.close()
