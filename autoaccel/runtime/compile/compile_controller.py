"""The course of one module or function from eager to compiled, and back where that does not pay.

Laps go from one optimizer step to the next (of a function: from call to call). They are watched, eagerly, until
`paying` says that compiling is worth it; then a few laps are spent on compiling, an `ABTrial` holds compiled laps
against eager ones, and the faster way is kept. All calls of a lap go the same way, so that no backward pass mixes the
two in an order that batch normalisation does not bear. Calls with other arguments than those that were compiled for,
such as the last batch of an epoch, run eagerly: no graph is made that was not paid for.
"""

from __future__ import annotations

import atexit
import dataclasses
import enum
import sys
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

import torch

from ..amp import autocast_controller
from ..call_context import in_backward
from ..environment import Decision, note
from ..trial.ab_trial import ABTrial, State, TrialPolicy
from ..trial.clocks import Clock, clock_of
from . import compile_cost
from .call_signature import signature
from .compile_outcome import Record
from .compile_target import Account, Subject, Way
from .step_timer import WINDOW, Steps, Watch

_FEWEST: Final = 16  # laps, and
_SOONEST: Final = 1.0  # seconds, before anything is concluded from them
_KINDS: Final = 4  # of arguments in a lap that are compiled for, at most
_COMPILING: Final = 6  # laps in which new graphs may come up, at most
_RECOMPILES: Final = 3  # calls after those that needed new graphs once more: then it never ends
_IDLE: Final = 60.0  # seconds without a call: others wait no longer
_MANY: Final = 5.0  # seconds of steps, from which on a run tells how long such runs are
POLICY: Final = TrialPolicy(gain=1.03, seconds=0.0, iterations=8, fewest=8, counted=(10, 40), burst=6)


class _Stage(enum.Enum):
    WATCHING = enum.auto()
    COMPILING = enum.auto()
    COMPARING = enum.auto()
    ADOPTED = enum.auto()


_account: Final = Account()
_courses: Final[weakref.WeakSet[Course]] = weakref.WeakSet()


def settled() -> bool:
    """Whether nothing is being compiled or compared at this moment."""
    return not any(course.under_way for course in list(_courses))


