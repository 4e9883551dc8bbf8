"""How many loader workers help on this machine, and whether batches should be pinned.

The answers are safe rather than bold: 0 and False wherever workers or pinning could break the program or slow it down.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from torch.utils.data import get_worker_info

from .. import devices
from ..distributed import process_group
from ..environment import Decision, disabled, note, whole_number
from .worker_count import Machine

MOST_WORKERS: Final = 4
# Workers hand batches over through shared memory; containers often have 64 MB of it, and a full one kills workers
# (SIGBUS).
LEAST_SHARED_MEMORY: Final = 256 * 2**20


_BY_FORK: Final = "forkserver would run a script without main guard again; accel.prefetch forks where workers pay"


class WorkerCount(int):
    """A number of workers that the runtime chose: an int to everybody else, and known again in the loader that has it.

    Whose number it is decides what may be done with it: start with none and change it during an epoch, draw the seed
    that kept workers skip, look batches up without any. Each of these would change the batches of a loader whose
    number the script chose, and `DataLoader(..., num_workers=accel.num_workers())` hands nothing but this value on.
    As a plain int it could not be told from the script's own 4, which is the very same object; a keyword of
    `accel.prefetch` would say nothing of loaders that no `prefetch` has seen.
    """

    taken: int
    """Of workers that take over a stream: how many of its batches had been made before."""

    def __new__(cls, value: int, *, taken: int = 0) -> WorkerCount:
        count = super().__new__(cls, value)
        count.taken = taken
        return count


def num_workers() -> WorkerCount:
    """How many worker processes a DataLoader should use here; 0 where they would hurt.

    Returns:
        An int. In a loader that has it, and not a number of the script's own, `accel.prefetch` and `accel.in_memory`
        may choose another one.
    """
    decision = worker_decision()
    if (group := process_group.current()) is not None:  # how many there are may show in what they draw
        first = group.exchange([float(decision.value)], "at accel.num_workers()")[0]
        decision = Decision(int(first[0]), "as many as the first rank has")
    note("num_workers", decision)
    return WorkerCount(decision.value)


def chose_workers(loader: Any) -> bool:
    """Whether a loader's number of workers came from `num_workers()`, and is not the script's own."""
    return isinstance(loader.num_workers, WorkerCount)


def may_have_workers(loader: Any) -> bool:
    """Whether there may be workers: a loader has some, or would if they started by fork, which `prefetch` asks for."""
    return loader.num_workers > 0 or (chose_workers(loader) and worker_decision().reason is _BY_FORK)


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
        if method == "forkserver" and may_fork():
            return Decision(0, _BY_FORK)
        return Decision(0, f"processes start by {method}: a script without main guard would run again in each worker")
    if (shared := _shared_memory()[0]) < LEAST_SHARED_MEMORY:
        return Decision(0, f"/dev/shm holds {shared / 2**20:.0f} MiB only")
    cpus = usable_cpus() / _processes_here()
    # one CPU stays with the training loop
    return Decision(
        max(0, min(MOST_WORKERS, math.floor(cpus) - 1)),
        f"{cpus:g} usable CPUs per training process; accel.prefetch measures first",
    )


def machine() -> Machine:
    """What workers of one training process may use."""
    processes = _processes_here()
    return Machine(
        usable_cpus() / processes, _free_memory() / processes, _shared_memory()[1] / processes, _held_memory()
    )


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


def may_fork() -> bool:
    """Whether forking is as safe as it always was for loaders on Linux: another method is only Python's default.

    It is since Python 3.14, which imports the script again in every worker, and wants all it gives them pickled.
    """
    chosen: str | None = multiprocessing.get_start_method(allow_none=True)
    return sys.platform == "linux" and chosen is None and "fork" in multiprocessing.get_all_start_methods()


def usable_cpus() -> float:
    """The CPUs this process may use: the least of affinity, container quota (maybe a fraction) and batch system."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    slurm = os.environ.get("SLURM_CPUS_PER_TASK", "")
    limits = [float(affinity), *cgroup_quotas(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))]
    return min([*limits, float(slurm)] if slurm.isdecimal() and int(slurm) > 0 else limits)


def cgroup_quotas(root: Path, membership: Path) -> Iterator[float]:
    """The quotas, in CPUs, that control groups (version 2 or 1) set for this process, on every level above it."""
    for directory, version2 in _groups(root, membership, "cpu"):
        yield from _quota(directory, version2)


def _groups(root: Path, membership: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """The folders of a process's control groups, up to the root, and whether they are of version 2."""
    with contextlib.suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            version2 = not controllers
            if not version2 and controller not in controllers.split(","):
                continue
            base = root if version2 else root / controller
            group_path = base / group.lstrip("/")
            # in a container the listed path may lie outside what is mounted: its root then stands for the group
            for directory in [group_path, *group_path.parents]:
                if directory.is_relative_to(base):
                    yield directory, version2


def _quota(directory: Path, version2: bool) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError):
        if version2:
            quota, period = map(float, (directory / "cpu.max").read_text().split())  # "max" where there is no limit
        else:
            quota = float((directory / "cpu.cfs_quota_us").read_text())
            period = float((directory / "cpu.cfs_period_us").read_text())
        if quota > 0 and period > 0:
            yield quota / period


def _processes_here() -> int:
    """Training processes that share this machine's CPUs: as the launcher says, else the batch system.

    Under a batch system that gives each task CPUs of its own, these are what is counted, and nobody shares them.
    """
    count = os.environ.get("LOCAL_WORLD_SIZE", "")
    if count.isdecimal():
        return max(1, int(count))
    if os.environ.get("SLURM_CPUS_PER_TASK", "").isdecimal():
        return 1
    tasks = os.environ.get("SLURM_NTASKS_PER_NODE", "")
    in_step = os.environ.get("SLURM_PROCID", "").isdecimal()  # started by the batch system, not in its shell
    return max(1, int(tasks)) if in_step and tasks.isdecimal() else 1


def _shared_memory() -> tuple[float, float]:
    """Bytes of shared memory on this machine, all and free; infinite where it has no such file system."""
    try:
        state = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return math.inf, math.inf
    return float(state.f_frsize * state.f_blocks), float(state.f_frsize * state.f_bavail)


def _free_memory() -> float:
    """Bytes of memory that programs may still use here; infinite where nobody says."""
    limits = [*memory_left(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))]
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(float(line.split()[1]) * 1024)
    return min(limits, default=math.inf)


def _held_memory() -> float:
    """Bytes of memory that this process holds; 0 where nobody says."""
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        return float(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0.0


def memory_left(root: Path, membership: Path) -> Iterator[float]:
    """The bytes that control groups (version 2 or 1) leave this process, on every level above it.

    What the kernel keeps of files only in order to be fast counts as left.
    """
    for directory, version2 in _groups(root, membership, "memory"):
        names = ("memory.max", "memory.current") if version2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
            limit, used = (float((directory / name).read_text()) for name in names)
            yield max(0.0, limit - used + _cached(directory))


def _cached(directory: Path) -> float:
    with contextlib.suppress(OSError, ValueError):
        for line in (directory / "memory.stat").read_text().splitlines():
            if line.startswith(("inactive_file ", "total_inactive_file ")):
                return float(line.split()[1])
    return 0.0
