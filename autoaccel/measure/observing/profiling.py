"""Mode `profile`: what binds the script. Steps are timed as they are, and under torch's profiler, in turns.

See `attribution` for how the two are put together. The run ends by itself as soon as it knows enough.
"""

from __future__ import annotations

import itertools
import json
import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile

from autoaccel.measure.observing import attribution, timelines
from autoaccel.measure.observing.attribution import (
    BACKWARD,
    BODY,
    FORWARD,
    OPTIMIZER,
    Calibration,
    Shares,
    Step,
)
from autoaccel.measure.observing.observation import Observer
from autoaccel.measure.observing.record import STOPPED, Profile
from autoaccel.measure.observing.regions import Regions, Sampler, hook_loaders, hook_models, hook_optimizers
from autoaccel.measure.observing.traces import MARK, STEP, Trace, read
from autoaccel.measure.observing.turns import synchronize

if TYPE_CHECKING:
    from autoaccel.measure.observing.observation import Observation

# The first steps import, allocate and choose kernels.
_WARM_UP: Final = 3
# A block is so many steps at first, and four times as many each time: scripts may be soon over.
_SHORTEST: Final = 2
# Seconds of a block at most; small operators make large traces.
_LONGEST: Final = 0.3
_LONGEST_TRACE: Final = 0.03
# Enough is so many rounds and so many seconds without the profiler, or a round after so many seconds in all.
_ROUNDS: Final = 3
_ENOUGH: Final = 1.2
_PATIENCE: Final = 8.0
# Parts of a run that are compared to see how sure the shares are.
_GROUPS: Final = 6
_TRACED_DEVICES: Final = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}


@dataclass
class Block:
    """Steps in a row: without the profiler, or (`trace`) with it."""

    length: int
    start: float
    steps: int = 0
    timed: list[Step] = field(default_factory=list)
    looks: int = 0
    iterating: int = 0
    """Of the looks, those that found the script making a batch by itself."""
    trace: Path | None = None
    evaluated: list[tuple[float, float]] = field(default_factory=list)
    """Passes that did not train, in seconds since the start."""


