"""Takes one module or function from eager to compiled, and back where that does not pay.

Iterations go from one optimizer step to the next (of a function: from call to call). They are watched, eagerly, until
`compile_cost` says that compiling is worth it; then a few are spent on compiling, an `ABTrial` holds compiled ones
against eager ones, and the faster way is kept. All calls of an iteration go the same way, so that no backward pass
mixes the two in an order that batch normalisation does not bear. Calls with other arguments than those that were
compiled for, such as the last batch of an epoch, run eagerly: no graph is made that was not paid for.
"""

from __future__ import annotations

import atexit
import dataclasses
import enum
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

import torch

from ..amp import autocast_controller
from ..environment import Decision, note
from ..execution_mode import in_backward
from ..trial.ab_trial import ABTrial, TrialPolicy, TrialState
from ..trial.clocks import Clock, clock_of
from . import compile_cost
from .call_signature import signature
from .compile_outcome import CompileOutcome
from .compile_target import KINDS, Compilation, CompileTarget, SharedBudget, graphs_captured
from .eager_fallback import EagerFallback
from .step_timer import WINDOW, StepDetector, StepTimer

_FEWEST: Final = 16  # iterations, and
_SOONEST: Final = 1.0  # seconds, before anything is concluded from them
_COMPILING: Final = 6  # iterations in which new graphs may come up, at most
_RECOMPILES: Final = 3  # calls after those that needed new graphs once more: then it never ends
_IDLE: Final = 60.0  # seconds without a call: others wait no longer
_MANY: Final = 5.0  # seconds of steps, from which on a run tells how long such runs are
POLICY: Final = TrialPolicy(gain=1.03, seconds=0.0, iterations=8, fewest=8, counted=(10, 40), burst=6)


class _Stage(enum.Enum):
    WATCHING = enum.auto()
    COMPILING = enum.auto()
    COMPARING = enum.auto()
    ADOPTED = enum.auto()


_budget: Final = SharedBudget()


def settled() -> bool:
    """Whether nothing is being compiled or compared at this moment."""
    return _budget.free()


def renew_estimates() -> None:
    """Steps take another time from now on: what they took so far does not tell whether compiling pays."""
    for each in list(_budget.controllers):
        each.renew_estimate()


