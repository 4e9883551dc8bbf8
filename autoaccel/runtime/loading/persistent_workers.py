"""How a pass over a loader begins: with workers that the environment asked for, exactly as without them.

A loader draws a seed for its workers whenever an iterator is made; workers that are kept between passes skip the draw
from the second pass on, and every later shuffle differs. And they serve one pass at a time: a second one inside the
first (nested loops, `zip`) would cut it short, so it gets workers of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Final

import torch

from .image_bytes import ImageBytes
from .managed_epoch import ManagedEpoch, chosen, managed
from .stream_epoch import StreamEpoch, managed_stream
from .torch_iterators import WorkerEpoch, generators_of

# The pass under way over each loader with kept workers.
_under_way: Final[weakref.WeakKeyDictionary[Any, weakref.ref[WorkerEpoch]]] = weakref.WeakKeyDictionary()


def begin_epoch(loader: Any, images: ImageBytes | None = None) -> Iterator[Any]:
    """`iter(loader)`, but for loaders whose workers the runtime chose; the script's own stay as they are.

    images: what lets them come as bytes.
    """
    if managed(loader):
        return ManagedEpoch(loader, images)
    if managed_stream(loader):
        return StreamEpoch(loader)
    if images is None:
        return _begin(loader)
    with images.instead(loader):
        batches = _begin(loader)
        images.serve(batches.batches if isinstance(batches, WorkerEpoch) else batches)
        return batches


def _begin(loader: Any) -> Iterator[Any]:
    if not keeps_chosen(loader):
        return iter(loader)
    earlier = _under_way.get(loader)
    if earlier is not None and (under_way := earlier()) is not None and under_way.active:
        return WorkerEpoch(loader._get_iterator(), generators_of(loader))  # noqa: SLF001
    if loader._iterator is not None:  # noqa: SLF001
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
    batches = WorkerEpoch(iter(loader), generators_of(loader))
    _under_way[loader] = weakref.ref(batches)
    return batches


def keeps_chosen(loader: Any) -> bool:
    """Whether the runtime chose the workers of a loader that keeps them between passes."""
    return chosen(loader) and loader.num_workers > 0 and bool(loader.persistent_workers)
