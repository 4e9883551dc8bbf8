"""Whether the workers of a loader draw different random numbers: torch seeds each of them, and what seeds them again
may make them all alike. Only for workers that the runtime chose: what the script's own do is its own affair."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import dataloader

from autoaccel.measure.observing.observation import Observation
from autoaccel.runtime.loading import loader_settings

ALIKE = "workers of a loader draw the same random numbers"


def install(observation: Observation) -> None:
    """Note where the generators of each worker stand when it begins, and mark what is alike in two of one loader."""
    noted = observation.exchange.folder / "seeds"
    loader_of_workers: Any = dataloader._MultiProcessingDataLoaderIter  # noqa: SLF001
    create, numbers = loader_of_workers.__init__, itertools.count()

    @functools.wraps(create)
    def created(self: Any, loader: Any) -> None:
        own = loader.worker_init_fn
        if isinstance(loader.num_workers, loader_settings.WorkerCount) and loader_settings.start_method() == "fork":
            loader.worker_init_fn = functools.partial(_begin, own, noted, next(numbers))
        try:
            create(self, loader)
        finally:
            loader.worker_init_fn = own

    loader_of_workers.__init__ = created
    observation.endings.append(lambda *_: _look_back(noted, observation.mark))


def _begin(own: Callable[[int], object] | None, noted: Path, number: int, worker: int) -> None:
    """In a worker, before its first sample."""
    if own is not None:
        own(worker)
    states: dict[str, object] = {"torch": torch.get_rng_state().tolist(), "python": random.getstate()}
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        states["numpy"] = numpy.get_state()[1].tolist()
    lines = [
        f"{number} {stream} {hashlib.sha256(repr(state).encode()).hexdigest()}\n" for stream, state in states.items()
    ]
    with contextlib.suppress(OSError), noted.open("a", encoding="utf-8") as file:
        file.write("".join(lines))


def _look_back(noted: Path, mark: Callable[[str], None]) -> None:
    if noted.exists() and any(
        times > 1 for times in Counter(noted.read_text(encoding="utf-8").split("\n")[:-1]).values()
    ):
        mark(ALIKE)
