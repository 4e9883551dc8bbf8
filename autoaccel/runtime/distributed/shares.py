"""Which rows of a global batch a rank computes, and how rows become a batch again.

Outside of a distributed model every rank has the same values; inside, each has its rows. Gradients of values that all
have are the script's own; those of rows are the script's times the number of ranks, because torch averages over the
ranks what arrives at a parameter. So on the way in a gradient is gathered and divided by that number, on the way out a
rank takes its rows of it and multiplies. Both ways are differentiable as often as one likes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed as dist


@dataclass(frozen=True, slots=True)
class RankRows:
    """A rank's part of a batch of `count` rows; the first ranks have one more where that is not a multiple."""

    count: int
    rank: int
    ranks: int

    @property
    def sizes(self) -> list[int]:
        """How many rows each rank has."""
        return [self.count // self.ranks + (rank < self.count % self.ranks) for rank in range(self.ranks)]

    @property
    def first(self) -> int:
        """The number of this rank's first row."""
        return sum(self.sizes[: self.rank])

    @property
    def own(self) -> int:
        """How many rows this rank has."""
        return self.sizes[self.rank]

    def of(self, tensor: torch.Tensor, dim: int = 0) -> torch.Tensor:
        """This rank's part of a tensor that has the whole batch along `dim`, each row of it being `factor` entries."""
        factor = tensor.shape[dim] // self.count
        return tensor.narrow(dim, self.first * factor, self.own * factor)


class TakeRows(torch.autograd.Function):
    """This rank's rows of what all ranks have; backward, all ranks get the gradient of all rows."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, rows: RankRows, dim: int, after: Callable[[], None]) -> torch.Tensor:
        ctx.rows, ctx.dim, ctx.after = rows, dim, after
        return rows.of(tensor, dim).clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.after()
        return gather(gradients[0], ctx.rows, ctx.dim) / ctx.rows.ranks, None, None, None


class Gather(torch.autograd.Function):
    """The rows of all ranks; backward, each rank takes those of its own.

    That is the reduce-scatter of a gradient which all ranks have alike, without the traffic: it is alike because
    `TakeRows` gathers. Taking one's rows here without gathering there is wrong where one model feeds another.
    """

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, rows: RankRows, dim: int, before: Callable[[], None]) -> torch.Tensor:
        ctx.rows, ctx.dim, ctx.before = rows, dim, before
        along = tensor.detach().movedim(dim, 0).contiguous()
        sizes = [size * (len(along) // rows.own) for size in rows.sizes]
        padded = along.new_zeros((max(sizes), *along.shape[1:]))
        padded[: len(along)] = along
        found = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(found, padded)
        # no view, which a program could not change in place
        return torch.cat([part[:size].movedim(0, dim) for part, size in zip(found, sizes, strict=True)], dim)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.before()
        return take_rows(gradients[0], ctx.rows, ctx.dim) * ctx.rows.ranks, None, None, None


class SumOverRanks(torch.autograd.Function):
    """The sum over ranks of what each has computed of its rows; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch calls it so
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:  # noqa: ARG004
        return sum_over_ranks(gradients[0])


def _nothing() -> None:
    """What there is to do where nothing is."""


def take_rows(tensor: torch.Tensor, rows: RankRows, dim: int = 0, after: Callable[[], None] = _nothing) -> torch.Tensor:
    """`TakeRows`; a plain view where no gradient is wanted. `after` is called when backward leaves the rows."""
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return rows.of(tensor, dim)
    taken: torch.Tensor = TakeRows.apply(tensor, rows, dim, after)  # type: ignore[no-untyped-call]
    return taken


def gather(tensor: torch.Tensor, rows: RankRows, dim: int = 0, before: Callable[[], None] = _nothing) -> torch.Tensor:
    """`Gather`. `before` is called when backward comes to the rows."""
    gathered: torch.Tensor = Gather.apply(tensor, rows, dim, before)  # type: ignore[no-untyped-call]
    return gathered


def sum_over_ranks(tensor: torch.Tensor) -> torch.Tensor:
    """`SumOverRanks`."""
    total: torch.Tensor = SumOverRanks.apply(tensor)  # type: ignore[no-untyped-call]
    return total
