"""All checks, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autoaccel.measure.checkup import gpu_checks, host_checks, python_checks
from autoaccel.measure.checkup.host import Host
from autoaccel.measure.checkup.readings import CheckRow, NotApplicableError, NotReadableError, Reading, Status


@dataclass(frozen=True, slots=True)
class Check:
    """Its name for programs, what it looks at in a few words, and who looks: a reading for each thing that there is.

    It raises `NotReadableError` or `NotApplicableError` where there is none.
    """

    name: str
    what: str
    read: Callable[[Host], Iterator[Reading]]


CHECKS = (
    Check("cpus", "usable CPUs", host_checks.usable_cpus),
    Check("cpu-throttling", "CPU quota", host_checks.cpu_throttling),
    Check("load", "load of others", host_checks.load),
    Check("steal", "stolen CPU time", host_checks.steal),
    Check("cpu-clock", "CPU clock", host_checks.cpu_clock),
    Check("numa", "NUMA", host_checks.numa),
    Check("memory", "memory", host_checks.memory),
    Check("swap", "swap", host_checks.swap),
    Check("swappiness", "swappiness", host_checks.swappiness),
    Check("memory-pressure", "memory pressure", host_checks.memory_pressure),
    Check("shared-memory", "/dev/shm", host_checks.shared_memory),
    Check("data-disk", "disk of the data", host_checks.data_disk),
    Check("read-rate", "read rate of the data", host_checks.read_rate),
    Check("thread-variables", "OpenMP and MKL", python_checks.thread_variables),
    Check("torch-threads", "torch's threads", python_checks.torch_threads),
    Check("images", "image library", python_checks.images),
    Check("gpu-driver", "GPU driver", gpu_checks.gpu_driver),
    Check("torch-build", "torch on GPUs", gpu_checks.torch_build),
    Check("gpu-clocks", "GPU clocks", gpu_checks.gpu_clocks),
    Check("gpu-power", "GPU power cap", gpu_checks.gpu_power),
    Check("gpu-bus", "GPU PCIe width", gpu_checks.gpu_bus),
    Check("gpu-memory", "GPU memory", gpu_checks.gpu_memory),
    Check("gpu-utilisation", "GPU utilisation", gpu_checks.gpu_utilisation),
    Check("gpu-node", "GPU NUMA node", gpu_checks.gpu_node),
    Check("nccl-interface", "NCCL interface", python_checks.nccl_interface),
    Check("nccl-links", "NCCL switches", python_checks.nccl_links),
)


def rows(host: Host) -> list[CheckRow]:
    """What each finds; one that cannot tell says so."""
    return [each for check in CHECKS for each in _rows(check, host)]


def _rows(check: Check, host: Host) -> Iterator[CheckRow]:
    try:
        for each in check.read(host):
            # a healthy one says nothing of what would help
            status, fix = (Status.FOUND, each.fix) if each.cost else (Status.HEALTHY, "")
            yield CheckRow(check.name, check.what, status, each.value, each.threshold, each.cost, fix, each.subject)
    except NotReadableError as error:
        yield CheckRow(check.name, check.what, Status.UNKNOWN, str(error))
    except NotApplicableError as error:
        yield CheckRow(check.name, check.what, Status.ABSENT, str(error))
