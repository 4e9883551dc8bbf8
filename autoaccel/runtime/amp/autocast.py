"""The autocast region: in the precision that suits the device, and that the trial of it has found to be faster."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Final

import torch
from torch.backends import mha

from .. import devices
from ..environment import Decision, note, setting, warn_once
from . import autocast_controller, lstm_fallback
from .autocast_controller import AutocastController, controller_of
from .precision import is_tried, precision

# What operations raise that refuse a precision; an exception of the script's own is its own affair.
_REFUSALS: Final = (RuntimeError, TypeError, ValueError, AssertionError)


def autocast(device: devices.Device = None, *, fp16: bool = True) -> contextlib.AbstractContextManager[object]:
    """A region in which forward passes compute in the low precision that suits `device`.

    Where mixed precision is off the result is an empty context manager, not a disabled autocast, so a region that the
    script opened itself stays in force.

    Args:
        device: Where the region computes; None is the current accelerator if the program uses it, else the CPU.
        fp16: Whether float16 will do, whose range ends at 65504: not for masks of -1e9 and sums of many squares.

    Returns:
        The region, not entered yet.
    """
    place = devices.in_use() if device is None else devices.resolve(device)
    if torch.compiler.is_compiling():
        dtype = _dtype(place)
        unfit = dtype is None or (dtype is torch.float16 and not fp16)
        return contextlib.nullcontext() if unfit else torch.autocast(place.type, dtype=dtype)
    candidate, controller = _candidate(place, setting("DISABLE"), setting("AMP_DTYPE"))
    if candidate.value is torch.float16 and not fp16:
        return contextlib.nullcontext()
    dtype = _noted(place, candidate) if controller is None else controller.dtype(sys._getframe(1))  # noqa: SLF001
    if dtype is None:
        return contextlib.nullcontext()
    if dtype is torch.float32 or (dtype is torch.float16 and not autocast_controller.bears_float16(place.type)):
        return LiftToFloat32(place.type, controller)
    return _Low(place.type, dtype, controller)


@functools.lru_cache(maxsize=64)
def _candidate(place: torch.device, disable: str, wish: str) -> tuple[Decision, AutocastController | None]:  # noqa: ARG001 - a key
    """The precision for a device under these settings, and who tries it if it is to be tried."""
    decision = _prepared(place)
    return decision, controller_of(place, decision) if is_tried(decision) else None


def _noted(device: torch.device, decision: Decision) -> torch.dtype | None:
    note(f"amp on {device.type}", decision)
    dtype: torch.dtype | None = decision.value
    return dtype


def _dtype(device: torch.device) -> torch.dtype | None:
    return _noted(device, _prepared(device))


# torch.compile evaluates a function marked so while it traces and keeps the result: an autocast region inside
# compiled code then costs no graph break, and is not tried. (torch.compiler.assume_constant_result sets the same mark,
# but importing it takes seconds.)
_dtype._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001
devices.in_use._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001


def _prepared(device: torch.device) -> Decision:
    """The precision for a device, once it is made sure that regions can be in it."""
    decision = precision(device)
    if device.type == "cpu" and decision.value is not None:
        lstm_fallback.prepare(decision.value)
    return decision


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


class _Low(torch.autocast):
    """A region of torch's own, in low precision, that tells its controller of failures."""

    def __init__(self, kind: str, dtype: torch.dtype, controller: AutocastController | None) -> None:
        super().__init__(kind, dtype=dtype)  # the type alone: with an index torch skips its own checks
        self._controller = controller
        self._fused_attention = False

    def __enter__(self) -> Any:
        # Without gradients `nn.TransformerEncoder` takes a fused path, which fails on what is in two precisions. Torch
        # asks only whether there is a region for CUDA.
        self._fused_attention = self.device != "cuda" and mha.get_fastpath_enabled()
        if self._fused_attention:
            mha.set_fastpath_enabled(False)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> Any:
        if self._fused_attention:
            mha.set_fastpath_enabled(True)
        if failure is not None:
            explain(failure, self.fast_dtype, self._controller)
        return super().__exit__(kind, failure, trace)


class LiftToFloat32:
    """A region that lifts what is low to float32: autocast with float32 as its low precision.

    `torch.autocast` itself refuses this precision on a CPU: what a checkpoint computes again in the backward pass is
    computed without a region there, which is right, and torch warns that it is so. A region that is open already
    stays in force.
    """

    def __init__(self, kind: str, controller: AutocastController | None = None) -> None:
        self._kind = kind
        self._controller = controller
        self._before: torch.dtype | None = None

    def __enter__(self) -> None:
        if torch.is_autocast_enabled(self._kind):
            return
        self._before = torch.get_autocast_dtype(self._kind)
        torch.set_autocast_enabled(self._kind, True)
        torch.set_autocast_dtype(self._kind, torch.float32)
        torch.autocast_increment_nesting()

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> None:
        if self._before is None:
            return
        if failure is not None:
            explain(failure, torch.float32, self._controller)
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled(self._kind, False)
        torch.set_autocast_dtype(self._kind, self._before)
        self._before = None
