"""An A/B trial: of two ways to run the iterations of a training loop, take the faster one, and lose next to nothing.

An iteration is one round of the loop, such as a step, or some rounds where they are short. Iterations run the baseline
until enough of them are known, then a few run the candidate, each held against the baseline iterations just before it,
so that a machine or a script that slows down in the course of time does not matter. What is compared is the middle of
these ratios, so that iterations which contain an evaluation or a checkpoint do not matter either.

Where other programs compete for the machine, iterations take several times as long now and then, and the middle says
little. But interruptions make none of them shorter: where not one of a dozen iterations of the candidate is as short as
the shorter ones of the baseline, it is given up all the same. So it is soon where it is slower by far.

What is lost by asking is kept small: the candidate runs only while the time that it took beyond the baseline stays
within `TrialPolicy.share` of all time spent; what can come on top is one burst, in which the candidate shows itself to
be slower, and before that no more than such a share for a first iteration that is known to be slow (`setup`). A run
that ends after some thirty iterations, or a second, is never touched.
"""

from __future__ import annotations

import enum
import math
import random
import weakref
from collections import deque
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from .clocks import Clock

_NEIGHBOURS: Final = 8  # baseline iterations that an iteration of the candidate is held against
_KNOWN: Final = 32  # baseline iterations that tell how much iterations differ by themselves
_KINDS: Final = 16  # of iterations told apart
_FLAT: Final = 0.02  # no clock and no machine is steadier than this
_CAP: Final = 20.0  # an iteration counts as time spent up to so many usual ones: a notebook left alone spends nothing
_SHORT: Final = 1e-3  # seconds: shorter iterations are taken together
_NEVER_SHORT: Final = 12  # iterations of the candidate, none of which is among the shorter ones
_ALWAYS_LONG: Final = 6  # iterations of the candidate, each of which is longer than the middle by a clear loss
_INTERRUPTED: Final = 5.0  # times as long as usual, at most, is put down to other programs
_LOSS: Final = 1.25  # times as long is a clear loss
_LOSS_AT_ONCE: Final = 6.0
_LATE: Final = 2000  # iterations whose durations are still to come: more, and they never will


class TrialState(enum.Enum):
    """What is known of the candidate."""

    UNDECIDED = "undecided"
    ADOPTED = "adopted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class TrialPolicy:
    """When the candidate is tried, and when it is taken.

    Attributes:
        gain: How many times faster it has to be.
        share: Of the time spent, what may be lost by trying.
        seconds: Of the baseline, before anything is tried: `iterations` iterations within five times as many seconds,
            or `fewest` that took longer than that.
        iterations: See `seconds`.
        fewest: See `seconds`.
        counted: Iterations of the candidate needed at least, and at most.
        evidence: Seconds of the candidate, beyond those iterations, before it is taken, where `counted` allows for
            them: where iterations are short, a few of them say more of what else the machine does at that moment.
        burst: Iterations of the candidate in a row; the first of them is never counted.
        most: Iterations after which it is given up, if they took more than `60 * seconds`.
    """

    gain: float = 1.05
    share: float = 0.02
    seconds: float = 1.0
    iterations: int = 32
    fewest: int = 8
    counted: tuple[int, int] = (5, 40)
    evidence: float = 0.0
    burst: int = 3
    most: int = 2000


@dataclass(slots=True)
class _Iteration:
    candidate: bool
    counts: bool  # not the first of its way in a row, nor one that something else happened in
    tried: bool  # what it takes beyond the baseline is the trial's doing
    start: Any
    end: Any = None
    calls: int = 1  # that it is made of
    kind: frozenset[Hashable] = frozenset()


