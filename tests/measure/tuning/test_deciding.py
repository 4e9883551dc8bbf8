"""What is kept: only what was measured to win, again and again, and nothing where nothing is to be won."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.measure.benching import procedure
from autoaccel.measure.benching.report import BenchReport, Contribution, Interval
from autoaccel.measure.changes import Change, Changes
from autoaccel.measure.tuning import deciding
from autoaccel.measure.tuning.deciding import Tuning, candidates, ratio, speedup, tune, with_needs
from tests.measure.tuning.made import Simulated, around, change, changes, report

CODES = ("AA101", "AA103", "AA201", "AA202", "AA301", "AA401", "AA501", "AA602")


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procedure, "load", lambda: 0.1)


def kept(tuning: Tuning) -> list[str]:
    return [each.record.code for each in tuning.kept]


@pytest.mark.parametrize(
    ("recording", "disturbance", "lasting"),
    [("crowded", 1.0, 0.02), ("shared", 1.0, 0.02), ("shared", 0.2, 0.02), ("shared", 0.2, 0.05)],
)
def test_of_equal_programs_nothing_is_kept(recording: str, disturbance: float, lasting: float) -> None:
    """In a hundred runs whose noise was recorded, processes differing for good besides, at most one keeps anything."""
    lucky = 0
    for seed in range(100):
        draw = random.Random(f"{recording} {seed}")
        simulated = Simulated(recording, draw, disturbance=disturbance, lasting=lasting)
        lucky += bool(tune(changes(*CODES[:5]), simulated).kept)
    assert lucky <= 1


def test_a_gain_is_kept_and_nothing_else() -> None:
    """In most runs: what is decided is not honest by being useless."""
    right = 0
    for seed in range(20):
        simulated = Simulated("shared", random.Random(seed), {"AA202": 1.8, "AA602": 1.25}, 0.2)
        tuning = tune(changes(*CODES[:5], "AA602"), simulated)
        right += kept(tuning) == ["AA202", "AA602"]
        assert simulated.measured[-1] == tuple(kept(tuning))
    assert right >= 18


def test_what_makes_it_slower_is_left_out() -> None:
    simulated = Simulated("shared", random.Random(1), {"AA202": 1.5, "AA401": 0.5}, 0.2)
    tuning = tune(changes("AA202", "AA401"), simulated)
    assert kept(tuning) == ["AA202"]
    assert [each.reason for each in tuning.rules if not each.kept] == ["it makes the script slower here"]


def test_what_only_pays_together_is_kept() -> None:
    """Ten rules of three percent each, none of which can be seen by itself."""
    codes = [f"AA{number}" for number in range(101, 111)]
    simulated = Simulated("shared", random.Random(2), dict.fromkeys(codes, 1.03), 0.2)
    tuning = tune(changes(*codes), simulated)
    assert kept(tuning) == codes
    assert {each.reason for each in tuning.rules if each.gain and each.gain.low <= 1} == {
        "it pays together with the others"
    }


@dataclasses.dataclass
class Given:
    """Measures what it is told: all together rule by rule, then each choice, as often as it is asked."""

    together: Interval
    without: dict[str, Interval | None]
    then: Sequence[Interval]
    asked: list[tuple[str, ...]] = dataclasses.field(default_factory=list)

    def __call__(self, found: Changes, ablate: bool) -> BenchReport:
        self.asked.append(tuple(each.record.code for each in found))
        if not ablate:
            return report(self.then[len(dict.fromkeys(self.asked[1:])) - 1])
        assert len(self.asked) == 1
        own = [Contribution(code, "a-rule", 1, around(1.0), each) for code, each in self.without.items()]
        return report(self.together, own)


def decide(together: Interval, without: dict[str, Interval | None], *then: Interval) -> tuple[Tuning, Given]:
    measure = Given(together, without, then)
    return tune(changes(*without), measure), measure


def test_rules_that_stand_in_for_one_another_are_both_kept() -> None:
    """Without either nothing is lost; a third one wins by itself, and without those two it is slower than all were."""
    tuning, measure = decide(
        around(3.0), {"AA201": around(3.0), "AA202": around(3.0), "AA301": around(2.0)}, around(1.5), around(3.0)
    )
    assert measure.asked[1:] == [("AA301",)] * 2 + [("AA201", "AA202", "AA301")] * 2
    assert kept(tuning) == ["AA201", "AA202", "AA301"]
    assert speedup(tuning.confirmed or tuning.together) == around(3.0)


def test_a_gain_that_is_not_there_again_is_not_kept() -> None:
    tuning, measure = decide(around(1.5), {"AA202": around(1.1), "AA301": around(1.5)}, around(1.01), around(1.01))
    assert tuning.kept == ()
    assert tuning.confirmed is None
    assert len(measure.asked) == 3
    assert [each.reason for each in tuning.rules] == ["its gain was not confirmed", "no gain was measured"]


def test_where_nothing_wins_nothing_more_is_measured() -> None:
    tuning, measure = decide(around(1.0), {"AA202": around(1.0), "AA301": None})
    assert (tuning.kept, len(measure.asked)) == ((), 1)
    assert [each.reason for each in tuning.rules] == ["no gain was measured", "it could not be measured"]


def test_a_slower_whole_may_have_a_good_part() -> None:
    tuning, measure = decide(around(0.8), {"AA202": around(0.5), "AA401": around(1.6)}, around(1.6))
    assert measure.asked[1:] == [("AA202",)] * 2
    assert kept(tuning) == ["AA202"]


def test_one_rule_is_compared_with_the_original() -> None:
    tuning, _ = decide(around(1.5), {"AA202": None}, around(1.5))
    assert kept(tuning) == ["AA202"]
    assert tuning.rules[0].gain == around(1.5)
    assert tuning.rules[0].alone == around(1.5)


def test_a_choice_must_win_each_time() -> None:
    together, gains = around(1.5), iter([around(1.5), around(1.0)])

    def measure(found: Changes, ablate: bool) -> BenchReport:
        return report(together, [Contribution("AA202", "a-rule", 1, None, None)]) if ablate else report(next(gains))

    assert tune(changes("AA202"), measure).kept == ()
    gains = iter([around(1.5), around(1.2)])
    assert speedup(tune(changes("AA202"), measure).confirmed or report(together)) == around(1.2)


@dataclasses.dataclass(frozen=True)
class Needing(Changes):
    """The second needs the first."""

    def needs(self, change: Change) -> tuple[Change, ...]:
        return self.all[:1] if len(self.all) > 1 and change is self.all[1] else ()


def test_what_is_needed_is_kept_as_well() -> None:
    found = Needing((change("AA201", 1), change("AA202", 2), change("AA301", 3)))
    assert [each.record.code for each in with_needs(found, {"AA202"})] == ["AA201", "AA202"]
    measure = Given(around(2.0), {"AA201": around(2.0), "AA202": around(1.0), "AA301": around(2.0)}, [around(2.0)])
    tuning = tune(found, measure)
    assert kept(tuning) == ["AA201", "AA202"]
    assert [each.reason for each in tuning.rules] == ["others need it", "", "no gain was measured"]


intervals = st.tuples(st.floats(0.2, 5), st.floats(0.001, 0.5)).map(lambda pair: around(*pair))
figures = st.dictionaries(st.sampled_from(CODES), st.none() | intervals, min_size=1)


@given(intervals, figures, st.lists(intervals, min_size=2, max_size=2))
def test_whatever_was_measured(together: Interval, without: dict[str, Interval | None], then: list[Interval]) -> None:
    tuning, measure = decide(together, without, *then)
    assert len(measure.asked) <= 1 + 2 * deciding.CONFIRMATIONS
    assert bool(tuning.kept) == (tuning.confirmed is not None)
    if tuning.confirmed is not None:
        assert speedup(tuning.confirmed).low > 1
        assert tuple(kept(tuning)) in measure.asked[1:]
    assert {each.code for each in tuning.rules if each.kept} == set(kept(tuning))
    assert all(each.reason for each in tuning.rules if not each.kept)
    assert not any(each.kept for each in tuning.rules if each.gain is not None and each.gain.high < 1)
    if all(each.low <= 1 for each in then):
        assert tuning.kept == ()


@given(intervals, figures, st.lists(intervals, min_size=2, max_size=2), st.randoms())
def test_the_order_of_rules_does_not_matter(
    together: Interval, without: dict[str, Interval | None], then: list[Interval], draw: random.Random
) -> None:
    shuffled = dict(draw.sample([*without.items()], len(without)))
    assert set(kept(decide(together, without, *then)[0])) == set(kept(decide(together, shuffled, *then)[0]))


@given(intervals, intervals)
def test_a_ratio_is_less_sure_than_what_it_is_of(one: Interval, other: Interval) -> None:
    found = ratio(one, other)
    assert found.low <= found.median <= found.high
    widths = [math.log(each.high / each.low) for each in (one, other, found)]
    assert widths[2] == pytest.approx(math.hypot(*widths[:2]))


def test_a_ratio_contains_the_truth() -> None:
    """In 99 % of the cases, where the intervals that it is made of do so, too."""
    draw, hits = random.Random(0), 0
    for _ in range(2000):
        measured = [math.exp(draw.gauss(0, 0.05)) for _ in range(2)]
        one, other = (Interval(each, each / math.exp(0.05 * 2.576), each * math.exp(0.05 * 2.576)) for each in measured)
        hits += ratio(one, other).contains(1.0)
    assert 0.985 <= hits / 2000 <= 0.995


def test_candidates() -> None:
    def rule(code: str, gain: Interval | None) -> deciding.RuleWorth:
        return deciding.RuleWorth(code, "a-rule", 1, gain, None)

    win, lose, even, lost = (
        rule("AA1", around(2)), rule("AA2", around(0.5)), rule("AA3", around(1)), rule("AA4", None),
    )  # fmt: skip
    assert candidates([win, lose, even, lost], wins=False) == [{"AA1"}, {"AA1", "AA3", "AA4"}]
    assert candidates([win], wins=True) == [{"AA1"}]
    assert candidates([even, lost], wins=True) == [{"AA3", "AA4"}]
    assert candidates([even, lost], wins=False) == []
    assert candidates([lose], wins=False) == []
