"""Whether low precision is worth it here: decided by a trial over the script's own steps.

What the hardware can do is not what pays: bfloat16 makes small nets slower, on a CPU and on a GPU that waits for its
launches. So steps are done in float32 first, then some in low precision, and what is faster stays. What fails in its
first step, or overflows all the time, is given up for this run and later ones.

An iteration is a step of the script. It begins where the script opens its first region for training after an
optimizer has stepped; without a scaler, or in a program that only evaluates, at each call of that one region. Every
other region follows what is in force, so a step is in one precision from its first region to its backward pass,
whatever it does in between (a recomputation, a second network, an evaluation).

Steps hand over state: a hidden state, a bank of features. That of a step in low precision must not meet float32
weights, where torch refuses to multiply the two. So after the first step in low precision, float32 regions are regions
that lift their operands to float32: torch's own mechanism, with float32 as the low precision. They change no float32.
"""

from __future__ import annotations

import functools
import threading
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch

from .. import devices
from ..environment import Decision, note, warn_once
from ..execution_mode import in_backward, is_distributed
from ..trial import decision_cache
from ..trial.ab_trial import ABTrial, TrialPolicy, TrialState
from ..trial.clocks import clock_of
from . import program_state

_PATIENCE: Final = 60.0  # seconds without an iteration, or four of the longest: nobody has to wait for a trial any more
_LONGEST: Final = 600.0  # seconds that anybody has to wait at all
_GONE: Final = 8  # steps without the region that iterations begin at, after which they begin elsewhere
_UNSEEN: Final = 200  # the same in calls, where no scaler tells of steps
_FIRST_SCAN: Final = 2.0  # seconds of a run that pay for a look at all living tensors; four times as many for the next

POLICY: Final = TrialPolicy(evidence=0.25)

_Site = tuple[int, int]


class _Phase:
    """A stretch of the script whose iterations begin at one region, and what is known of low precision in it."""

    def __init__(self, site: _Site, where: str, training: bool, trial: ABTrial) -> None:
        self.site = site
        self.where = where
        self.training = training
        self.trial = trial
        self.verdict: bool | None = None  # whether low precision is worth it; None as long as it is tried
        self.stepping = False  # iterations are told by steps of a scaler
        self.tried = False  # whether there is a choice
        self.expired = False  # somebody stopped waiting: to be given up at the next iteration
        self.at_step = 0
        self.passed: set[torch.dtype | None] = set()  # the precisions that an iteration came to its end in
        self.regions: set[object] = set()
        self.began = self.last = time.monotonic()
        self.longest = self.first = 0.0  # seconds between two iterations: of all, and of the first ones
        self.iterations = 0