class ABTrial:
    """Chooses between baseline and candidate. Call `next_iteration` at the beginning of each one, in one thread.

    Iterations need not be steps: they may be any stretch of equal work, and contain others' work (loading, an
    optimizer's step), which then counts as it should: a step that waits for its data gains nothing.
    """

    def __init__(self, clock: Clock, policy: TrialPolicy | None = None) -> None:
        self.state = TrialState.UNDECIDED
        self.iterations = 0  # begun so far
        self.why = ""  # it was decided as it was, without the numbers
        self.setup = 0.0  # seconds that the candidate's first iteration is expected to lose, whatever it brings
        self._clock = clock
        self._policy = policy or TrialPolicy()
        self._running: _Iteration | None = None
        self._late: deque[_Iteration] = deque()  # over, their durations still to come
        self._baseline: dict[frozenset[Hashable], deque[float]] = {}  # seconds of the last counted ones of each kind
        self._known = 0.0  # seconds of these, of all kinds, so far
        self._noise: deque[float] = deque(maxlen=_KNOWN)  # logarithms of baseline iterations over those before them
        self._seen = 0  # baseline iterations counted so far
        self._spent = 0.0
        self._excess: list[float] = []  # of each iteration that trying may have made longer, over the typical one
        self._longest = 0.0  # baseline iteration
        self._gains: list[float] = []  # logarithms of baseline time / candidate time
        self._measured_seconds = 0.0  # of the candidate's iterations among these
        self._never_short = self._always_long = 0  # iterations of the candidate in a row
        self._calls = 1  # that make an iteration
        self._calls_left = 0  # of this iteration, still to come
        self._on_candidate = False
        self._short = 0  # iterations in a row that were too short to be told apart well
        self._burst_left = 0  # iterations of this burst still to come
        self._pause_left = 0  # baseline iterations to come before the next burst
        self._since: tuple[int, float] | None = None  # iterations and seconds when the candidate ran first
        self._random = random.Random(0)  # own, so that no iteration of a rhythm in the script is always met
        _all.add(self)

    def next_iteration(self) -> bool:
        """Close the iteration before, begin the next one, and say whether it runs the candidate."""
        self.iterations += 1
        if self._calls_left:
            self._calls_left -= 1
            return self._on_candidate
        if not self.decided:
            self._on_candidate = self._next()
            self._calls_left = 0 if self.decided else self._calls - 1
        if self.decided:
            self._on_candidate = self.state is TrialState.ADOPTED
        return self._on_candidate

    def _next(self) -> bool:
        mark = self._clock.mark()
        before, self._running = self._running, None
        if mark is None:
            return False
        if before is not None:
            before.end = mark
            self._late.append(before)
        self._catch_up()
        self._stop_if_too_long()
        if self.decided:
            return False
        candidate = self._tries_candidate(before)
        after_candidate = before is not None and before.candidate
        counts = before is not None and after_candidate is candidate
        self._running = _Iteration(candidate, counts, candidate or after_candidate, mark, calls=self._calls)
        return candidate

    def note_event(self, what: Hashable) -> None:
        """Say what happens in the iteration in progress besides: it is held against baseline ones with the same.

        Every fifth step of a GAN steps the generator too, every hundredth is followed by an evaluation.
        """
        if self._running is not None:
            self._running.kind |= {what}

    def discard_iteration(self) -> None:
        """Do not count the iteration in progress: something else than usual happens in it."""
        if self._running is not None:
            self._running.counts = False

    def wait(self) -> None:
        """Something else is tried: time passes, in which nothing is compared."""
        if self._running is None and not self.decided and (mark := self._clock.mark()) is not None:
            self._running = _Iteration(candidate=False, counts=False, tried=False, start=mark)
        self.discard_iteration()

    def renew_baseline(self) -> None:
        """Iterations take another time from now on, either way: the candidate is held against those to come."""
        self.discard_iteration()
        self._baseline.clear()
        self._burst_left, self._pause_left = 0, _NEIGHBOURS

    @property
    def decided(self) -> bool:
        """Whether nothing is tried any more."""
        return self.state is not TrialState.UNDECIDED

    @property
    def ratio(self) -> float | None:
        """How many times faster the candidate is, as far as it is known; None before it was measured."""
        return math.exp(_interquartile_mean(self._gains)) if self._gains else None

    @property
    def measured(self) -> int:
        """How many iterations of the candidate were measured."""
        return len(self._gains)

    @property
    def has_evidence(self) -> bool:
        """Whether the candidate was measured for so long that later runs may rely on it."""
        return self._measured_seconds >= self._policy.evidence or len(self._gains) >= self._policy.counted[1]

    @property
    def is_clear_loss(self) -> bool:
        """Whether the candidate is so much slower that little evidence will do: all that can be lost is a gain.

        A single measurement does where no interruption by another program makes a step so long.
        """
        if not self._gains:
            return False
        loss = _LOSS if len(self._gains) > 1 else _LOSS_AT_ONCE
        return _interquartile_mean(self._gains) + self._doubt() < -math.log(loss)

    # ------------------------------------------------------------ durations that have become known

    def _catch_up(self) -> None:
        while self._late and not self.decided:
            iteration = self._late[0]
            seconds = self._clock.seconds(iteration.start, iteration.end)
            if seconds is None:
                if len(self._late) > _LATE:
                    self._decide(TrialState.REJECTED, "the device tells no times")
                return
            self._late.popleft()
            self._account(iteration, max(seconds, 1e-9))

    def _account(self, iteration: _Iteration, seconds: float) -> None:
        like = self._typical(iteration.kind)
        typical = like or self._typical(*self._baseline)
        self._spent += min(seconds, _CAP * typical if typical else 5 * self._policy.seconds)
        if typical and iteration.tried:
            self._excess.append(seconds - typical * (1 + self._interruptions()))
        if not iteration.counts or iteration.calls != self._calls:
            return
        if iteration.candidate:
            if like:
                self._gains.append(math.log(like / seconds))
                self._measured_seconds += seconds
                self._note_slow(iteration.kind, seconds)
                self._judge()
            return
        if like:
            self._noise.append(math.log(seconds / like))
        if iteration.kind in self._baseline or len(self._baseline) < _KINDS:
            self._baseline.setdefault(iteration.kind, deque(maxlen=_KNOWN)).append(seconds)
        self._seen += 1
        self._known += seconds
        self._longest = max(self._longest, seconds)
        self._lengthen(seconds)

    def _lengthen(self, seconds: float) -> None:
        """Take more calls together as long as iterations are so short that looking at the clock counts."""
        self._short = self._short + 1 if seconds < _SHORT and self._since is None else 0
        if self._short == 8:
            self._calls, self._short = 2 * self._calls, 0
            self._baseline.clear()
            self._noise.clear()

    def _typical(self, *kinds: frozenset[Hashable]) -> float | None:
        """The middle of the last baseline iterations of these kinds; None if there were none."""
        known = [math.log(each) for kind in kinds for each in list(self._baseline.get(kind, ()))[-_NEIGHBOURS:]]
        return math.exp(_interquartile_mean(known)) if known else None

    def _interruptions(self) -> float:
        """By what share iterations of either way are longer than their middle, on average and at the least."""
        times = [min(math.exp(each), _INTERRUPTED) for each in self._noise]
        if len(times) < _KNOWN / 2:
            return 0.0
        mean = sum(times) / len(times)
        error = math.sqrt(sum((each - mean) ** 2 for each in times)) / len(times)
        return max(0.0, mean - 2 * error - 1)

    def _note_slow(self, kind: frozenset[Hashable], seconds: float) -> None:
        """Count iterations of the candidate in a row that are longer than short or middling ones of the baseline."""
        known = self._baseline[kind]
        if len(known) < _KNOWN / 2:
            return
        self._never_short = self._never_short + 1 if seconds * self._policy.gain > _quantile(known, 0.25) else 0
        self._always_long = self._always_long + 1 if seconds > _LOSS * _quantile(known, 0.5) else 0

    # ------------------------------------------------------------ decisions

    def _judge(self) -> None:
        least, most = self._policy.counted
        count, middle, margin = len(self._gains), _interquartile_mean(self._gains), self._margin()
        wanted = math.log(self._policy.gain)
        # a burst is held against the same baseline iterations: of two gains only one is a new measurement
        clear = max(math.sqrt(2) * margin, 2 * _bimodal_uncertainty(self._gains))
        if count >= least and self.has_evidence and middle >= wanted and middle > clear:
            self._decide(TrialState.ADOPTED, "faster")
        elif self.is_clear_loss or (count >= 2 and middle + self._doubt() < wanted):
            self._decide(TrialState.REJECTED, "slower" if middle < 0 else "hardly faster")
        elif count >= most:
            self._decide(TrialState.REJECTED, "not clearly faster")

    def _stop_if_too_long(self) -> None:
        if self._since is not None and not self.decided:
            iterations, spent = self._since
            if self.iterations - iterations > self._policy.most and self._spent - spent > 60 * self._policy.seconds:
                self._decide(TrialState.REJECTED, "not clearly faster")

    def _doubt(self) -> float:
        """How much faster than it seems the candidate may be."""
        sure = self._never_short >= _NEVER_SHORT or self._always_long >= _ALWAYS_LONG
        return 0.0 if sure else self._margin()

    def _margin(self) -> float:
        """How far the middle of the gains may be off: wide for few of them, and as iterations differ by themselves."""
        count = len(self._gains)
        return (2.0 + 5.0 / count) * 1.25 * self._spread() / math.sqrt(count)

    def _spread(self) -> float:
        return max(_robust_deviation(self._gains), _robust_deviation(self._noise), _FLAT)

    def _decide(self, state: TrialState, why: str) -> None:
        self.state, self.why = state, why
        self._late.clear()
        self._running = None

    def _tries_candidate(self, before: _Iteration | None) -> bool:
        if self._burst_left > 0:
            self._burst_left -= 1
            if before is not None and before.candidate and (not before.counts or self._affordable()):
                return True
            self._burst_left = 0
            self._pause()
        if self._pause_left > 0:
            self._pause_left -= 1
            return False
        if not self._baseline_known() or any(each.candidate for each in self._late) or not self._affordable():
            return False
        if self._since is None:
            if self.setup > self._policy.share * self._spent:
                return False
            self._since = self.iterations, self._spent
        self._burst_left = self._policy.burst - 1
        self._pause()
        return True

    @property
    def candidate_ran(self) -> bool:
        """Whether the candidate has made an iteration."""
        return self._since is not None

    def _pause(self) -> None:
        self._pause_left = self._random.randint(3, 6)

    def _baseline_known(self) -> bool:
        policy = self._policy
        if self._seen < policy.fewest or self._spent < policy.seconds:
            return False
        if self._seen >= policy.iterations:
            return True
        return self._spent >= 5 * policy.seconds and self._known >= 0.25 * policy.seconds  # the rest passed in waiting

    def _affordable(self) -> bool:
        """Whether the candidate may run again: little was lost so far, or it is likely to win some back."""
        lost = sum(self._excess)
        worst = max(self._excess, default=0.0)
        if 0.5 * self._longest <= worst <= 1.2 * self._longest:  # as long as baseline iterations are now and then
            lost -= worst
        if lost <= self._policy.share * self._spent:
            return True
        if not 0 < len(self._gains) < self._policy.counted[0]:
            return False
        likely = self._spread() / math.sqrt(len(self._gains))
        return _interquartile_mean(self._gains) > max(likely, math.log(self._policy.gain))


