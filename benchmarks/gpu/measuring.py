"""Rows of a section, and the time of a piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what was asked, and the answer, with its unit."""

    question: str
    answer: str


def wait(device: torch.device) -> None:
    """Until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def microseconds(work: Callable[[], object], device: torch.device, *, times: int = 200, rounds: int = 5) -> float:
    """Of one call, in the best of several rounds; the queue of the device is kept busy within a round."""
    if device.type == "cpu":
        times, rounds = min(times, 2), 1  # to see that it works
    for _ in range(min(20, times)):
        work()
    best = float("inf")
    for _ in range(rounds):
        wait(device)
        start = time.perf_counter()
        for _ in range(times):
            work()
        wait(device)
        best = min(best, (time.perf_counter() - start) / times * 1e6)
    return best


def price(question: str, work: Callable[[], object], device: torch.device, *, times: int = 200) -> Row:
    """What one call costs, or why it cannot be told."""
    try:
        return Row(question, f"{microseconds(work, device, times=times):.1f} µs")
    except Exception as failure:  # a mechanism that this torch or this device lacks
        return Row(question, failed(failure))


def failed(failure: BaseException) -> str:
    """The first line of what went wrong."""
    return f"failed: {type(failure).__name__}: {(str(failure).splitlines() or [''])[0][:120]}"