class Profiler(Observer):
    """A part of an observation."""

    def __init__(self, root: str) -> None:
        self.regions = Regions()
        self.sampler = Sampler(self.regions, root)
        self.blocks: list[Block] = []
        """Those that are over; timed and traced ones take turns."""
        self._folder = Path()
        self._optimizers: set[int] = set()
        self._device = "cpu"
        self._steps = 0
        self._began = self._last = time.perf_counter()
        self._block: Block | None = None
        self._before = self._after = self._now()
        self._profile: profile | None = None
        self._end: Callable[[], object] = lambda: None

    def install(self, observation: Observation) -> None:
        observation.events.before_step.append(lambda _: self.before_step())
        observation.events.after_step.append(self.after_step)
        hook_loaders(self.regions)
        hook_models(self.regions)
        hook_optimizers(self.regions)
        self._end = lambda: observation.end(STOPPED)
        self._folder = observation.exchange.folder  # which goes with the run

    def before_step(self) -> None:
        if self.regions.open(OPTIMIZER):
            self.regions.enter(OPTIMIZER)

    def after_step(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Begins and ends blocks, and the run when enough is known."""
        self.regions.leave(OPTIMIZER)
        if self._profile is None:
            self._after = self._now()
        self._step_over(optimizer)
        self._before = self._now()  # what went on here is no part of a step

    def _step_over(self, optimizer: torch.optim.Optimizer | None) -> None:
        self._steps += 1
        if optimizer is not None and id(optimizer) not in self._optimizers:
            self._optimizers.add(id(optimizer))
            self._device = next((kind for kind in _devices(optimizer) if kind != "cpu"), self._device)
        if self._block is None:
            now = time.perf_counter()
            duration, self._last = now - self._last, now
            if self._steps >= _WARM_UP:
                self._began = now
                self._begin(duration)
            return
        self._block.steps += 1
        if self._block.steps < self._block.length:
            self._note(self._block)
            return
        self._finish(self._block)
        if self._knows_enough():
            self._end()
        else:
            self._begin(self._step_seconds())

    def contribute(self) -> dict[str, Any]:
        """What is known when the run is over, which may be in the midst of a block."""
        self.sampler.close()
        if self._block is not None and self._block.steps:
            self._over(self._block)  # as it was at its last step: what came after is no step
        return {"profile": self.profile()}

    def _begin(self, step_seconds: float) -> None:
        traced = bool(self.blocks) and self.blocks[-1].trace is None
        fitting = (_LONGEST_TRACE if traced else _LONGEST) / max(step_seconds, 1e-6)
        steps = math.ceil(min(fitting, _SHORTEST * 4 ** (len(self.blocks) // 2)))
        turns = max(1, len(self._optimizers))  # of a GAN every block sees both
        synchronize()
        if traced:
            self._start_profiler()
        else:
            self.sampler.start()
        self.regions.evaluated.clear()
        self._block = Block(math.ceil(steps / turns) * turns, time.perf_counter())

    def _now(self) -> tuple[float, dict[str, float], int]:
        return time.perf_counter(), self.regions.seconds(), _interruptions()

    def _note(self, block: Block) -> None:
        """The block has made a step more."""
        if self._profile is not None:
            _mark()
            return
        (since, before, calm), (now, after, interruptions) = self._before, self._after
        regions = {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}
        regions[BODY] = now - since - sum(regions.values())
        block.timed.append(Step(regions, interruptions > calm))

    def _finish(self, block: Block) -> None:
        synchronize()
        if self._profile is None and self._device != "cpu":
            self._after = self._now()  # the device has done its work only now
        self._note(block)
        self._over(block)

    def _over(self, block: Block) -> None:
        block.looks, block.iterating = self.sampler.stop()
        if self._profile is not None:
            block.trace = self._folder / f"trace-{len(self.blocks)}.json"
            block.evaluated = [(start - block.start, end - block.start) for start, end in self.regions.evaluated]
            self._stop_profiler(block.trace)
        self.blocks.append(block)
        self._block = None

    def _start_profiler(self) -> None:
        activities = {ProfilerActivity.CPU, _TRACED_DEVICES.get(self._device, ProfilerActivity.CPU)}
        self._profile = profile(activities=activities)
        self._profile.start()
        self.regions.traced = True
        with record_function("autoaccel"):
            pass  # the first one takes longer
        _mark()

    def _stop_profiler(self, trace: Path) -> None:
        assert self._profile is not None
        self.regions.traced = False
        self._profile.stop()
        self._profile.export_chrome_trace(str(trace))
        self._profile = None

    def _step_seconds(self) -> float:
        timed = next(block.timed for block in reversed(self.blocks) if block.timed)
        return sum(sum(step.regions.values()) for step in timed) / len(timed)

    def _knows_enough(self) -> bool:
        rounds = len(self.blocks) // 2
        if time.perf_counter() - self._began > _PATIENCE:
            return rounds >= 1
        timed = sum(sum(step.regions.values()) for block in self.blocks for step in block.timed)
        return rounds >= _ROUNDS and timed >= _ENOUGH

    def profile(self) -> Profile | None:
        """None where the run was too short, or where the device does not show what it does."""
        if self._device != "cpu" and self._device not in _TRACED_DEVICES:
            return None
        blocks = self.blocks[2:] if len(self.blocks) // 2 >= _ROUNDS else self.blocks  # the first round is cold
        traces = [(trace, block) for block in blocks if (trace := _read(block)) is not None]
        if not traces:
            return None
        if self._device == "cpu":
            return on_host(blocks, [trace for trace, _ in traces], max(1, len(self._optimizers)), self._folder)
        return on_device(blocks, traces)


def on_host(blocks: Sequence[Block], traces: Sequence[Trace], period: int, folder: Path) -> Profile:
    """What blocks say of a script that runs on the CPU alone; it repeats itself every `period` steps."""
    calibration, usual = calibrate(folder)
    calibration = attribution.slowed(calibration, usual, traces)
    costs = attribution.typical([step for trace in traces for step in attribution.host_costs(trace, period)])
    steps, iterated = [step for block in blocks for step in block.timed], _iterated(blocks)
    timing = attribution.timing(steps, iterated)
    size = math.ceil(len(steps) / _GROUPS)
    groups = [attribution.timing(steps[at : at + size], iterated) for at in range(0, len(steps), size)]
    spread = _spread([attribution.host_shares(group, costs, calibration) for group in groups])
    return Profile(attribution.host_shares(timing, costs, calibration), timing.seconds, len(steps), spread)


def on_device(blocks: Sequence[Block], traces: Sequence[tuple[Trace, Block]]) -> Profile:
    """What blocks say of a script that runs on an accelerator."""
    steps = [step for block in blocks for step in block.timed]
    # The device goes on with its work while the host is disturbed.
    timing = attribution.timing([Step(step.regions) for step in steps], _iterated(blocks))
    found = [(timelines.device_shares(trace, _passes(trace, block)), trace.steps) for trace, block in traces]
    total = {name: sum(shares[name] for shares, _ in found) for name in attribution.CLASSES}
    shares, distortion = timelines.undistorted(total, sum(count for _, count in found), timing)
    spread = _spread([timelines.undistorted(each, count, timing)[0] for each, count in found])
    return Profile(shares, timing.seconds, len(steps), max(spread, distortion / 2))


def _iterated(blocks: Sequence[Block]) -> float:
    looks = sum(block.looks for block in blocks)
    return sum(block.iterating for block in blocks) / looks if looks else 0.0


def _interruptions() -> int:
    """How often another program took the CPU from this thread; 0 where that is not told."""
    who: int | None = getattr(resource, "RUSAGE_THREAD", None)
    return 0 if who is None else resource.getrusage(who).ru_nivcsw


def _devices(optimizer: torch.optim.Optimizer) -> Sequence[str]:
    return [parameter.device.type for group in optimizer.param_groups for parameter in group["params"]]


def _mark() -> None:
    with record_function(STEP):
        pass


def _read(block: Block) -> Trace | None:
    if block.trace is None:
        return None
    return read(json.loads(block.trace.read_text(encoding="utf-8", errors="replace")))


def _passes(trace: Trace, block: Block) -> list[tuple[float, float]]:
    return [(trace.start + start * 1e6, trace.start + end * 1e6) for start, end in block.evaluated]


def _spread(rounds: Sequence[Shares]) -> float:
    """The largest standard error of a share, from how it differs between parts of the run."""
    if len(rounds) < 2:
        return 0.0
    shares = ([each.get(name, 0.0) for each in rounds] for name in attribution.CLASSES)
    return max(statistics.stdev(values) for values in shares) / math.sqrt(len(rounds))


def calibrate(folder: Path) -> tuple[Calibration, Trace]:
    """What operators cost that have next to nothing to compute: forward and backward of a tiny model, and its trace."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model.to(device="cpu", dtype=torch.float32)
    batch = torch.ones(1, 4, device="cpu", dtype=torch.float32)

    parameters = list(model.parameters())

    def step() -> float:
        start = time.perf_counter()
        with record_function(MARK + FORWARD):
            loss = model(batch).sum()
        with record_function(MARK + BACKWARD):
            torch.autograd.grad(loss, parameters)  # `backward` would be a step of the script
        return time.perf_counter() - start

    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        plain = statistics.median([step() for _ in range(300)][100:])
        with profile(activities=[ProfilerActivity.CPU]) as traced:
            _mark()
            for _ in range(140):
                step()
                _mark()
    path = folder / "calibration.json"
    traced.export_chrome_trace(str(path))
    trace = read(json.loads(path.read_text(encoding="utf-8", errors="replace")))
    assert trace is not None
    costs = attribution.typical(attribution.host_costs(trace)[40:])
    forward, backward = costs[FORWARD], costs[BACKWARD]
    operators = forward.operators + backward.operators
    lengths = (end - start for start, end in itertools.pairwise(trace.marks[40:]))
    calibration = Calibration(
        plain * 1e6 / operators,
        statistics.median(lengths) / operators,
        forward.inside / forward.operators,
        backward.inside / backward.operators,
    )
    return calibration, trace
