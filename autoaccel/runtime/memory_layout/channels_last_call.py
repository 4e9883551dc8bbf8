"""Whether a model's pictures had better lie in memory pixel by pixel: decided by a trial over the script's own steps.

Convolutions work on the channels of one pixel after the other; where pictures lie channel by channel, they reorder them
first, at every layer. So the pictures that a model is given are copied channels last, and all that convolutions and
normalisations make of them stays so. Mostly that is faster, but not for every model
(https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html). Results differ by rounding, and dropout
draws other masks.

Only what passes through the model's own call is laid out otherwise. Parameters stay where and as they are, so nothing
that looks at them finds a difference: optimizers, checkpoints, averages, copies. The script's own pictures and
gradients of them, and what the model returns, lie as the script has them.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Hashable, Iterator
from typing import Any, Final, TypeVar

import torch
from torch import nn

from .. import devices
from ..amp import autocast_controller
from ..compile import compile_controller
from ..compile.call_signature import signature
from ..compile.in_place_compile import hooked
from ..compile.step_timer import StepDetector, sample_parameters
from ..environment import Decision, disabled, note
from ..execution_mode import in_backward, is_intercepted, is_traced
from ..in_place_call import InPlaceCall, is_plain, rank_of, stands_in
from ..optim import fused_step
from ..replicas import is_replicated
from ..trial.ab_trial import TrialPolicy
from ..trial.clocks import clock_of
from ..trial.on_or_off import Question, untriable
from .layout_inspection import Inspection, LayoutGuard, leaves_torch
from .memory_format import all_contiguous, is_picture, tensors_in, to_channels_last

_Model = TypeVar("_Model")
_CONVOLUTIONS: Final = (nn.Conv2d, nn.ConvTranspose2d)
_KINDS: Final = 16  # of arguments that are looked at
POLICY: Final = TrialPolicy()

_tried: Final[list[weakref.ref[ChannelsLastCall]]] = []  # in this order, one after the other


def channels_last(model: _Model) -> _Model:
    """The same model, whose pictures lie channels last in memory where that is measured to be faster.

    Args:
        model: Its arguments of four dimensions are pictures (N, C, H, W). A model without convolutions over two
            dimensions, or one that is compiled or exported, is left alone. Replicas are, on several devices.
    """
    if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
        channels_last(model.module)
        return model
    if disabled("channels_last"):
        note("channels last", Decision(False, "AUTOACCEL_DISABLE"))
    elif isinstance(model, nn.Module) and _may_be_laid_out(model):
        ChannelsLastCall(model).install_beneath()
    return model


def settled() -> bool:
    """Whether no layout is being tried at this moment."""
    return not any(_trying())


def _may_be_laid_out(module: nn.Module) -> bool:
    unfit = isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod")
    unfit = unfit or any(map(is_replicated, module.modules()))
    if unfit or not is_plain(module) or stands_in(module, ChannelsLastCall):
        return False
    return any(isinstance(inner, _CONVOLUTIONS) for inner in module.modules())


def _trying() -> Iterator[ChannelsLastCall]:
    """The calls whose layout is being tried, those before others that have to wait for them."""
    now = time.monotonic()
    for reference in _tried:
        call = reference()
        if call is not None and call.question.is_tried(now):
            yield call


class ChannelsLastCall(InPlaceCall):
    """Stands in for a model's call: looks at each kind of arguments once, tries both layouts, keeps the faster."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.question = Question("channels last", "CHANNELS_LAST", f"channels last {type(module).__name__}")
        self._rank = -1  # of the calls whose time is taken: in training, with gradients alone, or in evaluation
        self._detector = StepDetector(())
        self._candidate = False  # the step in progress
        self._kinds: set[Hashable] = set()  # of arguments that were looked at
        self._hooks: tuple[int, bool] = (-1, False)
        self._place: torch.device | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model's own call."""
        if self.is_elsewhere():
            replica = self.replica(sys._getframe(1))  # noqa: SLF001
            return (self.eager if replica is None else replica._call_impl)(*args, **kwargs)  # noqa: SLF001
        if self._is_over() or not self._may_differ(args, kwargs):
            return self.eager(*args, **kwargs)
        wanted = self._is_wanted()
        if self._is_over():
            return self.eager(*args, **kwargs)
        kind = self.module.training, torch.is_grad_enabled(), signature(args, kwargs)
        if kind not in self._kinds:
            return self._first_of_its_kind(kind, args, kwargs)
        return self._channels_last(args, kwargs) if wanted else self.eager(*args, **kwargs)

    # ------------------------------------------------------------ calls

    def _is_over(self) -> bool:
        return self.question.answer is False

    def _may_differ(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this is a call on pictures that nobody else looks into."""
        if not any(map(is_picture, args)) and not any(map(is_picture, kwargs.values())):
            return False
        if is_traced() or is_intercepted() or self._has_hooks() or _is_captured(args):
            return False
        if in_backward():
            self._decline("it is computed again in the backward pass")
            return False
        return True

    def _has_hooks(self) -> bool:
        """Whether hooks see what the model computes; torch numbers those that were ever registered."""
        registered = torch.utils.hooks.RemovableHandle.next_id
        if registered != self._hooks[0]:
            own = self.module._forward_hooks or self.module._backward_hooks or self.module._backward_pre_hooks  # noqa: SLF001
            inner = hooked(self.module) or any(each._backward_hooks for each in self.module.parameters())  # noqa: SLF001
            self._hooks = registered, bool(own or inner)
        return self._hooks[1]

    def _first_of_its_kind(self, kind: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it in the script's own layout, and look at how it goes."""
        if self.question.trial is not None:
            self.question.trial.discard_iteration()
        self._candidate = False
        if devices.module_device(self.module) != self._place:  # moved since its first call: begin anew
            self._rank = -1
        if len(self._kinds) >= _KINDS:
            return self.eager(*args, **kwargs)
        pictures = [each for each in (*args, *kwargs.values()) if is_picture(each)]
        before = [each.detach().clone() for each in pictures]
        with Inspection() as inspection:
            result = self.eager(*args, **kwargs)
        problem = inspection.problem or _problem(result, pictures)
        if not all(map(torch.equal, before, pictures)):
            problem = "it changes its arguments"
        if problem:
            self._decline(problem, keep=True)
        self._kinds.add(kind)
        return result

    def _channels_last(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it with pictures channels last; who calls sees nothing of it."""
        pictures = [to_channels_last(each) for each in args]
        named = {name: to_channels_last(each) for name, each in kwargs.items()}
        with LayoutGuard() as guard:
            result = self.eager(*pictures, **named)
        if guard.problem:
            self._decline(guard.problem, keep=True)
        return all_contiguous(result)

    # ------------------------------------------------------------ the trial

    def _is_wanted(self) -> bool:
        """Whether this call is to be made channels last, as far as that is known."""
        rank = rank_of(self.module.training)
        if rank > self._rank:
            self._begin(rank)
        if self.question.trial is None:
            return bool(self.question.answer)
        if rank < self._rank:
            self.question.trial.note_event(rank)
            return False
        if self._detector.is_new_step():
            self._candidate = self._next_step()
        return self._candidate

    def _begin(self, rank: int) -> None:
        self._rank = rank
        module, self._place = self.module, devices.module_device(self.module)
        place = self._place or torch.device("cpu")
        self._detector = StepDetector(sample_parameters(module) if rank else ())
        problem = _unsuitable(module, place)
        self.question.ask(problem, self.facts(rank, place), clock_of(place), POLICY, "against the script's own layout")
        if self.question.trial is not None:
            _tried[:] = [each for each in _tried if each() is not None] + [weakref.ref(self)]
        self._withdraw_if_over()

    def _next_step(self) -> bool:
        """Whether the step that begins is one with pictures channels last."""
        self.question.note_step()
        others = autocast_controller.settled() and compile_controller.settled() and fused_step.settled()
        first = next(_trying(), self)
        tried = self.question.trial is not None
        candidate = self.question.next_step(
            others and first is self,
            chooses_kernels=torch.backends.cudnn.benchmark,  # all of them are tried once more
        )
        if tried and self.question.answer:
            compile_controller.renew_estimates()
        self._withdraw_if_over()
        return candidate

    def _decline(self, why: str, *, keep: bool = False) -> None:
        self.question.decide(False, why, keep=keep)
        self.withdraw()

    def _withdraw_if_over(self) -> None:
        if self._is_over():
            self.withdraw()


def _is_captured(args: tuple[Any, ...]) -> bool:
    """Whether a graph is being captured, in which nothing may be read and everything stays as it is."""
    if not any(isinstance(each, torch.Tensor) and each.is_cuda for each in args):
        return False
    return bool(devices.module_of("cuda").is_current_stream_capturing())


def _unsuitable(module: nn.Module, place: torch.device) -> str:
    """Why another layout is out of the question from the first call on; empty if it is not."""
    if place.type not in ("cpu", "cuda"):
        return f"not tried on {place.type}"
    if problem := untriable():
        return problem
    if any(each.dim() == 4 and not each.is_contiguous() for each in module.parameters()):
        return "its layout is chosen by hand"
    return ""


def _problem(result: Any, pictures: list[torch.Tensor]) -> str:
    """Why what a model makes of pictures cannot be made of them in another layout; empty if it can."""
    outputs = list(tensors_in(result))
    known = [each for each in outputs if each is not None]
    memory = {each.untyped_storage().data_ptr() for each in pictures}
    if len(known) < len(outputs) or any(not each.is_contiguous() for each in known):
        return "what it returns is not laid out plainly"
    if any(each.untyped_storage().data_ptr() in memory for each in known):
        return "it returns its arguments"
    return "a function of the program takes part in its backward pass" if leaves_torch(known, pictures) else ""
