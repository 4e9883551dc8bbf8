"""What the runtime would do on this machine, for `autoaccel env`."""

from __future__ import annotations

import torch

from . import devices
from .amp import precision, scaling
from .compiling import verdict
from .environment import Decision, disabled, setting, whole_number
from .loading import pin_decision, worker_decision


def decisions() -> dict[str, tuple[bool | int | str, str]]:
    """Every decision by name, as (what, why); only strings, numbers and truth values, so it can be written as JSON."""
    place = devices.resolve()
    dtype = precision(place)
    found = {
        "device": Decision(place.type, "the current accelerator" if place.type != "cpu" else "no accelerator"),
        "amp": Decision(str(dtype.value).removeprefix("torch.") if dtype.value else False, dtype.reason),
        "grad_scaler": scaling(place),
        "compile": _compile(place),
        "prefetch": _prefetch(place),
        "num_workers": worker_decision(),
        "pin_memory": pin_decision(),
    }
    return {name: (decision.value, decision.reason) for name, decision in found.items()}


def _compile(place: torch.device) -> Decision:
    if disabled("compile"):
        return Decision(False, "AUTOACCEL_DISABLE")
    decision = verdict(place)
    return Decision((setting("COMPILE_MODE") or "default") if decision.value else False, decision.reason)


def _prefetch(place: torch.device) -> Decision:
    if disabled("prefetch"):
        return Decision(0, "AUTOACCEL_DISABLE")
    if place.type not in ("cuda", "xpu"):
        return Decision(0, f"copies to {place.type} cannot overlap with the computation")
    depth = whole_number("PREFETCH_DEPTH")
    return Decision(1 if depth is None else depth, "loaders with workers and pinned memory")