class AutocastController:
    """The precision of the regions on one kind of device; asked at every region, and told of every optimizer step."""

    def __init__(
        self, place: torch.device, candidate: Decision, make_trial: Callable[[torch.device], ABTrial] | None = None
    ) -> None:
        self._place = place
        self._reason = candidate.reason
        self._low: torch.dtype = candidate.value
        self._low_name = str(self._low).removeprefix("torch.")
        self._make_trial = functools.partial(make_trial or new_trial, place)
        self._owner = threading.main_thread().ident if place.type != "cpu" else threading.get_ident()
        self._phases: dict[_Site, _Phase] = {}
        self._phase: _Phase | None = None
        self._dtype: torch.dtype | None = None  # in force
        self._given_up = False  # for good, in all phases
        self._steps = 0
        self._stepped_since = False  # a step was made since the iteration began
        self._regions_since = 0  # regions for training since the phase's own was seen
        self._low_precision_seen = False  # a region was in low precision, so its results may be about
        self._last_scan = time.monotonic()
        self._scan_interval = _FIRST_SCAN
        self._misfit: str | None = None  # not looked yet
        self._refuses_float32: bool | None = None  # the same

    def settled(self) -> bool:
        """Whether nothing is tried any more: who asks may rely on it, and is never kept waiting for ever."""
        phase = self._phase
        if phase is None or phase.verdict is not None or phase.expired:
            return True
        now = time.monotonic()
        phase.expired = now - phase.last > max(_PATIENCE, 4 * phase.longest) or now - phase.began > _LONGEST
        return phase.expired

    def optimizer_stepped(self) -> None:
        """An optimizer has stepped."""
        self._steps += 1
        self._stepped_since = True

    def dtype(self, frame: types.FrameType) -> torch.dtype | None:
        """The precision of the region that this frame opens: low, float32 for one that lifts, or None for none."""
        phase = self._phase
        if phase is not None and phase.verdict is not None and self._is_decided_region(phase, frame):
            return self._dtype
        if threading.get_ident() != self._owner:
            # where only other threads opened regions so far, they are replicas of a `DataParallel`, as a rule
            return self._dtype if self._phase is not None else self._low
        if in_backward():  # a recomputation has to be as it was in the forward pass
            return self._dtype
        training = torch.is_grad_enabled()
        if phase is None or (training and not phase.training):
            phase = self._enter_phase(frame, training)
        elif training is not phase.training:  # an evaluation between the steps
            self._note_region(phase, frame)
            return self._dtype
        elif (id(frame.f_code), frame.f_lasti) != phase.site:
            if not self._has_left(phase):
                self._note_region(phase, frame)
                return self._dtype
            phase = self._enter_phase(frame, training)
        self._regions_since = 0
        if phase.verdict is None:
            self._next_iteration(phase, frame)
        phase.at_step = self._steps
        return self._dtype

    def _is_decided_region(self, phase: _Phase, frame: types.FrameType) -> bool:
        """Whether this is the region that all is decided for: next to nothing is done then."""
        if (id(frame.f_code), frame.f_lasti) != phase.site or (torch.is_grad_enabled() and not phase.training):
            return False
        self._regions_since = 0
        phase.at_step = self._steps
        phase.passed.add(self._dtype)
        if self._dtype is torch.float32:
            self._stop_lifting()
        return True

    # ------------------------------------------------------------ phases

    def _has_left(self, phase: _Phase) -> bool:
        """Whether the script has gone on to other regions for good."""
        self._regions_since += 1
        return self._steps - phase.at_step > _GONE or (self._steps == phase.at_step and self._regions_since > _UNSEEN)

    def _enter_phase(self, frame: types.FrameType, training: bool) -> _Phase:
        site = id(frame.f_code), frame.f_lasti
        phase = self._phases.get(site)
        if phase is None or phase.training is not training:  # new, or evaluated before it trains
            where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            phase = self._phases[site] = _Phase(site, where, training, self._make_trial())
            self._recall(phase)
        self._phase, self._stepped_since, phase.at_step = phase, False, self._steps
        self._misfit = None
        if self._given_up:
            phase.verdict = False
        if phase.verdict is None:
            self._use(low=False)
            self._note(phase, "trying", f"{self._low_name} against float32: {self._reason}")
        elif phase.verdict and (misfit := self._has_misfit()):  # another run, or part of this one, had none
            self._decide(phase, False, misfit)
        else:
            self._use(low=phase.verdict)
        return phase

    def _note_region(self, phase: _Phase, frame: types.FrameType) -> None:
        if phase.verdict is None and (what := (id(frame.f_code), frame.f_lasti)) not in phase.regions:
            phase.regions.add(what)
            phase.trial.note_event(what)

    # ------------------------------------------------------------ iterations

    def _next_iteration(self, phase: _Phase, frame: types.FrameType) -> None:
        if phase.stepping and not self._stepped_since:
            return
        if self._stepped_since and not phase.stepping:
            phase.stepping = True
            if not phase.trial.measured:
                phase.trial = self._make_trial()  # what were iterations before were parts of one
        self._stepped_since = False
        if phase.iterations:
            phase.passed.add(self._dtype)
        now = time.monotonic()
        phase.longest, phase.last = max(phase.longest, now - phase.last), now
        phase.iterations += 1
        if phase.iterations <= 3:
            phase.first = phase.longest
        if phase.expired:
            self._decide(phase, False, "not tried to the end, steps take too long")
            return
        phase.trial.setup = phase.first if self._chooses_kernels() else 0.0
        low = phase.trial.next_iteration()
        begins = low and self._dtype is not self._low
        reason = _untried_reason() if begins or not phase.tried else ""
        if (reason or begins) and (misfit := self._has_misfit()):
            self._decide(phase, False, f"untried: {misfit}")
            return
        if begins and self._is_float32_an_error():
            self._decide(phase, False, "untried: torch warns of regions in float32, and warnings are errors here")
            return
        if reason:
            known = [other.verdict for other in self._phases.values() if other.verdict is not None]
            worth = known[-1] if known else self._is_worth_it_untried()
            self._decide(phase, worth, f"untried: {reason}")
            return
        phase.tried = True
        self._use(low=low)
        phase.regions.clear()
        if (caller := frame.f_back) is not None:  # a helper that several steps share
            phase.trial.note_event((id(caller.f_code), caller.f_lasti))
        if phase.trial.decided:
            self._conclude(phase)

    def _has_misfit(self) -> str:
        """Which networks of the program, if any, are in float16 in every region, those that lift included."""
        if self._misfit is None:
            self._misfit = "" if self._place.type == "cpu" else program_state.float16_in_any_region(self._place.type)
        return self._misfit

    def _chooses_kernels(self) -> bool:
        """Whether the first step in another precision tries all kernels, as the first one of all did."""
        return self._place.type == "cuda" and torch.backends.cudnn.benchmark

    def _is_float32_an_error(self) -> bool:
        """Whether a checkpoint ends the program that was made in a region that lifts: it opens the same region again
        in the backward pass, of which torch warns on a CPU. Without trials nothing has to be lifted.
        """
        if self._refuses_float32 is None:
            self._refuses_float32 = False
            with warnings.catch_warnings(record=True):
                try:
                    torch.autocast(self._place.type, dtype=torch.float32)
                except Warning:  # `python -W error`
                    self._refuses_float32 = True
        return self._refuses_float32

    def _conclude(self, phase: _Phase) -> None:
        trial = phase.trial
        worth = trial.state is TrialState.ADOPTED
        self._decide(phase, worth, _speedup(worth, trial.ratio, trial.measured) or trial.why)
        if trial.ratio is not None and (trial.has_evidence or (not worth and trial.is_clear_loss)):
            decision = {"low": worth, "ratio": round(trial.ratio, 3), "steps": trial.measured}
            decision_cache.keep("amp", decision, *self._facts(phase))

    def _decide(self, phase: _Phase, worth: bool, reason: str) -> None:
        phase.verdict = worth
        self._last_scan = time.monotonic()
        self._use(low=worth)
        self._note(phase, self._low if worth else None, f"{self._low_name} {reason}")

    def _is_worth_it_untried(self) -> bool:
        """CPUs are as likely slower as faster, and float16 may lose what a repeatable run is to show."""
        if not _runs_agree():
            return True
        return self._place.type != "cpu" and (is_distributed() or self._low is torch.bfloat16)

    def _recall(self, phase: _Phase) -> None:
        match decision_cache.recall("amp", *self._facts(phase)) if not _runs_agree() else None:
            case {"low": False, "why": str() as why}:
                phase.verdict = False
                self._note(phase, None, f"{why}, in an earlier run")
            case {"low": bool() as low, "ratio": int() | float() as ratio, "steps": int() as steps} if (
                not _untried_reason()
            ):
                phase.verdict = low
                value = self._low if low else None
                self._note(phase, value, f"{self._low_name} {_speedup(low, ratio, steps)}, in an earlier run")

    def _facts(self, phase: _Phase) -> tuple[object, ...]:
        return phase.where, phase.training, self._low, devices.hardware_name(self._place)

    def _note(self, phase: _Phase, value: object, reason: str) -> None:
        note(f"autocast {phase.where}", Decision(value, reason))

    # ------------------------------------------------------------ what goes wrong

    def region_failed(self, failure: BaseException, dtype: torch.dtype) -> None:
        """An exception has left a region; in the first step of its precision it is likely to be that precision's.

        It is remembered if steps in another precision came to their end: else it may be the script's own.
        """
        phase = self._phase
        if phase is None or dtype in phase.passed or threading.get_ident() != self._owner:
            return
        lines = str(failure).strip().splitlines()
        why = f"{type(failure).__name__} in the first step: {lines[0] if lines else ''}"
        self._drop(phase, why, keep=bool(phase.passed))
        self._low_precision_seen, self._dtype = False, None  # nor lifted: some operations refuse any region

    def give_up(self, why: str) -> None:
        """No low precision any more, here and in later runs."""
        self._given_up = True
        for phase in self._phases.values():
            self._drop(phase, why)

    def _drop(self, phase: _Phase, why: str, *, keep: bool = True) -> None:
        self._decide(phase, False, why)
        if keep:
            decision_cache.keep("amp", {"low": False, "why": f"{self._low_name} {why}"}, *self._facts(phase))

    # ------------------------------------------------------------ what is in force

    def is_low(self) -> bool:
        """Whether the step in progress is in low precision, as far as this is known."""
        return self._phase is None or self._dtype is self._low

    def _use(self, *, low: bool) -> None:
        if low:
            self._low_precision_seen = True
            self._dtype = self._low
        else:
            self._dtype = torch.float32 if self._low_precision_seen else None

    def _stop_lifting(self) -> None:
        """Go back to no regions, some time after low precision was given up, if none of its results is left."""
        now = time.monotonic()
        if now - self._last_scan > self._scan_interval:
            self._last_scan, self._scan_interval = now, 4 * self._scan_interval
            if not program_state.any_tensor_of(self._low):
                self._low_precision_seen = False
                self._dtype = None


