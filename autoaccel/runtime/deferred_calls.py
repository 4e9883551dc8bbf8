"""Numbers that go into a list, or an object that averages them, once somebody looks at it.

`losses.append(loss.item())` lets the host wait for the device at each step. Here the call waits instead: it is made
with Python's number, as the script would have made it, before anything is read of what it changes. Calls are made in
the order in which they were asked for.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import torch

from .environment import Decision, note
from .running_total import current_stream, is_kept, widened

# How many calls may wait: what their numbers take on the device, and what they hold alive, has an end.
LIMIT: Final = 512


class _Waiting(threading.local):
    """The calls of one thread: each with its number, the stream on which that is computed, and its other arguments."""

    def __init__(self) -> None:
        self.calls: deque[tuple[Callable[..., Any], Any, Any, tuple[Any, ...]]] = deque()


_waiting = _Waiting()


def defer(call: Callable[..., Any], number: Any, *others: Any) -> None:
    """Call something later with the number that a tensor has now: `losses.append(loss.item())`, without waiting.

    Args:
        call: A method that changes its own object and nothing else. It has been called once `settled` was.
        number: What `.item()` is called on. Where that is not on a device on which totals are kept, nothing is to be
            waited for, and the call is made at once.
        others: What is handed to it as well, as it is.
    """
    if is_kept(number) and number.dtype is not torch.bool:  # as an integer it would be 1, not True
        note("total", Decision(str(number.device), "noted when it is read"))
        _waiting.calls.append((call, widened(number), current_stream(number.device), others))
        if len(_waiting.calls) >= LIMIT:
            settled(None)
    else:
        settled(None)
        call(number.item() if hasattr(number, "item") else number, *others)


def settled(changed: Any) -> Any:
    """Make all calls that were deferred, in their order.

    Returns:
        `changed`, a list or an object that some of them have changed.
    """
    calls = _waiting.calls
    if calls:
        numbers = _read([(number, stream) for _, number, stream, _ in calls])
        while calls:
            call, _, _, others = calls.popleft()
            call(numbers.popleft(), *others)
    return changed


if hasattr(os, "register_at_fork"):  # a forked process can read nothing from a CUDA device
    os.register_at_fork(before=lambda: settled(None))


def _read(scalars: list[tuple[torch.Tensor, Any]]) -> deque[Any]:
    """The numbers of scalars, for which the host waits once for each device and type."""
    for device, stream in dict.fromkeys((scalar.device, stream) for scalar, stream in scalars):
        current_stream(device).wait_stream(stream)  # the script may be on another one by now
    places: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, (scalar, _) in enumerate(scalars):
        places.setdefault((scalar.device, scalar.dtype), []).append(index)
    numbers: dict[int, Any] = {}
    for found in places.values():
        numbers.update(zip(found, torch.stack([scalars[index][0] for index in found]).tolist(), strict=True))
    return deque(numbers[index] for index in range(len(scalars)))
