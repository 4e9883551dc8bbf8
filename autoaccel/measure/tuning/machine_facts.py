"""Which machine a decision holds for: what decides about speed, and can be told without torch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform

from autoaccel.measure.benching.machine import processor
from autoaccel.measure.checkup.host import Host
from autoaccel.measure.checkup.readings import NotReadableError

_GPUS = "/proc/driver/nvidia/gpus"


def machine_facts(host: Host | None = None) -> dict[str, str]:
    """By name: processor, CPUs that may be used, memory in GiB, NVIDIA's GPUs, the system."""
    host = host or Host()
    cpus, memory = "", ""
    with contextlib.suppress(NotReadableError):
        cpus = f"{host.usable_cpus()[0]:g}"
    with contextlib.suppress(NotReadableError):
        memory = f"{host.amount('/proc/meminfo', 'MemTotal') / 2**30:.0f} GiB"
    return {
        "processor": processor(),
        "cpus": cpus,
        "memory": memory,
        "gpus": ", ".join(_gpus(host)) or "none",
        "platform": f"{platform.system()} {platform.machine()}",
    }


def fingerprint(facts: dict[str, str]) -> str:
    """A word for these facts."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _gpus(host: Host) -> list[str]:
    found = []
    for name in host.names(_GPUS):
        with contextlib.suppress(NotReadableError):
            found.append(host.field(f"{_GPUS}/{name}/information", "Model"))
    return found
