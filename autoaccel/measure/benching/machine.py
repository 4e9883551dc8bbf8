"""What figures hold for, and what may have disturbed them."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

from autoaccel import __version__
from autoaccel.measure.checkup.host import Host
from autoaccel.measure.checkup.readings import NotReadableError
from autoaccel.measure.observing.run_record import RunRecord


def facts(record: RunRecord, accelerator: str) -> dict[str, str]:
    """Hardware and software, as the report names them."""
    found = {
        "processor": processor(),
        "cores": str(os.cpu_count() or 1),
        "accelerator": accelerator or "none used",
        "torch": record.torch,
        "Python": record.python,
        "platform": f"{platform.system()} {platform.machine()}",
        "autoaccel": __version__,
    }
    return {name: value for name, value in found.items() if value}


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def load() -> float | None:
    """The load of the last minute by cores; None where it is not known."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except (AttributeError, OSError):
        return None


def free_memory() -> int:
    """Bytes that new processes can have; 0 where it is not known."""
    with contextlib.suppress(NotReadableError):
        return int(Host().amount("/proc/meminfo", "MemAvailable"))
    return 0
