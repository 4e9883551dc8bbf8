"""`accel.optimizer`: the script's own optimizer, which may come to use its fused kernel."""

from __future__ import annotations

from typing import TypeVar

import torch

from ..environment import disabled
from .fused_step import FusedStep, attached

_Kind = TypeVar("_Kind")


def optimizer(optimizer: _Kind) -> _Kind:
    """The same optimizer; of Adam and AdamW the fused kernel is tried at the script's own steps, and kept if faster.

    `state_dict()` says nothing of the kernel: checkpoints are those of the plain script, and go both ways.

    Args:
        optimizer: Of any kind; what has no fused kernel, or has its implementation chosen by hand, is left alone.
    """
    if isinstance(optimizer, torch.optim.Optimizer) and type(optimizer) in (torch.optim.Adam, torch.optim.AdamW):
        if optimizer not in attached and not disabled("fused"):
            FusedStep(optimizer)
    return optimizer
