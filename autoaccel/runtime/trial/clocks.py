"""Clocks for iterations of a training loop: the host's, and a device's that never makes the host wait.

A device works behind the host's back: the host's clock tells when work was handed over, not when it was done. So the
moments of a device are events in its queue, and the time between two of them is known only once the device has come
past both. Nothing here ever waits for that (https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution).
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch

from .. import devices


class Clock(Protocol):
    """Takes moments, and tells the time between two of them."""

    def mark(self) -> Any | None:
        """This moment; None where no moment can be taken: the iterations before and after are unknown then."""

    def seconds(self, start: Any, end: Any) -> float | None:
        """The seconds from one mark to a later one; None as long as that is not known yet."""


class HostClock:
    """Wall time: right for work that is done when its call returns."""

    def mark(self) -> float:
        """Now."""
        return time.perf_counter()

    def seconds(self, start: float, end: float) -> float:
        """Known at once."""
        return end - start


class DeviceClock:
    """Events on the current stream of a device: `module` is `torch.cuda` or one that is made like it."""

    def __init__(self, module: Any, device: torch.device) -> None:
        self._module = module
        self._device = device
        self._where: Any = None  # the device of the first event

    def mark(self) -> Any | None:
        """An event behind all work handed to the current stream so far; None while a graph is being captured."""
        capturing = getattr(self._module, "is_current_stream_capturing", None)
        if capturing is not None and capturing():
            return None  # an event in a graph has no time, and asking for any event would spoil the capture
        stream = self._module.current_stream(self._device)
        where = getattr(stream, "device", None)
        self._where = self._where or where
        if where != self._where:
            return None  # the script has made another device the current one: no time lies between events of two
        event = self._module.Event(enable_timing=True)
        event.record(stream)
        return event

    def seconds(self, start: Any, end: Any) -> float | None:
        """Known once both events have come to pass."""
        if not (end.query() and start.query()):
            return None
        return float(start.elapsed_time(end)) / 1000


def clock_of(device: torch.device) -> Clock:
    """The clock for work on a device: the host's for a CPU and for what records no events with times."""
    if device.type not in ("cuda", "xpu"):
        return HostClock()
    module = devices.module_of(device.type)
    complete = hasattr(module, "Event") and hasattr(module, "current_stream")
    return DeviceClock(module, device) if complete else HostClock()