# By the type of device. Every region asks, so there is one for each, whatever its index.
_controllers: Final[dict[str, AutocastController]] = {}


def controller_of(device: torch.device, candidate: Decision) -> AutocastController:
    """The controller of the regions on this kind of device."""
    found = _controllers.get(device.type)
    if found is None:
        found = _controllers[device.type] = AutocastController(device, candidate)
    return found


# The kinds of device on which gradients overflowed float16 all the time.
_overflowed: Final[set[str]] = set()


def bears_float16(kind: str) -> bool:
    """Whether nothing speaks against float16 on a kind of device, as far as the run has come."""
    return kind not in _overflowed


def is_low(kind: str) -> bool:
    """Whether the step in progress may be in float16 on a kind of device, so that its gradients are to be scaled."""
    controller = _controllers.get(kind)
    return bears_float16(kind) and (controller is None or controller.is_low())


def note_overflow(kind: str, times: int) -> None:
    """Gradients overflowed so many times in a row, and optimizers were not stepped: float16 will not do."""
    _overflowed.add(kind)
    why = f"overflowed in {times} steps in a row"
    warn_once(f"float16 {why}, which changed nothing: from now on steps are in float32 (AUTOACCEL_DISABLE=amp: always)")
    if kind in _controllers:
        _controllers[kind].give_up(why)


