"""Whether a replayed step is the plain one: bit for bit, or where the plain one is not, as close as it is to itself.

Some of CUDA's kernels add by atomic operations, in no fixed order (backward passes of convolutions and of indexing,
among others): the same step made twice from the same state differs in rounding. How much it does shows by making the
plain step twice. A replay that has missed something (an update, a batch, a random number) is off by far more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from ..in_memory.batch_equality import bits

_MARGIN: Final = 8.0  # times the difference of two plain steps
_UNSEEN: Final = 100  # times as many numbers have to be compared as are not
_ROUNDING: Final = 1e-3  # of a tensor's largest number: more is no rounding, whatever two plain steps do


def is_same(replayed: Sequence[Any], plain: Sequence[Any]) -> bool:
    """Whether two results are the same in every bit."""
    ones, structure = pytree.tree_flatten(replayed)
    others, other = pytree.tree_flatten(plain)
    return structure == other and all(map(_same, ones, others))


def is_as_close(replayed: Sequence[Any], plain: Sequence[Any], again: Sequence[Any]) -> bool:
    """Whether a result differs from one of two plain ones by rounding, and by no more than these from each other.

    The noise of a step is that of its noisiest tensor, relative to its numbers: two plain steps may happen to agree in
    a tensor in which a third one would not. Where they agree in all, so has the replay to. Tensors that are nothing but
    noise, such as the gradient of a bias before a batch normalisation, tell nothing; they may be a hundredth of all.
    """
    flat = [pytree.tree_flatten(each) for each in (replayed, plain, again)]
    if any(structure != flat[0][1] for _, structure in flat[1:]):
        return False
    triples = list(zip(*(leaves for leaves, _ in flat), strict=True))
    noise = [_difference(one, other) for _, one, other in triples]
    allowed = min(_MARGIN * max((each for each in noise if each <= _ROUNDING), default=0.0), _ROUNDING)
    seen = unseen = 0
    for (one, other, _), own in zip(triples, noise, strict=True):
        size = other.numel() if isinstance(other, torch.Tensor) else 1
        if _ROUNDING < own < math.inf:
            unseen += size
            continue
        seen += size
        if _difference(one, other) > allowed:
            return False
    return unseen * _UNSEEN <= seen


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and bool(one == other)
    return _alike(one, other) and torch.equal(bits(one.detach()), bits(other.detach()))


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.device == other.device


def _difference(one: Any, other: Any) -> float:
    """The largest difference of two tensors' numbers, relative to the largest number; infinite where they are not of
    one kind, or not numbers that are rounded."""
    if _same(one, other):
        return 0.0
    tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    if not tensors or not _alike(one, other) or not one.dtype.is_floating_point or one.numel() == 0:
        return math.inf
    first, second = one.detach().double(), other.detach().double()
    largest = torch.maximum(first.abs().max(), second.abs().max())
    found = float((first - second).abs().max() / largest)
    return math.inf if math.isnan(found) else found
