"""Optimizers that update all parameters in one kernel, where that is faster."""

from .fused_step import settled
from .optimizer import optimizer

__all__ = ["optimizer", "settled"]
