"""Batch normalisation by the statistics of the global batch, where ranks compute their rows of it.

On CUDA it is torch's own (`torch.nn.SyncBatchNorm`), which refuses tensors of the CPU. For these it is made of torch's
operations here, in two passes over the rows as one process makes them: sums of squares alone would cancel.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import distributed as dist
from torch.nn import functional

from . import batch_part
from .shares import sum_over_ranks


@functools.cache
def install() -> None:
    """Replace `F.batch_norm`, which all of torch's layers call; at the second call there is nothing to do."""
    original = functional.batch_norm

    @functools.wraps(original)
    def batch_norm(
        input: torch.Tensor,  # noqa: A002 - torch's name
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        weight: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> torch.Tensor:
        shared = training and batch_part.rows() is not None
        if shared and input.is_cuda:
            return _on_cuda(input, running_mean, running_var, weight, bias, momentum, eps)
        if shared:
            return _synchronized(input, running_mean, running_var, weight, bias, momentum, eps)
        return original(input, running_mean, running_var, weight, bias, training, momentum, eps)

    functional.batch_norm = batch_norm


def _on_cuda(
    rows: torch.Tensor, mean: Any, var: Any, weight: Any, bias: Any, momentum: float, eps: float
) -> torch.Tensor:
    from torch.nn.modules._functions import SyncBatchNorm

    if not rows.is_contiguous(memory_format=torch.channels_last):
        rows = rows.contiguous()
    normalised: torch.Tensor = SyncBatchNorm.apply(  # type: ignore[no-untyped-call]
        rows, weight, bias, mean, var, eps, momentum, dist.group.WORLD, dist.get_world_size()
    )
    return normalised


def _synchronized(
    rows: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    momentum: float,
    eps: float,
) -> torch.Tensor:
    """rows: (this rank's rows, channels, ...)."""
    dims, shape = [0, *range(2, rows.dim())], (1, -1, *[1] * (rows.dim() - 2))
    exact = rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows
    count = exact.new_tensor([exact.numel() // exact.shape[1]])
    sums = sum_over_ranks(torch.cat([exact.sum(dims), count]))
    total = sums[-1]
    mean = sums[:-1] / total
    centred = exact - mean.view(shape)
    var = sum_over_ranks((centred * centred).sum(dims)) / total
    with torch.no_grad():
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
        if running_var is not None:
            running_var.mul_(1 - momentum).add_((var * total / (total - 1)).to(running_var.dtype), alpha=momentum)
    normalised: torch.Tensor = centred * torch.rsqrt(var + eps).view(shape)
    if weight is not None:
        normalised = normalised * weight.view(shape)
    if bias is not None:
        normalised = normalised + bias.view(shape)
    return normalised.to(rows.dtype)
