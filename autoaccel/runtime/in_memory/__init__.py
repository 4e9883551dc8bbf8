"""Batches that are looked up whole, instead of sample by sample: on the host, or on the device they go to.

A plain loader asks its dataset for one sample after the other and stacks them: microseconds a sample where the data
are tensors in memory, tens of them where every image goes through PIL. Where the samples are known to be nothing but
elements of tensors, arrays or lists (with conversions that are the same for a batch), one lookup gives the same
batch. Everything else stays torch's own: the iterator, the sampler and what it draws, the order, the last batch.

Whatever is not understood is left to torch. The first batch of every loader is made both ways and compared bit for
bit, random streams included; a difference leaves the loader to torch for good.

    eligible_loaders      which loaders, and their iterators: torch's own with another fetcher
    batch_fetcher         the fetcher: by the plan, or by torch where a batch is unfit; the proof
    batch_equality        comparing batches; the states of the random generators
    datasets              what a dataset's samples are made of: torch's own datasets
    torchvision_datasets  torchvision's datasets and transforms
    image_transforms      those transforms for a batch of bytes
    pillow_resize         resizing as Pillow does it
    batched_random        the random numbers that they draw
    getitem_interpreter   datasets that the script wrote
    function_source       the text of a method
    symbolic_rows         what may stand in a `__getitem__`: looking up and computing
    dtype_conversions     and conversions
    text_windows          windows of a text as numbers
    mutation_guard        noticing that a dataset, or a transform, is no longer what was read
    sample_structure      the structure of a sample, and the batch made of it
    columns               tensors, arrays and lists that rows are looked up in
    row_indices           the indices of a batch
    device_placement      what is kept on a device, and what is sent to it
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..loading.rebuild_batch import Move
from .eligible_loaders import in_memory_loader

__all__ = ["begin", "fits"]


def fits(loader: Any, device: torch.device, move: Move = "all") -> bool:
    """Whether a loader's batches can be looked up whole."""
    found = in_memory_loader(loader, device, move)
    return found is not None and found.fits()


def begin(loader: Any, device: torch.device, move: Move = "all") -> Iterator[Any] | None:
    """A pass over a loader whose batches are looked up whole; None where it is torch's own business."""
    found = in_memory_loader(loader, device, move)
    return None if found is None else found.begin()
