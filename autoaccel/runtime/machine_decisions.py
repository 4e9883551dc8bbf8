"""What the runtime would do on this machine, for `autoaccel env`."""

from __future__ import annotations

import os

import torch

from . import devices
from .amp.precision import is_tried, precision, scaling
from .compile.compile_support import verdict
from .environment import Decision, disabled, setting, whole_number
from .loading import glibc_malloc, prefetcher
from .loading.loader_settings import pin_decision, worker_decision
from .step_graph.step import wanted
from .trial import decision_cache


def decisions() -> dict[str, tuple[bool | int | str, str]]:
    """Every decision by name, as (what, why); only strings, numbers and truth values, so it can be written as JSON.

    What is measured while a script runs is named as what it may become, and the reason says on what that depends.
    """
    place = devices.resolve()
    on_cpu = place.type == "cpu"
    found = {
        "device": Decision(place.type, "no accelerator" if on_cpu else "the current accelerator"),
        "amp": _amp(place),
        "grad_scaler": scaling(place),
        "compile": _compile(place),
        "cuda_graphs": _cuda_graphs(place),
        "fused": _tried_on(place, "fused", "cpu", "cuda"),
        "channels_last": _tried_on(place, "channels_last", "cpu", "cuda"),
        "matmul_precision": _matmul_precision(place),
        "cudnn_benchmark": _tried_on(place, "cudnn_benchmark", "cuda"),
        "prefetch": prefetcher.depth(place),
        "resident": _resident(place),
        "num_workers": _workers(),
        "pin_memory": pin_decision(),
        "heap": glibc_malloc.verdict(os.environ) if on_cpu else Decision(False, "the CPU does not train"),
        "remember": _remember(),
    }
    return {name: (decision.value, decision.reason) for name, decision in found.items()}


def _amp(place: torch.device) -> Decision:
    found = precision(place)
    if found.value is None:
        return Decision(False, found.reason)
    reason = f"where it is measured to be faster; {found.reason}" if is_tried(found) else found.reason
    return Decision(str(found.value).removeprefix("torch."), reason)


def _compile(place: torch.device) -> Decision:
    if disabled("compile"):
        return Decision(False, "AUTOACCEL_DISABLE")
    decision = verdict(place)
    return Decision((setting("COMPILE_MODE") or "default") if decision.value else False, decision.reason)


def _matmul_precision(place: torch.device) -> Decision:
    if place.type == "cuda" and devices.capability(place) < (8, 0):
        return Decision(False, "compute capability below 8.0")
    return _tried_on(place, "matmul_precision", "cuda")


def _tried_on(place: torch.device, feature: str, *kinds: str) -> Decision:
    """What is tried at the script's own steps on these kinds of devices."""
    if disabled(feature):
        return Decision(False, "AUTOACCEL_DISABLE")
    if place.type not in kinds:
        return Decision(False, f"not tried on {place.type}")
    if (wish := setting(feature.upper()).lower()) in ("on", "off"):
        return Decision(wish == "on", f"AUTOACCEL_{feature.upper()}")
    return Decision(True, "where it is measured to be faster")


def _resident(place: torch.device) -> Decision:
    if disabled("prefetch") or disabled("resident"):
        return Decision(False, "AUTOACCEL_DISABLE")
    where = "by the batch" if place.type == "cpu" else f"on {place.type} where it fits, else by the batch"
    return Decision(True, f"data in memory is indexed {where}")


def _workers() -> Decision:
    found = worker_decision()
    if found.value > 0 and whole_number("NUM_WORKERS") is None:
        return Decision(found.value, f"at first; changed by what batches and steps take; {found.reason}")
    return found


def _cuda_graphs(place: torch.device) -> Decision:
    if disabled("graphs"):
        return Decision(False, "AUTOACCEL_DISABLE")
    asked = wanted()
    if place.type != "cuda":
        return Decision(False, f"there are none on {place.type}")
    return Decision(asked, "steps of accel.step, where faster" if asked else "AUTOACCEL_CUDA_GRAPHS")


def _remember() -> Decision:
    if not decision_cache.on():
        return Decision(False, "AUTOACCEL_REMEMBER")
    try:
        return Decision(str(decision_cache.folder()), "what was measured holds for later runs of the same command")
    except (OSError, RuntimeError):
        return Decision(False, "there is no home")
