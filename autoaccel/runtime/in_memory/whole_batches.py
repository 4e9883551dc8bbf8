"""`accel.in_memory`: a loader as the loop sees it, whose batches are looked up whole on the host."""

from __future__ import annotations

from typing import Any

import torch

from ..loading import glibc_malloc
from ..loading.managed_epoch import managed
from ..loading.persistent_workers import keeps_chosen
from ..loading.prefetcher import Prefetched
from .eligible_loaders import fits

_HOST = torch.device("cpu")


def in_memory(loader: Any) -> Any:
    """Iterate `loader`, whose data lie in memory, with one look-up for each batch instead of one for each sample.

    The batches are those of the plain loader, bit for bit and in its order, and so are the random numbers; the first
    one is made both ways and compared. They stay on the host: a loop that moves them to a device says
    `accel.prefetch(loader, device)`, which looks up data in memory in the same way, on the device where they fit.

    Where the CPU trains, the memory that a batch and its step free stays with the process for the next ones, as with
    `accel.prefetch`.

    Args:
        loader: Any iterable. One whose batches cannot be looked up whole is iterated as before: samples that are
            computed or read from files, a collate function of the script, workers that the script chose.

    Returns:
        What has the loader's length and attributes, or the loader itself.
    """
    glibc_malloc.keep_freed_memory(_HOST.type)
    if managed(loader) or keeps_chosen(loader) or fits(loader, _HOST, ()):
        return Prefetched(loader, _HOST, (), None)
    return loader
