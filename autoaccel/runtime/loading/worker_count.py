"""How many workers a loader gets, from what its first batches cost and what the machine has. Pure arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MOST: Final = 16
CHEAP: Final = 0.3e-3  # seconds: handing a batch over between processes takes as long
FAR_BELOW: Final = 0.03  # of a step: what is hidden then is not worth processes
ENOUGH: Final = 1.25  # batches take unequally long
AMPLE: Final = (
    3.0  # steps become faster than the first ones were, by low precision and compiling; who waits costs nothing
)
START: Final = 0.06  # seconds to fork a training process, and to end the child
PER_GIB: Final = 0.02  # seconds more for each GiB that the process holds: its page tables are copied


@dataclass(frozen=True, slots=True)
class Machine:
    """What one training process may use: CPUs, bytes of memory, bytes of shared memory; and the bytes that it holds."""

    cpus: float
    memory: float
    shared: float
    held: float = 0.0

    @property
    def start(self) -> float:
        """Seconds that a worker costs."""
        return START + PER_GIB * self.held / 2**30


@dataclass(frozen=True, slots=True)
class LoaderMeasurements:
    """What is known of a loader so far.

    fetch: seconds the training process takes to fetch a batch.
    step: seconds of a step, on the host or the device, whichever takes longer.  host: those of the host; fewer than
    `step` where it hands work over and goes on.
    batch: bytes of a batch.  ahead: batches that each worker fetches ahead.
    left: batches left in this pass; None if unknown.  waited: seconds spent fetching in all passes so far.
    kept: whether later passes find the same workers.
    """

    fetch: float
    step: float
    host: float
    batch: int
    ahead: int
    left: int | None
    waited: float
    kept: bool


@dataclass(frozen=True, slots=True)
class WorkerDecision:
    """How many workers, and why. `yet` is whether more batches could change it."""

    workers: int
    reason: str
    yet: bool = False


def decide_workers(measured: LoaderMeasurements, machine: Machine) -> WorkerDecision:
    """The number of workers that hides the fetch behind the step; 0 where they would not pay."""
    fetch, step = measured.fetch, max(measured.step, CHEAP)  # batches cannot be handed over any faster
    times = f"a batch takes {_spelled(fetch)} to fetch, a step {_spelled(measured.step)}"
    if fetch < CHEAP:
        return WorkerDecision(0, f"{times}: cheaper than handing it over", yet=True)
    if fetch < FAR_BELOW * step:
        return WorkerDecision(0, f"{times}: nothing to hide", yet=True)
    iteration = max(step, fetch + measured.host)  # what the host fetches while the device is busy costs nothing
    if iteration <= (1 + FAR_BELOW) * step:
        return WorkerDecision(0, f"{times}: hidden already", yet=True)
    most, limit = _most(measured, machine)
    if most < 1:
        return WorkerDecision(0, f"{times}, but {limit}")
    wanted = max(1, math.ceil(AMPLE * fetch / step))
    enough = max(1, math.ceil(ENOUGH * fetch / step))
    for count in (min(wanted, most), min(enough, most)):
        reason = times if count >= enough else f"{times}; {enough} would hide it, but {limit}"
        cost = machine.start * count
        saved = iteration - max(step, fetch / count)
        lasting = measured.kept and measured.waited >= cost  # the run has shown that it goes on
        if lasting or saved * (measured.left or 0) >= 1.5 * cost:
            return WorkerDecision(count, reason)
    return WorkerDecision(0, f"{times}: too few batches to pay for starting {count}", yet=True)


def _most(measured: LoaderMeasurements, machine: Machine) -> tuple[int, str]:
    """The most workers that the machine has room for, and what sets the limit."""
    each = max(1, measured.ahead * measured.batch)
    limits = [
        (MOST, f"{MOST} are the most"),
        (math.floor(machine.cpus) - 1, f"there are {machine.cpus:g} CPUs, of which one trains"),
    ]
    for free, share, what in ((machine.shared, 2, "/dev/shm"), (machine.memory, 4, "memory")):
        if math.isfinite(free):
            mib = f"{free / 2**20:.0f} MiB free in {what} for batches of {measured.batch / 2**20:.1f} MiB"
            limits.append((int(free / share) // each, f"there are {mib}"))
    most, limit = min(limits, key=lambda entry: entry[0])
    return max(0, most), limit


def helps(fetch: float, wait: float) -> bool:
    """Whether workers are worth keeping: the loop waits clearly less for them than it took to fetch by itself."""
    return wait < 0.9 * fetch


def _spelled(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
