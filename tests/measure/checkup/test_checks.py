"""What `doctor` finds: troubles planted on healthy machines, each by the check that is for it and by no other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autoaccel.measure.checkup.checks import CHECKS, rows
from autoaccel.measure.checkup.data_files import DataFiles
from autoaccel.measure.checkup.host import Host
from autoaccel.measure.checkup.readings import CheckRow, NotReadableError, Status
from tests.measure.checkup import machines
from tests.measure.checkup.machines import (
    GIB,
    LAPTOP,
    PYTHON,
    SERVER,
    SMI,
    VIRTUAL,
    Files,
    environ,
    gpu,
    meminfo,
    mounts,
    net,
    record,
    status,
    used,
)

NO_GPU: Files = {SMI: None, "sys/bus/pci/devices/0000:3b:00.0/vendor": "0x8086\n"}
CPUFREQ = "sys/devices/system/cpu/cpu0/cpufreq"


@dataclass(frozen=True)
class Trouble:
    """What is wrong, which checks say so, and some words of what they say."""

    files: Files
    found: str
    said: str = ""
    machine: Files = field(default_factory=lambda: SERVER)
    facts: dict[str, Any] = field(default_factory=dict)


def slow_disk(device: str = "259:1") -> Files:
    return {f"sys/dev/block/{device}/queue/rotational": "1\n"}


TROUBLES = {
    "bound to few CPUs": Trouble({"proc/self/status": status("0-3,16")}, "cpus", "5 of 32 by affinity"),
    "bound to one CPU of two": Trouble(
        {"proc/self/status": status("1", "0")}, "cpus", "up to 50%", VIRTUAL, {"threads": 1}
    ),
    "quota of version 2": Trouble(
        {"sys/fs/cgroup/user.slice/job/cpu.max": "150000 100000\n"}, "cpus torch-threads", "1.5 of 32 by the quota"
    ),
    "quota of a group above": Trouble({"sys/fs/cgroup/user.slice/cpu.max": "200000 100000\n"}, "cpus torch-threads"),
    "quota of version 1": Trouble(
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n"}, "cpus torch-threads", "0.5 of 2", VIRTUAL, {"threads": 2}
    ),
    "throttled": Trouble(
        {"sys/fs/cgroup/user.slice/cpu.stat": "nr_periods 1000\nnr_throttled 400\n"}, "cpu-throttling", "40%"
    ),
    "others compute": Trouble({"proc/loadavg": "24.00 20.00 1.00 3/900 1\n"}, "load", "75% of the CPUs"),
    "stolen time": Trouble({"proc/stat": "cpu  100 0 100 700 0 0 0 100 0 0\n"}, "steal", "10% of the CPUs"),
    "a capped clock": Trouble({f"{CPUFREQ}/scaling_max_freq": "1200000\n"}, "cpu-clock", "66% of the clock"),
    "the lowest clock": Trouble({f"{CPUFREQ}/scaling_driver": "acpi-cpufreq\n"}, "cpu-clock", "the lowest clock"),
    "two nodes, not balanced": Trouble({"proc/sys/kernel/numa_balancing": "0\n"}, "numa", "up to half as fast"),
    "two nodes, a kernel without": Trouble({"proc/sys/kernel/numa_balancing": None}, "numa"),
    "memory of the other node": Trouble({"proc/self/status": status("0-15", "1")}, "numa gpu-node", "half as fast"),
    "little memory": Trouble({"proc/meminfo": meminfo(available=6)}, "memory", "6 GiB free of 256 GiB"),
    "a limit of version 2": Trouble(
        {"sys/fs/cgroup/user.slice/job/memory.max": "1000001000\n"}, "memory", "953 MiB free by the limit"
    ),
    "a limit of version 1": Trouble(
        {"sys/fs/cgroup/memory/api/679a/memory.limit_in_bytes": "600000000\n"}, "memory", "95.4 MiB free", VIRTUAL
    ),
    "swapped out": Trouble({"proc/meminfo": meminfo(swap=64, swapped=60)}, "swap", "60 GiB in use"),
    "eager to swap": Trouble({"proc/sys/vm/swappiness": "100\n"}, "swappiness", "sysctl"),
    "waiting for memory": Trouble(
        {"proc/pressure/memory": "some avg10=0.00 avg60=31.00 avg300=0.00 total=0\n"}, "memory-pressure", "31%"
    ),
    "Docker's /dev/shm": Trouble({"proc/self/mountinfo": mounts(",size=65536k")}, "shared-memory", "64 MiB"),
    "a small part of memory": Trouble({"proc/self/mountinfo": mounts(",size=0%")}, "shared-memory"),
    "no /dev/shm": Trouble(
        {"proc/self/mountinfo": "24 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n"}, "shared-memory", "no /dev/shm"
    ),
    "a rotating disk": Trouble(
        slow_disk(), "data-disk read-rate", "on a rotating disk; 300 GiB in /data", facts={"read_rate": lambda: 9e6}
    ),
    "a rotating disk, not measured": Trouble(slow_disk(), "data-disk", facts={"read_rate": None}),
    "a rotating disk with partitions": Trouble(
        {**slow_disk("8:0/sda"), "proc/self/mountinfo": mounts(device="8:0/sda/sda1"),
         "sys/dev/block/8:0/sda/sda1/start": "0\n"}, "data-disk", "on a rotating disk", facts={"read_rate": None}
    ),
    "data over NFS": Trouble(
        {"proc/self/mountinfo": mounts(kind="nfs4", device="0:50")}, "data-disk", "network", facts={"read_rate": None}
    ),
    "data over FUSE": Trouble(
        {"proc/self/mountinfo": mounts(kind="fuse.sshfs", device="0:50")}, "data-disk read-rate",
        facts={"read_rate": lambda: 99e6},
    ),
    "a slow disk": Trouble({}, "read-rate", "an epoch takes 8053 s", facts={"read_rate": lambda: 40e6}),
    "too few OpenMP threads": Trouble(
        {**NO_GPU, "proc/self/environ": environ(OMP_NUM_THREADS="1")}, "thread-variables", "97% of the CPUs idle"
    ),
    "too many MKL threads": Trouble({"proc/self/environ": environ(MKL_NUM_THREADS="64")}, "thread-variables", "64"),
    "no number of threads": Trouble({"proc/self/environ": environ(OMP_NUM_THREADS="all")}, "thread-variables", "unset"),
    "more threads than CPUs": Trouble({}, "torch-threads", "64 threads", facts={"threads": 64}),
    "Pillow without turbo": Trouble({}, "images", "without libjpeg-turbo", facts={"turbo": False}),
    "a GPU without a driver": Trouble({SMI: None}, "gpu-driver", "without nvidia-smi"),
    "a driver that fails": Trouble(
        {f"{SMI}.csv": "NVIDIA-SMI has failed because it couldn't communicate.\n", f"{SMI}.fails": ""},
        "gpu-driver", "NVIDIA-SMI has failed",
    ),
    "a driver too old": Trouble({f"{SMI}.csv": gpu(driver="470.82.01")}, "gpu-driver", "470.82.01"),
    "a driver too old for CUDA 13": Trouble(
        {f"{SMI}.csv": gpu(driver="570.10")}, "gpu-driver", facts={"cuda": "13.0"}
    ),
    "a torch for CPUs": Trouble({}, "torch-build", "built for CUDA", facts={"cuda": None}),
    "a torch that sees none": Trouble({}, "torch-build", "CUDA_VISIBLE_DEVICES", facts={"sees_gpu": False}),
    "too hot": Trouble({f"{SMI}.csv": gpu(reasons="0x0000000000000060") + gpu(1)}, "gpu-clocks", "heat and heat"),
    "at the power cap": Trouble({f"{SMI}.csv": gpu(0) + gpu(1, reasons="0x4")}, "gpu-clocks", "the power cap"),
    "power brake, by an old driver": Trouble(
        {f"{SMI}.csv": gpu(reasons="0x80"), f"{SMI}.old": ""}, "gpu-clocks", "the power supply"
    ),
    "a low power cap": Trouble({f"{SMI}.csv": gpu(limit="350.00") + gpu(1)}, "gpu-power", "50% of the power"),
    "a narrow bus": Trouble({f"{SMI}.csv": gpu(0) + gpu(1, width="4")}, "gpu-bus", "4 times as long"),
    "memory held by others": Trouble({f"{SMI}.csv": gpu(used="60000")}, "gpu-memory", "74% of its memory"),
    "used by others": Trouble({f"{SMI}.used": used("97", "0")}, "gpu-utilisation", "97% in use"),
    "far from the GPU": Trouble({"proc/self/status": status("0-15", "0")}, "gpu-node", "--cpunodebind=1"),
    "an interface that is not there": Trouble(
        {"proc/self/environ": environ(NCCL_SOCKET_IFNAME="ens5")}, "nccl-interface", "NCCL does not start"
    ),
    "the slow interface": Trouble(
        {"proc/self/environ": environ(NCCL_SOCKET_IFNAME="=eth1")}, "nccl-interface", "eth0 has 25 Gb/s"
    ),
    "all but the fast interface": Trouble(
        {"proc/self/environ": environ(NCCL_SOCKET_IFNAME="^lo,docker,eth0")}, "nccl-interface", "eth1, 10 Gb/s"
    ),
    "the slow interface comes first": Trouble(net("eth0", 2, "1000\n"), "nccl-interface", "eth1 has 10 Gb/s"),
    "no network": Trouble(
        {f"sys/class/net/{name}/operstate": "down\n" for name in ("lo", "eth0", "eth1", "docker0")}, "nccl-interface"
    ),
    "no way between GPUs": Trouble({"proc/self/environ": environ(NCCL_P2P_DISABLE="1")}, "nccl-links", "unset"),
    "no InfiniBand": Trouble({"proc/self/environ": environ(NCCL_IB_DISABLE="1")}, "nccl-links"),
}  # fmt: skip


def found(checked: list[CheckRow]) -> list[str]:
    """Each check once."""
    return list(dict.fromkeys(each.name for each in checked if each.status is Status.FOUND))


def said(checked: list[CheckRow]) -> str:
    return "\n".join(f"{each.value} | {each.cost} | {each.fix}" for each in checked if each.status is Status.FOUND)


@pytest.mark.parametrize("name", TROUBLES)
def test_a_planted_trouble_is_found(tmp_path: Path, name: str) -> None:
    trouble = TROUBLES[name]
    root = record(tmp_path, trouble.machine, trouble.files)
    usual = {"threads": 2 if trouble.machine is VIRTUAL else 5}
    checked = rows(machines.host(root, **usual | trouble.facts))
    assert found(checked) == trouble.found.split()
    assert trouble.said in said(checked)
    assert [each for each in checked if each.status is Status.UNKNOWN] == []
    assert all(each.threshold and each.cost and each.fix for each in checked if each.status is Status.FOUND)


def test_every_check_finds_something() -> None:
    assert {each for trouble in TROUBLES.values() for each in trouble.found.split()} == {check.name for check in CHECKS}
    assert len(TROUBLES) >= 20


def test_the_page_names_every_check(repository: Path) -> None:
    page = (repository / "docs" / "doctor.md").read_text(encoding="utf-8")
    rows = page.split("## Checks\n")[1].split("\n## ")[0].splitlines()
    named = [name for line in rows for name in re.findall("`([^`]+)`", line.split("|")[1] if "|" in line else "")]
    assert named == [check.name for check in CHECKS]


HEALTHY: dict[str, tuple[Files, dict[str, Any]]] = {
    "a server": (SERVER, {}),
    "a server with an old driver": ({**SERVER, f"{SMI}.old": ""}, {}),
    "a virtual machine": (VIRTUAL, {"threads": 2}),
    "a laptop": (LAPTOP, {"threads": 2, "data": DataFiles(Path("/data"), GIB, True), "read_rate": lambda: 20e6}),
    "a container with all it needs": (
        {**SERVER, "sys/fs/cgroup/user.slice/job/cpu.max": "1600000 100000\n"}, {"threads": 16},
    ),
    "small data on a rotating disk": ({**SERVER, **slow_disk()}, {"data": DataFiles(Path("/data"), GIB, True)}),
    "a fast disk that says it rotates": ({**SERVER, **slow_disk()}, {}),
    "fast data over the network": ({**SERVER, "proc/self/mountinfo": mounts(kind="nfs4", device="0:50")}, {}),
    "a virtual disk that says it rotates": (VIRTUAL, {"threads": 2, "read_rate": None}),
    "data in memory": ({**SERVER, "proc/self/mountinfo": mounts(kind="tmpfs", device="0:60")}, {}),
    "ranks with a thread each": ({**SERVER, "proc/self/environ": environ(OMP_NUM_THREADS="1", WORLD_SIZE="2")}, {}),
    "the fast interface by name": ({**SERVER, "proc/self/environ": environ(NCCL_SOCKET_IFNAME="eth")}, {}),
    "no GPU": ({**SERVER, **NO_GPU}, {}),
    "no Python": (SERVER, {"python": "no interpreter with torch"}),
    "no libraries": (SERVER, {"python": PYTHON.__class__()}),
    "no data": (SERVER, {"data": None, "read_rate": None}),
    "a recorded machine": (SERVER, {"read_rate": None}),
    "unlimited CPUs of version 1": ({**VIRTUAL, "proc/self/cgroup": "1:cpu,cpuacct:/docker/1\n"}, {"threads": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_on_a_healthy_machine_there_is_nothing(tmp_path: Path, name: str) -> None:
    files, facts = HEALTHY[name]
    checked = rows(machines.host(record(tmp_path, files), **facts))
    assert [each for each in checked if each.status in (Status.FOUND, Status.UNKNOWN)] == []
    assert {each.name for each in checked} == {check.name for check in CHECKS}


def test_on_a_server_nothing_is_left_out(tmp_path: Path) -> None:
    checked = rows(machines.host(record(tmp_path, SERVER)))
    assert {each.status for each in checked} == {Status.HEALTHY}
    assert [each.subject for each in checked if each.name == "gpu-bus"] == ["GPU 0", "GPU 1"]


GARBLED = {
    "proc/self/status": "cpus numa gpu-node thread-variables torch-threads",
    "proc/self/environ": "thread-variables nccl-interface nccl-links",
    "proc/self/mountinfo": "shared-memory data-disk read-rate",
    "proc/meminfo": "memory swap swappiness shared-memory",
    "proc/loadavg": "load",
    "proc/stat": "steal",
    "proc/sys/vm/swappiness": "swappiness",
    "proc/pressure/memory": "memory-pressure",
    "sys/devices/system/cpu/online": "cpus load thread-variables torch-threads",
    f"{CPUFREQ}/scaling_max_freq": "cpu-clock",
    "sys/devices/system/node/node1/cpulist": "numa gpu-node",
    "sys/dev/block/259:1/queue/rotational": "data-disk",
    "sys/bus/pci/devices/0000:af:00.0/numa_node": "gpu-node",
    "sys/class/net/eth1/ifindex": "nccl-interface",
    f"{SMI}.csv": "gpu-driver",
    f"{SMI}.used": "gpu-utilisation",
}
ENDS: Files = {f"{SMI}.ends": ""}


@pytest.mark.parametrize("garbage", ["nonsense - of all sorts\n", "", None])
@pytest.mark.parametrize("path", GARBLED)
def test_what_cannot_be_read_is_not_healthy(tmp_path: Path, path: str, garbage: str | None) -> None:
    root = record(tmp_path, SERVER, {path: garbage}, ENDS)
    if garbage is None and path in ("proc/pressure/memory", "sys/dev/block/259:1/queue/rotational"):
        return  # kernels without are healthy
    if not garbage and path == "sys/devices/system/node/node1/cpulist":
        return  # a node without CPUs; the folder is gone, too
    if path == "proc/self/environ" and garbage is not None:
        return  # any text is an environment
    checked = rows(machines.host(root, data=DataFiles(Path("/data"), GIB, True)))
    states = {each.name: each.status for each in checked}
    wanted = GARBLED[path].split()
    if path == "proc/self/mountinfo" and garbage == "":
        wanted = ["data-disk", "read-rate"]  # no /dev/shm is a trouble
    assert {name: states[name] for name in wanted if states[name] is Status.HEALTHY} == {}
    assert any(each.status is Status.UNKNOWN for each in checked) or path == f"{SMI}.csv"
    assert all(each.value for each in checked if each.status is Status.UNKNOWN)


def test_of_an_empty_machine_nothing_is_known(tmp_path: Path) -> None:
    checked = rows(machines.host(tmp_path, python="not asked", data=None))
    assert {each.status for each in checked} == {Status.UNKNOWN, Status.ABSENT}


@pytest.mark.parametrize("field", ["limit", "width", "used", "reasons"])
def test_what_a_board_does_not_say_is_not_healthy(tmp_path: Path, field: str) -> None:
    root = record(tmp_path, SERVER, {f"{SMI}.csv": gpu(0, **{field: "[N/A]"})})
    unknown = [each for each in rows(machines.host(root)) if each.status is Status.UNKNOWN]
    assert ["[N/A]" in each.value for each in unknown] == [True]


def test_a_rate_that_cannot_be_measured(tmp_path: Path) -> None:
    def fails() -> float:
        raise NotReadableError("/data/x: cannot be read past the cache: Invalid argument")

    checked = rows(machines.host(record(tmp_path, SERVER), read_rate=fails))
    assert [each.name for each in checked if each.status is Status.UNKNOWN] == ["read-rate"]


def test_this_machine_can_be_read() -> None:
    """Whatever its state, which tests must not hang on."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no Linux")
    assert [each for each in rows(Host()) if each.status is Status.UNKNOWN] == []


def test_nothing_is_written(tmp_path: Path) -> None:
    root = record(tmp_path, SERVER)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    rows(machines.host(root))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
