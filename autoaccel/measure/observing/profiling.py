"""Mode `profile`: what binds the script. Blocks of steps are timed as they are, and looked at by torch's profiler, in
turns: the profiler slows down what it looks at (`timelines.undistorted`).

The run ends by itself as soon as it knows enough.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile

from autoaccel.measure.observing import timelines
from autoaccel.measure.observing.observation import Observer
from autoaccel.measure.observing.profiled_regions import OpenRegions, hook_loaders, hook_models, hook_optimizers
from autoaccel.measure.observing.run_record import STOPPED
from autoaccel.measure.observing.timelines import CLASSES, OPTIMIZER, STEP
from autoaccel.measure.observing.turns import device_in_use, synchronize

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from autoaccel.measure.observing.observation import Observation

# The first steps import, allocate and choose kernels.
_WARM_UP: Final = 3
# A block is so many steps at first, and four times as many each time: scripts may be soon over.
_SHORTEST: Final = 2
# Seconds of a block at most; small operators make large traces.
_LONGEST: Final = 0.3
_LONGEST_TRACE: Final = 0.06
# Enough is so many rounds and so many seconds without the profiler, or a round after so many seconds in all.
_ROUNDS: Final = 3
_ENOUGH: Final = 1.2
_PATIENCE: Final = 8.0
_TRACED_DEVICES: Final = {"cpu": ProfilerActivity.CPU, "cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}


@dataclass
class Round:
    """Some steps as they are, and the following ones as the profiler saw them."""

    steps: int
    seconds: float
    traced: int = 0
    """Steps that the profiler saw; 0 until it has."""
    found: timelines.Found = ({}, {})


class Profiler(Observer):
    """A part of an observation."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []
        self._regions = OpenRegions()
        self._optimizers: set[int] = set()
        self._profile: profile | None = None
        self._made = 0
        """Steps of this block."""
        self._length = _WARM_UP
        self._start = self._last = time.perf_counter()
        self._began = math.inf

    def install(self, observation: Observation) -> None:
        self._observation = observation
        observation.events.before_step.append(lambda _: self._regions.enter(OPTIMIZER))
        observation.events.after_step.append(self._step_over)
        hook_loaders(self._regions)
        hook_models(self._regions)
        hook_optimizers(self._regions)

    def contribute(self) -> dict[str, Any]:
        """What is known when the run is over, which may be in the midst of a block."""
        if self._made and self._began < math.inf:
            self._finish()
        rounds = [each for each in self.rounds if each.traced]
        return {"profile": put_together(rounds[1:] if len(rounds) >= _ROUNDS else rounds)}  # the first one is cold

    def _step_over(self, optimizer: Optimizer | None) -> None:
        """Begins and ends blocks, and the run when enough is known."""
        self._regions.leave(OPTIMIZER)
        if optimizer is not None:
            self._optimizers.add(id(optimizer))
        self._made += 1
        is_last = self._made >= self._length
        if is_last:
            synchronize()  # the device has done its work only now
        if self._profile is not None:
            _mark()
        self._last = time.perf_counter()
        if not is_last:
            return
        if self._began == math.inf:
            self._began, step_seconds = self._last, (self._last - self._start) / self._made
            self._made = 0
        else:
            self._finish()
            step_seconds = self.rounds[-1].seconds / self.rounds[-1].steps
        if self._knows_enough():
            self._observation.end(STOPPED)
        self._begin(step_seconds)

    def _begin(self, step_seconds: float) -> None:
        """A block: with the profiler where one without it was the last."""
        if (device := device_in_use()[0]) not in _TRACED_DEVICES:
            self._observation.end(STOPPED)
        traces = bool(self.rounds) and not self.rounds[-1].traced
        fitting = (_LONGEST_TRACE if traces else _LONGEST) / max(step_seconds, 1e-6)
        steps = math.ceil(min(fitting, _SHORTEST * 4 ** (len(self.rounds) - traces)))
        turns = max(1, len(self._optimizers))  # of a GAN every block sees both
        self._length = math.ceil(steps / turns) * turns
        if traces:
            self._profile = profile(activities={ProfilerActivity.CPU, _TRACED_DEVICES[device]})
            self._profile.start()
            self._regions.traced = True
            self._regions.evaluated.clear()
            with record_function("autoaccel"):
                pass  # the first one takes longer
            _mark()
        self._start = time.perf_counter()

    def _finish(self) -> None:
        """The block is over: what came after its last step is no step."""
        made, self._made = self._made, 0
        if self._profile is None:
            self.rounds.append(Round(made, self._last - self._start))
            return
        self._regions.traced = False
        self._profile.stop()
        path = self._observation.exchange.folder / "trace.json"  # which goes with the run
        self._profile.export_chrome_trace(str(path))
        self._profile = None
        trace = timelines.read(json.loads(path.read_text(encoding="utf-8", errors="replace")))
        if trace is not None:
            starts = trace.start - self._start * 1e6
            passes = [(starts + start * 1e6, starts + end * 1e6) for start, end in self._regions.evaluated]
            last = self.rounds[-1]
            last.traced = trace.steps
            last.found = timelines.shares(trace, passes)

    def _knows_enough(self) -> bool:
        rounds = sum(each.traced > 0 for each in self.rounds)
        if time.perf_counter() - self._began > _PATIENCE:
            return rounds >= 1
        return rounds >= _ROUNDS and sum(each.seconds for each in self.rounds) >= _ENOUGH


def _mark() -> None:
    with record_function(STEP):
        pass


def put_together(rounds: Sequence[Round]) -> timelines.Shares:
    """What some rounds say; nothing where there is none: the run was too short, or the device lets nobody look."""
    if not rounds:
        return {}
    traced, lengthened = ({name: sum(each.found[at][name] for each in rounds) for name in CLASSES} for at in (0, 1))
    slower = [sum(each.found[0].values()) / 1e6 / each.traced / (each.seconds / each.steps) for each in rounds]
    return timelines.undistorted(traced, lengthened, statistics.median(slower))
