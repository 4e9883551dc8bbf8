"""Whether an optimizer's fused kernel is faster than its default: decided by a trial over the script's own steps.

By default Adam makes a dozen operations of each parameter's update (on a GPU of all parameters' together); the fused
kernel reads and writes every value once. Mostly that is faster, on a CPU above all, but not everywhere
(https://github.com/pytorch/pytorch/issues/121857). Results differ by rounding.

The fused kernel is more particular, and on a CPU it does not tell (torch 2.13): it goes through memory as if
parameters, gradients and state lay there in the same order. So before each fused step they are looked at
(`kernel_fit`), and where they differ the default takes over for good. Nor does it count versions, by which autograd and
others see that a tensor has changed: they are counted here.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, Final, TypeVar

import torch

from .. import devices
from ..amp import autocast_controller
from ..amp.grad_scaler import parameters_of
from ..compile import compile_controller
from ..environment import disabled
from ..trial import ab_trial
from ..trial.ab_trial import TrialPolicy
from ..trial.clocks import HostClock, clock_of
from ..trial.on_or_off import Question, untriable
from .kernel_fit import KernelFit

_Kind = TypeVar("_Kind")

# On a CPU the update alone is timed, elsewhere whole steps, of which it is a part. Long updates are as good as certain
# after a few of them: by default they take twice to nine times as long.
_UPDATES: Final = TrialPolicy(gain=1.05, share=0.1, seconds=0.02, iterations=16, fewest=4, counted=(4, 40))
_STEPS: Final = TrialPolicy(gain=1.02, counted=(10, 40))

_BY_HAND: Final = "its implementation is chosen by hand"
_tried: Final[weakref.WeakSet[FusedStep]] = weakref.WeakSet()
attached: Final[weakref.WeakKeyDictionary[torch.optim.Optimizer, FusedStep]] = weakref.WeakKeyDictionary()


def optimizer(optimizer: _Kind) -> _Kind:
    """The same optimizer; of Adam and AdamW the fused kernel is tried at the script's own steps, and kept if faster.

    `state_dict()` says nothing of the kernel: checkpoints are those of the plain script, and go both ways.

    Args:
        optimizer: Of any kind; what has no fused kernel, or has its implementation chosen by hand, is left alone.
    """
    if isinstance(optimizer, torch.optim.Optimizer) and type(optimizer) in (torch.optim.Adam, torch.optim.AdamW):
        if optimizer not in attached and not disabled("fused"):
            FusedStep(optimizer)
    return optimizer


def settled() -> bool:
    """Whether no optimizer is being tried by whole steps at this moment; one that is not disturbs nothing."""
    now = time.monotonic()
    return not any(each.question.is_tried(now) for each in list(_tried) if not each.is_timed_by_itself)


def is_fused(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer's next step is one kernel's, by the script's choice or by ours."""
    ours = attached.get(optimizer)
    return (ours is not None and ours.fused) or all(group.get("fused") for group in optimizer.param_groups)


