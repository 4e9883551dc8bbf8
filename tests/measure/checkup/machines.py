"""Recorded machines: what is in /proc and /sys of healthy ones, and what `nvidia-smi` says there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from autoaccel.measure.checkup.data_files import DataFiles
from autoaccel.measure.checkup.host import Host
from autoaccel.measure.checkup.nvidia import SAMPLES, Nvidia
from autoaccel.measure.checkup.python_facts import PythonFacts

Files = Mapping[str, str | None]
"""By name in the root; None: there is no such file."""

GIB = 2**30
SMI = "usr/bin/nvidia-smi"
_PROGRAM = """#!/bin/sh
case "$*" in
  *clocks_event_reasons*) [ -e "$0.old" ] && echo 'Field "clocks_event_reasons.active" is no field' && exit 2 ;;
esac
case "$*" in
  *loop-ms*) cat "$0.used"; [ -e "$0.ends" ] || exec sleep 60 ;;
  *) cat "$0.csv"; [ ! -e "$0.fails" ] ;;
esac
"""
MOUNTS = """\
21 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw
22 21 0:21 / /proc rw - proc proc rw
23 21 0:22 / /dev/shm rw,nosuid - tmpfs tmpfs rw{shm}
24 21 {device} / /data rw,relatime - {kind} /dev/nvme0n1p1 rw
"""
MEMINFO = """\
MemTotal:       {total} kB
MemFree:        100000 kB
MemAvailable:   {available} kB
SwapTotal:      {swap} kB
SwapFree:       {swap_free} kB
"""


def meminfo(total: int = 256, available: int = 200, swap: int = 8, swapped: int = 0) -> str:
    """In GiB."""
    kib = 2**20
    return MEMINFO.format(
        total=total * kib, available=available * kib, swap=swap * kib, swap_free=(swap - swapped) * kib
    )


def mounts(shm: str = "", device: str = "259:1", kind: str = "ext4") -> str:
    return MOUNTS.format(shm=shm, device=device, kind=kind)


def gpu(number: int = 0, **given: str) -> str:
    """A line of what `nvidia-smi` says of a GPU."""
    fields = {
        "index": f"{number}",
        "bus": f"00000000:{'3B' if number == 0 else 'AF'}:00.0",
        "driver": "580.95.05",
        "limit": "700.00",
        "usual": "700.00",
        "width": "16",
        "widest": "16",
        "used": "4",
        "memory": "81559",
        "reasons": "0x0000000000000001",
    }
    return ", ".join((fields | given).values()) + "\n"


def used(*shares: str, samples: int = SAMPLES) -> str:
    """What it says of the use of GPUs, again and again."""
    return "".join(f"{each}\n" for each in shares) * samples


def environ(**variables: str) -> str:
    return "".join(f"{name}={value}\0" for name, value in {"HOME": "/root", **variables}.items())


def status(cpus: str = "0-31", nodes: str = "0-1") -> str:
    return f"Name:\tpython\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{nodes}\n"


def net(name: str, index: int, speed: str | None, state: str = "up") -> Files:
    folder = f"sys/class/net/{name}"
    return {f"{folder}/operstate": f"{state}\n", f"{folder}/ifindex": f"{index}\n", f"{folder}/speed": speed}


SERVER: Files = {
    "proc/self/status": status(),
    "proc/self/environ": environ(),
    "proc/self/cgroup": "0::/user.slice/job\n",
    "proc/self/mountinfo": mounts(),
    "proc/meminfo": meminfo(),
    "proc/loadavg": "0.42 0.30 0.20 2/900 4242\n",
    "proc/stat": "cpu  1000 0 500 90000 100 0 10 20 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.10 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 total=0\n",
    "sys/devices/system/cpu/online": "0-31\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "3500000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3500000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
    "sys/devices/system/node/node0/cpulist": "0-15\n",
    "sys/devices/system/node/node1/cpulist": "16-31\n",
    "sys/fs/cgroup/user.slice/job/cpu.max": "max 100000\n",
    "sys/fs/cgroup/user.slice/cpu.max": "3200000 100000\n",
    "sys/fs/cgroup/user.slice/cpu.stat": "usage_usec 5\nnr_periods 1000\nnr_throttled 3\nthrottled_usec 9\n",
    "sys/fs/cgroup/user.slice/job/memory.max": "max\n",
    "sys/fs/cgroup/user.slice/job/memory.current": "1000000\n",
    "sys/dev/block/259:1/queue/rotational": "0\n",
    "sys/dev/block/8:2/queue/rotational": "1\n",
    "sys/bus/pci/devices/0000:3b:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:3b:00.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:3b:00.0/numa_node": "0\n",
    "sys/bus/pci/devices/0000:af:00.0/numa_node": "1\n",
    "sys/class/infiniband/mlx5_0/name": "mlx5_0\n",
    **net("lo", 1, None, "unknown"),
    **net("eth0", 2, "25000\n"),
    **net("eth1", 3, "10000\n"),
    **net("docker0", 4, None),
    "data/train.bin": "x" * 1000,
    SMI: _PROGRAM,
    f"{SMI}.csv": gpu(0) + gpu(1),
    f"{SMI}.used": used("0", "0"),
}
"""Two processors, two GPUs, control groups of version 2."""

VIRTUAL: Files = {
    "proc/self/status": status("0-1", "0"),
    "proc/self/environ": environ(),
    "proc/self/cgroup": "9:name=systemd:/\n4:memory:/api/679a\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/\n",
    "proc/self/mountinfo": (
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684084k\n"
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resv_strict,resuid=65534\n"
        "30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684084k\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
    ),
    "proc/meminfo": meminfo(24, 22, 0),
    "proc/loadavg": "0.19 0.20 0.18 1/117 27151\n",
    "proc/stat": "cpu  1061630 184014 173002 772847 11316 0 1548 2471 0 0\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/pressure/memory": "some avg10=0.61 avg60=0.33 avg300=0.53 total=94503030\n",
    "sys/devices/system/cpu/online": "0-1\n",
    "sys/devices/system/node/node0/cpulist": "0-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/api/679a/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/api/679a/memory.usage_in_bytes": "500000000\n",
    "sys/fs/cgroup/unified/cgroup.procs": "1\n",
    "sys/dev/block/254:0/queue/rotational": "1\n",
    "data/train.bin": "x" * 1000,
}
"""A virtual machine with two CPUs and no GPU; control groups of both versions."""

LAPTOP: Files = {
    **VIRTUAL,
    "proc/self/cgroup": "0::/user.slice/session\n",
    "proc/pressure/memory": None,
    "proc/meminfo": meminfo(16, 9, 4, 1),
    "sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n",
    "sys/bus/pci/devices/0000:00:02.0/class": "0x030000\n",
}
"""Older: its kernel counts no pressure."""

PYTHON = PythonFacts("2.13.0", "12.6", 32, True, "12.0.0", True, "0.28.0", True)
DATA = DataFiles(Path("/data"), 300 * GIB, True)


def record(root: Path, *layers: Files) -> Path:
    """Write the files of a machine; later layers stand over earlier ones."""
    files: dict[str, str | None] = {}
    for each in layers:
        files |= each
    for name, content in files.items():
        if content is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
    if (root / SMI).exists():
        (root / SMI).chmod(0o755)
    return root


def host(
    root: Path,
    python: PythonFacts | str = PYTHON,
    data: DataFiles | None = DATA,
    read_rate: Callable[[], float] | None = lambda: 2e9,
    **facts: object,
) -> Host:
    """A recorded machine as checks see it; `facts` are those of its Python that are not as usual."""
    if facts and not isinstance(python, str):
        python = dataclasses.replace(python, **facts)  # type: ignore[arg-type]
    program = root / SMI
    return Host(root, data, read_rate, python, Nvidia(str(program) if program.exists() else None))
