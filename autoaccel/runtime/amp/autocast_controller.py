"""Whether low precision is worth it here: decided by a trial over the script's own steps.

What the hardware can do is not what pays: bfloat16 makes small nets slower, on a CPU and on a GPU that waits for its
launches. So steps are done in float32 first, then some in low precision, and what is faster stays.

A lap is a step of the script. It begins where the script opens its first region for training after an optimizer has
stepped; without a scaler, or in a program that only evaluates, at each call of that one region. Every other region
follows what is in force, so a step is in one precision from its first region to its backward pass, whatever it does
in between (a recomputation, a second network, an evaluation).

Steps hand over state: a hidden state, a bank of features. That of a step in low precision must not meet float32
weights, where torch refuses to multiply the two. So after the first step in low precision, float32 regions are regions
that lift their operands to float32: torch's own mechanism, with float32 as the low precision. They change no float32.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from ..compile.compile_support import together
from ..compile.step_timer import in_backward
from ..environment import Decision, note, setting
from ..trial import decision_cache
from ..trial.ab_trial import ABTrial, State, TrialPolicy
from ..trial.clocks import clock_of

_PATIENCE: Final = 60.0  # seconds without a lap, or four of the longest laps: nobody has to wait for a trial any more
_LONGEST: Final = 600.0  # seconds that anybody has to wait at all
_GONE: Final = 8  # steps without the region that laps begin at, after which they begin elsewhere
_UNSEEN: Final = 200  # the same in calls, where no scaler tells of steps
_LOOK: Final = 2.0  # seconds of a run that pay for a look at all living tensors; four times as many for the next

_Site = tuple[int, int]


class _Phase:
    """A stretch of the script whose laps begin at one region, and what is known of low precision in it."""

    def __init__(self, site: _Site, where: str, training: bool, trial: ABTrial) -> None:
        self.site = site
        self.where = where
        self.training = training
        self.trial = trial
        self.verdict: bool | None = None  # whether low precision is worth it; None as long as it is tried
        self.stepping = False  # laps are told by steps of a scaler
        self.asked = False  # whether there is a choice
        self.expired = False  # somebody stopped waiting: to be given up at the next lap
        self.at_step = 0
        self.contained: set[object] = set()
        self.began = self.last = time.monotonic()
        self.longest = 0.0


class Gate:
    """The precision of the regions on one kind of device: `dtype(frame)` at every region, `stepped()` at every step."""

    def __init__(
        self, place: torch.device, candidate: Decision, make_trial: Callable[[torch.device], ABTrial] | None = None
    ) -> None:
        self._place = place
        self._candidate = candidate
        self._make_trial = functools.partial(make_trial or new_trial, place)
        self._owner = threading.main_thread().ident if place.type != "cpu" else threading.get_ident()
        self._phases: dict[_Site, _Phase] = {}
        self._phase: _Phase | None = None
        self._dtype: torch.dtype | None = None  # in force
        self._steps = 0
        self._fresh = False  # a step was made since the lap began
        self._away = 0  # regions for training since the phase's own was seen
        self._tainted = False  # a region was in low precision, so its results may be about
        self._looked = time.monotonic()
        self._look = _LOOK
        self._recurrent: bool | None = None  # not looked yet

    def settled(self) -> bool:
        """Whether nothing is tried any more: who asks may rely on it, and is never kept waiting for ever."""
        phase = self._phase
        if phase is None or phase.verdict is not None or phase.expired:
            return True
        now = time.monotonic()
        phase.expired = now - phase.last > max(_PATIENCE, 4 * phase.longest) or now - phase.began > _LONGEST
        return phase.expired

    def stepped(self) -> None:
        """An optimizer has stepped."""
        self._steps += 1
        self._fresh = True

    def dtype(self, frame: types.FrameType) -> torch.dtype | None:
        """The precision of the region that this frame opens: low, float32 for one that lifts, or None for none."""
        phase = self._phase
        if phase is not None and phase.verdict is not None and self._as_ever(phase, frame):
            return self._dtype
        if threading.get_ident() != self._owner:
            return self._dtype if self._phase is not None else self._elsewhere()
        if in_backward():  # a recomputation has to be as it was in the forward pass
            return self._dtype
        training = torch.is_grad_enabled()
        if phase is None or (training and not phase.training):
            phase = self._enter(frame, training)
        elif training is not phase.training:  # an evaluation between the steps
            self._contains(phase, frame)
            return self._dtype
        elif (id(frame.f_code), frame.f_lasti) != phase.site:
            if not self._left(phase):
                self._contains(phase, frame)
                return self._dtype
            phase = self._enter(frame, training)
        self._away = 0
        if phase.verdict is None:
            self._try(phase, frame)
        phase.at_step = self._steps
        return self._dtype

    def _as_ever(self, phase: _Phase, frame: types.FrameType) -> bool:
        """Whether this is the region that all is decided for: next to nothing is done then."""
        if (id(frame.f_code), frame.f_lasti) != phase.site or (torch.is_grad_enabled() and not phase.training):
            return False
        self._away = 0
        phase.at_step = self._steps
        if self._dtype is torch.float32:
            self._clear()
        return True

    def _elsewhere(self) -> torch.dtype | None:
        """Only other threads than the main one opened regions so far: replicas of a `DataParallel`, as a rule."""
        dtype: torch.dtype = self._candidate.value
        return dtype

    # ------------------------------------------------------------ phases

    def _left(self, phase: _Phase) -> bool:
        """Whether the script has gone on to other regions for good."""
        self._away += 1
        return self._steps - phase.at_step > _GONE or (self._steps == phase.at_step and self._away > _UNSEEN)

    def _enter(self, frame: types.FrameType, training: bool) -> _Phase:
        site = id(frame.f_code), frame.f_lasti
        phase = self._phases.get(site)
        if phase is None or phase.training is not training:  # new, or evaluated before it trains
            where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            phase = self._phases[site] = _Phase(site, where, training, self._make_trial())
            self._remember(phase)
        self._phase, self._fresh, phase.at_step = phase, False, self._steps
        self._recurrent = None
        if phase.verdict is None:
            self._go(low=False)
            self._note(phase, "trying", f"{self._low} against float32: {self._candidate.reason}")
        else:
            self._go(low=phase.verdict)
        return phase

    def _contains(self, phase: _Phase, frame: types.FrameType) -> None:
        if phase.verdict is None and (what := (id(frame.f_code), frame.f_lasti)) not in phase.contained:
            phase.contained.add(what)
            phase.trial.note_event(what)

    # ------------------------------------------------------------ laps

    def _try(self, phase: _Phase, frame: types.FrameType) -> None:
        if phase.stepping and not self._fresh:
            return
        if self._fresh and not phase.stepping:
            phase.stepping = True
            if not phase.trial.measured:
                phase.trial = self._make_trial()  # what were laps before were parts of one
        self._fresh = False
        now = time.monotonic()
        phase.longest, phase.last = max(phase.longest, now - phase.last), now
        if phase.expired:
            self._decide(phase, False, "not tried to the end, steps take too long")
            return
        low = phase.trial.next_iteration()
        asked = low and self._dtype is not self._candidate.value
        reason = _no_choice() if asked or not phase.asked else ""
        if (reason or asked) and self._has_recurrent():
            self._decide(phase, False, "untried: cuDNN's recurrent networks compute in float16 in any autocast region")
            return
        if reason:
            known = [other.verdict for other in self._phases.values() if other.verdict is not None]
            # ranks on CPUs are as likely slower as faster
            worth = known[-1] if known else not (self._place.type == "cpu" and together())
            self._decide(phase, worth, f"untried: {reason}")
            return
        phase.asked = True
        self._go(low=low)
        phase.contained.clear()
        if (caller := frame.f_back) is not None:  # a helper that several steps share
            phase.trial.note_event((id(caller.f_code), caller.f_lasti))
        if phase.trial.decided:
            self._conclude(phase)

    def _has_recurrent(self) -> bool:
        """Whether the program has networks that are in float16 in every region, those that lift included.

        (https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/cudnn/AutocastRNN.cpp)
        """
        if self._recurrent is None:
            self._recurrent = self._place.type == "cuda" and _recurrent(self._place.type)
        return self._recurrent

    def _conclude(self, phase: _Phase) -> None:
        trial = phase.trial
        worth = trial.state is State.ADOPTED
        self._decide(phase, worth, _spelled(worth, trial.ratio, trial.measured) or trial.why)
        if trial.ratio is not None:
            decision = {"low": worth, "ratio": round(trial.ratio, 3), "steps": trial.measured}
            decision_cache.keep("amp", decision, *self._facts(phase))

    def _decide(self, phase: _Phase, worth: bool, reason: str) -> None:
        phase.verdict = worth
        self._looked = time.monotonic()
        self._go(low=worth)
        self._note(phase, self._candidate.value if worth else None, f"{self._low} {reason}")

    def _remember(self, phase: _Phase) -> None:
        match decision_cache.recall("amp", *self._facts(phase)) if not _no_choice() else None:
            case {"low": bool() as low, "ratio": int() | float() as ratio, "steps": int() as steps}:
                phase.verdict = low
                value = self._candidate.value if low else None
                self._note(phase, value, f"{self._low} {_spelled(low, ratio, steps)}, in an earlier run")

    def _facts(self, phase: _Phase) -> tuple[object, ...]:
        return phase.where, phase.training, self._candidate.value, _name(self._place)

    def _note(self, phase: _Phase, value: object, reason: str) -> None:
        note(f"autocast {phase.where}", Decision(value, reason))

    @property
    def _low(self) -> str:
        return str(self._candidate.value).removeprefix("torch.")

    # ------------------------------------------------------------ what is in force

    def _go(self, *, low: bool) -> None:
        if low:
            self._tainted = True
            self._dtype = self._candidate.value
        else:
            self._dtype = torch.float32 if self._tainted else None

    def _clear(self) -> None:
        """Go back to no regions, some time after low precision was given up, if none of its results is left."""
        now = time.monotonic()
        if now - self._looked > self._look:
            self._looked, self._look = now, 4 * self._look
            if not _alive(self._candidate.value):
                self._tainted = False
                self._dtype = None


def new_trial(place: torch.device) -> ABTrial:
    """A trial of low precision on a device."""
    return ABTrial(clock_of(place), TrialPolicy())


def _spelled(worth: bool, ratio: float | None, steps: int) -> str:
    if ratio is None:
        return ""
    unsure = ", not clearly faster" if not worth and ratio >= 1.0 else ""
    return f"{ratio:.2f}x as fast as float32 over {steps} steps{unsure}"


def _name(place: torch.device) -> str:
    if place.type == "cpu":
        return str(torch.backends.cpu.get_cpu_capability())
    return str(torch.get_device_module(place).get_device_name(place))


def _no_choice() -> str:
    """Why nothing is tried: processes that train together must agree, and compiled code would be compiled again."""
    if together():
        return "all processes of a distributed run do the same"
    if _compiles():
        return "what is compiled is not compiled twice to try"
    return ""


def _compiles() -> bool:
    """Whether anything in this program is compiled, or will be at its first call."""
    if setting("COMPILE_MODE").lower() not in ("", "off", "none"):
        return True
    backends: Any = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", None)
    if isinstance(backends, dict):
        return any(callable(backend) for backend in backends.values())
    counters: Any = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters) and bool(counters["frames"]["ok"])


def _recurrent(kind: str) -> bool:
    """Whether Python holds any recurrent network on this kind of device."""
    found = (thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.RNNBase))
    return any(parameter.device.type == kind for module in found for parameter in module.parameters())


def _alive(dtype: torch.dtype) -> bool:
    """Whether Python holds any tensor of this type."""
    kinds: set[Any] = {torch.Tensor}
    todo = [torch.Tensor]
    while todo:
        found: set[Any] = set(type.__subclasses__(todo.pop())) - kinds
        kinds |= found
        todo.extend(found)
    return any(thing.dtype is dtype for thing in gc.get_objects() if type(thing) in kinds)