def graphs_captured() -> int | None:
    """How many graphs dynamo has made in this process; None if this torch does not tell."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    if dynamo is None:
        return 0
    return None if counters is None else int(counters["stats"]["unique_graphs"])


class Course:
    """Decides for each call of one target which way it goes, and makes the call."""

    def __init__(
        self,
        subject: Subject,
        way: Way,
        *,
        clock: Clock | None = None,
        now: Callable[[], float] = time.perf_counter,
        graphs: Callable[[], int | None] | None = None,
        account: Account | None = None,
    ) -> None:
        self.over = False
        self.rest = 0  # calls to come that need not be watched
        self.laps = 0  # that are over, as far as they were watched, and about as many as were not
        self._subject = subject
        self._way = way
        self._now = now
        self._clock = clock or clock_of(subject.place)
        self._graphs = graphs or graphs_captured
        self._account = account or _account
        self._thread = threading.get_ident()
        self._flavours = list(subject.flavours)
        self._steps = Steps(subject.steps)
        self._stage = _Stage.WATCHING
        self._began: float | None = None  # the lap in progress
        self._partial = False  # it began before it was watched
        self._called = self._born = now()
        self._compiled = False  # the lap in progress
        self._attempt = _Attempt()
        self._trial: ABTrial | None = None
        self._watch = Watch(self._clock, now)
        self._consider_at = _FEWEST
        self._known = Record.recall(subject.facts)
        self._step = self._known.step
        _courses.add(self)
        if self._known.verdict == "rejected":
            self._stop(f"{self._known.why}, in an earlier run")
        elif self._known.verdict != "adopted":
            self._tell("watching", "steps are timed first")

    @property
    def under_way(self) -> bool:
        """Whether it is being compiled or compared, and still in use."""
        busy = self._stage in (_Stage.COMPILING, _Stage.COMPARING)
        return busy and not self.over and self._now() - self._called < _IDLE

    # ------------------------------------------------------------ calls

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the target."""
        if self.over or threading.get_ident() != self._thread:
            return self._way.eager(args, kwargs)
        if in_backward():  # an eager forward pass would be computed again by compiled code: not the same dropout
            self._stop("it is computed again in the backward pass")
            return self._way.eager(args, kwargs)
        kind = signature(args, kwargs)
        if self._steps.begins():
            self._next_lap(kind)
        if self._compiled and self._attempt.takes(kind):
            return self._run_compiled(args, kwargs)
        self._compiled = False  # for the rest of the lap
        if self._stage is not _Stage.WATCHING:
            return self._way.eager(args, kwargs)
        return self._watch.call(kind, lambda: self._way.eager(args, kwargs))

    def pass_by(self) -> None:
        """A call was made eagerly without asking: so is the rest of the lap."""
        self._compiled = False
        if self._trial is not None:
            self._trial.discard_iteration()

    def rests(self) -> bool:
        """Whether a call just runs eagerly: where nothing can be decided for a while, watching would only cost."""
        if not self.rest:
            return False
        if torch.is_grad_enabled() is self._subject.gradients:
            self.rest -= 1
            return True
        return self._subject.gradients  # else it is not for this course to say

    def besides(self, what: Hashable) -> None:
        """Something happens in the lap in progress that does not happen in every one."""
        if self._trial is not None:
            self._trial.note_event(what)

    def abandon(self) -> None:
        """It is not to be followed any further."""
        self._leave()

    def _next_lap(self, kind: Hashable) -> None:
        now = self._called = self._now()
        began, self._began = self._began, now
        seconds = 0.0
        if began is not None:
            self.laps += 1
            seconds = 0.0 if self._partial else now - began
            self._partial = False
        self._compiled = False
        self._compiled = self._goes_compiled(seconds, kind) and not self.over
        self._attempt.captured, self._attempt.ran = 0, False

    def _run_compiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = self._graphs()
        self._attempt.ran = True
        result = self._way.run(args, kwargs)
        if self._way.given_up:  # and has said why
            self._failed()
            return result
        after = self._graphs()
        if before is None or after is None:
            self._attempt.captured = None
        elif after > before:
            self._attempt.captured = (self._attempt.captured or 0) + after - before
            if self._stage is not _Stage.COMPILING:
                self._compiled_again()
        return result

    def _failed(self) -> None:
        if len(self._flavours) > 1:
            self._way.given_up = False
            self._revert("reverted: it failed")
        else:
            self._leave()

    def _compiled_again(self) -> None:
        self._attempt.again += 1
        if self._trial is not None:
            self._trial.discard_iteration()
        if self._attempt.again > _RECOMPILES:
            self._revert("reverted: it is compiled again and again")

    # ------------------------------------------------------------ laps

    def _goes_compiled(self, seconds: float, kind: Hashable) -> bool:
        """What the end of a lap means for the next one, which begins with arguments of this kind."""
        if self._stage is _Stage.WATCHING:
            return self._watching(seconds)
        if self._stage is _Stage.COMPILING:
            return self._compiling(seconds)
        return self._stage is _Stage.ADOPTED or self._comparing(kind)

    def _watching(self, seconds: float) -> bool:
        if self._known.verdict == "adopted":
            return self._take_up()
        if seconds > 0:
            self._watch.lap(seconds)
        else:
            self._watch.drop()
        if not self._steps.told_apart and self._subject.stateful:
            self._stop("its steps cannot be told apart")
            return False
        if self._watch.laps < self._consider_at:
            return False
        self._consider_at = self._watch.laps + 4
        if self._called - self._born >= _SOONEST:
            return self._consider()
        self._take_rest()
        return False

    def _compiling(self, seconds: float) -> bool:
        attempt = self._attempt
        if not attempt.ran:  # the lap had other arguments
            return True
        cost = max(0.0, seconds - self._step)
        attempt.cost += cost
        self._account.spent += cost
        attempt.laps += 1
        attempt.open = False
        if attempt.laps == 1 and attempt.captured == 0:
            self._revert("nothing of it can be compiled")
            return False
        if attempt.laps >= 2 and not attempt.captured:
            return self._compare()
        if attempt.laps >= _COMPILING:
            self._revert("reverted: it is compiled again and again")
            return False
        return True

    def _comparing(self, kind: Hashable) -> bool:
        trial = self._trial
        assert trial is not None
        compiled = trial.next_iteration()
        if kind not in self._attempt.kinds:
            trial.discard_iteration()
            compiled = False
        if not trial.decided:
            return compiled
        measured = f"{trial.ratio:.2f}x" if trial.ratio else trial.why
        if trial.state is State.ADOPTED:
            took = compile_cost.duration(self._attempt.cost)
            self._adopt(f"compiled in {took}, {measured} as fast over {trial.measured} steps", trial.ratio)
            return compiled
        self._revert(f"reverted: {measured} over {trial.measured} steps, compiled in {self._took()}")
        return False

    # ------------------------------------------------------------ decisions

    def _consider(self) -> bool:
        """Whether to begin compiling with this lap."""
        if not autocast_controller.settled() or not self._account.free(self):
            return False
        kinds, usual = self._watch.usual_kinds()
        if usual < 0.5 or len(kinds) > _KINDS:
            if self._watch.laps >= WINDOW:
                self._stop(f"shapes keep changing: {self._watch.variety()}")
            return False
        self._step = self._watch.step
        share = usual * self._watch.share(2.0 if self._subject.gradients else 0.0)
        if self._flavours[0] == "cudagraphs" and not self._watch.launch_bound():
            self._flavours.pop(0)
        answer = compile_cost.worth(self._run(share), self._offer(len(kinds)))
        if answer.pays:
            return self._begin(_Attempt(kinds), answer.reason)
        if answer.final and (self._subject.planned or 0) > self.laps >= compile_cost.EARLY:
            self._stop(answer.reason)
        else:
            self._take_rest()
        return False

    def _take_rest(self) -> None:
        """Let some laps pass unwatched: enough that watching costs next to nothing, few enough to be on time."""
        if self._watch.laps < WINDOW // 2:
            return
        laps = max(32, self.laps // 16)
        self.rest = round(laps * self._watch.calls_per_lap)
        self.laps += laps
        self._began, self._partial = None, True

    def _take_up(self) -> bool:
        """Begin compiling with this lap, if an earlier run of this program found that it pays: by its numbers alone.

        So the second run and all later ones of a command do the same in the same steps.
        """
        known = self._known
        prior = self._prior()
        cost = known.warm or prior.cost(self._subject.leaves, warm=True)
        offer = compile_cost.Offer(cost, known.ratio or prior.speedup, prior.stake, prior.smallest)
        answer = compile_cost.worth(self._run(1.0), offer)
        if not answer.pays or not autocast_controller.settled() or not self._account.free(self):
            return False
        if known.flavour in self._flavours:
            self._flavours = [known.flavour]
        return self._begin(_Attempt(open=True), f"{answer.reason}, as in an earlier run")

    def _run(self, share: float) -> compile_cost.Run:
        candidates = (self._subject.planned, self._known.steps)
        left = next((planned - self.laps for planned in candidates if planned and planned > self.laps), None)
        return compile_cost.Run(self.laps, self._step, left, share, self._account.spent)

    def _offer(self, graphs: int) -> compile_cost.Offer:
        prior = self._prior()
        cost = prior.cost(self._subject.leaves, graphs, warm=False) * self._account.dearer
        return compile_cost.Offer(cost, prior.speedup, prior.stake, prior.smallest)

    def _prior(self) -> compile_cost.Prior:
        if self._flavours[0] == "cudagraphs":
            return compile_cost.GRAPHS
        return compile_cost.PRIORS.get(self._subject.place.type, compile_cost.PRIORS["cpu"])

    def _begin(self, attempt: _Attempt, reason: str) -> bool:
        if not self._way.prepare(self._flavours[0]):
            self._leave()
            return False
        self._attempt = attempt
        self._account.take(self)
        self._stage = _Stage.COMPILING
        self._tell("trying", reason)
        return True

    def _compare(self) -> bool:
        if self._flavours[0] == "inductor":
            expected = self._prior().cost(self._subject.leaves, len(self._attempt.kinds), warm=False)
            self._account.learn(self._attempt.cost, expected)
        if self._known.verdict == "adopted":
            faster = f"{self._known.ratio:.2f}x as fast" if self._known.ratio else "faster"
            self._adopt(f"compiled in {self._took()}, {faster} in an earlier run", self._known.ratio)
            return True
        self._stage = _Stage.COMPARING
        self._trial = ABTrial(self._clock, POLICY)
        return self._trial.next_iteration()

    def _adopt(self, reason: str, ratio: float | None) -> None:
        warm = self._attempt.cost if self._known.verdict == "adopted" else self._known.warm
        self._stage = _Stage.ADOPTED
        self._trial = None
        self._tell(True, reason)
        self._known = Record("adopted", reason, ratio, self._step, warm, self._known.steps, self._flavours[0])
        self._known.keep(self._subject.facts)

    def _revert(self, reason: str) -> None:
        """Go back to eager for good, unless there is another flavour to try."""
        self._way.drop()
        self._trial = None
        self._compiled = False
        self._flavours.pop(0)
        if self._flavours:
            self._tell("watching", reason)
            self._known = Record(steps=self._known.steps)
            self._stage = _Stage.WATCHING
            self._watch, self._consider_at = Watch(self._clock, self._now), _FEWEST
            return
        self._known = Record("rejected", reason, step=self._step, steps=self._known.steps)
        self._known.keep(self._subject.facts)
        self._stop(reason)

    def _stop(self, reason: str) -> None:
        self._tell(False, reason)
        self._leave()

    def _leave(self) -> None:
        self._way.drop()
        self._way.given_up = True
        self._trial = None
        self._compiled = False
        self.over = True

    def _took(self) -> str:
        return compile_cost.duration(self._attempt.cost)

    def _tell(self, value: Any, reason: str) -> None:
        note(f"compile {self._subject.name}", Decision(value, reason))

    def remember_length(self) -> None:
        """At the end of the run: how many steps such runs have."""
        if self.laps * self._step >= _MANY:
            dataclasses.replace(self._known, step=self._step, steps=self.laps).keep(self._subject.facts)


@dataclass(slots=True)
class _Attempt:
    """Compiling once: the kinds of arguments it is for, `open` to further ones in its first lap, and what it took."""

    kinds: frozenset[Hashable] = frozenset()
    open: bool = False
    laps: int = 0
    cost: float = 0.0
    ran: bool = False  # in the lap in progress
    captured: int | None = 0  # graphs in the lap in progress
    again: int = 0  # calls that needed new graphs afterwards

    def takes(self, kind: Hashable) -> bool:
        """Whether calls with such arguments go compiled."""
        if self.open and len(self.kinds) < _KINDS:
            self.kinds |= {kind}
        return kind in self.kinds


@atexit.register
def _remember_lengths() -> None:
    for course in list(_courses):
        course.remember_length()
