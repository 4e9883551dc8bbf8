"""What rewritten scripts import: `from autoaccel import runtime as accel`.

A façade with few verbs over torch. Every decision that depends on the machine is made here, when the script runs: on
a CUDA device, on another accelerator, on a laptop, under torch 2.6 or later. Where something would not pay or not
work it does nothing, and `AUTOACCEL_DISABLE` switches any part of it off. Types never change: scripts keep their own
models, loaders and optimizers.

Only torch is needed, and nothing of the rest of the tool: `autoaccel rewrite --vendor` copies this folder beside a
script.
"""

from .amp import autocast, grad_scaler
from .compiling import compile  # noqa: A004 - scripts say accel.compile
from .deciding import decisions
from .loading import num_workers, pin_memory
from .prefetching import prefetch

__all__ = ["autocast", "compile", "decisions", "grad_scaler", "num_workers", "pin_memory", "prefetch"]
