"""Takes one training step from eager to captured, and back where that is not exact or does not pay.

While anything else is tried the step runs as it is. Then three real steps are made on a side stream, the next is
captured, and the graph is proven: for some steps it is replayed, what it changed is put back, the step is made
eagerly, and both have to be equal in every bit; where kernels add in no fixed order, as close as two eager steps are
to each other. What the eager step did is kept. Only then are the two timed against
each other, and the faster way is kept. Whatever is unclear, fails or differs ends in eager steps for good.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from .. import devices, replicas
from ..amp import autocast_controller, program_state
from ..amp.grad_scaler import is_scaled
from ..backends import backend_setting
from ..compile import compile_controller
from ..environment import Decision, note, warn_once
from ..execution_mode import in_backward, is_intercepted, is_traced
from ..memory_layout import channels_last_call
from ..optim import fused_step
from ..rng_state import RngState
from ..trial.ab_trial import ABTrial, TrialPolicy, TrialState
from ..trial.clocks import clock_of
from ..trial.on_or_off import IDLE, untriable
from .assumptions import Assumptions, hooks, variables
from .captured_graph import CapturedGraph, UnfitError, signature
from .readable_values import UnboundedError
from .step_equality import is_as_close, is_same
from .training_state import Snapshot, TrainingState
from .write_recorder import WriteRecorder

_FIRST: Final = 2  # plain steps, in which others begin what they try
_WARM_UP: Final = 3  # steps on a side stream
_PROOFS: Final = 3  # steps that are made both ways
_ODD: Final = 32  # steps with other arguments while a graph is to be made: then shapes keep changing
_WORTH: Final = 20  # replays that a graph has to serve for, before another one is captured
_MEMORY: Final = 4  # times the peak that has to be free
# Where a graph brings less, the device computes most of the time: that is for torch.compile, which no graph contains.
_POLICY: Final = TrialPolicy(gain=1.2, seconds=0.0, iterations=8, fewest=8, counted=(10, 40), burst=6)


_controllers: Final[weakref.WeakSet[StepController]] = weakref.WeakSet()


def settled() -> bool:
    """Whether no step is about to be captured, or compared with its graph, at this moment."""
    now = time.monotonic()
    return not any(each.is_undecided(now) for each in list(_controllers))


# cuDNN times its kernels after a few minutes: a graph is worth more where the host is what a step waits for.
backend_setting.give_way_to(settled)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a step; `tensors` are those among its arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[torch.Tensor]

    def plainly(self) -> Any:
        """Make the step as it is."""
        return _values(self.function(*self.args, **self.kwargs))


class StepController:
    """Decides for each call of a step how it is made, and makes it."""

    def __init__(
        self, name: str, modules: Sequence[nn.Module], optimizers: Sequence[torch.optim.Optimizer], place: torch.device
    ) -> None:
        self.over = False  # eager for good
        self._name = name
        self._place = place
        self._module: Any = devices.module_of(place.type)
        self._state = TrainingState(modules, optimizers)
        self._trial = ABTrial(clock_of(place), _POLICY)
        self._thread = threading.get_ident()
        self._stream: Any = None
        self._kind: Any = None  # the signature of the arguments that a graph is made for
        self._first = _FIRST  # plain steps still to come
        self._warm = 0
        self._odd = 0
        self._held: list[torch.Tensor] = []
        self._graph: CapturedGraph | None = None
        self._assumptions: Assumptions | None = None
        self._watched: Assumptions | None = None  # since the last step before one is captured
        self._proofs = 0  # steps still to be made both ways
        self._replays = 0
        self._captures = 0
        self._called = time.monotonic()
        _controllers.add(self)

    def is_undecided(self, now: float) -> bool:
        """Whether a step that is still made, at this moment of `time.monotonic`, may yet become a graph."""
        return not self.over and not self._trial.decided and now - self._called < IDLE

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a step."""
        if self.over or threading.get_ident() != self._thread or in_backward() or is_traced() or is_intercepted():
            return function(*args, **kwargs)
        if not self._trial.decided:
            self._called = time.monotonic()
        try:
            kind, tensors = signature(args, kwargs)
        except UnfitError as problem:
            self._stop(str(problem))
            return _values(function(*args, **kwargs))
        call = _Call(function, args, kwargs, tensors)
        if self._graph is None:
            return self._without_graph(kind, call)
        if kind != self._kind or not _settled():
            self._trial.discard_iteration()
            return call.plainly()
        return self._with_graph(self._graph, call)

    # ------------------------------------------------------------ before there is a graph

    def _without_graph(self, kind: Any, call: _Call) -> Any:
        if self._first or not _settled():
            self._first = max(0, self._first - 1)
            return call.plainly()
        if not self._warm:
            self._state = TrainingState(self._state.modules, self._state.optimizers)  # with the parameters of today
            if problem := self._unsuitable(call):
                self._stop(problem)
                return call.plainly()
            self._kind = kind
        elif kind != self._kind:
            self._odd += 1
            if self._odd > _ODD:
                self._stop("shapes keep changing")
            return call.plainly()
        if self._warm == _WARM_UP:
            return self._capture(call)
        return self._warm_up(call)

    def _unsuitable(self, call: _Call) -> str:
        """Why no graph is to be made of the step; empty if nothing speaks against one."""
        if problem := untriable(exact=True):
            return problem
        if program_state.is_anything_compiled():
            return "what is compiled has graphs of its own"
        if replicas.is_anything_replicated():
            return "DataParallel runs replicas in threads of its own"
        for optimizer in self._state.optimizers:
            if not _is_capturable(optimizer):
                return "but for SGD, an optimizer is captured with its fused kernel only"
        scalers = (each for each in variables(call.function) if isinstance(each, torch.amp.GradScaler))
        if any(each.is_enabled() for each in scalers) or any(map(is_scaled, self._state.optimizers)):
            return "gradients are scaled"
        homes = {each.device for each in (*self._state.parameters, *call.tensors)}
        if len(homes) > 1:
            return f"its tensors are on {' and '.join(sorted(map(str, homes)))}"
        return hooks(self._state) or self._short_of_memory()

    def _short_of_memory(self) -> str:
        peak = int(self._module.max_memory_allocated(self._place))
        return "memory is short" if _MEMORY * peak > devices.free_memory(self._place) else ""

    def _warm_up(self, call: _Call) -> Any:
        """A real step on the stream that captures: libraries make their workspaces, autograd its accumulators."""
        if self._stream is None:
            self._stream = self._module.Stream(self._place)
        self._warm += 1
        watched = None
        if self._warm == _WARM_UP:
            try:
                watched = Assumptions(self._state, call.function)
            except UnboundedError as unbounded:
                self._stop(str(unbounded))
                return call.plainly()
        gradients = [each for each in self._state.gradients() if each is not None]
        recorder = WriteRecorder([*self._state.tensors(), *gradients], call.tensors)
        random = RngState()
        current = self._module.current_stream(self._place)
        self._stream.wait_stream(current)
        try:
            with self._module.stream(self._stream), contextlib.nullcontext() if watched is None else recorder:
                result = call.plainly()
        finally:
            current.wait_stream(self._stream)
        self._held, self._watched = recorder.held, watched
        if random != RngState():
            self._stop("it draws random numbers on the host")
        elif problem := recorder.problem or (watched.broken(call.function) if watched is not None else ""):
            self._stop(problem)
        return result

    def _capture(self, call: _Call) -> Any:
        if self._watched is not None and (problem := self._watched.broken(call.function)):
            self._stop(problem)  # it changes from step to step
            return call.plainly()
        graph = CapturedGraph(self._module, self._stream, self._state)
        try:
            self._assumptions = Assumptions(self._state, call.function)
            graph.capture(call.function, call.args, call.kwargs)
        except Exception as failure:
            self._fail(failure)
            return call.plainly()
        self._graph, self._proofs, self._captures = graph, _PROOFS, self._captures + 1
        note(f"step {self._name}", Decision("trying", "captured; steps are made both ways first"))
        return self._prove(graph, call)

    # ------------------------------------------------------------ with a graph

    def _with_graph(self, graph: CapturedGraph, call: _Call) -> Any:
        assert self._assumptions is not None
        problem = self._assumptions.broken(call.function)
        if not problem and not graph.adopt_gradients():
            problem = "gradients are cleared otherwise"
        if problem:
            return self._anew(problem, call)
        if self._proofs:
            return self._prove(graph, call)
        if not self._is_replayed():
            return call.plainly()
        self._replays += 1
        return graph.replay(call.tensors)

    def _is_replayed(self) -> bool:
        """Whether this step is for the graph to make: while the two are timed against each other, they take turns."""
        decided = self._trial.decided
        replays = self._trial.next_iteration()
        if not decided and self._trial.decided:
            self._conclude()
        return replays

    def _prove(self, graph: CapturedGraph, call: _Call) -> Any:
        """Make the step both ways; what remains is what the eager one did."""
        graph.adopt_gradients()
        before = Snapshot(self._state, self._place)
        replayed = graph.replay(call.tensors)
        after = Snapshot(self._state, self._place)
        before.restore()
        result = call.plainly()
        self._proofs -= 1
        ones, others = [replayed, *after.values()], [result, *Snapshot(self._state, self._place).values()]
        if not is_same(ones, others):
            before.restore()
            result = call.plainly()
            if not is_as_close(ones, others, [result, *Snapshot(self._state, self._place).values()]):
                self._stop("a replayed step differed from a plain one")
        return result

    def _anew(self, problem: str, call: _Call) -> Any:
        """Something is not as it was captured, such as the learning rate: another graph, if these have served a while.

        A schedule by epochs is captured again, one by steps is left to plain steps for good.
        """
        if self._replays < _WORTH * self._captures:
            self._stop(problem)
        self._drop()
        self._trial.discard_iteration()
        return call.plainly()

    def _conclude(self) -> None:
        measured = self._trial.why if self._trial.ratio is None else f"{self._trial.ratio:.2f}x"
        if self._trial.state is TrialState.ADOPTED:
            note(f"step {self._name}", Decision("a graph", f"{measured} as fast over {self._trial.measured} steps"))
        else:
            self._stop(f"{measured} over {self._trial.measured} steps")

    # ------------------------------------------------------------ the end

    def _fail(self, failure: Exception) -> None:
        first: BaseException = failure
        while first.__context__ is not None:  # what ended the capture; then torch says that it was ended
            first = first.__context__
        lines = str(first).strip().splitlines()
        reason = f"{type(first).__name__}: {lines[0] if lines else ''}"
        if not isinstance(failure, (UnfitError, UnboundedError)):
            warn_once(f"the step {self._name} is not captured and runs eagerly: {reason}")
        self._stop(reason)

    def _stop(self, reason: str) -> None:
        note(f"step {self._name}", Decision(False, reason))
        self.over = True
        self._drop()

    def _drop(self) -> None:
        self._graph = self._assumptions = self._watched = None
        self._held = []
        self._warm = self._odd = 0


def _values(result: Any) -> Any:
    """A step's results without their autograd graph, as those of a replay.

    While somebody holds a graph, its nodes that accumulate gradients are used again, with the stream that they were
    made on: a script that keeps the last loss would bring its own stream into the capture, which fails then.
    """
    if isinstance(result, torch.Tensor):
        return result.detach() if result.requires_grad else result
    if type(result) in (tuple, list):
        return type(result)(map(_values, result))
    if type(result) is dict:
        return {key: _values(each) for key, each in result.items()}
    return result


def _settled() -> bool:
    """Whether nothing else is tried at this moment: what a graph holds is what was in force when it was captured."""
    others = (autocast_controller, compile_controller, fused_step, channels_last_call)
    return not backend_setting.is_switching() and all(each.settled() for each in others)


def _is_capturable(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer keeps all that it changes in tensors on the device, and computes the same in a graph."""
    if type(optimizer) is torch.optim.SGD:
        return True
    return fused_step.is_fused(optimizer) and type(optimizer) in (torch.optim.Adam, torch.optim.AdamW)
