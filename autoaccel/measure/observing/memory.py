"""Peak memory, and what the run was made with."""

from __future__ import annotations

import platform
import resource
import sys
import time
from typing import Any

import torch

from autoaccel.measure.observing.observation import Observation


class Memory:
    """The peaks of the process and of its accelerators, its seconds, its versions."""

    def install(self, observation: Observation) -> None:
        self._observation = observation
        self._began = time.monotonic()

    def contribute(self) -> dict[str, Any]:
        return {
            "host_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            * (1 if sys.platform == "darwin" else 1024),
            "device_memory": device_peak(),
            "seconds": time.monotonic() - self._began,
            "torch": torch.__version__,
            "python": platform.python_version(),
        }


def device_peak() -> int:
    """Bytes that torch had allocated on accelerators at most; 0 where none is in use."""
    kinds: list[Any] = [getattr(torch, name, None) for name in ("cuda", "xpu")]
    for kind in kinds:
        if hasattr(kind, "is_initialized") and kind.is_initialized():
            return sum(int(kind.max_memory_allocated(index)) for index in range(kind.device_count()))
    return 0
