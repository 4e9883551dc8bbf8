"""Questions that lean on one another: memoised, cycle-safe, and answered the same whoever asks first.

A question may come back to itself: a name bound in a loop, functions that call each other. Questions that lean on one
another in a circle are asked again, each time with the answers of the round before (nothing at all in the first),
until a round confirms what it started from: the least fixpoint, which does not depend on where the circle was
entered. What was found within the circle is remembered only then.

Source: the top-down solver of Le Charlier and Van Hentenryck, "A universal top-down fixpoint algorithm" (1992).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial, wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from autoaccel.dataflow.completeness import Incomplete

_NOBODY = 1 << 30
_UNKNOWN: Any = object()  # in the place of an answer


class Asked(Protocol):
    """What questions are asked of: a script, a project."""

    @property
    def queries(self) -> Queries:
        """Those of the analysis that it belongs to."""


Answer = TypeVar("Answer")
Function = TypeVar("Function", bound=Callable[..., Any])
P = ParamSpec("P")
Item = TypeVar("Item")


def once(function: Function) -> Function:
    """Keep the answers of a function by its arguments, for the analysis that the first of these belongs to.

    For questions that do not come back to themselves. What raises is asked again, and so is what leans on a question
    that is still open, until that one has its answer.
    """
    return _remembered(function, Queries.keep)


def once_all(generate: Callable[P, Iterator[Item]]) -> Callable[P, tuple[Item, ...]]:
    """The same for a generator: all that it yields."""

    @wraps(generate)
    def collect(*args: P.args, **kwargs: P.kwargs) -> tuple[Item, ...]:
        return tuple(generate(*args, **kwargs))

    return once(collect)


def fixpoint(nothing: object, anything: object) -> Callable[[Function], Function]:
    """The same for questions that may come back to themselves: see `Queries.ask`."""
    return lambda function: _remembered(function, partial(Queries.ask, nothing=nothing, anything=anything))


def _remembered(function: Function, find: Callable[..., Any]) -> Function:
    @wraps(function)
    def answer(of: Asked, *args: Any, **kwargs: Any) -> Any:
        queries = of.queries
        key = (function, of, *args, *kwargs.items()) if kwargs else (function, of, *args)
        known = queries.known.get(key, _UNKNOWN)
        return find(queries, key, partial(function, of, *args, **kwargs)) if known is _UNKNOWN else known

    return cast(Function, answer)


class _TooDeepError(Exception):
    """A question lies too deep for the stack: it is asked first, and what led to it again afterwards."""

    def __init__(self, *question: Any) -> None:
        super().__init__()
        self.question = question


class Queries:
    """The questions of one analysis and their answers.

    `most` bounds the evaluations of all questions together and `deepest` how many may be open at a time; past the
    former nothing is answered any more (`Incomplete`).
    """

    def __init__(self, most: int, deepest: int, rounds: int) -> None:
        self.known: dict[Hashable, Any] = {}
        self.sets: dict[Any, Any] = {}  # of answers: each stands for all that are equal to it
        self.cut: dict[Any, Any] = {}  # sets by what they are cut from, and how deep
        self._most = most
        self._deepest = deepest
        self._rounds = rounds
        self._evaluations = 0
        self._open: dict[Hashable, int] = {}  # the level of each question that is being answered
        self._lowest = _NOBODY  # the lowest level of an open question that was come back to
        self._assumed: dict[Hashable, Any] = {}  # the last round's answers of questions in a circle
        self._handed_out: dict[Hashable, Any] = {}  # what those were told that came back to an open question
        self._round: dict[
            Hashable, tuple[Any, int, Any]
        ] = {}  # this round's answers, the level they lean on, `anything`
        self._finished: list[Hashable] = []  # the keys of `_round` in the order in which they were answered
        self._wavering = False  # whether this round gave another answer than was handed out

    def ask(self, key: Hashable, compute: Callable[[], Answer], nothing: Answer, anything: Answer) -> Answer:
        """The answer to a question.

        Args:
            key: What is asked; its identity.
            compute: Finds the answer, and may ask further questions, this one too.
            nothing: What a question in a circle is told at first, the least answer.
            anything: The answer where none settles, the greatest.

        Raises:
            Incomplete: More had to be evaluated than is allowed.
        """
        known = self.known.get(key, _UNKNOWN)
        if known is not _UNKNOWN:
            return known  # type: ignore[no-any-return]
        if not self._open:
            return self._from_outside(key, compute, anything)
        level = self._open.get(key)
        if level is not None:
            self._lowest = min(self._lowest, level)
            return self._handed_out.setdefault(key, self._assumed.get(key, nothing))  # type: ignore[no-any-return]
        answered = self._round.get(key)
        if answered is not None:
            self._lowest = min(self._lowest, answered[1])
            return answered[0]  # type: ignore[no-any-return]
        if len(self._open) >= self._deepest:
            raise _TooDeepError(key, compute, anything)
        return self._evaluate(key, compute, anything)

    def keep(self, key: Hashable, compute: Callable[[], Answer]) -> Answer:
        """The answer to a question that does not come back to itself, and is not remembered where it never settles."""
        if key in self._open:
            raise Incomplete("its definitions depend on one another")
        if self._open:
            return self.ask(key, compute, _UNKNOWN, _UNKNOWN)  # type: ignore[no-any-return]
        answer = compute()
        self.known[key] = answer
        return answer

    def _from_outside(self, key: Hashable, compute: Callable[[], Answer], anything: Answer) -> Answer:
        """Answer a question that no other asked; what lies too deep is asked first."""
        try:
            return self._evaluate(key, compute, anything)
        except _TooDeepError as deep:
            return self._from_below(deep, key, compute, anything)

    def _from_below(
        self, first: _TooDeepError, key: Hashable, compute: Callable[[], Answer], anything: Answer
    ) -> Answer:
        waiting: list[tuple[Any, ...]] = [(key, compute, anything), first.question]
        while True:
            try:
                if waiting[-1][0] not in self.known:
                    self._evaluate(*waiting[-1])
                waiting.pop()
                if not waiting:
                    return self.known[key]  # type: ignore[no-any-return]
            except _TooDeepError as deep:
                if any(deep.question[0] == each[0] for each in waiting):
                    raise Incomplete("its definitions depend on one another in too long a circle") from None
                waiting.append(deep.question)

    def _evaluate(self, key: Hashable, compute: Callable[[], Answer], anything: Answer) -> Answer:
        self._evaluations += 1
        if self._evaluations > self._most:
            raise Incomplete("there is too much to evaluate")
        level = self._open[key] = len(self._open)
        outside, self._lowest = self._lowest, _NOBODY
        wavered, self._wavering = self._wavering, False
        begin = len(self._finished)
        rounds = 0
        try:
            while True:
                answer = compute()
                told = self._handed_out.pop(key, _UNKNOWN)
                wavers = self._wavering or (told is not _UNKNOWN and told != answer)
                if self._lowest < level or not wavers:
                    break
                rounds += 1
                if rounds > self._rounds:
                    answer = anything
                    break
                self._assumed[key] = answer
                self._begin_round(begin)
        except BaseException:
            self._handed_out.pop(key, None)
            self._begin_round(begin)
            self._lowest, self._wavering = outside, wavered
            if level == 0:
                self._assumed.clear()
            raise
        finally:
            del self._open[key]
        lowest = self._lowest
        if lowest >= level:  # nothing that was found leans on a question that is still open
            if len(self._finished) > begin:
                self._settle(begin, settled=rounds <= self._rounds)
            if key in self._assumed:
                del self._assumed[key]
            self.known[key] = answer
            self._lowest, self._wavering = outside, wavered
        else:
            self._assumed[key] = answer
            for each in self._finished[begin:]:  # what leans on this one leans on what this one leans on
                found, leaned_on, top = self._round[each]
                if leaned_on >= level:
                    self._round[each] = found, lowest, top
            self._round[key] = answer, lowest, anything
            self._finished.append(key)
            self._lowest, self._wavering = min(outside, lowest), wavered or wavers
        return answer

    def _begin_round(self, begin: int) -> None:
        for each in self._finished[begin:]:
            del self._round[each]
        del self._finished[begin:]
        self._lowest, self._wavering = _NOBODY, False

    def _settle(self, begin: int, *, settled: bool) -> None:
        """What was answered within a circle stands once it has settled; where none does, anything is possible."""
        for each in self._finished[begin:]:
            answer, _, anything = self._round.pop(each)
            del self._assumed[each]
            if settled or anything is not _UNKNOWN:
                self.known[each] = answer if settled else anything
        del self._finished[begin:]
