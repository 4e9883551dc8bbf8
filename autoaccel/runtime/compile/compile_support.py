"""Whether work on a device can be compiled at all here, found without running anything."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Final

import torch

from .. import devices
from ..environment import Decision, setting, warn_once

_OFF: Final = ("off", "none")


def verdict(place: torch.device | None) -> Decision:
    """Whether work on a device can be compiled: True, False, or None (not now, ask again)."""
    mode = setting("COMPILE_MODE").lower()
    if mode in _OFF:
        return Decision(False, "AUTOACCEL_COMPILE_MODE")
    if place is not None and place.type == "meta":
        return Decision(None, "no data yet")
    if mode:
        return Decision(True, "AUTOACCEL_COMPILE_MODE")
    if place is None:
        return Decision(None if devices.accelerator() is not None else False, "no tensor to judge by")
    if place.type == "cpu":
        return _on_cpu()
    if place.type not in ("cuda", "xpu"):
        return Decision(False, f"compiling does not pay for work on {place.type}")
    if importlib.util.find_spec("triton") is None:
        warn_once(f"triton is not installed: nothing is compiled on {place.type}")
        return Decision(False, "triton is not installed")
    if place.type == "cuda" and torch.version.hip is None and devices.capability(place) < (7, 0):
        warn_once("compiling needs CUDA compute capability 7.0: nothing is compiled")
        return Decision(False, "compute capability below 7.0")
    return Decision(True, "as soon as it pays: steps are timed first")


def _on_cpu() -> Decision:
    if devices.accelerator() is not None:  # where it may move later
        return Decision(None, "compiling does not pay for work on cpu beside an accelerator")
    if not _cpp_compiler():
        return Decision(False, "no C++ compiler")
    return Decision(True, "as soon as it pays: steps are timed first")


def _cpp_compiler() -> bool:
    """Whether Inductor would find a C++ compiler and Python's headers, looked for without running anything."""
    import sysconfig  # only where it is asked for: it takes a while

    if sys.platform == "win32":  # a compiler alone is not enough there: it needs its environment
        return shutil.which("cl") is not None
    name = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    return shutil.which(name) is not None and headers.is_file()
