"""Who has a turn when: with contenders of which every second is known."""

from __future__ import annotations

from autoaccel.measure.benching.rounds import BLOCK_SECONDS, FEWEST_ROUNDS, take_turns
from tests.measure.benching.scripts import Played, steady


def three(*speeds: float, steps: int | None = None) -> tuple[list[Played], list[tuple[str, int]]]:
    diary: list[tuple[str, int]] = []
    names = ("original", "again", "rewritten")
    return [Played(name, steady(speed), diary, steps) for name, speed in zip(names, speeds, strict=True)], diary


def test_all_make_the_same_steps_block_by_block() -> None:
    contenders, _ = three(0.01, 0.01, 0.005)
    rounds = take_turns(contenders, seconds=3)
    counts = [[len(turn.times) for turn in series.turns] for series in rounds.series]
    assert counts[0] == counts[1] == counts[2]
    assert rounds.series[0].steps == contenders[0].made


def test_a_block_is_long_enough_on_the_original() -> None:
    contenders, _ = three(0.01, 0.01, 0.001)
    rounds = take_turns(contenders, seconds=3)
    assert rounds.block == 30
    timed = rounds.series[0].turns[rounds.warm_up :]
    assert {len(turn.times) for turn in timed} == {30}
    assert all(turn.seconds >= BLOCK_SECONDS - 1e-9 for turn in timed)


def test_slow_steps_are_blocks_of_their_own() -> None:
    contenders, _ = three(2.0, 2.0, 1.0)
    rounds = take_turns(contenders, seconds=4)
    assert rounds.block == 1
    assert len(rounds.series[0].turns) - rounds.warm_up == FEWEST_ROUNDS


def test_time_is_shared() -> None:
    """A slow contender takes of the others' time: the benchmark as a whole takes as long as was asked for."""
    contenders, _ = three(0.1, 0.1, 0.4)
    rounds = take_turns(contenders, seconds=12)
    timed = sum(turn.seconds for series in rounds.series for turn in series.turns[rounds.warm_up :])
    assert 3 * 12 <= timed < 3 * 12 + 2


def test_everybody_starts_before_anybody_goes_on() -> None:
    contenders, diary = three(0.1, 0.1, 0.1)
    take_turns(contenders, seconds=1)
    assert diary[:3] == [("original", 1), ("again", 1), ("rewritten", 1)]


def test_the_order_rotates() -> None:
    contenders, diary = three(1.0, 1.0, 1.0)
    take_turns(contenders, seconds=3)
    orders = {tuple(name for name, _ in diary[at : at + 3]) for at in range(0, len(diary), 3)}
    assert orders == {
        ("original", "again", "rewritten"),
        ("again", "rewritten", "original"),
        ("rewritten", "original", "again"),
    }


def test_steps_are_a_limit() -> None:
    contenders, _ = three(0.05, 0.05, 0.05)
    rounds = take_turns(contenders, seconds=100, steps=47)
    assert [series.steps for series in rounds.series] == [47, 47, 47]
    assert [each.made for each in contenders] == [47, 47, 47]


def test_it_is_over_with_the_original() -> None:
    contenders, _ = three(0.01, 0.01, 0.01, steps=100)
    contenders[1].steps = contenders[2].steps = 10_000
    rounds = take_turns(contenders, seconds=1e6)
    assert rounds.series[0].finished
    assert rounds.series[0].steps == 100
    # The others have their turn of the last round, too.
    assert all(100 <= series.steps <= 100 + rounds.block for series in rounds.series[1:])


def test_one_that_fails_drops_out() -> None:
    contenders, diary = three(0.1, 0.1, 0.1)
    contenders[1].fails_after = 5
    rounds = take_turns(contenders, seconds=3)
    original, again, rewritten = rounds.series
    assert again.failure is not None
    assert original.failure is rewritten.failure is None
    assert original.steps == rewritten.steps > 20
    assert not any(name == "again" for name, _ in diary[-6:])


def test_one_that_ends_early_drops_out() -> None:
    contenders, _ = three(0.1, 0.1, 0.1)
    contenders[2].steps = 10
    rounds = take_turns(contenders, seconds=3)
    assert rounds.series[2].finished
    assert rounds.series[2].steps == 10
    assert rounds.series[0].steps > 20


def test_nobody_else_starts_when_the_original_cannot() -> None:
    contenders, diary = three(0.1, 0.1, 0.1)
    contenders[0].fails_after = 0
    rounds = take_turns(contenders, seconds=3)
    assert rounds.series[0].failure is not None
    assert diary == [("original", 1)]


def test_a_script_of_one_step() -> None:
    contenders, _ = three(0.1, 0.1, 0.1, steps=1)
    rounds = take_turns(contenders, seconds=3)
    assert [series.steps for series in rounds.series] == [1, 1, 1]


def test_losses_come_with_their_steps() -> None:
    contenders, _ = three(0.1, 0.1, 0.1)
    series = take_turns(contenders, seconds=1).series[0]
    assert series.losses == [(step, 1 / step) for step in range(1, series.steps + 1)]


def test_progress() -> None:
    contenders, _ = three(0.1, 0.1, 0.1)
    told: list[tuple[str, int, float]] = []
    rounds = take_turns(contenders, seconds=2, tell=lambda *news: told.append(news))
    assert told[0] == ("original", 1, 0.0)
    shares = [share for _, _, share in told]
    assert shares == sorted(shares)
    assert 0.8 < shares[-1] <= 1
    assert max(steps for _, steps, _ in told) == rounds.series[0].steps
