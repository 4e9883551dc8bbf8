"""`accel.matmul_precision` and `accel.cudnn_benchmark`: settings of torch's backends for CUDA, on trial.

Whether one makes the script's steps faster is decided by a trial in which it is switched between steps. Where it is out
of the question is said beforehand, without starting CUDA: where there is no such device, and where the script or its
user has chosen already.

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
from ..amp.grad_scaler import parameters_of
from ..compile import compile_controller
from ..environment import Decision, disabled, note
from ..memory_layout import channels_last_call
from ..optim import fused_step
from ..optim.fused_step import facts_of
from ..trial.ab_trial import TrialPolicy
from ..trial.clocks import clock_of
from ..trial.on_or_off import Question, untriable

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


def matmul_precision() -> None:
    """Try matrix products of float32 in TensorFloat-32 on a CUDA device of compute capability 8.0 or above.

    Operands are rounded to 10 bits of mantissa, sums stay float32. Convolutions do so by default.
    (https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html)
    """
    if _is_possible("matmul_precision"):
        try_setting(BackendSetting("matmul precision", "MATMUL_PRECISION", _round_products, _precision_problem))


def cudnn_benchmark() -> None:
    """Try cuDNN's benchmark: for each new shape it times all kernels, and takes the fastest one.

    Which that is may differ from run to run, and with it rounding.
    (https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark)
    """
    if _is_possible("cudnn_benchmark"):
        try_setting(BackendSetting("cudnn benchmark", "CUDNN_BENCHMARK", _benchmark, _cudnn_problem, choosing=True))


def _is_possible(feature: str) -> bool:
    topic = feature.replace("_", " ")
    if disabled(feature):
        note(topic, Decision(False, "AUTOACCEL_DISABLE"))
        return False
    if not devices.available(torch.device("cuda")):
        note(topic, Decision(False, "there is no CUDA device"))
        return False
    return True


def _round_products(on: bool) -> None:
    torch.set_float32_matmul_precision("high" if on else "highest")


def _precision_problem(place: torch.device) -> str:
    if devices.capability(place) < (8, 0):
        return "compute capability below 8.0"
    try:
        chosen = torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # chosen by `fp32_precision`, with which it cannot be mixed
        chosen = True
    return "it is chosen already" if chosen else ""


def _benchmark(on: bool) -> None:
    torch.backends.cudnn.benchmark = on


def _cudnn_problem(_place: torch.device) -> str:
    cudnn = torch.backends.cudnn
    return "it is chosen already" if cudnn.benchmark or cudnn.deterministic or not cudnn.enabled else ""


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
        self._question = Question(tried.topic, tried.variable)
        self._began = False
        self._optimizer: weakref.ref[torch.optim.Optimizer] | None = None

    def is_tried(self, now: float) -> bool:
        """Whether it has yet to be decided, by steps that are still made."""
        return self._question.is_tried(now)

    @property
    def gives_way(self) -> bool:
        """Whether it tries all kernels in its first step, and has not made that yet: it may take minutes until so much
        may be lost."""
        trial = self._question.trial
        return self.setting.choosing and trial is not None and not trial.candidate_ran

    def after_step(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        """An optimizer has stepped."""
        question = self._question
        if torch.compiler.is_compiling() or (self._began and question.trial is None):
            return
        known = self._optimizer() if self._optimizer is not None else None
        if known is None:
            self._optimizer = weakref.ref(optimizer)
        elif known is not optimizer:
            return
        if not self._began:
            self._begin(optimizer)
            return
        question.note_step()
        first = next((each for each in _settings if each.is_tried(time.monotonic())), self)
        waits = self.gives_way and not all(decided() for decided in _awaited)
        undisturbed = first is self and not waits and all(each.settled() for each in _OTHERS)
        self.setting.switch(question.next_step(undisturbed, chooses_kernels=self.setting.choosing))

    def _begin(self, optimizer: torch.optim.Optimizer) -> None:
        self._began = True
        parameters = list(parameters_of(optimizer))
        place = parameters[0].device if parameters else torch.device("cpu")
        problem = _unsuitable(parameters, place) or self.setting.problem(place)
        self._question.ask(problem, facts_of(optimizer, place), clock_of(place), POLICY, "at the script's own steps")
        if not problem and self._question.answer is not None:
            self.setting.switch(self._question.answer)


def _unsuitable(parameters: list[torch.Tensor], place: torch.device) -> str:
    """Why no setting is to be tried; empty if nothing speaks against it."""
    if place.type != "cuda":
        return f"it trains on {place.type}"
    if problem := untriable():
        return problem
    if any(each.dtype is not torch.float32 for each in parameters):
        return "parameters are not float32"
    return ""
