"""Processors, memory and disks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from autoaccel.measure.checkup.data_files import DataFiles
from autoaccel.measure.checkup.host import Host, Mount, garbled, listed_numbers, spelled
from autoaccel.measure.checkup.readings import NotApplicableError, NotReadableError, Reading

CPUS_A_GPU = 4  # which its loader keeps busy
MOST_LOAD = 0.5  # of the CPUs
MOST_WAITING = 0.05  # of the time: more is felt
LEAST_MEMORY = (2 * 2**30, 0.1)  # bytes, and of all
MOST_SWAPPED = 0.1  # of memory
USUAL_SWAPPINESS = 60
LEAST_SHARED = 256 * 2**20  # bytes: the runtime starts no workers with less
LEAST_RATE = 100e6  # bytes/s
LEAST_CLOCK = 0.9
_FEWER = "more memory, or fewer programs and workers"
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "glusterfs", "afs", "davfs"}
_VIRTUAL_DISKS = ("/dev/vd", "/dev/xvd")  # which say that they rotate, whatever is below them
_IN_MEMORY = {"tmpfs", "ramfs"}
_SCALED_BY_HARDWARE = ("intel_pstate", "amd-pstate", "amd_pstate")  # there "powersave" is the usual governor


def usable_cpus(host: Host) -> Iterator[Reading]:
    """Affinity and control groups."""
    usable, limit = host.usable_cpus()
    online, gpus = len(host.online_cpus()), host.gpu_count()
    wanted = CPUS_A_GPU * gpus if gpus else online
    value = f"{usable:g} of {online}" + (f" by {limit}" if usable < online else "")
    threshold = f"{CPUS_A_GPU} for each GPU" if gpus else "all that are online"
    cost = "loaders do not keep up with the GPUs" if gpus else f"up to {1 - usable / online:.0%} of the machine"
    fix = "ask for more: taskset, docker --cpus, sbatch --cpus-per-task"
    yield Reading(value, threshold, cost if usable < wanted else "", fix)


def cpu_throttling(host: Host) -> Iterator[Reading]:
    """How often the quota of a control group was used up."""
    if not any(True for _ in host.quotas()):
        raise NotApplicableError("no quota")
    worst = 0.0
    for folder, _ in host.groups("cpu"):
        with contextlib.suppress(NotReadableError):
            periods, throttled = (host.amount(f"{folder}/cpu.stat", each) for each in ("nr_periods", "nr_throttled"))
            worst = max(worst, throttled / periods if periods else 0.0)
    cost = f"all threads stand still in {worst:.0%} of the periods" if worst > MOST_WAITING else ""
    fix = "fewer threads and workers than the quota, or a higher quota"
    yield Reading(f"{worst:.0%} of periods", f"{MOST_WAITING:.0%}", cost, fix)


def load(host: Host) -> Iterator[Reading]:
    """What others compute here."""
    said = host.text("/proc/loadavg").split()
    online = len(host.online_cpus())
    try:
        average = float(said[0])
    except (IndexError, ValueError):
        raise garbled("/proc/loadavg", " ".join(said)) from None
    cost = f"others keep {min(average / online, 1):.0%} of the CPUs" if average > MOST_LOAD * online else ""
    fix = "`top` shows who; wait, `renice` them, or use another machine"
    yield Reading(f"{average:g} on {online} CPUs", f"{MOST_LOAD * online:g}", cost, fix)


def steal(host: Host) -> Iterator[Reading]:
    """CPU time that a hypervisor gives to others."""
    said = host.field("/proc/stat", "cpu").split()
    try:
        times = [float(each) for each in said[:8]]  # guests' time is part of the users'
        share = times[7] / sum(times)
    except (IndexError, ValueError, ZeroDivisionError):
        raise garbled("/proc/stat", " ".join(said)) from None
    cost = f"{share:.0%} of the CPUs' time is others'" if share > MOST_WAITING else ""
    yield Reading(f"{share:.1%} since boot", f"{MOST_WAITING:.0%}", cost, "an instance with CPUs of its own")


def cpu_clock(host: Host) -> Iterator[Reading]:
    """Whether a setting keeps the CPUs below their clock."""
    folder = "/sys/devices/system/cpu/cpu0/cpufreq"
    if not host.names(folder):
        raise NotApplicableError("set by the hypervisor or the firmware")
    highest, possible = (host.number(f"{folder}/{each}") for each in ("scaling_max_freq", "cpuinfo_max_freq"))
    governor, driver = (host.text(f"{folder}/scaling_{each}").strip() for each in ("governor", "driver"))
    value = f"{highest / 1e6:.2g} GHz, {governor}"
    threshold = f"{possible / 1e6:.2g} GHz, not powersave"
    cost, fix = "", ""
    if highest < LEAST_CLOCK * possible:
        cost, fix = f"{1 - highest / possible:.0%} of the clock", "cpupower frequency-set --max"
    elif governor == "powersave" and not driver.startswith(_SCALED_BY_HARDWARE):
        cost, fix = "the lowest clock, always", "cpupower frequency-set --governor performance"
    yield Reading(value, threshold, cost, fix)


def memory(host: Host) -> Iterator[Reading]:
    """What programs may still use."""
    free, limit = host.free_memory()
    total = host.amount("/proc/meminfo", "MemTotal")
    wanted = min(max(LEAST_MEMORY[0], LEAST_MEMORY[1] * total), total / 2)
    value = f"{spelled(free)} free" + (f" by {limit}" if limit else f" of {spelled(total)}")
    cost = "workers are killed, or pages are swapped" if free < wanted else ""
    yield Reading(value, spelled(wanted), cost, "end other programs, raise the limit, fewer workers")


def swap(host: Host) -> Iterator[Reading]:
    """How much is swapped out."""
    total, free = (host.amount("/proc/meminfo", each) for each in ("SwapTotal", "SwapFree"))
    most = MOST_SWAPPED * host.amount("/proc/meminfo", "MemTotal")
    if not total:
        raise NotApplicableError("no swap")
    cost = "pages come back from the disk, a thousand times slower" if total - free > most else ""
    yield Reading(f"{spelled(total - free)} in use", spelled(most), cost, _FEWER)


def swappiness(host: Host) -> Iterator[Reading]:
    """How eagerly the kernel swaps."""
    if not host.amount("/proc/meminfo", "SwapTotal"):
        raise NotApplicableError("no swap")
    set_to = host.number("/proc/sys/vm/swappiness")
    cost = "memory of programs goes to the disk, to cache more files" if set_to > USUAL_SWAPPINESS else ""
    yield Reading(f"{set_to:g}", f"{USUAL_SWAPPINESS}", cost, "sysctl vm.swappiness=10")


def memory_pressure(host: Host) -> Iterator[Reading]:
    """How long programs wait for memory, as the kernel counts it."""
    path = "/proc/pressure/memory"
    if "memory" not in host.names("/proc/pressure"):
        raise NotApplicableError("the kernel does not count it")
    words = dict(each.partition("=")[::2] for each in host.field(path, "some").split())
    try:
        share = float(words["avg60"]) / 100
    except (KeyError, ValueError):
        raise NotReadableError(f"{path}: cannot be understood") from None
    cost = f"programs wait for memory {share:.0%} of the time" if share > MOST_WAITING else ""
    yield Reading(f"{share:.1%} of a minute", f"{MOST_WAITING:.0%}", cost, _FEWER)


def shared_memory(host: Host) -> Iterator[Reading]:
    """Through which workers hand over their batches."""
    mount = next((each for each in reversed([*host.mounts()]) if each.place == "/dev/shm"), None)
    wanted, cost = f"at least {spelled(LEAST_SHARED)}", "loader workers die of a bus error, or are not started"
    fix = "docker --shm-size=8g or --ipc=host; mount -o remount,size=50% /dev/shm"
    if mount is None:
        yield Reading("no /dev/shm", wanted, cost, fix)
        return
    size = _size_of(mount.options, host.amount("/proc/meminfo", "MemTotal"))
    yield Reading(spelled(size), wanted, cost if size < LEAST_SHARED else "", fix)


def _size_of(options: tuple[str, ...], memory: float) -> float:
    """Of a file system in memory: half of memory, unless it was told. Raises `NotReadableError`."""
    said = next((each.removeprefix("size=") for each in options if each.startswith("size=")), "50%").lower()
    if said.endswith("%"):
        return float(said[:-1]) / 100 * memory
    number, unit = (said[:-1], said[-1]) if said[-1:] in "kmgt" else (said, "")
    try:
        return float(number) * float(1024 ** " kmgt".index(unit or " "))
    except ValueError:
        raise garbled("/proc/self/mountinfo", said) from None


def data_disk(host: Host) -> Iterator[Reading]:
    """What sort of disk holds the data; where it is measured, and fast enough, the sort does not matter."""
    data = _data(host)
    mount = host.mount_of(str(data.place))
    remote, rotates = mount.kind in _NETWORK or mount.kind.startswith("fuse."), _rotates(host, mount)
    value = f"{mount.kind}{', over the network' if remote else ', on a rotating disk' if rotates else ''}"
    value = f"{value}; {_amount(data)} in {data.place}"
    threshold = "a solid disk here, a fast one, or data that fit in half of the free memory"
    is_fine = not (remote or rotates) or _is_cached(host, data) or _is_fast(host)
    cost = "" if is_fine else f"every epoch reads {_amount(data)} again, file by file"
    yield Reading(value, threshold, cost, "copy the data to a local solid disk; pack small files together")


def read_rate(host: Host) -> Iterator[Reading]:
    """How fast it gives them."""
    data = _data(host)
    if host.mount_of(str(data.place)).kind in _IN_MEMORY:
        raise NotApplicableError("the data are in memory")
    if host.read_rate is None:
        raise NotApplicableError("not measured on a recorded machine")
    rate = host.read_rate()
    value = f"{rate / 1e6:.0f} MB/s; {_amount(data)}"
    threshold = f"{LEAST_RATE / 1e6:.0f} MB/s, or data that fit in half of the free memory"
    is_fine = rate >= LEAST_RATE or _is_cached(host, data)
    cost = "" if is_fine else f"an epoch takes {data.size / rate:.0f} s or more to read"
    yield Reading(value, threshold, cost, "a faster disk; larger files; smaller pictures, decoded beforehand")


def _rotates(host: Host, mount: Mount) -> bool:
    if mount.source.startswith(_VIRTUAL_DISKS):
        return False
    queue = f"/sys/dev/block/{mount.device}/queue"
    if not host.names(queue):
        queue = f"/sys/dev/block/{mount.device}/../queue"  # of the disk that it is a partition of
    return bool(host.names(queue)) and bool(host.number(f"{queue}/rotational"))


def _is_fast(host: Host) -> bool:
    """Whether that is known."""
    with contextlib.suppress(NotApplicableError, NotReadableError):
        return host.read_rate is not None and host.read_rate() >= LEAST_RATE
    return False


def _data(host: Host) -> DataFiles:
    """Raises `NotApplicableError`."""
    if host.data is None:
        raise NotApplicableError("no data are known: name them with --data")
    return host.data


def _amount(data: DataFiles) -> str:
    return f"{'' if data.complete else 'more than '}{spelled(data.size)}"


def _is_cached(host: Host, data: DataFiles) -> bool:
    """Whether the kernel keeps them in memory after the first epoch."""
    return data.complete and data.size <= host.free_memory()[0] / 2


def numa(host: Host) -> Iterator[Reading]:
    """Whether threads compute on memory of other processors."""
    allowed = host.allowed_cpus()
    nodes = cpu_nodes(host)
    if len(nodes) < 2:
        raise NotApplicableError("one node")
    used = {node for node, cpus in nodes.items() if cpus & allowed}
    memory_of = host.field("/proc/self/status", "Mems_allowed_list")
    near = used & listed_numbers(memory_of, "/proc/self/status")
    balanced = False
    with contextlib.suppress(NotReadableError):  # of a kernel that cannot
        balanced = bool(host.number("/proc/sys/kernel/numa_balancing"))
    value = f"CPUs of {len(used)} of {len(nodes)} nodes, memory of {memory_of}"
    threshold = "memory beside the CPUs; one node, or balancing by the kernel"
    cost, fix = "", ""
    if near != used:
        cost, fix = "memory of another processor: half as fast", "numactl --localalloc"
    elif len(used) > 1 and not balanced:
        cost = "threads use memory of another processor: up to half as fast"
        fix = "numactl --cpunodebind=0 --membind=0; sysctl kernel.numa_balancing=1"
    yield Reading(value, threshold, cost, fix)


def cpu_nodes(host: Host) -> dict[int, frozenset[int]]:
    """The CPUs of each node that has some. Raises `NotReadableError`."""
    folder = "/sys/devices/system/node"
    names = [each for each in host.names(folder) if each.startswith("node") and each[4:].isdecimal()]
    found = {int(name[4:]): host.numbers(f"{folder}/{name}/cpulist") for name in names}
    return {node: cpus for node, cpus in found.items() if cpus}
