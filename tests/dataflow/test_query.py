"""Questions that lean on one another: the least fixpoint, whoever asks first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel.dataflow.completeness import Incomplete
from autoaccel.dataflow.query import Queries, fixpoint, once

Numbers = frozenset[int]
NOTHING: Numbers = frozenset()
ANYTHING: Numbers = frozenset({-1})
STEPS: tuple[Callable[[int], int], ...] = (lambda x: x, lambda x: (x + 1) % 5, lambda _: 0)
Equations = list[tuple[Numbers, list[tuple[int, int]]]]


def queries(most: int = 10_000, deepest: int = 100, rounds: int = 50) -> Queries:
    return Queries(most, deepest, rounds)


@st.composite
def equations(draw: st.DrawFn) -> Equations:
    """Numbers of one's own, and those of others, each changed by a step."""
    size = draw(st.integers(1, 8))
    lean = st.tuples(st.integers(0, size - 1), st.integers(0, len(STEPS) - 1))
    return [(draw(st.frozensets(st.integers(0, 4), max_size=1)), draw(st.lists(lean, max_size=3))) for _ in range(size)]


def value(own: Numbers, leans: list[tuple[int, int]], of: Callable[[int], Numbers]) -> Numbers:
    return own.union(*({STEPS[step](x) for x in of(other)} for other, step in leans))


def least(system: Equations) -> list[Numbers]:
    found = [NOTHING for _ in system]
    while True:
        after = [value(own, leans, found.__getitem__) for own, leans in system]
        if after == found:
            return found
        found = after


@settings(max_examples=300)
@given(equations(), st.randoms(use_true_random=False), st.sampled_from([9, 100]))
def test_answers_are_the_least_fixpoint_in_every_order(system: Equations, random: object, deepest: int) -> None:
    asked = queries(deepest=deepest)

    def ask(number: int) -> Numbers:
        own, leans = system[number]
        return asked.ask(number, lambda: value(own, leans, ask), NOTHING, ANYTHING)

    order = list(range(len(system)))
    random.shuffle(order)  # type: ignore[attr-defined]
    expected = least(system)
    for number in order:
        assert ask(number) == expected[number]


@pytest.mark.parametrize("length", [1, 3])
def test_what_never_settles_may_be_anything(length: int) -> None:
    asked = queries()

    def negation(number: int) -> Numbers:
        """Something, where the next in a ring of odd length is nothing."""

        def compute() -> Numbers:
            return NOTHING if negation((number + 1) % length) else frozenset({1})

        return asked.ask(number, compute, NOTHING, ANYTHING)

    assert negation(0) == ANYTHING
    assert all(asked.known[number] == ANYTHING for number in range(length)), "a part of the ring counts as settled"


def test_long_chains_need_no_deep_stack() -> None:
    asked = queries(deepest=5)

    def ask(number: int) -> Numbers:
        return asked.ask(number, lambda: ask(number - 1) if number else frozenset({7}), NOTHING, ANYTHING)

    assert ask(500) == {7}


def test_circles_that_are_too_long_are_not_answered() -> None:
    asked = queries(deepest=5)

    def ask(number: int) -> Numbers:
        return asked.ask(number, lambda: ask((number + 1) % 50), NOTHING, ANYTHING)

    with pytest.raises(Incomplete):
        ask(0)
    assert asked.ask("other", lambda: frozenset({3}), NOTHING, ANYTHING) == {3}, "it does not recover"


def test_too_many_evaluations_are_not_made() -> None:
    asked = queries(most=10)

    def ask(number: int) -> Numbers:
        return asked.ask(number, lambda: ask(number + 1), NOTHING, ANYTHING)

    with pytest.raises(Incomplete):
        ask(0)


def test_a_failure_leaves_nothing_open() -> None:
    asked = queries()

    def ask(key: str, fail: bool) -> Numbers:
        def compute() -> Numbers:
            if fail:
                raise ValueError(key)
            return frozenset({1})

        return asked.ask(key, compute, NOTHING, ANYTHING)

    with pytest.raises(ValueError, match="inner"):
        asked.ask("outer", lambda: ask("inner", True), NOTHING, ANYTHING)
    assert ask("inner", False) == {1}
    assert asked.ask("outer", lambda: ask("inner", False), NOTHING, ANYTHING) == {1}


class Ring:
    """Numbers that lean on one another in a circle."""

    def __init__(self, rounds: int = 50) -> None:
        self.queries = queries(rounds=rounds)
        self.asked: list[int] = []

    @fixpoint(NOTHING, ANYTHING)
    def below(self, number: int) -> Numbers:
        """All of them."""
        return frozenset({number}) | self.rest(number)

    @once
    def rest(self, number: int) -> Numbers:
        self.asked.append(number)
        return self.below((number + 1) % 3)


def test_what_leans_on_an_open_question_is_not_kept() -> None:
    ring = Ring()
    assert ring.below(0) == {0, 1, 2}
    assert ring.rest(1) == {0, 1, 2}, "it was kept while the circle was open"
    asked = len(ring.asked)
    assert ring.rest(1) == ring.rest(2) == {0, 1, 2}
    assert len(ring.asked) == asked, "what has settled is asked again"


def test_what_never_settled_is_asked_again() -> None:
    ring = Ring(rounds=0)
    assert ring.below(0) == ANYTHING
    assert ring.rest(2) == ANYTHING


def test_once_is_for_what_does_not_come_back_to_itself() -> None:
    class Own:
        queries = queries()

        @once
        def value(self) -> int:
            return self.value()

    own = Own()
    with pytest.raises(Incomplete):
        own.queries.ask("outer", own.value, 0, -1)