_all: Final[weakref.WeakSet[ABTrial]] = weakref.WeakSet()


def undecided() -> Iterator[ABTrial]:
    """All trials of this process that have yet to be decided."""
    return (each for each in list(_all) if not each.decided)


def _interquartile_mean(values: Collection[float]) -> float:
    """The mean of the middle half: a median that does not jump where values are long and short by turns."""
    outer = len(values) // 4
    inner = sorted(values)[outer : len(values) - outer]
    return sum(inner) / len(inner)


def _bimodal_uncertainty(values: Collection[float]) -> float:
    """How far their middle may be off where values lie in two heaps: it moves with the share of each.

    Half of what it would move if so many more of them lay on one side as do by chance.
    """
    outer = len(values) // 4
    chance = min(outer, round(math.sqrt(len(values)) / 2))
    inner = sorted(values)[outer - chance : len(values) - outer + chance]
    least, most = inner[: len(inner) - 2 * chance], inner[2 * chance :]
    return (sum(most) - sum(least)) / len(most) / 2


def _quantile(values: Collection[float], share: float) -> float:
    """The value below which `share` of the values are, between two of them where it falls so."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _robust_deviation(values: Collection[float]) -> float:
    """Half the width of the middle two thirds: a standard deviation that rare outliers do not move."""
    return (_quantile(values, 5 / 6) - _quantile(values, 1 / 6)) / 2 if len(values) > 1 else 0.0
