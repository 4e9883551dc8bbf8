"""Mode `turns`: the script only runs when it is its turn, so many steps at a time, and says how long they took.

After every turn it waits, inside the optimizer's step, for a command on a pipe; the parent stops the whole group of
processes meanwhile. The clock of the script stands still while it waits. What is timed is what would happen without
observation: nothing is copied to the host, and the device is waited for at the end of a turn only.

A line of JSON each way. Commands: `{"run": steps, "busy": false}` and `{"end": true}`; the events are `Turn`s.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autoaccel.measure.observing.messages import Message
from autoaccel.measure.observing.observation import Batch, Observation, Observer
from autoaccel.measure.observing.run_record import FAILED, FINISHED, STOPPED, RunFailure

WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Turn(Message):
    """What happened in one turn. The first one begins with the process and ends with the first step."""

    state: str
    """Whether the script now waits for its next turn, has ended, or failed."""
    seconds: float
    """Of the script's own clock, to the end of the device's work."""
    times: tuple[float, ...] = ()
    """Seconds of each step; what the device still has to do counts where the host waits for it."""
    loader: float = 0.0
    """Seconds of waiting for the next batch."""
    samples: int = 0
    """Handed out by loaders; 0 where none is seen."""
    losses: tuple[tuple[int, float], ...] = ()
    """Step, from 1, and loss."""
    host_memory: int = 0
    device_memory: int = 0
    """Peaks since the start, in bytes."""
    busy: float | None = None
    """The share of the time in which the device had work, where it was asked for and there is one."""
    device: str = "cpu"
    """Its type; an accelerator that the script does not use is none."""
    device_name: str = ""
    failure: RunFailure | None = None
    settled: bool = True
    """Whether the runtime has nothing more to try."""


class Turns(Observer):
    """A part of an observation: times the script and lets it run when the parent says so."""

    def __init__(self, commands: int, events: int) -> None:
        """Both are descriptors."""
        self._commands, self._events = commands, events
        self._process = os.getpid()
        self._read = b""
        self._over = False
        self._left = 1
        self._step = 0
        self._profiler: Any = None
        self._end: Callable[[], object] = lambda: None
        self._times: list[float] = []
        self._losses: list[tuple[int, Any]] = []
        self._loader, self._samples = 0.0, 0
        self._start = self._last = time.perf_counter()

    def install(self, observation: Observation) -> None:
        events = observation.events
        events.before_backward.append(self.on_backward)
        events.batch.append(self.on_batch)
        events.after_step.append(lambda _: self.on_step())
        observation.endings.append(self.ended)
        self._end = functools.partial(observation.end, STOPPED)

    def on_batch(self, batch: Batch) -> None:
        """A loader handed one out."""
        self._loader += batch.waited
        self._samples += samples(batch.value)

    def on_backward(self, roots: Iterable[Any]) -> None:
        """Keep what goes backward; it is read when the turn is over."""
        for root in roots:
            if root.numel() == 1:
                # A copy: what a CUDA graph computes is overwritten by its next run.
                self._losses.append((self._step + 1, root.detach().clone()))

    def on_step(self) -> None:
        """A step is over. Waits for the next turn when it was the last of this one."""
        if os.getpid() != self._process:
            return  # a fork that trains is not the script
        self._step += 1
        self._left -= 1
        if self._left <= 0 and not self._over:
            synchronize()
        now = time.perf_counter()
        self._times.append(now - self._last)
        self._last = now
        if self._left <= 0 and not self._over:
            self._say(self._turn(WAITING, now))
            self._wait()

    def ended(self, ending: str, failure: RunFailure | None) -> None:
        """The script is over, and with it the turn."""
        if self._over or os.getpid() != self._process:
            return
        self._over = True
        if ending != FAILED:
            synchronize()
        self._say(self._turn(FAILED if ending == FAILED else FINISHED, time.perf_counter(), failure))

    def _begin(self) -> None:
        """A turn begins."""
        self._times, self._losses = [], []
        self._loader, self._samples = 0.0, 0
        self._start = self._last = time.perf_counter()

    def _turn(self, state: str, now: float, failure: RunFailure | None = None) -> Turn:
        busy = None
        if self._profiler is not None:
            self._profiler.stop()
            busy = busy_share(self._profiler.events(), now - self._start)
            self._profiler = None
        device, name, peak = device_in_use()
        losses = [] if state == FAILED else self._losses
        return Turn(
            state,
            now - self._start,
            tuple(self._times),
            self._loader,
            self._samples,
            tuple((step, float(loss)) for step, loss in losses),
            host_memory(),
            peak,
            busy,
            device,
            name,
            failure,
            settled(),
        )

    def _say(self, turn: Turn) -> None:
        data = turn.to_json().encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._events, data) :]
        except OSError:
            self._over = True  # nobody listens any more

    def _wait(self) -> None:
        """Do nothing until it is our turn; end where the parent is gone."""
        command = self._command()
        steps = command.get("run")
        if steps is None:
            self._over = True
            self._end()
            return
        self._left = steps
        if command.get("busy"):
            self._profiler = device_profiler()
        self._begin()

    def _command(self) -> Mapping[str, Any]:
        while b"\n" not in self._read:
            data = os.read(self._commands, 4096)
            if not data:
                return {}
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        command: Mapping[str, Any] = json.loads(line)
        return command


def samples(batch: Any) -> int:
    """How many samples a batch holds: the first dimension of its first tensor."""
    import torch

    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else 1
    parts: Iterable[Any] = ()
    if isinstance(batch, Mapping):
        parts = batch.values()
    elif isinstance(batch, (list, tuple)):
        parts = batch
    elif hasattr(batch, "__dict__"):
        parts = vars(batch).values()
    return next((found for found in map(samples, parts) if found), 0)


def settled() -> bool:
    """Whether the runtime, where the script uses it, has decided everything that it decides by trying."""
    modules = (
        sys.modules.get(f"autoaccel.runtime.{name}")
        for name in (
            "amp.autocast_controller",
            "compile.compile_controller",
            "optim.fused_step",
            "step_graph.step_controller",
            "memory_layout.channels_last_call",
        )
    )
    # What waits some minutes until it may time all kernels is nothing to wait for.
    switching = getattr(sys.modules.get("autoaccel.runtime.backends.backend_setting"), "is_switching", None)
    asks = [ask for ask in (getattr(module, "settled", None) for module in modules) if ask is not None]
    return all(ask() for ask in asks) and not (switching is not None and switching())


def synchronize() -> None:
    """Wait for the accelerator, if the script uses one; do not wake up one that it leaves alone."""
    import torch

    torch_: Any = torch  # parts of it have no types
    if torch_.cuda.is_initialized():
        in_use = getattr(torch_._C, "_cuda_hasPrimaryContext", None)  # noqa: SLF001
        for number in range(torch_.cuda.device_count()):
            if in_use is None or in_use(number):
                torch_.cuda.synchronize(number)
    elif torch_.xpu.is_initialized():
        torch_.xpu.synchronize()
    elif torch_.backends.mps.is_available():
        torch_.mps.synchronize()


def device_in_use() -> tuple[str, str, int]:
    """Type and name of the accelerator that is in use, and the peak of what was allocated on it, in bytes."""
    import torch

    torch_: Any = torch
    if torch_.cuda.is_initialized():
        peak = sum(torch_.cuda.max_memory_allocated(number) for number in range(torch_.cuda.device_count()))
        return "cuda", torch_.cuda.get_device_name(), peak
    if torch_.xpu.is_initialized():
        return "xpu", torch_.xpu.get_device_name(), int(torch_.xpu.max_memory_allocated())
    if torch_.backends.mps.is_available() and torch_.mps.driver_allocated_memory():
        return "mps", "Apple GPU", int(torch_.mps.driver_allocated_memory())
    return "cpu", "", 0


def host_memory() -> int:
    """The peak resident set of this process, in bytes."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - read after every turn
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def device_profiler() -> Any:
    """Started on the device's own work only; None where there is nothing to look at."""
    import torch

    cuda: Any = torch.cuda
    if not cuda.is_initialized():
        return None
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    try:
        profiler.start()
    except RuntimeError:  # the driver lets nobody look
        return None
    return profiler


def busy_share(events: Iterable[Any], seconds: float) -> float | None:
    """The share of `seconds` in which at least one kernel or copy ran."""
    on_device = (event.time_range for event in events if "CUDA" in str(getattr(event, "device_type", "")))
    spans = sorted((each.start, each.end) for each in on_device)
    if not spans or seconds <= 0:
        return None
    busy, until = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return min(1.0, busy / 1e6 / seconds)
