"""Hooks on torch: every backward and every optimizer step, also those that a scaler leaves out, become events."""

from __future__ import annotations

import builtins
import re
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from autoaccel.measure.observing.digests import digest_of
from autoaccel.measure.observing.exchange import Beat
from autoaccel.measure.observing.files_written import place
from autoaccel.measure.observing.hooks import around, untraced
from autoaccel.measure.observing.observation import Batch, Concerns, Observation, Observer, frames
from autoaccel.measure.observing.run_record import STOPPED, Loss

# What a scaled loss was before it was scaled.
_UNSCALED = "_autoaccel_unscaled"


class Training(Observer):
    """Counts backwards and steps, tells of them, and ends the run in time."""

    def __init__(self) -> None:
        self.device = "cpu"
        self._scalers = 0
        self._first_step: float | None = None
        self._known: dict[int, Optimizer] = {}
        self._going_backward: set[threading.Thread] = set()

    def install(self, observation: Observation) -> None:
        self._observation = observation
        self._events = observation.events
        self._beat = Beat(observation.exchange)
        self._hook_backward()
        self._hook_scaler()
        self._hook_optimizers()

    def contribute(self) -> dict[str, Any]:
        return {"optimizers": len(self._known), "device": self.device, "scalers": self._scalers}

    def _hook_backward(self) -> None:
        @around(torch.autograd, "backward")
        def backward(plain: Callable[..., None], tensors: Any, *args: Any, **kwargs: Any) -> None:
            thread = threading.current_thread()
            if thread in self._going_backward or isinstance(thread, threading._DummyThread):  # noqa: SLF001
                return plain(tensors, *args, **kwargs)  # inside a backward, as checkpointing does
            roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
            self._before_backward(roots)
            self._going_backward.add(thread)
            try:
                plain(roots, *args, **kwargs)
            finally:
                self._going_backward.discard(thread)
            return self._after_backward()

    def _before_backward(self, roots: list[Tensor]) -> None:
        if not self._events.optimizers and self._enough(self._events.backwards):
            self._observation.end(STOPPED)  # only now has the script made use of the last gradients
        unscaled = [getattr(root, _UNSCALED, root) for root in roots]
        for told in self._events.before_backward:
            told(unscaled)

    def _after_backward(self) -> None:
        self._events.backwards += 1
        for told in self._events.after_backward:
            told()
        if not self._events.optimizers:
            self._stepped(None)

    def _hook_scaler(self) -> None:
        @around(GradScaler, "__init__")
        def create(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
            self._scalers += 1
            plain(*args, **kwargs)

        @around(GradScaler, "scale")
        def scale(plain: Callable[..., Any], scaler: GradScaler, outputs: Any) -> Any:
            if not isinstance(outputs, (Tensor, list, tuple)):
                outputs = list(outputs)  # what can be read only once
            scaled = plain(scaler, outputs)
            _remember(scaled, outputs)
            return scaled

        @around(GradScaler, "step")
        def step(plain: Callable[..., Any], scaler: GradScaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            before = self._events.steps
            result = plain(scaler, optimizer, *args, **kwargs)
            if self._events.steps == before:
                self._events.skipped += 1
                self._step_over(optimizer)
            elif self._observation.request.mode == "record" and _left_out_inside(scaler, optimizer):
                self._events.skipped += 1
            return result

    def _hook_optimizers(self) -> None:
        @around(Optimizer, "__init__")
        def create(plain: Callable[..., None], *args: Any, **kwargs: Any) -> None:
            self._events.optimizers += 1
            plain(*args, **kwargs)

        @untraced
        def step_begins(optimizer: Optimizer, *_: Any) -> None:
            if self._observation.here and not _is_nested(sys._getframe(1), optimizer):  # noqa: SLF001
                for told in self._events.before_step:
                    told(optimizer)

        @untraced
        def step_over(optimizer: Optimizer, *_: Any) -> None:
            if self._observation.here and not _is_nested(sys._getframe(1), optimizer):  # noqa: SLF001
                self._step_over(optimizer)

        register_optimizer_step_pre_hook(step_begins)
        register_optimizer_step_post_hook(step_over)

    def _step_over(self, optimizer: Optimizer) -> None:
        if id(optimizer) not in self._known:
            self._known[id(optimizer)] = optimizer
            trained = (parameter for group in optimizer.param_groups for parameter in group["params"])
            self.device = next((each.device.type for each in trained if each.device.type != "cpu"), self.device)
        self._events.steps += 1
        self._stepped(optimizer)

    def _stepped(self, optimizer: Optimizer | None) -> None:
        observation = self._observation
        self._beat(self._events.steps or self._events.backwards)
        if self._first_step is None:
            self._first_step = time.monotonic()  # patience does not count how long it took to get there
        for told in self._events.after_step:
            told(optimizer)
        if optimizer is not None and self._enough(self._events.steps):
            observation.end(STOPPED)

    def _enough(self, made: int) -> bool:
        request = self._observation.request
        passed = 0.0 if self._first_step is None else time.monotonic() - self._first_step
        late = request.patience is not None and passed > request.patience
        return late or (request.steps is not None and made >= request.steps and passed >= request.at_least)


def _left_out_inside(scaler: GradScaler, optimizer: Optimizer) -> bool:
    """Whether an optimizer that looks for overflows itself, as fused ones do, found one. Waits for the device."""
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        return False
    found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]  # noqa: SLF001
    return any(bool(each) for each in found.values())


def _is_nested(frame: FrameType, optimizer: Optimizer) -> bool:
    """Whether a hook of a step is called for one inside another: a class whose `step` calls that of its base makes one
    step, not two. `frame` is that of torch's wrapper around `step`."""
    outer = (each for each in frames(frame.f_back) if each.f_code is frame.f_code)
    return any(each.f_locals.get("self") is optimizer for each in outer)


def _remember(scaled: Any, outputs: Any) -> None:
    """Keep with each scaled tensor what it was made of."""
    if isinstance(outputs, Tensor):
        if isinstance(scaled, Tensor) and scaled is not outputs:
            setattr(scaled, _UNSCALED, outputs)
    elif isinstance(outputs, (list, tuple)):
        for one, other in zip(scaled, outputs):  # noqa: B905 - as long as each other
            _remember(one, other)


# -- where nothing is trained


class Evaluating(Training):
    """A step is over when the next batch is handed out."""

    def install(self, observation: Observation) -> None:
        super().install(observation)
        self._under_way = False
        observation.events.batch.append(self._handed_out)

    def _handed_out(self, _: Batch) -> None:
        if not self._observation.here:
            return
        if self._under_way:
            self._events.steps += 1
            self._stepped(None)
        self._under_way = True


# -- steps where the text of the script says that one is over: benchmarks whose scripts are the project's own. Hooks on
# optimizers see no step of a script that only evaluates, of one that replays a graph, or of a step that is compiled
# whole; a call in the loop is the same for all of them, and torch has nothing to break a graph around


NAME = "__step_is_over__"
LINE = re.compile(r"^(?P<counts>[ \t]+step \+= 1)(?=[ \t]*(?:#.*)?$)", re.MULTILINE)
"""The one line that is marked."""


class Marking(Training):
    """Backwards are seen as ever; steps are calls of a function that the text names."""

    def install(self, observation: Observation) -> None:
        super().install(observation)
        setattr(builtins, NAME, self.step_is_over)

    def step_is_over(self, loss: Any = None) -> None:
        """Called by the script; with a loss where nothing goes backward."""
        if not self._observation.here:
            return
        if isinstance(loss, Tensor):
            for told in self._events.before_backward:
                told([loss])
        self._events.steps += 1
        self._stepped(None)

    def _hook_optimizers(self) -> None:
        pass

    def _after_backward(self) -> None:
        self._events.backwards += 1


def marked(text: str, *, loss: str = "") -> str:
    """The same text with the call on its line, so that no number of a line changes; `loss` names a variable of it.

    Raises `ValueError` unless there is exactly one such line.
    """
    found, count = LINE.subn(rf"\g<counts>; {NAME}({loss})", text)
    if count != 1:
        raise ValueError(f"{count} lines read `step += 1`, not one")
    return found


# -- what goes backward


class Losses(Observer):
    """The roots of all backwards. Single numbers are read at the end, so that no accelerator is waited for."""

    def __init__(self, concerns: Concerns | None) -> None:
        """`concerns` where it is to be noted from which line of the project each goes backward."""
        self._concerns = concerns
        self._found: list[Loss | tuple[Tensor, int, str]] = []

    def install(self, observation: Observation) -> None:
        self._events = observation.events
        observation.events.before_backward.append(self._keep)

    def contribute(self) -> dict[str, Any]:
        return {"losses": tuple(each if isinstance(each, Loss) else _number(*each) for each in self._found)}

    def _keep(self, roots: list[Tensor]) -> None:
        step = self._events.steps
        where = "" if self._concerns is None else place(sys._getframe(1), self._concerns)  # noqa: SLF001
        for root in roots:
            if root.numel() == 1 and not root.is_complex():
                self._found.append((root.detach().clone(), step, where))
            else:
                self._found.append(Loss(digest_of(root), None, step, where))


def _number(root: Tensor, step: int, where: str) -> Loss:
    value = float(root)
    return Loss(value.hex(), value, step, where)


# -- what no good rewrite does; `invariants` sees more of it


BACKWARD_IN_AUTOCAST = "a backward ran inside an autocast region"
STEP_IN_AUTOCAST = "an optimizer stepped inside an autocast region"
_DEVICES = ("cpu", "cuda", "xpu", "mps")


class Marks(Observer):
    """Looks at every backward and step; other parts note theirs by `observation.mark`."""

    def install(self, observation: Observation) -> None:
        self._observation = observation
        observation.events.before_backward.append(lambda _: self._look(BACKWARD_IN_AUTOCAST))
        observation.events.before_step.append(lambda _: self._look(STEP_IN_AUTOCAST))

    def contribute(self) -> dict[str, Any]:
        return {"marks": dict(self._observation.marks)}

    def _look(self, phrase: str) -> None:
        if any(torch.is_autocast_enabled(kind) for kind in _DEVICES):
            self._observation.mark(phrase)
