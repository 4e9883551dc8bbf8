"""LSTM layers stay in float32 on CPUs that have no LSTM in the low precision of a region.

Every other layer computes in low precision on any CPU, if slowly. For an LSTM autocast casts the operands of oneDNN's
primitive without asking whether there is one: bfloat16 needs AVX-512, float16 needs AVX512-FP16. Elsewhere the script
ends with "could not create a primitive descriptor". That one operator gets a kernel then that lifts what it is given
to float32. Nothing changes where torch's own kernel works: a tiny LSTM shows that first.
(https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/autocast_mode.cpp lists `mkldnn_rnn_layer`)
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Final

import torch

from ..environment import Decision, note, warn_once

_lacking: Final[set[torch.dtype]] = set()


@functools.cache
def prepare(dtype: torch.dtype) -> None:
    """Let regions on a CPU be in this precision, whatever it has no LSTM for."""
    if _has_lstm(dtype):
        return
    if not _lacking:
        _register()
    _lacking.add(dtype)


def _has_lstm(dtype: torch.dtype) -> bool:
    """Whether a tiny LSTM can be computed in a region of this precision, and trained; draws no random numbers.

    oneDNN has primitives of their own for inference, and may have them alone."""
    sizes = ((4, 1), (4, 1), (4,), (4,))
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", dtype=dtype):
        weights, state = [torch.zeros(size, requires_grad=True) for size in sizes], torch.zeros(1, 1, 1)
        try:
            found = torch.lstm(torch.zeros(1, 1, 1), (state, state), weights, True, 1, 0.0, True, False, False)
            torch.autograd.grad(found[0].sum(), weights)
        except RuntimeError:
            return False
    return True


@functools.cache
def _library() -> torch.library.Library:
    # what is registered lasts as long as this does
    return torch.library.Library("aten", "IMPL", "AutocastCPU")  # type: ignore[no-untyped-call]


def _register() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced
        _library().impl("mkldnn_rnn_layer", _layer)  # type: ignore[no-untyped-call]


def _layer(*operands: Any) -> Any:
    low = torch.get_autocast_dtype("cpu")
    lacking = low in _lacking
    if lacking:
        name = str(low).removeprefix("torch.")
        reason = f"this CPU has none in {name}, in which the rest computes"
        warn_once(f"LSTM layers compute in float32: {reason}")
        note("LSTM layers on cpu", Decision(torch.float32, reason))
    target = torch.float32 if lacking else low
    cast = [each.to(target) if _is_cast(each) else each for each in operands]
    with torch.autocast("cpu", enabled=False):
        return torch.ops.aten.mkldnn_rnn_layer.default(*cast)


def _is_cast(operand: object) -> bool:
    return isinstance(operand, torch.Tensor) and operand.is_floating_point() and operand.dtype is not torch.float64
