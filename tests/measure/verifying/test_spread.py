"""Within the run-to-run spread of the original: found where it is not, and no alarm where it is."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from autoaccel.measure.observing.run_record import Loss, RunRecord
from autoaccel.measure.verifying import spread
from autoaccel.measure.verifying.spread import judge, quantile, series
from tests.measure.verifying.made import RECORD, entry, losses

STEPS = 40


def training(
    seed: int, *, shift: float = 0.0, rounding: float = 0.0, noise: float = 0.1, start: float = 2.3
) -> RunRecord:
    """A loss that falls from `start` to half of it, with the noise of its batches; `rounding` is another stream."""
    batches = random.Random(seed)
    other = random.Random(seed + 1000)
    values = []
    offset = batches.gauss(0, noise / 3)
    for step in range(STEPS):
        value = start * (0.5 + 0.5 * math.exp(-step / 15)) + offset + batches.gauss(0, noise)
        values.append(value + shift * step / STEPS + other.gauss(0, rounding))
    norm = 5 + batches.gauss(0, 0.02) + shift
    state = (entry("model.weight", value=norm),)
    return replace(RECORD, losses=losses(values), state=state)


def verdict(
    original: Callable[[int], RunRecord], rewritten: Callable[[int], RunRecord], most: int = 8
) -> tuple[bool | None, int]:
    """As `verify` goes about it: seed after seed, until there is a verdict."""
    before: list[RunRecord] = []
    after: list[RunRecord] = []
    for seed in range(most):
        before.append(original(seed))
        after.append(rewritten(seed))
        said = judge(before, after, last=seed == most - 1)
        if said.within is not None:
            return said.within, seed + 1
    raise AssertionError("no verdict at the end")


def test_the_very_same_is_within_after_the_fewest_seeds() -> None:
    assert verdict(training, training) == (True, spread.FEWEST)


def test_rounding_is_within() -> None:
    assert verdict(training, lambda seed: training(seed, rounding=0.01)) == (True, spread.FEWEST)


@pytest.mark.parametrize("start", range(60))
def test_runs_that_differ_in_nothing_but_the_seed_are_within(start: int) -> None:
    """Not even paired: the worst case of a right rewrite. Of all 60 none may fail (the level is 0.002 each)."""
    said, _ = verdict(lambda seed: training(100 * start + seed), lambda seed: training(100 * start + seed + 50))
    assert said is True


@pytest.mark.parametrize("start", range(20))
def test_a_loss_that_comes_down_less_is_found(start: int) -> None:
    said, _ = verdict(
        lambda seed: training(100 * start + seed), lambda seed: training(100 * start + seed, shift=0.5, rounding=0.01)
    )
    assert said is False


def test_what_is_outside_is_said() -> None:
    said = judge([training(seed) for seed in range(8)], [training(seed, shift=1.0) for seed in range(8)], last=True)
    assert said.within is False
    assert "instead of" in said.reason
    assert "times the spread between runs of the original" in said.reason


def test_a_norm_that_is_off_is_found_although_the_loss_is_not() -> None:
    def other(seed: int) -> RunRecord:
        record = training(seed)
        return replace(record, state=(entry("model.weight", value=record.state[0].norm * 0.577),))

    assert verdict(training, other)[0] is False


def test_divergence_is_seen_at_the_first_seed() -> None:
    broken = replace(RECORD, losses=losses([0.9, 0.8, math.nan, math.nan]))
    said = judge([RECORD], [broken], last=False)
    assert (said.within, said.reason) == (False, "loss of step 3: nan")


def test_an_original_that_diverges_itself_is_no_measure() -> None:
    broken = replace(RECORD, losses=losses([0.9, 0.8, math.inf, math.nan]))
    assert judge([broken] * 3, [broken] * 3, last=False).within is True
    assert judge([RECORD, broken, RECORD], [RECORD, RECORD, broken], last=True).within is True


def test_but_more_runs_than_of_the_original_are_too_many() -> None:
    broken = replace(RECORD, losses=losses([0.9, 0.8, math.inf, math.nan]))
    said = judge([RECORD, broken, RECORD], [broken, broken, RECORD], last=True)
    assert (said.within, said.reason) == (False, "loss of step 3: inf")


def test_a_mask_that_is_infinite_by_design_excuses_nothing() -> None:
    mask = replace(RECORD.state[1], name="model.mask", norm=math.inf, sketch=(math.nan, math.nan))
    original = replace(RECORD, state=(*RECORD.state, mask))
    assert judge([original] * 3, [original] * 3, last=False).within is True
    broken = replace(original, losses=losses([0.9, math.nan, math.nan, math.nan]))
    assert judge([original], [broken], last=False).reason == "loss of step 2: nan"
    lost = replace(original, state=(replace(RECORD.state[0], norm=math.inf), *original.state[1:]))
    assert judge([original], [lost], last=False).reason == "model.fc.weight: inf"


def test_where_losses_are_no_single_numbers_the_state_tells() -> None:
    several = tuple(replace(each, value=None) for each in RECORD.losses)
    original = replace(RECORD, losses=several)
    broken = replace(original, state=(replace(RECORD.state[0], norm=math.nan), *RECORD.state[1:]))
    assert judge([original], [broken], last=False).reason == "model.fc.weight: nan"
    assert judge([broken], [broken], last=False).within is None
    assert judge([original, broken], [broken, broken], last=False).within is None


def test_an_original_that_explodes_differs_from_itself_more_than_that() -> None:
    def exploding(seed: int) -> RunRecord:
        growth = 1.4 + 0.05 * random.Random(seed).random()
        return replace(RECORD, losses=losses([growth**step for step in range(STEPS)]), state=())

    assert verdict(exploding, lambda seed: exploding(seed + 50))[0] is True


def constant(value: float) -> Callable[[int], RunRecord]:
    return lambda _: replace(RECORD, losses=losses([value] * STEPS), state=())


@pytest.mark.parametrize("value", [2.3, 0.0, -1e6])
def test_without_any_spread_the_resolution_decides(value: float) -> None:
    said = judge([constant(value)(0)] * 3, [constant(value * (1 + 2**-9))(0)] * 3, last=False)
    assert said.within is True
    assert not said.spreads
    if value:
        said = judge([constant(value)(0)] * 8, [constant(value * 1.05)(0)] * 8, last=True)
        assert said.within is False
        assert said.reason.endswith("runs of the original do not differ")


def test_a_loss_that_reaches_zero_is_measured_by_where_it_came_from() -> None:
    def falling(floor: float) -> Callable[[int], RunRecord]:
        def run(seed: int) -> RunRecord:
            noise = 1 + 0.01 * random.Random(seed).random()
            return replace(RECORD, losses=losses([noise * math.exp(-step) + floor for step in range(STEPS)]), state=())

        return run

    assert verdict(falling(0.0), falling(1e-4))[0] is True
    assert verdict(falling(0.0), falling(0.2))[0] is False


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps(steps: int) -> None:
    def short(seed: int) -> RunRecord:
        record = training(seed)
        return replace(record, losses=record.losses[:steps])

    assert verdict(short, short)[0] is True


def test_nothing_to_compare() -> None:
    empty = replace(RECORD, losses=(), state=())
    assert judge([empty], [empty], last=False).within is None
    assert judge([empty], [empty], last=True).within is True


def of_steps(values: Sequence[float], steps: Sequence[int]) -> list[Loss]:
    return [Loss(value.hex(), value, step) for value, step in zip(values, steps, strict=True)]


def test_losses_of_several_kinds_are_told_apart() -> None:
    gan = of_steps([1.0, 2.0, 3.0] * 4, [step for pair in range(4) for step in (2 * pair, 2 * pair, 2 * pair + 1)])
    assert series(gan) == [[1.0] * 4, [2.0] * 4, [3.0] * 4]
    assert series(of_steps([1.0, 2.0, 3.0], [0, 1, 2])) == [[1.0, 2.0, 3.0]]
    assert series(of_steps([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1])) == [[1.0, 3.0], [2.0, 4.0]]
    assert series([]) == []


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [(0.975, 2, 4.3027), (0.975, 8, 2.3060), (0.975, 30, 2.0423), (0.9995, 4, 8.6103), (0.9995, 8, 5.0413)],
)
def test_quantiles_are_those_of_the_tables(probability: float, freedom: int, value: float) -> None:
    assert quantile(probability, freedom) == pytest.approx(value, abs=1e-3)
