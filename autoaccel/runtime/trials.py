"""Trial: of two ways to do the laps of a training loop, take the faster one, and lose next to nothing by asking.

A lap is one round of the loop, such as a step, or some rounds where they are short. Laps go the usual way until enough
of them are known, then a few go the other way, each held against the usual laps just before it, so that a machine or a
script that slows down in the course of time does not matter. What is compared is the middle of these ratios, so that
laps which contain an evaluation or a checkpoint do not matter either.

What is lost by asking is kept small: laps go the other way only while the time that they took beyond the usual stays
within `Terms.share` of all time spent; what can come on top is one burst, in which the other way shows itself to be
slower. A run that ends after some thirty laps, or a second, is never touched.
"""

from __future__ import annotations

import enum
import math
import random
from collections import deque
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Any, Final

from .clocks import Clock, DeviceClock, HostClock, clock_of

__all__ = ["Clock", "DeviceClock", "HostClock", "State", "Terms", "Trial", "clock_of"]

_NEIGHBOURS: Final = 8  # usual laps that a lap of the other way is held against
_KNOWN: Final = 32  # usual laps that tell how much laps differ by themselves
_KINDS: Final = 16  # of laps told apart
_FLAT: Final = 0.02  # no clock and no machine is steadier than this
_CAP: Final = 20.0  # a lap counts as time spent up to so many usual ones: a notebook left alone spends nothing
_FINE: Final = 1e-3  # seconds: shorter laps are taken together
_LATE: Final = 2000  # laps whose durations are still to come: more, and they never will


class State(enum.Enum):
    """What is known of the other way."""

    UNDECIDED = "undecided"
    ADOPTED = "adopted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Terms:
    """When the other way is tried, and when it is taken.

    gain: how many times faster it has to be.  share: of the time spent, what may be lost by trying.
    seconds, laps: what has to be spent the usual way before anything is tried: `laps` laps within `5 * seconds`, or
    `fewest` that took longer than that.  sunk: how many of the first laps that go the other way cost what they cost,
    since that was agreed to before (compiling).  counted: laps of the other way needed at least, and at most.
    burst: laps of the other way in a row; the first of them is never counted.  most: laps after which it is given up,
    if they took more than `60 * seconds`.
    """

    gain: float = 1.05
    share: float = 0.02
    seconds: float = 1.0
    laps: int = 32
    fewest: int = 8
    sunk: int = 0
    counted: tuple[int, int] = (5, 40)
    burst: int = 3
    most: int = 2000


@dataclass(slots=True)
class _Lap:
    other: bool
    counts: bool  # not the first of its way in a row, nor one that something else happened in
    tried: bool  # what it takes beyond the usual is the trial's doing
    start: Any
    end: Any = None
    grain: int = 1  # calls that it is made of
    kind: frozenset[Hashable] = frozenset()


