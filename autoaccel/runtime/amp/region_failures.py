"""Exceptions that leave autocast regions: said to be so, where low precision may be the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from ..environment import warn_once

if TYPE_CHECKING:
    from .autocast_controller import AutocastController

# What operations raise that refuse a precision; an exception of the script's own is its own affair.
_REFUSALS: Final = (RuntimeError, TypeError, ValueError, AssertionError)


def explain(failure: BaseException, dtype: torch.dtype, controller: AutocastController | None) -> None:
    """An exception leaves a region of this precision: say so, where that may be the reason for it."""
    if not isinstance(failure, _REFUSALS) or isinstance(failure, torch.OutOfMemoryError):
        return
    low = str(dtype).removeprefix("torch.")
    text = f"autoaccel: this was raised in an autocast region ({low}); AUTOACCEL_DISABLE=amp runs the script without"
    if hasattr(failure, "add_note"):  # since Python 3.11
        if text not in getattr(failure, "__notes__", ()):
            failure.add_note(text)
    else:
        warn_once(f"{type(failure).__name__} in an autocast region ({low}); AUTOACCEL_DISABLE=amp runs without")
    if controller is not None:
        controller.region_failed(failure, dtype)
