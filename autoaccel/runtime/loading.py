"""How many loader workers help on this machine, and whether batches should be pinned.

The answers are safe rather than bold: 0 and False wherever workers or pinning could break the program or slow it down.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from torch.utils.data import get_worker_info

from . import devices
from .environment import Decision, disabled, note, whole_number

MOST_WORKERS: Final = 4
# Workers hand batches over through shared memory; containers often have 64 MB of it, and a full one kills workers
# (SIGBUS).
LEAST_SHARED_MEMORY: Final = 256 * 2**20


class WorkerCount(int):
    """A number of workers that the runtime chose: a loader keeps it, which tells it from a script's own number."""


def num_workers() -> WorkerCount:
    """How many worker processes a DataLoader should use here; 0 where they would hurt."""
    decision = worker_decision()
    note("num_workers", decision)
    return WorkerCount(decision.value)


def pin_memory() -> bool:
    """Whether a DataLoader should put its batches into page-locked memory."""
    decision = pin_decision()
    note("pin_memory", decision)
    return bool(decision.value)


def worker_decision() -> Decision:
    """The number of workers and its reason."""
    if disabled("workers"):
        return Decision(0, "AUTOACCEL_DISABLE")
    if multiprocessing.current_process().daemon or get_worker_info() is not None:
        return Decision(0, "daemonic processes may not have children")
    wanted = whole_number("NUM_WORKERS")
    if wanted is not None:
        return Decision(wanted, "AUTOACCEL_NUM_WORKERS")
    if devices.accelerator() is None:
        return Decision(0, "no accelerator: workers would take CPU time from the training itself")
    if (method := start_method()) != "fork":
        return Decision(0, f"processes start by {method}: a script without main guard would run again in each worker")
    if (shared := _shared_memory()) < LEAST_SHARED_MEMORY:
        return Decision(0, f"/dev/shm holds {shared / 2**20:.0f} MiB only")
    cpus = usable_cpus() / _processes_here()
    # one CPU stays with the training loop
    return Decision(max(0, min(MOST_WORKERS, math.floor(cpus) - 1)), f"{cpus:g} usable CPUs per training process")


def pin_decision() -> Decision:
    """Whether to pin, and why."""
    if disabled("pin"):
        return Decision(False, "AUTOACCEL_DISABLE")
    place = devices.accelerator()
    if place is None:
        return Decision(False, "no accelerator")
    if place.type == "mps":
        return Decision(False, "MPS shares its memory with the CPU")
    return Decision(True, f"copies to {place.type} are faster from page-locked memory")


def start_method() -> str:
    """How multiprocessing starts processes. `get_start_method()` would fix it before the program could choose."""
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def usable_cpus() -> float:
    """The CPUs this process may use: the least of affinity, container quota (maybe a fraction) and batch system."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    slurm = os.environ.get("SLURM_CPUS_PER_TASK", "")
    limits = [float(affinity), *cgroup_quotas(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))]
    return min([*limits, float(slurm)] if slurm.isdecimal() and int(slurm) > 0 else limits)


def cgroup_quotas(root: Path, membership: Path) -> Iterator[float]:
    """The quotas, in CPUs, that control groups (version 2 or 1) set for this process, on every level above it."""
    with contextlib.suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            version2 = not controllers
            if not version2 and "cpu" not in controllers.split(","):
                continue
            base = root if version2 else root / "cpu"
            group_path = base / group.lstrip("/")
            # in a container the listed path may lie outside what is mounted: its root then stands for the group
            for directory in [group_path, *group_path.parents]:
                if directory.is_relative_to(base):
                    yield from _quota(directory, version2)


def _quota(directory: Path, version2: bool) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError):
        if version2:
            quota, period = map(
                float, (directory / "cpu.max").read_text().split()
            )  # "max 100000" where there is no limit
        else:
            quota = float((directory / "cpu.cfs_quota_us").read_text())
            period = float((directory / "cpu.cfs_period_us").read_text())
        if quota > 0 and period > 0:
            yield quota / period


def _processes_here() -> int:
    count = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(count)) if count.isdecimal() else 1


def _shared_memory() -> float:
    """Bytes of shared memory on this machine; infinite where it has no such file system."""
    try:
        state = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return math.inf
    return float(state.f_frsize * state.f_blocks)
