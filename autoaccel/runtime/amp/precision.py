"""Which low precision a device profits from, and whether gradients are scaled in it.

bfloat16 where the hardware computes in it (CUDA compute capability 8.0 and up, XPU, CPUs with AVX512-BF16 or AMX),
float16 with a scaler on CUDA 7.x, nothing elsewhere: older CUDA devices have no units for either and emulate bfloat16
slowly, although `torch.cuda.is_bf16_supported()` says yes there. Both are only candidates, tried against float32 over
the script's own steps (`autocast_controller`); a precision that `AUTOACCEL_AMP_DTYPE` asks for is taken at once.

`AUTOACCEL_GRAD_SCALER=on` makes the scaler scale whatever the precision is. Its factors are powers of two, so float32
gradients come out bit-equal: with `AUTOACCEL_AMP_DTYPE=float32` a script shows on any machine whether it scales,
unscales and steps rightly.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

import torch

from .. import devices
from ..environment import Decision, disabled, setting, warn_once

_DTYPES: Final[Mapping[str, torch.dtype | None]] = {
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
    "half": torch.float16,
    "off": None,
    "none": None,
    "fp32": None,
    "float32": None,
}


# Turing without tensor cores: cuDNN's float16 convolutions give NaN (https://github.com/pytorch/pytorch/issues/77955)
_NAN_IN_FLOAT16: Final = "GTX 16"


def is_tried(decision: Decision) -> bool:
    """Whether a precision is held against float32 before it is taken."""
    return decision.value is not None and setting("AMP_DTYPE").lower() not in (*_DTYPES, "hardware")


def precision(device: torch.device) -> Decision:
    """The low precision that may be worth it on a device: a `torch.dtype`, or None for float32.

    It is tried against float32 when a script trains, unless AUTOACCEL_AMP_DTYPE asks for it, or for "hardware": what
    the device has, untried.
    """
    if disabled("amp"):
        return Decision(None, "AUTOACCEL_DISABLE")
    wish = setting("AMP_DTYPE").lower()
    if wish in _DTYPES and devices.available(device):
        return Decision(_DTYPES[wish], "AUTOACCEL_AMP_DTYPE")
    if wish and wish not in (*_DTYPES, "hardware"):
        warn_once(f"AUTOACCEL_AMP_DTYPE={wish!r} is not one of {', '.join(_DTYPES)}: ignored")
    return _by_hardware(device)


def _by_hardware(device: torch.device) -> Decision:
    match device.type:
        case "cuda" if not devices.available(device):
            return Decision(None, "CUDA is not available")
        case "cuda" if _NAN_IN_FLOAT16 in devices.hardware_name(device):
            return Decision(None, f"{_NAN_IN_FLOAT16} cards give NaN in float16")
        case "cuda":
            return by_capability(*devices.capability(device))
        case "xpu" if devices.available(device):
            return Decision(torch.bfloat16, "XPU computes in bfloat16")
        case "cpu" if _cpu_computes_bfloat16():
            return Decision(torch.bfloat16, "this CPU has AVX512-BF16 or AMX")
        case "cpu":
            return Decision(None, "this CPU has neither AVX512-BF16 nor AMX")
        case _:
            return Decision(None, f"mixed precision does not pay on {device.type}")


def scaling(device: torch.device) -> Decision:
    """Whether gradients of parameters on a device are scaled."""
    wish = setting("GRAD_SCALER").lower()
    if wish == "on" and not disabled("amp"):
        return Decision(True, "AUTOACCEL_GRAD_SCALER")
    if wish not in ("", "on"):
        warn_once(f"AUTOACCEL_GRAD_SCALER={wish!r} is not 'on': ignored")
    scaled = precision(device).value is torch.float16
    return Decision(scaled, "gradients are float16" if scaled else "needed for float16 only")


def by_capability(major: int, minor: int) -> Decision:
    """The low precision of a CUDA device of this compute capability."""
    if major >= 8:
        return Decision(torch.bfloat16, f"compute capability {major}.{minor} has bfloat16")
    if major == 7:
        return Decision(torch.float16, f"compute capability {major}.{minor} has float16 units and no bfloat16")
    return Decision(None, f"compute capability {major}.{minor} is not faster in low precision")


@functools.cache
def _cpu_computes_bfloat16() -> bool:
    # underscored in torch 2.6 to 2.15, public in none; a torch without them is treated as a CPU without the units
    probes = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(probe is not None and probe() for probe in probes)