class UpdateClock(HostClock):
    """The seconds that were spent in an optimizer's steps: on a CPU, a step is done when it returns."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._began: float | None = None

    def begin(self) -> None:
        """A step begins."""
        self._began = time.perf_counter()

    def end(self) -> None:
        """A step has ended."""
        if self._began is not None:
            self._spent += time.perf_counter() - self._began
            self._began = None

    def mark(self) -> float:
        """The seconds so far."""
        return self._spent


class FusedStep:
    """Decides before each step of an optimizer which kernel makes it, and sees to it that the kernel can.

    Between steps the optimizer's groups are those of the plain script: who prints them reads nothing of the kernel. A
    choice that the script makes, or a checkpoint brings, is left as it is.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.question = Question("fused", "FUSED", "fused optimizer")
        self.fused = False
        self._running = False  # a step by the fused kernel
        self._begun = False
        self.is_timed_by_itself = False  # the update alone, not the step
        self._update_clock = UpdateClock()
        self._fit = KernelFit()
        attached[optimizer] = self
        self._hook = optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)
        optimizer.register_state_dict_post_hook(_as_by_default)
        optimizer.register_load_state_dict_post_hook(self._after_loading)

    # ------------------------------------------------------------ the script's steps

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._is_over() or torch.compiler.is_compiling():
            return
        if not self._begun:
            self._begun = True
            self._begin(optimizer)
        if self._running:  # the last step raised
            self._end(optimizer)
        self._heed(optimizer, args, kwargs)
        if self._is_over():
            return
        fused = self._next_step() if self.question.trial is not None else bool(self.question.answer)
        if fused and (problem := self._later_hook(optimizer) or self._fit.problem(optimizer)):
            self.question.decide(False, problem)
            fused = False
        self._switch(optimizer, fused=fused)
        if fused:
            _choose(optimizer, True)
            self._running = True
        if self.question.trial is not None:
            self._update_clock.begin()

    def _after_step(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        if self._is_over() or torch.compiler.is_compiling():
            return
        self._update_clock.end()
        if self._running:
            self._end(optimizer)
            count_versions(self._fit.updated)

    def _later_hook(self, optimizer: torch.optim.Optimizer) -> str:
        """What may still change gradients after they were looked at."""
        last = next(reversed(optimizer._optimizer_step_pre_hooks), None)  # noqa: SLF001
        return "" if last == self._hook.id else "a hook runs before the step"

    def _is_over(self) -> bool:
        return self.question.answer is False

    def _heed(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Give way to a kernel that was chosen since, by the script or a checkpoint, and to a closure."""
        chosen = [group.get("fused") for group in optimizer.param_groups]
        if self._is_over():
            return
        if any(each is not None for each in chosen):
            if not all(chosen):
                self._switch(optimizer, fused=False)
            self.fused = False  # not by us
            self.question.decide(False, _BY_HAND)
        elif _has_closure(optimizer, args, kwargs):
            self._switch(optimizer, fused=False)
            self.question.decide(False, "steps are given a closure")

    def _end(self, optimizer: torch.optim.Optimizer) -> None:
        _choose(optimizer, None)
        self._running = False

    def _after_loading(self, _optimizer: torch.optim.Optimizer) -> None:
        """The groups are the checkpoint's now, in which the default made the steps."""
        self.fused = False

    # ------------------------------------------------------------ the trial

    def _begin(self, optimizer: torch.optim.Optimizer) -> None:
        place = next((each.device for each in parameters_of(optimizer)), torch.device("cpu"))
        on_cpu = place.type == "cpu"
        self.is_timed_by_itself = on_cpu
        clock = self._update_clock if on_cpu else clock_of(place)
        policy = _UPDATES if on_cpu else _STEPS
        problem = _unsuitable(optimizer)
        facts = () if problem else facts_of(optimizer, place)
        untried = not on_cpu if torch.backends.cudnn.deterministic else None  # the kernel is the same in each run
        self.question.ask(problem, facts, clock, policy, "against the default", untried=untried)
        _tried.add(self)

    def _next_step(self) -> bool:
        """Whether the fused kernel makes the step that begins, while it is being tried."""
        self.question.note_step()
        if self.is_timed_by_itself:
            fused = self.question.next_step(undisturbed=True, steps="updates")
            if fused:
                self._tell_others()
            return fused
        undisturbed = autocast_controller.settled() and compile_controller.settled()
        return self.question.next_step(undisturbed, steps="updates")

    def _tell_others(self) -> None:
        """Keep trials of whole steps from taking for their own what the fused kernel saves in a step.

        They need not wait for this one, nor this one for them, which may take minutes: an update reads and writes the
        same memory whatever precision, layout or code its gradients come from. So until this one is decided, all steps
        that they count have updates by default, and afterwards none: those from here on are held against one another.
        """
        alone = [each.question.trial for each in list(_tried) if each.is_timed_by_itself]
        kept = self.question.trial is None
        for trial in ab_trial.undecided():
            if trial in alone:
                continue
            trial.discard_iteration()
            if kept:
                trial.renew_baseline()
        if kept:
            compile_controller.renew_estimates()

    def _switch(self, optimizer: torch.optim.Optimizer, *, fused: bool) -> None:
        if fused is self.fused:
            return
        self.fused = fused
        for parameter in parameters_of(optimizer):
            state = optimizer.state.get(parameter)
            if state and parameter.device.type != "cpu":  # each of the two counts its steps elsewhere
                state["step"] = state["step"].to(parameter.device if fused else "cpu")


def _choose(optimizer: torch.optim.Optimizer, fused: bool | None) -> None:
    for group in optimizer.param_groups:
        group["fused"] = fused


def _unsuitable(optimizer: torch.optim.Optimizer) -> str:
    """Why the fused kernel is out of the question from the first step on; empty if it is not."""
    if problem := untriable(exact=True):
        return problem
    chosen = ("fused", "foreach", "capturable", "differentiable")
    if any(group.get(name) for group in optimizer.param_groups for name in chosen):
        return _BY_HAND
    if any(group.get(name) is False for group in optimizer.param_groups for name in ("fused", "foreach")):
        return _BY_HAND
    for parameter in parameters_of(optimizer):
        if torch.nn.parameter.is_lazy(parameter):
            return "parameters that have no size yet"
        if parameter.dtype is not torch.float32 or parameter.device.type not in ("cpu", "cuda"):
            return f"{parameter.dtype} parameters on {parameter.device.type}"
    return ""


def _as_by_default(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """What is saved if the default makes the steps: the next run may be on another machine, or without this runtime."""
    ours = attached.get(optimizer)
    if ours is None or not ours.fused:
        return state_dict
    groups = [{**group, "fused": None} for group in state_dict["param_groups"]]
    state = {key: _on_host(each) for key, each in state_dict["state"].items()}
    return {**state_dict, "state": state, "param_groups": groups}


def _on_host(state: Any) -> Any:
    if isinstance(state, dict) and isinstance(step := state.get("step"), torch.Tensor) and step.device.type != "cpu":
        return {**state, "step": step.cpu()}
    return state


def count_versions(changed: list[torch.Tensor]) -> None:
    try:
        torch.autograd.graph.increment_version(changed)
    except TypeError:  # before torch 2.7: one at a time
        for each in changed:
            torch.autograd.graph.increment_version(each)


def _has_closure(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(each is not None and each is not optimizer for each in (*args, *kwargs.values()))


def facts_of(optimizer: torch.optim.Optimizer, place: torch.device) -> tuple[object, ...]:
    """By which an optimizer on this device is known again in a later run."""
    sizes = [each.numel() for each in parameters_of(optimizer)]
    return type(optimizer).__name__, len(sizes), sum(sizes), devices.hardware_name(place)
