"""The batches of torch's own samplers as slices of one tensor, instead of lists of Python's numbers.

For the order of a pass torch draws one permutation, makes a list of it, puts the lists of the batches together number
by number, and a lookup makes a tensor of each again: for 2,048 rows that takes longer than looking them up. Here the
permutation is drawn at the same moment from the same generator, and a batch is a slice of it; a device gets the whole
permutation at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import data

from .row_indices import RowIndices


def slices(batch_sampler: Any) -> Iterator[RowIndices] | None:
    """What a batch sampler gives, drawn when torch draws it; None for samplers that torch does not make by itself."""
    if type(batch_sampler) is not data.BatchSampler:
        return None
    sampler: Any = batch_sampler.sampler
    if type(sampler) not in (data.RandomSampler, data.SequentialSampler) or getattr(sampler, "replacement", False):
        return None
    if not _draws_so(data.BatchSampler.__iter__, data.RandomSampler.__iter__, data.SequentialSampler.__iter__):
        return None
    return _batches(_orders(sampler), batch_sampler.batch_size, batch_sampler.drop_last)


def _orders(sampler: Any) -> Iterator[torch.Tensor]:
    """The row numbers of a pass, in as many parts as torch draws."""
    count = len(sampler.data_source)
    if type(sampler) is data.SequentialSampler:
        yield torch.arange(count)
        return
    generator = sampler.generator
    if generator is None:
        generator = torch.Generator()
        generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
    for _ in range(sampler.num_samples // count):
        yield torch.randperm(count, generator=generator)
    yield torch.randperm(count, generator=generator)[: sampler.num_samples % count]


def _batches(orders: Iterator[torch.Tensor], size: int, drop_last: bool) -> Iterator[RowIndices]:
    """Batches of `size` rows; the next part is drawn only when a batch lacks rows."""
    order, start = RowIndices(torch.empty(0, dtype=torch.int64)), 0
    while True:
        if start + size <= len(order):
            yield order.part(start, start + size)
            start += size
            continue
        rest = order.tensor[start:]
        following = next(orders, None)
        if following is not None:
            if len(following):
                order, start = RowIndices(torch.cat((rest, following)) if len(rest) else following), 0
            continue
        if len(rest) and not drop_last:
            yield order.part(start, len(order))
        return


@functools.cache
def _draws_so(*_methods: Callable[..., Any]) -> bool:
    """Whether torch's samplers, by these methods, give what is given here and leave their generators so."""
    for settings in ({}, {"num_samples": 12}):
        for drop_last in (False, True):
            both = []
            for ours in (False, True):
                generator = torch.Generator().manual_seed(0)
                random = data.RandomSampler(range(5), generator=generator, **settings)  # type: ignore[arg-type]
                batches = data.BatchSampler(random, 2, drop_last)
                found = _batches(_orders(random), 2, drop_last) if ours else iter(batches)
                seen = []
                for batch in found:
                    listed = batch.listed() if isinstance(batch, RowIndices) else batch
                    seen.append((listed, generator.get_state().tolist()))
                both.append((seen, generator.get_state().tolist()))
            if both[0] != both[1]:
                return False
    ordered = data.SequentialSampler(range(5))
    return [each.listed() for each in _batches(_orders(ordered), 2, False)] == [*data.BatchSampler(ordered, 2, False)]
