"""The random numbers that transforms draw for one sample after the other, drawn for a batch at once.

torch's generator on the CPU is a Mersenne twister of 32-bit words: `torch.rand(1)` takes one and keeps 24 bits,
`torch.randint(0, n, (1,))` takes one modulo n, and a 64-bit draw takes two, the first above the second. So half as
many 64-bit draws give the same words and leave the generator in the same state. Every loader's first batch proves it
against the transforms themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import torch

from .row_indices import Unfit

# What one sample draws, in order: whole numbers below a bound, or (None) a float32 in [0, 1).
Kinds: TypeAlias = "Sequence[int | None]"

MOST: Final = 2**28  # for larger bounds torch takes two words


def draw(kinds: Kinds, samples: int) -> list[torch.Tensor]:
    """For each kind the numbers of all samples: int64 or float32, shape (samples,)."""
    if torch.get_default_dtype() != torch.float32:
        raise Unfit
    count = samples * len(kinds)
    words = torch.empty(count // 2, dtype=torch.int64).random_(-(2**63), None)
    words = torch.stack(((words >> 32) & 0xFFFFFFFF, words & 0xFFFFFFFF), 1).view(-1)
    if count % 2:
        words = torch.cat((words, words.new_zeros(1)))
    table = words.view(samples, len(kinds))
    drawn = [
        table[:, at] % bound if bound is not None else (table[:, at] & 0xFFFFFF).to(torch.float32) * 2**-24
        for at, bound in enumerate(kinds)
    ]
    if count % 2:
        bound = kinds[-1]
        drawn[-1][-1] = torch.rand(1)[0] if bound is None else torch.randint(0, bound, (1,))[0]
    return drawn
