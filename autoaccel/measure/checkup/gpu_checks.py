"""Driver, clocks, power, bus of GPUs, and their use by others."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from autoaccel.measure.checkup.host import Host, spelled
from autoaccel.measure.checkup.host_checks import cpu_nodes
from autoaccel.measure.checkup.nvidia import SAMPLES, Gpu
from autoaccel.measure.checkup.readings import NotApplicableError, NotReadableError, Reading

_OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
"""For each version of CUDA: https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html."""
_REASONS = {
    0x04: ("the power cap", "raise it (nvidia-smi -pl); usual where the board is fully used"),
    0x08: ("the hardware, for heat or power", "look at cooling and power supply"),
    0x20: ("heat", "look at cooling and the room's temperature"),
    0x40: ("heat, by the hardware", "look at cooling and the room's temperature"),
    0x80: ("the power supply", "look at cables and power supply"),
}
"""Of the bits of `clocks_event_reasons` those that cost something; the others are idling and settings."""
_MOST_USED = 0.1
_LEAST_POWER = 0.99
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def gpu_driver(host: Host) -> Iterator[Reading]:
    """Whether there is one, and one that torch's CUDA can use."""
    cost, fix = "training runs on the CPU", "install NVIDIA's driver, or load it: modprobe nvidia; reboot after updates"
    if host.nvidia.program is None:
        if not _has_board(host):
            raise NotApplicableError("no NVIDIA GPU")
        yield Reading("a GPU without nvidia-smi", "a driver", cost, fix)
        return
    try:
        gpus = host.gpus
    except NotReadableError as error:
        yield Reading(str(error), "a driver that answers", cost, fix)
        return
    if not gpus:
        raise NotApplicableError("no NVIDIA GPU")
    driver = gpus[0].fields["driver_version"]
    facts = None if isinstance(host.python, str) else host.python
    if facts is None or facts.torch is None or facts.cuda is None:
        yield Reading(driver, "what torch's CUDA needs, which is not known")
        return
    needed = _OLDEST_DRIVER.get(int(facts.cuda.partition(".")[0]), (0, 0))
    threshold = f"{needed[0]}.{needed[1]} for CUDA {facts.cuda}"
    try:
        enough = tuple(map(int, driver.split(".")[:2])) >= needed
    except ValueError:
        raise NotReadableError(f"nvidia-smi: driver_version is {driver!r}") from None
    yield Reading(driver, threshold, "" if enough else cost, "a newer driver, or a torch for an older CUDA")


def torch_build(host: Host) -> Iterator[Reading]:
    """Whether the script's torch sees the GPU."""
    _gpus(host)
    facts = host.answers()
    if facts.torch is None:
        raise NotApplicableError("no torch")
    value, fix = f"torch {facts.torch}", "install a torch that is built for CUDA"
    if facts.cuda is not None and not facts.sees_gpu:
        value = f"{value} sees none"
        fix = "look at CUDA_VISIBLE_DEVICES, and what `python -c 'import torch; torch.zeros(1).cuda()'` says"
    cost = "" if facts.cuda is not None and facts.sees_gpu else "training runs on the CPU"
    yield Reading(value, "a torch that sees the GPU", cost, fix)


def gpu_clocks(host: Host) -> Iterator[Reading]:
    """Whether something keeps them down now."""
    for gpu in _gpus(host):
        bits = int(gpu.number("reasons"))
        active = [said for bit, said in _REASONS.items() if bits & bit]
        value = f"kept down by {' and '.join(what for what, _ in active)}" if active else "free"
        cost = "a lower clock: steps take longer by as much" if active else ""
        yield Reading(value, "free", cost, active[0][1] if active else "", gpu.subject)


def gpu_power(host: Host) -> Iterator[Reading]:
    """The cap against the board's own."""
    for gpu in _gpus(host):
        limit, usual = gpu.number("power.limit"), gpu.number("power.default_limit")
        low = limit < _LEAST_POWER * usual
        cost = f"{1 - limit / usual:.0%} of the power, and clock under load" if low else ""
        fix = f"nvidia-smi -i {gpu.fields['index']} -pl {usual:.0f}"
        yield Reading(f"{limit:.0f} W", f"{usual:.0f} W", cost, fix, gpu.subject)


def gpu_bus(host: Host) -> Iterator[Reading]:
    """The width of PCIe now; its generation is lower in idle boards, as it should be."""
    for gpu in _gpus(host):
        width, possible = (gpu.number(f"pcie.link.width.{each}") for each in ("current", "max"))
        cost = f"copies to the GPU take {possible / width:.2g} times as long" if 0 < width < possible else ""
        fix = "another slot; seat the board anew; look at the riser"
        yield Reading(f"x{width:.0f}", f"x{possible:.0f}", cost, fix, gpu.subject)


def gpu_memory(host: Host) -> Iterator[Reading]:
    """What others hold."""
    for gpu in _gpus(host):
        used, total = gpu.number("memory.used") * 2**20, gpu.number("memory.total") * 2**20
        cost = f"{used / total:.0%} of its memory is taken" if used > _MOST_USED * total else ""
        fix = "`nvidia-smi` shows by whom; end it, or CUDA_VISIBLE_DEVICES"
        yield Reading(f"{spelled(used)} in use", f"{spelled(_MOST_USED * total)}", cost, fix, gpu.subject)


def gpu_utilisation(host: Host) -> Iterator[Reading]:
    """What computes there now, over some seconds."""
    gpus = _gpus(host)
    for gpu, shares in zip(gpus, host.nvidia.utilisation(len(gpus)), strict=True):
        if len(shares) < SAMPLES:
            raise NotReadableError(f"nvidia-smi: gave {len(shares)} samples of {SAMPLES}")
        median = statistics.median(shares) / 100
        value = f"{median:.0%} in use, {min(shares):.0f} to {max(shares):.0f} %"
        threshold = f"{_MOST_USED:.0%}, by {SAMPLES} samples"
        cost = "it is shared; of training that runs now, it waits the rest of the time" if median > _MOST_USED else ""
        fix = "`nvidia-smi` shows by whom; of training, `autoaccel bench` says what binds"
        yield Reading(value, threshold, cost, fix, gpu.subject)


def gpu_node(host: Host) -> Iterator[Reading]:
    """Whether this process runs on the processor that a GPU hangs on."""
    gpus, nodes = _gpus(host), cpu_nodes(host)
    if len(nodes) < 2:
        raise NotApplicableError("one node")
    allowed = host.allowed_cpus()
    for gpu in gpus:
        domain, _, rest = gpu.fields["pci.bus_id"].lower().partition(":")
        node = int(host.number(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node"))
        beside = node < 0 or bool(nodes.get(node, allowed) & allowed)
        cost = "" if beside else "copies to the GPU cross the link between processors"
        yield Reading(f"node {node}", "CPUs of its node", cost, f"numactl --cpunodebind={node}", gpu.subject)


def _gpus(host: Host) -> list[Gpu]:
    """Raises `NotApplicableError` where there are none; that they cannot be asked is the driver's row."""
    try:
        found = host.gpus
    except NotReadableError:
        raise NotApplicableError("the driver does not answer") from None
    if not found:
        raise NotApplicableError("no NVIDIA GPU")
    return found


def _has_board(host: Host) -> bool:
    folder = "/sys/bus/pci/devices"
    for name in host.names(folder):
        try:
            vendor, kind = (host.text(f"{folder}/{name}/{each}").strip() for each in ("vendor", "class"))
        except NotReadableError:
            continue
        if vendor == _NVIDIA and kind.startswith(_DISPLAY):
            return True
    return False