class Trial:
    """Chooses between the usual and another way to do laps. Call `lap()` at the beginning of each lap, in one thread.

    The laps need not be steps: they may be any stretch of equal work, and contain others' work (loading, an
    optimizer's step), which then counts as it should: a step that waits for its data gains nothing.
    """

    def __init__(self, clock: Clock, terms: Terms | None = None) -> None:
        self.state = State.UNDECIDED
        self.laps = 0  # begun so far
        self.why = ""  # it was decided as it was, without the numbers
        self._clock = clock
        self._terms = terms or Terms()
        self._running: _Lap | None = None
        self._late: deque[_Lap] = deque()  # over, their durations still to come
        self._usual: dict[frozenset[Hashable], deque[float]] = {}  # seconds of the last counted laps of each kind
        self._differ: deque[float] = deque(maxlen=_KNOWN)  # logarithms of usual laps over those before them
        self._seen = 0  # usual laps counted so far
        self._spent = 0.0
        self._excess: list[float] = []  # of each lap that trying may have made longer, over the typical usual one
        self._longest = 0.0  # usual lap
        self._gains: list[float] = []  # logarithms of usual time / other time
        self._grain = 1  # calls that make a lap
        self._calls = 0  # of this lap, still to come
        self._way = False
        self._fine = 0  # laps in a row that were too short to be told apart well
        self._left = 0  # laps of this burst still to come
        self._wait = 0  # usual laps to come before the next burst
        self._sunk = 0
        self._since: tuple[int, float] | None = None  # laps and seconds when the first lap went the other way
        self._order = random.Random(0)  # own, so that no lap of a rhythm in the script is always met

    def lap(self) -> bool:
        """Close the lap before, begin the next one, and say whether it goes the other way."""
        self.laps += 1
        if self._calls:
            self._calls -= 1
            return self._way
        if not self.decided:
            self._way = self._next()
            self._calls = 0 if self.decided else self._grain - 1
        if self.decided:
            self._way = self.state is State.ADOPTED
        return self._way

    def _next(self) -> bool:
        mark = self._clock.mark()
        before, self._running = self._running, None
        if mark is None:
            return False
        if before is not None:
            before.end = mark
            self._late.append(before)
        self._catch_up()
        self._tire()
        if self.decided:
            return False
        other = self._goes_other(before)
        after_other = before is not None and before.other
        self._sunk += other
        tried = self._sunk > self._terms.sunk if other else after_other
        self._running = _Lap(other, before is not None and after_other is other, tried, mark, grain=self._grain)
        return other

    def contains(self, what: Hashable) -> None:
        """Say what happens in the lap in progress besides: it is held against usual laps with the same in them.

        Every fifth step of a GAN steps the generator too, every hundredth is followed by an evaluation.
        """
        if self._running is not None:
            running = self._running
            if what not in running.kind:
                running.kind |= {what}

    def drop(self) -> None:
        """Do not count the lap in progress: something else than usual happens in it."""
        if self._running is not None:
            self._running.counts = False

    @property
    def decided(self) -> bool:
        """Whether nothing is tried any more."""
        return self.state is not State.UNDECIDED

    @property
    def ratio(self) -> float | None:
        """How many times faster the other way is, as far as it is known; None before it was measured."""
        return math.exp(_middle(self._gains)) if self._gains else None

    @property
    def measured(self) -> int:
        """How many laps of the other way were measured."""
        return len(self._gains)

    # ------------------------------------------------------------ durations that have become known

    def _catch_up(self) -> None:
        while self._late and not self.decided:
            lap = self._late[0]
            seconds = self._clock.seconds(lap.start, lap.end)
            if seconds is None:
                if len(self._late) > _LATE:
                    self._decide(State.REJECTED, "the device tells no times")
                return
            self._late.popleft()
            self._account(lap, max(seconds, 1e-9))

    def _account(self, lap: _Lap, seconds: float) -> None:
        like = self._typical(lap.kind)
        typical = like or self._typical(*self._usual)
        self._spent += min(seconds, _CAP * typical) if typical else seconds
        if typical and lap.tried:
            self._excess.append(seconds - typical)
        if not lap.counts or lap.grain != self._grain:
            return
        if lap.other:
            if like:
                self._gains.append(math.log(like / seconds))
                self._judge()
            return
        if like:
            self._differ.append(math.log(seconds / like))
        if lap.kind in self._usual or len(self._usual) < _KINDS:
            self._usual.setdefault(lap.kind, deque(maxlen=_NEIGHBOURS)).append(seconds)
        self._seen += 1
        self._longest = max(self._longest, seconds)
        self._coarsen(seconds)

    def _coarsen(self, seconds: float) -> None:
        """Take more calls together as long as laps are so short that looking at the clock counts."""
        self._fine = self._fine + 1 if seconds < _FINE and self._since is None else 0
        if self._fine == 8:
            self._grain, self._fine = 2 * self._grain, 0
            self._usual.clear()
            self._differ.clear()

    def _typical(self, *kinds: frozenset[Hashable]) -> float | None:
        """The middle of the last usual laps of these kinds; None if there were none."""
        known = [math.log(seconds) for kind in kinds for seconds in self._usual.get(kind, ())]
        return math.exp(_middle(known)) if known else None

    # ------------------------------------------------------------ decisions

    def _judge(self) -> None:
        least, most = self._terms.counted
        count, middle, margin = len(self._gains), _middle(self._gains), self._margin()
        wanted = math.log(self._terms.gain)
        # the laps of a burst are held against the same usual ones: of two gains only one is a new measurement
        if count >= least and middle >= wanted and middle > max(math.sqrt(2) * margin, 2 * _wobble(self._gains)):
            self._decide(State.ADOPTED, "faster")
        elif count >= 2 and middle + margin < wanted:
            self._decide(State.REJECTED, "slower" if middle < 0 else "hardly faster")
        elif count >= most:
            self._decide(State.REJECTED, "not clearly faster")

    def _tire(self) -> None:
        if self._since is not None and not self.decided:
            laps, spent = self._since
            if self.laps - laps > self._terms.most and self._spent - spent > 60 * self._terms.seconds:
                self._decide(State.REJECTED, "not clearly faster")

    def _margin(self) -> float:
        """How far the middle of the gains may be off: wide for few laps, and as laps differ by themselves."""
        count = len(self._gains)
        return (2.0 + 5.0 / count) * 1.25 * self._spread() / math.sqrt(count)

    def _spread(self) -> float:
        return max(_half_width(self._gains), _half_width(self._differ), _FLAT)

    def _decide(self, state: State, why: str) -> None:
        self.state, self.why = state, why
        self._late.clear()
        self._running = None

    def _goes_other(self, before: _Lap | None) -> bool:
        if self._left > 0:
            self._left -= 1
            if before is not None and before.other and (not before.counts or self._affordable()):
                return True
            self._left = 0
            self._pause()
        if self._wait > 0:
            self._wait -= 1
            return False
        if not self._begun() or any(lap.other for lap in self._late) or not self._affordable():
            return False
        if self._since is None:
            self._since = self.laps, self._spent
        self._left = self._terms.burst - 1
        self._pause()
        return True

    def _pause(self) -> None:
        self._wait = self._order.randint(3, 6)

    def _begun(self) -> bool:
        """Whether enough laps went the usual way."""
        terms = self._terms
        if self._seen < terms.fewest or self._spent < terms.seconds:
            return False
        return self._seen >= terms.laps or self._spent >= 5 * terms.seconds

    def _affordable(self) -> bool:
        """Whether another lap may go the other way: little was lost so far, or it is likely to win some back."""
        lost = sum(self._excess)
        worst = max(self._excess, default=0.0)
        if 0.5 * self._longest <= worst <= 1.2 * self._longest:  # as long as usual laps are now and then
            lost -= worst
        if lost <= self._terms.share * self._spent:
            return True
        if not 0 < len(self._gains) < self._terms.counted[0]:
            return False
        likely = self._spread() / math.sqrt(len(self._gains))
        return _middle(self._gains) > max(likely, math.log(self._terms.gain))


def _middle(values: Collection[float]) -> float:
    """The mean of the middle half: a median that does not jump where laps are long and short by turns."""
    outer = len(values) // 4
    inner = sorted(values)[outer : len(values) - outer]
    return sum(inner) / len(inner)


def _wobble(values: Collection[float]) -> float:
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


def _half_width(values: Collection[float]) -> float:
    """Half the width of the middle two thirds: a standard deviation that rare outliers do not move."""
    return (_quantile(values, 5 / 6) - _quantile(values, 1 / 6)) / 2 if len(values) > 1 else 0.0
