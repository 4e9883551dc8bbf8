"""Mode `profile`: what binds the script. Steps are timed as they are, and under torch's profiler, in turns.

See `attribution` for how the two are put together. The run ends by itself as soon as it knows enough.
"""

from __future__ import annotations

import itertools
import json
import math
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

from autoaccel.measure.observing import attribution
from autoaccel.measure.observing.attribution import OPTIMIZER, STEP, Calibration, Shares, Timing, Trace
from autoaccel.measure.observing.record import STOPPED, Profile
from autoaccel.measure.observing.regions import Regions, hook_loaders, hook_models, hook_optimizers
from autoaccel.measure.observing.sampling import Sampler
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
_TRACED_DEVICES: Final = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}


@dataclass
class Block:
    """Steps in a row: without the profiler, or (`trace`) with it."""

    length: int
    start: float
    regions: dict[str, float]
    looks: tuple[int, int]
    steps: int = 0
    timing: Timing | None = None
    """Up to the last step."""
    trace: Path | None = None
    evaluated: list[tuple[float, float]] = field(default_factory=list)
    """Passes that did not train, in seconds since the start."""


class Profiler:
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
        looks = self.sampler.looks, self.sampler.iterating
        self.regions.evaluated.clear()
        self._block = Block(math.ceil(steps / turns) * turns, time.perf_counter(), self.regions.seconds(), looks)

    def _note(self, block: Block) -> None:
        """What the block amounts to if this was its last step."""
        if self._profile is not None:
            _mark()
        else:
            now, before = self.regions.seconds(), block.regions
            regions = {name: seconds - before.get(name, 0.0) for name, seconds in now.items()}
            looks, iterating = self.sampler.looks - block.looks[0], self.sampler.iterating - block.looks[1]
            seconds = time.perf_counter() - block.start
            block.timing = Timing(seconds, block.steps, regions, iterating / looks if looks else 0.0)

    def _finish(self, block: Block) -> None:
        synchronize()
        self._note(block)
        self._over(block)

    def _over(self, block: Block) -> None:
        self.sampler.stop()
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
        timings = [block.timing for block in self.blocks if block.timing is not None]
        return timings[-1].seconds / timings[-1].steps

    def _knows_enough(self) -> bool:
        rounds = len(self.blocks) // 2
        timed = sum(block.timing.seconds for block in self.blocks if block.timing is not None)
        if time.perf_counter() - self._began > _PATIENCE:
            return rounds >= 1
        return rounds >= _ROUNDS and timed >= _ENOUGH

    def profile(self) -> Profile | None:
        """None where the run was too short, or where the device does not show what it does."""
        if self._device != "cpu" and self._device not in _TRACED_DEVICES:
            return None
        rounds = [
            (first.timing, trace, second)
            for first, second in zip(self.blocks[::2], self.blocks[1::2])  # noqa: B905 - the last may be alone
            if first.timing is not None and (trace := _read(second)) is not None
        ]
        if not rounds:
            return None
        if len(rounds) >= _ROUNDS:
            del rounds[0]  # still cold
        timing = _together([timing for timing, _, _ in rounds])
        if self._device == "cpu":
            calibration = calibrate(self._folder)
            period = max(1, len(self._optimizers))
            steps = [costs for _, trace, _ in rounds for costs in attribution.host_costs(trace, period)]
            costs = attribution.typical(steps)
            shares = attribution.host_shares(timing, costs, calibration)
            single = [attribution.host_shares(each, costs, calibration) for each, _, _ in rounds]
            uncertainty = _spread(single)
        else:
            found = [
                (attribution.device_shares(trace, _passes(trace, block)), trace.steps, timing)
                for timing, trace, block in rounds
            ]
            total = {name: sum(each[name] for each, _, _ in found) for name in attribution.CLASSES}
            shares, distortion = attribution.undistorted(total, sum(steps for _, steps, _ in found), timing)
            single = [attribution.undistorted(*each)[0] for each in found]
            uncertainty = max(_spread(single), distortion / 2)
        return Profile(shares, timing.seconds / timing.steps, timing.steps, uncertainty)


def _devices(optimizer: torch.optim.Optimizer) -> Sequence[str]:
    return [parameter.device.type for group in optimizer.param_groups for parameter in group["params"]]


def _mark() -> None:
    with record_function(STEP):
        pass


def _read(block: Block) -> Trace | None:
    if block.trace is None:
        return None
    return attribution.read(json.loads(block.trace.read_text(encoding="utf-8", errors="replace")))


def _passes(trace: Trace, block: Block) -> list[tuple[float, float]]:
    return [(trace.start + start * 1e6, trace.start + end * 1e6) for start, end in block.evaluated]


def _together(timings: Sequence[Timing]) -> Timing:
    seconds = sum(timing.seconds for timing in timings)
    names = {name for timing in timings for name in timing.regions}
    regions = {name: sum(timing.regions.get(name, 0.0) for timing in timings) for name in names}
    iterated = sum(timing.iterated * timing.seconds for timing in timings) / seconds
    return Timing(seconds, sum(timing.steps for timing in timings), regions, iterated)


def _spread(rounds: Sequence[Shares]) -> float:
    """The largest standard error of a share, from how it differs between rounds."""
    if len(rounds) < 2:
        return 0.0
    shares = ([each.get(name, 0.0) for each in rounds] for name in attribution.CLASSES)
    return max(statistics.stdev(values) for values in shares) / math.sqrt(len(rounds))


def calibrate(folder: Path) -> Calibration:
    """What operators cost that have next to nothing to compute: forward and backward of a tiny model."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model.to(device="cpu", dtype=torch.float32)
    batch = torch.ones(1, 4, device="cpu", dtype=torch.float32)

    def step() -> float:
        start = time.perf_counter()
        model(batch).sum().backward()
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
    trace = attribution.read(json.loads(path.read_text(encoding="utf-8", errors="replace")))
    assert trace is not None
    costs = attribution.typical(attribution.host_costs(trace)[40:])
    operators = sum(each.operators for each in costs.values())
    lengths = (end - start for start, end in itertools.pairwise(trace.marks[40:]))
    traced_step, inside = statistics.median(lengths), sum(each.inside for each in costs.values())
    return Calibration(plain * 1e6 / operators, traced_step / operators, inside / operators)
