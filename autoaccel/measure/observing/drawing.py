"""Tells whether a dataset draws random numbers itself, while samples are fetched and put together.

In workers it draws others: each worker has seeds of its own. What is drawn by the sampler, or by the loop, is not the
dataset's. Only fetching in the process of the script is seen, which is how a script without workers does it.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import _utils

Fetch = Callable[[Any, Any], Any]


def install() -> None:
    """Watch every fetch from now on."""
    # not a cost of a script that does without the runtime
    from autoaccel.runtime.in_memory.batch_fetcher import WholeBatchFetcher

    for kind in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        fetcher = getattr(_utils.fetch, kind)
        fetcher.fetch = _watched(fetcher.fetch)
    setattr(WholeBatchFetcher, "fetch", _watched(WholeBatchFetcher.fetch))  # noqa: B010 - mypy does not let methods be assigned


def drawn(batches: object) -> tuple[str, ...]:
    """Which streams of random numbers the dataset of an iteration over a DataLoader has drawn from so far."""
    fetcher = getattr(batches, "_dataset_fetcher", None)
    return tuple(sorted(getattr(fetcher, "drawn", ())))


def _watched(fetch: Fetch) -> Fetch:
    @functools.wraps(fetch)
    def watched(self: Any, indices: Any) -> Any:
        before = dict(_streams())
        batch = fetch(self, indices)
        changed = {name for name, state in _streams() if name in before and not _same(before[name], state)}
        if changed:
            self.drawn = getattr(self, "drawn", set()) | changed
        return batch

    return watched


def _streams() -> Iterator[tuple[str, Any]]:
    """The state of each generator that a program shares."""
    yield "python", random.getstate()
    yield "torch", torch.get_rng_state()
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        kind, keys, *rest = numpy.random.get_state()
        yield "numpy", (kind, keys.tobytes(), *rest)


def _same(one: Any, other: Any) -> bool:
    return (
        torch.equal(one, other) if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) else one == other
    )
