"""Threads, images, and how processes find one another."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

from autoaccel.measure.checkup.host import Host
from autoaccel.measure.checkup.readings import NotApplicableError, NotReadableError, Reading

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_LINKS = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE")


def thread_variables(host: Host) -> Iterator[Reading]:
    """OpenMP's and MKL's."""
    usable = math.ceil(host.usable_cpus()[0])
    set_to = {name: value for name in _THREADS if (value := host.variable(name))}
    if not set_to:
        yield Reading("not set", "not set, or the usable CPUs")
        return
    for name, value in set_to.items():
        said, threshold = f"{name}={value}", f"{usable} usable CPUs"
        # OpenMP takes a list, one number for each level of nesting.
        if not (first := value.partition(",")[0].strip()).isdecimal() or int(first) == 0:
            yield Reading(said, threshold, "it is no number, and is left aside", f"unset {name}")
        elif int(first) > usable:
            cost = f"{int(first)} threads wait for one another on {usable} CPUs"
            yield Reading(said, threshold, cost, f"export {name}={usable}")
        elif int(first) < usable and not host.gpu_count():
            yield Reading(said, threshold, f"{1 - int(first) / usable:.0%} of the CPUs idle", f"unset {name}")
        else:
            yield Reading(said, threshold)


def torch_threads(host: Host) -> Iterator[Reading]:
    """What torch makes of it: it does not know of quotas."""
    threads = host.answers().threads
    if threads is None:
        raise NotApplicableError("no torch")
    usable = math.ceil(host.usable_cpus()[0])
    cost = f"{threads} threads wait for one another on {usable} CPUs" if threads > usable else ""
    yield Reading(f"{threads}", f"{usable} usable CPUs", cost, f"export OMP_NUM_THREADS={usable}")


def images(host: Host) -> Iterator[Reading]:
    """What decodes pictures."""
    facts = host.answers()
    if facts.pillow is None and facts.torchvision is None:
        raise NotApplicableError("neither Pillow nor torchvision")
    said, slow = [], facts.pillow is not None and facts.turbo is False
    if facts.pillow is not None:
        # Pillow-SIMD's versions are Pillow's with a `.postN`.
        name = "Pillow-SIMD" if ".post" in facts.pillow else "Pillow"
        said.append(f"{name} {facts.pillow} with{'out' if slow else ''} libjpeg-turbo")
    if facts.torchvision is not None:
        said.append(f"torchvision.io {'with' if facts.decodes else 'without'} decoders")
    cost = "JPEG files take two to six times as long to decode" if slow else ""
    fix = "pip install --force-reinstall pillow, whose wheels have it; decode with torchvision.io"
    yield Reading(", ".join(said), "libjpeg-turbo", cost, fix)


def nccl_interface(host: Host) -> Iterator[Reading]:
    """Through which network ranks talk."""
    wish = host.variable("NCCL_SOCKET_IFNAME")
    if host.gpu_count() < 2 and not wish and not host.variable("WORLD_SIZE"):
        raise NotApplicableError("no two ranks here")
    folder = "/sys/class/net"
    up = [each for each in host.names(folder) if _is_up(host, each)]
    candidates = [each for each in up if each != "lo" and not each.startswith("docker")] or up
    taken = [each for each in up if _wanted(each, wish)] if wish else sorted(candidates, key=lambda n: _order(host, n))
    threshold = "the fastest that is up"
    if not up:
        yield Reading("none is up", threshold, "NCCL does not start", "ip link set NAME up")
        return
    if not taken:
        yield Reading(f"NCCL_SOCKET_IFNAME={wish}", threshold, "NCCL does not start: none is called so",
                      f"one of {', '.join(candidates)}")  # fmt: skip
        return
    speeds = {each: _speed(host, each) for each in candidates}
    best = max(speeds, key=lambda each: speeds[each])
    value = f"{taken[0]}, {_spelled(_speed(host, taken[0]))}" + (" by NCCL_SOCKET_IFNAME" if wish else "")
    cost = f"{best} has {_spelled(speeds[best])}: gradients take longer to exchange between machines"
    slower = speeds[best] > _speed(host, taken[0])
    yield Reading(value, threshold, cost if slower else "", f"export NCCL_SOCKET_IFNAME={best}")


def nccl_links(host: Host) -> Iterator[Reading]:
    """Whether ways between GPUs are switched off."""
    if host.gpu_count() < 2 and not host.variable("WORLD_SIZE"):
        raise NotApplicableError("no two ranks here")
    off = [each for each in _LINKS if host.variable(each) not in ("", "0")]
    if not host.names("/sys/class/infiniband"):
        off = [each for each in off if each != "NCCL_IB_DISABLE"]
    cost = "gradients take a slower way between GPUs" if off else ""
    yield Reading(", ".join(off) or "not set", "not set", cost, f"unset {' '.join(off)}")


def _is_up(host: Host, name: str) -> bool:
    with contextlib.suppress(NotReadableError):
        return host.text(f"/sys/class/net/{name}/operstate").strip() in ("up", "unknown")
    return False


def _order(host: Host, name: str) -> tuple[bool, float]:
    """NCCL takes InfiniBand's first, and else the first that the system names."""
    return not name.startswith("ib"), host.number(f"/sys/class/net/{name}/ifindex")


def _speed(host: Host, name: str) -> float:
    """In Mb/s; 0 where it is not known, as of what is no hardware."""
    with contextlib.suppress(NotReadableError):
        return max(0.0, host.number(f"/sys/class/net/{name}/speed"))
    return 0.0


def _spelled(speed: float) -> str:
    return f"{speed / 1000:g} Gb/s" if speed else "of unknown speed"


def _wanted(name: str, wish: str) -> bool:
    """As NCCL reads it: beginnings of names, `^` for all but these, `=` for names in full."""
    others = wish.startswith("^")
    names = wish.removeprefix("^").removeprefix("=").split(",")
    exact = wish.removeprefix("^").startswith("=")
    matches = any(name == each if exact else name.startswith(each) for each in names if each)
    return matches is not others
