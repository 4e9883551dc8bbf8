"""Files of /proc and /sys, of this machine or of a recorded one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from autoaccel.measure.checkup.data_files import DataFiles
from autoaccel.measure.checkup.nvidia import Gpu, Nvidia
from autoaccel.measure.checkup.python_facts import PythonFacts
from autoaccel.measure.checkup.readings import NotApplicableError, NotReadableError

HERE = Path("/")
_CONTROLLERS = {"cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu"), "memory": ("memory",)}
"""Where version 1 of control groups is mounted."""


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a file system is, what sort of one, and its device: the number, such as `8:1`, and the name."""

    place: str
    kind: str
    device: str
    source: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Host:
    """What checks may ask. Everything is read when it is asked for, and nothing is written."""

    root: Path = HERE
    """The folder that holds `proc` and `sys`."""
    data: DataFiles | None = None
    """What the script reads, where that is known."""
    read_rate: Callable[[], float] | None = None
    """Bytes a second in which the disk gives these data; None where it is not to be measured. Raises
    `NotReadableError` and `NotApplicableError`."""
    python: PythonFacts | str = "not asked"
    """What the script's Python says, or why nothing is known of it."""
    nvidia: Nvidia = field(default_factory=Nvidia)

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """Raises `NotReadableError`."""
        try:
            return self.at(path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise NotReadableError(f"{path}: {(error.strerror or str(error)).lower()}") from error

    def number(self, path: str) -> float:
        """Raises `NotReadableError`."""
        text = self.text(path).strip()
        with contextlib.suppress(ValueError):
            return float(text)
        raise garbled(path, text)

    def field(self, path: str, name: str) -> str:
        """What a line `name: value` or `name value` says. Raises `NotReadableError`."""
        for line in self.text(path).splitlines():
            key, _, rest = line.replace(":", " ", 1).partition(" ")
            key, _, more = key.partition("\t")
            if key == name:
                return f"{more} {rest}".strip()
        raise NotReadableError(f"{path}: says nothing of {name}")

    def amount(self, path: str, name: str) -> float:
        """The number of such a line, in bytes where it is in kB. Raises `NotReadableError`."""
        said = self.field(path, name)
        number, _, unit = said.partition(" ")
        try:
            return float(number) * (1024 if unit == "kB" else 1)
        except ValueError:
            raise garbled(path, f"{name} {said}") from None

    def numbers(self, path: str) -> frozenset[int]:
        """What a list such as `0-3,8` names. Raises `NotReadableError`."""
        return listed_numbers(self.text(path).strip(), path)

    def names(self, path: str) -> list[str]:
        """What is in a folder, in order; nothing where there is no folder."""
        with contextlib.suppress(OSError):
            return sorted(os.listdir(self.at(path)))  # noqa: PTH208 - names alone
        return []

    def variable(self, name: str) -> str:
        """A variable of the environment, empty where it is not set. Raises `NotReadableError`."""
        for each in self.text("/proc/self/environ").split("\0"):
            key, _, value = each.partition("=")
            if key == name:
                return value.strip()
        return ""

    def allowed_cpus(self) -> frozenset[int]:
        """Those that this process may run on. Raises `NotReadableError`."""
        return listed_numbers(self.field("/proc/self/status", "Cpus_allowed_list"), "/proc/self/status")

    def online_cpus(self) -> frozenset[int]:
        """At least one. Raises `NotReadableError`."""
        path = "/sys/devices/system/cpu/online"
        if found := self.numbers(path):
            return found
        raise garbled(path, "")

    def usable_cpus(self) -> tuple[float, str]:
        """How many CPUs' time this process gets, and what sets the limit. Raises `NotReadableError`."""
        limits = [(float(len(self.allowed_cpus() & self.online_cpus())), "affinity")]
        limits += [(quota, "the quota of its control group") for quota in self.quotas()]
        return min(limits)

    def quotas(self) -> Iterator[float]:
        """In CPUs, on every level of the control groups above this process."""
        for folder, version2 in self.groups("cpu"):
            with contextlib.suppress(NotReadableError, ValueError):
                if version2:
                    quota, period = map(float, self.text(f"{folder}/cpu.max").split())  # "max" where there is none
                else:
                    quota, period = (self.number(f"{folder}/cpu.cfs_{each}_us") for each in ("quota", "period"))
                if quota > 0 and period > 0:
                    yield quota / period

    def free_memory(self) -> tuple[float, str]:
        """Bytes that programs may still use, and what sets the limit. Raises `NotReadableError`."""
        limits = [(self.amount("/proc/meminfo", "MemAvailable"), "")]
        for folder, version2 in self.groups("memory"):
            names = ("memory.max", "memory.current") if version2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
            with contextlib.suppress(NotReadableError):  # "max" where there is no limit
                limit, used = (self.number(f"{folder}/{name}") for name in names)
                limits.append((max(0.0, limit - used + self._cached(folder)), "the limit of its control group"))
        return min(limits)

    def _cached(self, folder: str) -> float:
        for name in ("total_inactive_file", "inactive_file"):
            with contextlib.suppress(NotReadableError):
                return self.amount(f"{folder}/memory.stat", name)
        return 0.0

    def groups(self, controller: str) -> Iterator[tuple[str, bool]]:
        """The folders of this process's control groups, up to the root, and whether they are of version 2."""
        with contextlib.suppress(NotReadableError):
            for line in self.text("/proc/self/cgroup").splitlines():
                _, names, group = line.split(":", 2)
                if names and controller not in names.split(","):
                    continue
                for mounted in _CONTROLLERS[controller] if names else ("", "unified"):
                    base = Path("/sys/fs/cgroup", mounted)
                    # In a container the path may lie outside of what is mounted: its root then stands for the group.
                    place = base / group.lstrip("/")
                    for folder in (place, *place.parents):
                        if folder.is_relative_to(base) and self.at(str(folder)).is_dir():
                            yield str(folder), not names

    def mounts(self) -> Iterator[Mount]:
        """Raises `NotReadableError`."""
        for line in self.text("/proc/self/mountinfo").splitlines():
            before, _, after = line.partition(" - ")
            try:
                _, _, device, _, place, *_ = before.split()
                kind, source, options = after.split(" ", 2)
            except ValueError:
                raise garbled("/proc/self/mountinfo", line) from None
            yield Mount(place.replace("\\040", " "), kind, device, source, tuple(options.split(",")))

    def mount_of(self, path: str) -> Mount:
        """The file system that a path lies on: the deepest, of these the last. Raises `NotReadableError`."""
        found = [each for each in self.mounts() if Path(path).is_relative_to(each.place)]
        if not found:
            raise NotReadableError(f"/proc/self/mountinfo: says nothing of {path}")
        return max(reversed(found), key=lambda each: len(each.place))

    @cached_property
    def gpus(self) -> list[Gpu]:
        """NVIDIA's. Raises `NotReadableError`."""
        return self.nvidia.gpus()

    def gpu_count(self) -> int:
        """0 where it is not known."""
        with contextlib.suppress(NotReadableError):
            return len(self.gpus)
        return 0

    def answers(self) -> PythonFacts:
        """Raises `NotApplicableError` where nothing is known of the script's Python."""
        if isinstance(self.python, str):
            raise NotApplicableError(self.python)
        return self.python


def listed_numbers(text: str, path: str) -> frozenset[int]:
    """What `0-3,8` names. Raises `NotReadableError`."""
    found: set[int] = set()
    try:
        for part in text.split(",") if text else ():
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    except ValueError:
        raise garbled(path, text) from None
    return frozenset(found)


def spelled(bytes_: float) -> str:
    """An amount of memory."""
    units: Sequence[str] = ("bytes", "KiB", "MiB", "GiB", "TiB")
    unit = 0
    while bytes_ >= 1024 and unit < len(units) - 1:
        bytes_, unit = bytes_ / 1024, unit + 1
    return f"{bytes_:.3g} {units[unit]}" if bytes_ < 1000 else f"{bytes_:.0f} {units[unit]}"


def garbled(path: str, text: str) -> NotReadableError:
    return NotReadableError(f"{path}: cannot be understood: {text[:40]!r}")