class CompileController:
    """Decides for each call of one target which way it goes, and makes the call."""

    def __init__(
        self,
        target: CompileTarget,
        executor: EagerFallback,
        *,
        clock: Clock | None = None,
        now: Callable[[], float] = time.perf_counter,
        graphs: Callable[[], int | None] | None = None,
        budget: SharedBudget | None = None,
    ) -> None:
        self.over = False
        self.unmeasured_calls = 0  # calls to come that need not be watched
        self.iterations = 0  # that are over, as far as they were watched, and about as many as were not
        self._target = target
        self._executor = executor
        self._now = now
        self._clock = clock or clock_of(target.place)
        self._graphs = graphs or graphs_captured
        self._budget = budget or _budget
        self._thread = threading.get_ident()
        self._detector = StepDetector(target.steps)
        self._stage = _Stage.WATCHING
        self._began: float | None = None  # the iteration in progress
        self._partial = False  # it began before it was watched
        self._called = self._born = now()
        self._compiled = False  # the iteration in progress
        self._compilation = Compilation()
        self._trial: ABTrial | None = None
        self._timer = StepTimer(self._clock)
        self._consider_at = _FEWEST
        self._earlier = CompileOutcome.recall(target.facts)
        self._step = self._earlier.step
        self._budget.controllers.add(self)
        if self._earlier.verdict == "rejected":
            self._stop(f"{self._earlier.why}, in an earlier run")
        elif self._earlier.verdict != "adopted":
            self._note("watching", "steps are timed first")

    @property
    def is_compiling(self) -> bool:
        """Whether it is being compiled or compared, and still in use."""
        busy = self._stage in (_Stage.COMPILING, _Stage.COMPARING)
        return busy and not self.over and self._now() - self._called < _IDLE

    # ------------------------------------------------------------ calls

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the target."""
        if self.over:
            return self._executor.eager(args, kwargs)
        if in_backward():  # an eager forward pass would be computed again by compiled code: not the same dropout
            self._stop("it is computed again in the backward pass")  # on CUDA in a thread of autograd's
            return self._executor.eager(args, kwargs)
        if threading.get_ident() != self._thread:
            return self._executor.eager(args, kwargs)
        kind = signature(args, kwargs)
        if self._detector.is_new_step():
            self._next_iteration(kind)
        if self._compiled and self._compilation.takes(kind):
            return self._run_compiled(args, kwargs)
        self._compiled = False  # for the rest of the iteration
        if self._stage is not _Stage.WATCHING:
            return self._executor.eager(args, kwargs)
        return self._timer.call(kind, lambda: self._executor.eager(args, kwargs))

    def note_eager_call(self) -> None:
        """A call was made eagerly without asking: so is the rest of the iteration."""
        self._compiled = False
        if self._trial is not None:
            self._trial.discard_iteration()

    def renew_estimate(self) -> None:
        """Time the eager steps anew."""
        self._timer = StepTimer(self._clock)
        self._consider_at = _FEWEST

    def skip_measurement(self) -> bool:
        """Whether a call just runs eagerly: where nothing can be decided for a while, watching would only cost."""
        if not self.unmeasured_calls:
            return False
        if torch.is_grad_enabled() is self._target.gradients:
            self.unmeasured_calls -= 1
            return True
        return self._target.gradients  # else it is not for this controller to say

    def note_event(self, what: Hashable) -> None:
        """Something happens in the iteration in progress that does not happen in every one."""
        if self._trial is not None:
            self._trial.note_event(what)

    def _next_iteration(self, kind: Hashable) -> None:
        now = self._called = self._now()
        began, self._began = self._began, now
        seconds = 0.0
        if began is not None:
            self.iterations += 1
            seconds = 0.0 if self._partial else now - began
            self._partial = False
        self._compiled = False
        self._compiled = self._next_is_compiled(seconds, kind) and not self.over
        self._compilation.captured, self._compilation.ran = 0, False

    def _run_compiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = self._graphs()
        self._compilation.ran = True
        result = self._executor.run(args, kwargs)
        if self._executor.given_up:  # and has said why
            self.give_up()
            return result
        after = self._graphs()
        if before is None or after is None:
            self._compilation.captured = None
        elif after > before:
            self._compilation.captured = (self._compilation.captured or 0) + after - before
            if self._stage is not _Stage.COMPILING:
                self._note_recompile()
        return result

    def _note_recompile(self) -> None:
        self._compilation.again += 1
        if self._trial is not None:
            self._trial.discard_iteration()
        if self._compilation.again > _RECOMPILES:
            self._revert("reverted: it is compiled again and again")

    # ------------------------------------------------------------ iterations

    def _next_is_compiled(self, seconds: float, kind: Hashable) -> bool:
        """What the end of an iteration means for the next one, which begins with arguments of this kind."""
        if self._stage is _Stage.WATCHING:
            return self._watching(seconds)
        if self._stage is _Stage.COMPILING:
            return self._compiling(seconds)
        return self._stage is _Stage.ADOPTED or self._comparing(kind)

    def _watching(self, seconds: float) -> bool:
        if self._earlier.verdict == "adopted":
            return self._resume_cached_decision()
        if seconds > 0:
            self._timer.end_iteration(seconds)
        else:
            self._timer.discard_iteration()
        if not self._detector.distinguishable and self._target.stateful:
            self._stop("its steps cannot be told apart")
            return False
        if self._timer.iterations < self._consider_at:
            return False
        self._consider_at = self._timer.iterations + 4
        if self._called - self._born >= _SOONEST:
            return self._consider()
        self._pause_measurement()
        return False

    def _compiling(self, seconds: float) -> bool:
        compilation = self._compilation
        if not compilation.ran:  # the iteration had other arguments
            return True
        cost = max(0.0, seconds - self._step)
        compilation.cost += cost
        self._budget.spent += cost
        compilation.iterations += 1
        compilation.open = False
        if compilation.iterations == 1 and compilation.captured == 0:
            self._revert("nothing of it can be compiled")
            return False
        if compilation.iterations >= 2 and not compilation.captured:
            return self._compare()
        if compilation.iterations >= _COMPILING:
            self._revert("reverted: it is compiled again and again")
            return False
        return True

    def _comparing(self, kind: Hashable) -> bool:
        trial = self._trial
        assert trial is not None
        compiled = trial.next_iteration()
        if kind not in self._compilation.kinds:
            trial.discard_iteration()
            compiled = False
        if not trial.decided:
            return compiled
        measured = f"{trial.ratio:.2f}x" if trial.ratio else trial.why
        if trial.state is TrialState.ADOPTED:
            faster = f"{measured} as fast over {trial.measured} steps"
            self._adopt(f"compiled in {self._compile_time()}, {faster}", trial.ratio)
            return compiled
        self._revert(f"reverted: {measured} over {trial.measured} steps, compiled in {self._compile_time()}")
        return False

    # ------------------------------------------------------------ decisions

    def _consider(self) -> bool:
        """Whether to begin compiling with this iteration."""
        if not self._may_begin():
            return False
        kinds, usual = self._timer.usual_kinds()
        if usual < 0.5 or len(kinds) > KINDS:
            if self._timer.iterations >= WINDOW:
                self._stop(f"shapes keep changing: {self._timer.variety()}")
            return False
        self._step = self._timer.step
        share = usual * self._timer.share(2.0 if self._target.gradients else 0.0)
        prior = self._prior()
        cost = prior.cost(self._target.leaves, len(kinds), warm=False) * self._budget.cost_factor
        decision = compile_cost.worth(self._run(share), cost, prior)
        if decision.pays:
            return self._begin(Compilation(kinds), decision.reason)
        if decision.final and (self._target.planned or 0) > self.iterations >= compile_cost.EARLY:
            self._stop(decision.reason)
        else:
            self._pause_measurement()
        return False

    def _pause_measurement(self) -> None:
        """Let some iterations pass unwatched: enough that watching costs next to nothing, few enough to be on time."""
        if self._timer.iterations < WINDOW // 2:
            return
        skipped = max(32, self.iterations // 16)
        self.unmeasured_calls = round(skipped * self._timer.calls_per_iteration)
        self.iterations += skipped
        self._began, self._partial = None, True

    def _resume_cached_decision(self) -> bool:
        """Begin compiling now, if an earlier run of this program found that it pays: by its numbers alone.

        So the second run and all later ones of a command do the same in the same steps.
        """
        known = self._earlier
        prior = self._prior()
        cost = known.warm or prior.cost(self._target.leaves, warm=True)
        prior = dataclasses.replace(prior, speedup=known.ratio or prior.speedup)
        decision = compile_cost.worth(self._run(1.0), cost, prior)
        if not decision.pays or not self._may_begin():
            return False
        return self._begin(Compilation(open=True), f"{decision.reason}, as in an earlier run")

    def _run(self, share: float) -> compile_cost.TrainingRun:
        candidates = (self._target.planned, self._earlier.steps)
        left = next((each - self.iterations for each in candidates if each and each > self.iterations), None)
        return compile_cost.TrainingRun(self.iterations, self._step, left, share, self._budget.spent)

    def _prior(self) -> compile_cost.Prior:
        return compile_cost.PRIORS.get(self._target.place.type, compile_cost.PRIORS["cpu"])

    def _may_begin(self) -> bool:
        """Whether nothing else is tried at this moment, nor a graph captured: then the clock has no moments."""
        return autocast_controller.settled() and self._budget.free(self) and self._clock.mark() is not None

    def _begin(self, compilation: Compilation, reason: str) -> bool:
        if not self._executor.prepare():
            self.give_up()
            return False
        self._compilation = compilation
        self._stage = _Stage.COMPILING
        self._note("trying", reason)
        return True

    def _compare(self) -> bool:
        expected = self._prior().cost(self._target.leaves, len(self._compilation.kinds), warm=False)
        self._budget.learn(self._compilation.cost, expected)
        if self._earlier.verdict == "adopted":
            faster = f"{self._earlier.ratio:.2f}x as fast" if self._earlier.ratio else "faster"
            self._adopt(f"compiled in {self._compile_time()}, {faster} in an earlier run", self._earlier.ratio)
            return True
        self._stage = _Stage.COMPARING
        self._trial = ABTrial(self._clock, POLICY)
        return self._trial.next_iteration()

    def _adopt(self, reason: str, ratio: float | None) -> None:
        warm = self._compilation.cost if self._earlier.verdict == "adopted" else self._earlier.warm
        self._stage = _Stage.ADOPTED
        self._trial = None
        self._note(True, reason)
        self._earlier = CompileOutcome("adopted", reason, ratio, self._step, warm, self._earlier.steps)
        self._earlier.keep(self._target.facts)

    def _revert(self, reason: str) -> None:
        """Go back to eager for good."""
        self._executor.drop()
        self._trial = None
        self._compiled = False
        self._earlier = CompileOutcome("rejected", reason, step=self._step, steps=self._earlier.steps)
        self._earlier.keep(self._target.facts)
        self._stop(reason)

    def _stop(self, reason: str) -> None:
        self._note(False, reason)
        self.give_up()

    def give_up(self) -> None:
        """It is not to be followed any further."""
        self._executor.drop()
        self._executor.given_up = True
        self._trial = None
        self._compiled = False
        self.over = True

    def _compile_time(self) -> str:
        return compile_cost.duration(self._compilation.cost)

    def _note(self, value: Any, reason: str) -> None:
        note(f"compile {self._target.name}", Decision(value, reason))

    def remember_length(self) -> None:
        """At the end of the run: how many steps such runs have."""
        if self.iterations * self._step >= _MANY:
            dataclasses.replace(self._earlier, step=self._step, steps=self.iterations).keep(self._target.facts)


@atexit.register
def _remember_lengths() -> None:
    for controller in list(_budget.controllers):
        controller.remember_length()
