"""The one place that touches accelerator streams: a side stream for copies, and events that order it."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, Final, Protocol

import torch

from .. import devices


class Event(Protocol):
    """A point in a stream's work."""

    def query(self) -> bool:
        """Whether the device has come past it."""
        ...


def plain(tensor: torch.Tensor, places: tuple[str, ...] = ("cpu",)) -> bool:
    """Whether a tensor is nothing but numbers on the host, or on one of these kinds of device.

    Subclasses, gradients and lazy bits are for the loop's own `.to`, which knows how to carry them over.
    """
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type in places
        and tensor.layout is torch.strided
        and not tensor.requires_grad
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


class CopyStream:
    """A side stream for copies to one CUDA or XPU device, as the prefetcher uses it. Streams are compared by `==`."""

    def __init__(self, device: torch.device) -> None:
        self._module: Final[Any] = devices.module_of(device.type)
        self._device: Final = device
        self._side: Final[Any] = self._module.Stream(device=device)
        self._kept: Final[deque[tuple[Event, list[torch.Tensor]]]] = deque()

    def consumer(self) -> Any:
        """The stream the program computes on at this moment."""
        return self._module.current_stream(self._device)

    def side(self) -> Any:
        """The copy stream."""
        return self._side

    def record(self, stream: Any) -> Event:
        """An event after everything enqueued on a stream so far."""
        event: Event = stream.record_event()
        return event

    def wait(self, stream: Any, event: Event) -> None:
        """Let a stream's later work wait for an event; the host goes on."""
        stream.wait_event(event)

    def movable(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor can be copied without holding up the host, and exactly as the loop's own `.to` would."""
        return plain(tensor) and tensor.is_pinned()

    def allocate(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory for a tensor's copy, from the current stream's pool, with the strides that `.to` would give it."""
        return torch.empty_like(tensor, device=self._device)

    def copy(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Enqueue copies (destination, source) on the side stream."""
        context: contextlib.AbstractContextManager[Any] = self._module.stream(self._side)
        with context:
            for destination, source in pairs:
                destination.copy_(source, non_blocking=True)

    def keep(self, sources: list[torch.Tensor], copied: Event) -> None:
        """Keep the sources of a copy alive until it has completed, even if nobody else does."""
        while self._kept and self._kept[0][0].query():
            self._kept.popleft()
        self._kept.append((copied, sources))


# One side stream per device for the whole process: a stream per epoch would leave a pool of memory behind with each.
_copy_streams: Final[dict[torch.device, CopyStream]] = {}


def copy_stream_of(device: torch.device) -> CopyStream:
    """The copy stream of a device; a device without index is the current one of its kind."""
    device = devices.numbered(device)
    if device not in _copy_streams:
        _copy_streams[device] = CopyStream(device)
    return _copy_streams[device]
