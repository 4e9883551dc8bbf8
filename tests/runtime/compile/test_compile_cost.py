"""Whether compiling pays: the promises of the rule, over all runs."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.runtime.compile import compile_cost
from autoaccel.runtime.compile.compile_cost import CostDecision, Prior, TrainingRun, worth

costs = st.floats(0.05, 120)
steps = st.floats(1e-4, 5)
lengths = st.integers(1, 100_000)
speedups = st.floats(1.0, 4.0)
Offer: TypeAlias = tuple[float, Prior]


def costing(seconds: float, speedup: float, stake: float = compile_cost.PATIENCE, smallest: float = 0.0) -> Offer:
    """What compiling costs, and what is expected of it."""
    return seconds, Prior(speedup, (0.0, 0.0), (0.0, 0.0), stake, smallest)


def compiled_at(length: int, step: float, offer: Offer, *, told: bool) -> int | None:
    """The step at which a run of this length compiles, looked for as a course does: now and then."""
    done = 1
    while done < length:
        if worth(TrainingRun(done, step, length - done if told else None), *offer).pays:
            return done
        done = done + 1 if done < 150 else done + done // 16
    return None


def total(length: int, step: float, at: int | None, cost: float, speedup: float) -> float:
    if at is None:
        return length * step
    return at * step + cost + (length - at) * step / speedup


@given(lengths, steps, costs, st.floats(1.05, 2.2))
def test_the_doubling_rule_takes_at_most_twice_as_long_as_the_better_choice(
    length: int, step: float, cost: float, speedup: float
) -> None:
    at = compiled_at(length, step, costing(cost, speedup), told=False)
    best = min(total(length, step, None, cost, speedup), total(length, step, 0, cost, speedup))
    slack = 1 + 1 / 16  # it is asked now and then only
    assert total(length, step, at, cost, speedup) <= 2 * best * slack + step


@given(lengths, steps, costs, speedups, st.booleans())
def test_a_run_that_gains_nothing_loses_what_was_staked(
    length: int, step: float, cost: float, speedup: float, told: bool
) -> None:
    offer = costing(cost, speedup, stake=0.03)
    at = compiled_at(length, step, offer, told=told)
    assert total(length, step, at, cost, 1.0) <= 1.03 * length * step * (1 + 1e-9)


@given(st.integers(100, 100_000), steps, costs, speedups, st.booleans())
def test_a_hundred_steps_take_at_most_a_tenth_longer(
    length: int, step: float, cost: float, speedup: float, told: bool
) -> None:
    at = compiled_at(length, step, costing(cost, speedup), told=told)
    if at is not None and at < 100:
        assert total(100, step, at, cost, 1.0) <= 1.1 * 100 * step * (1 + 1e-9)


@given(st.integers(1, 10_000), st.integers(1, 100_000), steps, costs, speedups, st.floats(0, 60))
def test_it_pays_rather_with_more_to_come_and_less_to_pay(
    done: int, left: int, step: float, cost: float, speedup: float, spent: float
) -> None:
    if worth(TrainingRun(done, step, left, spent=spent), *costing(cost, speedup)).pays:
        assert worth(TrainingRun(done, step, left + 1, spent=spent), *costing(cost, speedup)).pays
        assert worth(TrainingRun(done, step, left, spent=spent / 2), *costing(cost, speedup)).pays
        assert worth(TrainingRun(done, step, left, spent=spent), *costing(cost / 2, speedup)).pays
        assert worth(TrainingRun(done, step, left, spent=spent), *costing(cost, speedup * 1.5)).pays


@given(st.lists(costs, min_size=2, max_size=4), steps, st.integers(100, 20_000))
def test_several_models_together_stay_within_the_stake(costs: list[float], step: float, length: int) -> None:
    """Compiling is counted for all together, whoever's it was."""
    spent = 0.0
    _, prior = costing(0.0, 1.3)
    for done in range(1, length, 10):
        for cost in costs[:1]:
            if worth(TrainingRun(done, step, spent=spent), cost, prior).pays:
                spent += costs.pop(0)
                assert spent <= 0.1 * done * step * (1 + 1e-9)


def test_two_thirds_of_the_gain_have_to_cover_the_cost() -> None:
    enough = TrainingRun(100, 0.1, left=1000)
    assert worth(enough, *costing(6.0, 1.3)) == CostDecision(
        True, "10 s of steps so far, 1000 left at 100 ms: compiling pays"
    )
    assert worth(enough, *costing(10.0, 1.1)) == CostDecision(
        False,
        "10 s of steps so far, 1000 left at 100 ms: compiling takes about 10 s and would save about 9.09 s",
        final=True,
    )


def test_a_small_share_of_the_step_is_a_small_gain() -> None:
    """A run that waits for its loader gains nothing."""
    assert worth(TrainingRun(100, 0.1, left=2000), *costing(6.0, 1.3)).pays
    assert not worth(TrainingRun(100, 0.1, left=2000, share=0.1), *costing(6.0, 1.3)).pays


def test_the_last_word_is_said_only_where_the_end_is_known() -> None:
    assert worth(TrainingRun(100, 0.001, left=200), *costing(6.0, 1.3)).final
    assert not worth(TrainingRun(100, 0.001), *costing(6.0, 1.3)).final
    assert not worth(TrainingRun(50, 0.1, left=2000), *costing(6.0, 1.3)).final  # not within the first hundred


def test_steps_that_are_all_overhead() -> None:
    assert worth(TrainingRun(1000, 0.0002), *costing(1.0, 2.0, smallest=0.001)).final
    assert not worth(TrainingRun(20, 0.0002), *costing(1.0, 2.0, smallest=0.001)).final


def test_larger_models_cost_more_and_a_cache_saves_it() -> None:
    for prior in compile_cost.PRIORS.values():
        assert prior.cost(5, warm=True) < prior.cost(50, warm=True) < prior.cost(50, warm=False)
        assert prior.cost(5, graphs=2, warm=False) > prior.cost(5, warm=False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(21.34, "21.3 s"), (42.0, "42 s"), (1234.5, "1234 s"), (0.035, "35 ms"), (0.9996, "1 s"), (0.00002, "20 µs")],
)
def test_durations(seconds: float, text: str) -> None:
    assert compile_cost.duration(seconds) == text
