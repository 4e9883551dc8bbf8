"""Figures from turns of which every second is known."""

from __future__ import annotations

import pytest

from autoaccel.measure.benching import figures
from autoaccel.measure.benching.figures import FEWEST_BLOCKS, TooShortError
from autoaccel.measure.benching.medians import RESOLUTION
from autoaccel.measure.benching.report import Column
from autoaccel.measure.benching.rounds import Rounds, take_turns
from autoaccel.measure.observing.run_record import Decision, RunRecord
from tests.measure.benching.scripts import Played, steady


def run(original: Played, *others: Played, seconds: float = 6, steps: int | None = None) -> Rounds:
    return take_turns([original, *others], seconds=seconds, steps=steps)


def columns(rounds: Rounds, noise: float = 1.0) -> list[Column]:
    return [figures.column(each, rounds, noise=noise) for each in rounds.series]


def test_steady_contenders() -> None:
    rounds = run(Played("original", steady(0.1, start=2)), Played("rewritten", steady(0.05, start=5)))
    original, rewritten = columns(rounds)
    assert (original.speedup.low, original.speedup.median, original.speedup.high) == (1, 1, 1)
    assert (rewritten.speedup.low, rewritten.speedup.high) == pytest.approx((2 / RESOLUTION, 2 * RESOLUTION))
    assert rewritten.step_seconds.median == pytest.approx(0.05)
    assert rewritten.samples_per_second is not None
    assert rewritten.samples_per_second.median == pytest.approx(640)
    assert rewritten.first_step_seconds == 5
    assert rewritten.total_seconds == pytest.approx(5 + 0.05 * (rewritten.total_steps - 1))
    assert rewritten.loader_share == pytest.approx(0.25)
    assert rewritten.host_memory == 1 << 20
    assert len(rewritten.step_times) == rewritten.steps < rewritten.total_steps == len(rewritten.losses)


def test_warm_up_does_not_count() -> None:
    rounds = run(
        Played("original", lambda step: 0.1),
        Played("rewritten", lambda step: 3.0 if step < 4 else 0.05),
    )
    assert columns(rounds)[1].speedup.low == pytest.approx(2 / RESOLUTION)


def test_what_is_slow_for_both_cancels_out() -> None:
    """A step with an evaluation is in the same block of both."""
    rounds = run(
        Played("original", lambda step: 2.0 if step % 17 == 0 else 0.1),
        Played("rewritten", lambda step: 1.0 if step % 17 == 0 else 0.05),
    )
    found = columns(rounds)[1].speedup
    assert (found.low, found.high) == pytest.approx((2 / RESOLUTION, 2 * RESOLUTION))


def test_noise_widens_all_but_the_medians() -> None:
    rounds = run(Played("original", steady(0.1)), Played("rewritten", steady(0.05)))
    found = columns(rounds, noise=1.02)[1].speedup
    assert (found.low, found.median, found.high) == pytest.approx((2 / 1.02, 2, 2 * 1.02))


def test_a_short_run_is_looked_at_step_by_step() -> None:
    rounds = run(Played("original", steady(0.1), steps=8), Played("rewritten", steady(0.05), steps=8))
    assert len(rounds.series[0].turns) < FEWEST_BLOCKS + rounds.warm_up
    original, rewritten = columns(rounds)
    assert rewritten.speedup.median == pytest.approx(2)
    assert len(original.blocks) == 6  # the first two steps are never counted


def test_too_short() -> None:
    rounds = run(Played("original", steady(0.1), steps=4), Played("rewritten", steady(0.05), steps=4))
    with pytest.raises(TooShortError, match="made 4 steps: too few"):
        columns(rounds)


def test_one_that_drops_out_is_compared_as_far_as_it_came() -> None:
    rounds = run(Played("original", steady(0.1)), Played("rewritten", steady(0.05), steps=30))
    found = columns(rounds)[1]
    assert found.total_steps == 30
    assert found.speedup.median == pytest.approx(2)


def test_without_loaders_there_is_no_rate() -> None:
    rounds = run(Played("original", steady(0.1)))
    for turn in rounds.series[0].turns:
        object.__setattr__(turn, "samples", 0)
    assert columns(rounds)[0].samples_per_second is None


def test_decisions_come_from_the_record() -> None:
    rounds = run(Played("original", steady(0.1)))
    decision = Decision("amp", "off", "no accelerator")
    series = rounds.series[0]
    series.record, series.changes, series.busy = RunRecord("stopped", decisions=(decision,)), 3, 0.5
    found = figures.column(series, rounds)
    assert (found.decisions, found.changes, found.device_busy) == ((decision,), 3, 0.5)