def note_optimizer_step() -> None:
    """An optimizer has stepped."""
    for controller in _controllers.values():
        controller.optimizer_stepped()


def settled() -> bool:
    """Whether no low precision is being tried: regions stay as they are, as far as can be told now."""
    return all(controller.settled() for controller in _controllers.values())


def new_trial(place: torch.device) -> ABTrial:
    """A trial of low precision on a device."""
    return ABTrial(clock_of(place), POLICY)


def _speedup(worth: bool, ratio: float | None, steps: int) -> str:
    if ratio is None:
        return ""
    unsure = ", not clearly faster" if not worth and ratio >= 1.0 else ""
    return f"{ratio:.2f}x as fast as float32 over {steps} steps{unsure}"


def _runs_agree() -> bool:
    """Whether several runs have to decide alike, as they would not by what they measure: ranks that train together, and
    those of a script that asks for the same results in each."""
    return is_distributed() or torch.backends.cudnn.deterministic or torch.are_deterministic_algorithms_enabled()


def _untried_reason() -> str:
    """Why nothing is tried: runs must agree, and compiled code would be compiled again."""
    if is_distributed():
        return "all processes of a distributed run do the same"
    if _runs_agree():
        return "the script asks for the same results in each run"
    if program_state.is_anything_compiled():
        return "what is compiled is not compiled twice to try"
    return ""
