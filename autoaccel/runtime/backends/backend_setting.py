"""Whether a setting of torch's backends makes the script's steps faster: decided by a trial, switched between steps.

A step goes from one call of an optimizer to the next one of the same optimizer. Nothing is done before an optimizer of
float32 parameters on a CUDA device has stepped, and nothing that would start CUDA.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .. import devices
from ..amp import autocast_controller
from ..compile import compile_controller
from ..environment import Decision, note
from ..memory_layout import channels_last_call
from ..optim import fused_step
from ..trial.ab_trial import ABTrial, TrialPolicy
from ..trial.clocks import clock_of
from ..trial.on_or_off import IDLE, Question, untriable

_OTHERS: Final = (autocast_controller, compile_controller, fused_step, channels_last_call)
POLICY: Final = TrialPolicy(gain=1.03)

_settings: Final[list[SettingOnTrial]] = []  # in this order, one after the other
_awaited: Final[list[Callable[[], bool]]] = []


@dataclass(frozen=True, slots=True)
class BackendSetting:
    """A setting: its name in decisions, the user's variable, how it is switched, and why it is not to be.

    choosing: whether it tries all kernels in the first step in which it is on.
    """

    topic: str
    variable: str
    switch: Callable[[bool], None]
    problem: Callable[[torch.device], str]
    choosing: bool = False


def settled() -> bool:
    """Whether no setting is being tried at this moment."""
    now = time.monotonic()
    return not any(each.is_tried(now) for each in _settings)


def is_switching() -> bool:
    """Whether settings may be switched at this moment: not where all that is left waits until it may time kernels."""
    now = time.monotonic()
    return any(each.is_tried(now) and not each.gives_way for each in _settings)


def give_way_to(decided: Callable[[], bool]) -> None:
    """Let settings that take long to try wait for something that is worth more, until this says that it is decided."""
    _awaited.append(decided)


def try_setting(wanted: BackendSetting) -> None:
    """Try a setting at the steps to come; once in a program."""
    if all(each.setting.topic != wanted.topic for each in _settings):
        found = SettingOnTrial(wanted)
        _settings.append(found)
        register_optimizer_step_post_hook(found.after_step)


class SettingOnTrial:
    """Decides after each step of an optimizer how the next one is made."""

    def __init__(self, tried: BackendSetting) -> None:
        self.setting = tried
        self._stepped = 0.0
        self._began = False
        self._optimizer: weakref.ref[torch.optim.Optimizer] | None = None
        self._trial: ABTrial | None = None
        self._question = Question(tried.topic, tried.variable)
        self._first = 0.0  # seconds that the first steps took

    def is_tried(self, now: float) -> bool:
        """Whether it has yet to be decided, by steps that are still made."""
        return self._trial is not None and now - self._stepped <= IDLE

    @property
    def gives_way(self) -> bool:
        """Whether it tries all kernels in its first step, and has not made that yet: it may take minutes until so much
        may be lost."""
        return self.setting.choosing and self._trial is not None and not self._trial.candidate_ran

    def after_step(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        """An optimizer has stepped."""
        if torch.compiler.is_compiling() or (self._began and self._trial is None):
            return
        known = self._optimizer() if self._optimizer is not None else None
        if known is None:
            self._optimizer = weakref.ref(optimizer)
        elif known is not optimizer:
            return
        before, self._stepped = self._stepped, time.monotonic()
        if not self._began:
            self._begin(optimizer)
        elif self._trial is not None:
            if self._trial.iterations < 3:
                self._first = max(self._first, self._stepped - before)
            self._next_step(self._trial)

    def _begin(self, optimizer: torch.optim.Optimizer) -> None:
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        place = parameters[0].device if parameters else torch.device("cpu")
        sizes = [each.numel() for each in parameters]
        self._began = True
        facts = type(optimizer).__name__, len(sizes), sum(sizes), devices.hardware_name(place)
        self._question = self._question.given(*facts)
        if problem := _unsuitable(parameters, place) or self.setting.problem(place):
            self._note(False, problem)
        elif known := self._question.known():
            self._decide(known.value, known.reason)
        else:
            self._trial = ABTrial(clock_of(place), POLICY)
            self._note("trying", "at the script's own steps")

    def _next_step(self, trial: ABTrial) -> None:
        first = next((each for each in _settings if each.is_tried(self._stepped)), self)
        waits = self.gives_way and not all(decided() for decided in _awaited)
        if waits or first is not self or not all(each.settled() for each in _OTHERS):
            self.setting.switch(False)
            trial.discard_iteration()  # what those compare is not to change beneath them
            return
        trial.setup = self._first if self.setting.choosing else 0.0
        on = trial.next_iteration()
        self.setting.switch(on)
        if trial.decided:
            decision = self._question.concluded(trial)
            self._decide(decision.value, decision.reason)

    def _decide(self, on: bool, why: str) -> None:
        self._trial = None
        self.setting.switch(on)
        self._note(on, why)

    def _note(self, value: object, why: str) -> None:
        note(self.setting.topic, Decision(value, why))


def _unsuitable(parameters: list[torch.Tensor], place: torch.device) -> str:
    """Why no setting is to be tried; empty if nothing speaks against it."""
    if place.type != "cuda":
        return f"it trains on {place.type}"
    if problem := untriable():
        return problem
    if any(each.dtype is not torch.float32 for each in parameters):
        return "parameters are not float32"
    return ""
