"""Trials on made-up times: little is lost, clear cases are settled soon, and nothing but a gain is taken."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autoaccel.runtime.trial.ab_trial import ABTrial, TrialPolicy, TrialState
from autoaccel.runtime.trial.clocks import DeviceClock, HostClock, clock_of
from tests.runtime.accelerator import Accelerator


@dataclass
class MadeUp:
    """A clock that is set forward; with `late` laps' delay, as a device's is read."""

    now: float = 0.0
    late: int = 0
    marks: int = 0

    def mark(self) -> tuple[int, float]:
        self.marks += 1
        return self.marks, self.now

    def seconds(self, start: tuple[int, float], end: tuple[int, float]) -> float | None:
        return end[1] - start[1] if self.marks - end[0] >= self.late else None


@dataclass
class Laps:
    """How long laps take: usually `lap` seconds, the candidate `ratio` times faster, and what happens besides."""

    ratio: float
    lap: float = 0.05
    noise: float = 0.03
    drift: float = 0.0  # how much slower the last lap is than the first
    first: float = 10.0  # laps that the very first takes longer
    warm: float = 0.0  # laps that the first one the candidate takes longer
    switching: float = 0.0  # laps that each change to the candidate costs
    outliers: float = 0.0  # how often a lap takes five times as long
    rhythm: int = 0  # every so many laps,
    longer: float = 0.0  # so many laps are added: an evaluation, which takes as long either way
    told: bool = False  # and the trial is told of it
    late: int = 0


@dataclass
class Run:
    """What came of it."""

    trial: ABTrial
    decided: int | None = None
    lost: list[float] = field(default_factory=list)  # after each lap, seconds
    spent: list[float] = field(default_factory=list)
    dearest: float = 0.0  # lap the candidate
    went: list[bool] = field(default_factory=list)


def run(laps: Laps, count: int = 1500, seed: int = 0, policy: TrialPolicy | None = None) -> Run:
    chance, clock = random.Random(seed), MadeUp(late=laps.late)
    found = Run(ABTrial(clock, policy))
    tried, before, lost = False, False, 0.0
    for number in range(count):
        other = found.trial.next_iteration()
        if found.trial.decided:
            found.decided = number
            break
        usual = laps.lap * (1 + laps.drift * number / count) * math.exp(chance.gauss(0, laps.noise))
        usual *= 5 if chance.random() < laps.outliers else 1
        besides = 0.0
        if laps.rhythm and number % laps.rhythm == laps.rhythm - 1:
            besides = laps.longer * laps.lap
            if laps.told:
                found.trial.note_event("evaluation")
        if number == 0:
            besides += laps.first * laps.lap
        took = usual
        if other:
            took = (
                usual / laps.ratio + laps.lap * (0 if tried else laps.warm) + laps.lap * (not before) * laps.switching
            )
            tried = True
            found.dearest = max(found.dearest, took + besides)
        lost += took - usual
        before = other
        clock.now += took + besides
        found.lost.append(lost)
        found.spent.append(clock.now)
        found.went.append(other)
    return found


SCENES: dict[str, Callable[[float], Laps]] = {
    "plain": lambda ratio: Laps(ratio),
    "noisy": lambda ratio: Laps(ratio, noise=0.1),
    "drift": lambda ratio: Laps(ratio, drift=2.0),
    "small": lambda ratio: Laps(ratio, lap=0.001),
    "long": lambda ratio: Laps(ratio, lap=3.0),
    "warm-up": lambda ratio: Laps(ratio, lap=0.02, warm=5.0),
    "evaluations": lambda ratio: Laps(ratio, rhythm=25, longer=40.0),
    "evaluations often, told": lambda ratio: Laps(ratio, rhythm=4, longer=10.0, told=True),
    "by turns": lambda ratio: Laps(ratio, rhythm=2, longer=0.5),
    "late": lambda ratio: Laps(ratio, late=3),
}


@pytest.mark.parametrize(("lap", "measured"), [(0.02, 25), (0.1, 5), (3.0, 5), (0.004, 40)])
def test_short_laps_are_measured_for_longer(lap: float, measured: int) -> None:
    policy = TrialPolicy(seconds=min(1.0, 32 * lap), evidence=0.25)
    for seed in range(3):
        found = run(Laps(2.0, lap=lap), seed=seed, policy=policy).trial
        assert found.state is TrialState.ADOPTED
        assert found.has_evidence
        assert measured <= found.measured <= measured + 2


def test_what_is_given_up_soon_is_not_evidence() -> None:
    found = run(Laps(0.5, lap=0.02), policy=TrialPolicy(seconds=0.5, evidence=0.25)).trial
    assert found.state is TrialState.REJECTED
    assert not found.has_evidence
    assert run(Laps(0.5, lap=0.5), policy=TrialPolicy(evidence=0.25)).trial.has_evidence


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("ratio", [1.5, 2.0, 5.0])
def test_a_clear_gain_is_taken_soon(scene: str, ratio: float) -> None:
    laps = SCENES[scene](ratio)
    started = 32 if laps.lap < 0.1 else 8
    for seed in range(3):
        found = run(laps, seed=seed, policy=TrialPolicy(seconds=min(1.0, 32 * laps.lap)))
        assert found.trial.state is TrialState.ADOPTED
        assert found.decided is not None
        assert found.decided <= started + 60
        assert found.trial.ratio is not None
        assert found.trial.measured >= 5


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8, 0.9])
def test_a_loss_is_never_taken_and_soon_not_tried_any_more(scene: str, ratio: float) -> None:
    for seed in range(3):
        found = run(SCENES[scene](ratio), seed=seed, count=3000)
        assert found.trial.state is TrialState.REJECTED
        assert sum(found.went) <= 45
        assert not found.trial.next_iteration()
        assert not found.trial.next_iteration()


def interrupted(ratio: float, seed: int, lap: float = 0.0012, often: float = 0.5) -> tuple[ABTrial, int]:
    """A trial whose laps are interrupted by another program, and how many it took from the first try on."""
    chance, clock = random.Random(seed), MadeUp()
    trial = ABTrial(clock)
    tried = 0
    while not trial.decided:
        other = trial.next_iteration()
        tried += trial.candidate_ran
        takes = lap / (ratio if other else 1) * chance.gauss(1, 0.04)
        clock.now += takes + (chance.uniform(0.004, 0.012) if chance.random() < often * takes / lap else 0)
    return trial, tried


@pytest.mark.parametrize("ratio", [0.5, 0.7, 0.85])
def test_a_loss_is_seen_on_a_machine_that_others_use(ratio: float) -> None:
    trials = [interrupted(ratio, seed) for seed in range(20)]
    assert all(trial.state is TrialState.REJECTED for trial, _ in trials)
    assert sorted(laps for _, laps in trials)[10] < 200


@pytest.mark.parametrize("often", [0.2, 0.5])
def test_a_gain_is_not_given_up_on_a_machine_that_others_use(often: float) -> None:
    taken = [interrupted(2.0, seed, often=often)[0].state is TrialState.ADOPTED for seed in range(20)]
    assert sum(taken) >= 17


@pytest.mark.parametrize("lap", [0.0012, 0.03, 0.7])
@pytest.mark.parametrize("ratio", [0.1, 0.4, 0.6])
def test_a_clear_loss_is_seen_in_two_bursts(ratio: float, lap: float) -> None:
    found = run(Laps(ratio, lap=lap), policy=TrialPolicy(evidence=0.25))
    assert found.trial.state is TrialState.REJECTED
    assert found.trial.is_clear_loss
    assert sum(found.went) <= (3 if ratio == 0.1 else 4)


@pytest.mark.parametrize(("times", "clear"), [([4.0], False), ([4.0, 4.0], True), ([12.0], True)])
def test_one_long_step_is_no_clear_loss(times: list[float], clear: bool) -> None:
    """Another program may have made it so long; what is given up is given up in later runs, too."""
    trial = ABTrial(MadeUp())
    trial._gains.extend(-math.log(each) for each in times)
    assert trial.is_clear_loss is clear


def test_no_clear_loss() -> None:
    for ratio in (0.9, 1.0, 1.5):
        assert not run(Laps(ratio)).trial.is_clear_loss


@pytest.mark.parametrize(("lap", "begins"), [(0.1, 8), (0.01, 26)])
def test_time_that_passes_in_waiting_counts(lap: float, begins: int) -> None:
    """Eight laps and five seconds, but of short ones as many as make up a quarter of a second."""
    clock = MadeUp()
    trial = ABTrial(clock)
    went = []
    for number in range(1000):
        if number * lap < 6:
            trial.wait()
        elif not trial.next_iteration():
            went.append(number)
        else:
            break
        clock.now += lap
    assert len(went) == begins


def test_what_changes_for_both_ways_is_no_gain() -> None:
    """Steps become twice as fast by something else, just as the candidate is tried."""
    for changed in range(30, 60):
        clock = MadeUp()
        trial = ABTrial(clock)
        for number in range(400):
            trial.next_iteration()
            if number == changed:
                trial.renew_baseline()
            clock.now += 0.1 if number < changed else 0.05
        assert trial.state is not TrialState.ADOPTED
        assert not trial.is_clear_loss


@pytest.mark.parametrize("scene", SCENES)
def test_what_makes_no_difference_is_not_taken(scene: str) -> None:
    taken = [run(SCENES[scene](1.0), seed=seed, count=2500).trial.state is TrialState.ADOPTED for seed in range(8)]
    assert not any(taken)


@pytest.mark.parametrize("ratio", [0.9, 0.97])
@pytest.mark.parametrize("phase", [0, 1])
def test_laps_that_are_long_and_short_by_turns_do_not_pass_for_a_gain(ratio: float, phase: int) -> None:
    """What trying may cost is there again after long laps: the short ones that follow would be counted more often."""
    clock, before = MadeUp(), False
    trial = ABTrial(clock)
    for number in range(1500):
        other = trial.next_iteration()
        takes = 1 if not other else 1 / ratio if before else 1.5 / ratio
        clock.now += (0.09, 0.03)[(number + phase) % 2] * takes
        before = other
    assert trial.state is not TrialState.ADOPTED


scenes = st.builds(
    Laps,
    ratio=st.floats(0.3, 5.0),
    lap=st.sampled_from([0.001, 0.01, 0.05, 0.3, 2.0]),
    noise=st.floats(0.0, 0.25),
    drift=st.floats(-0.7, 3.0),
    first=st.floats(0.0, 200.0),
    warm=st.floats(0.0, 30.0),
    switching=st.floats(0.0, 2.0),
    outliers=st.floats(0.0, 0.1),
    rhythm=st.integers(0, 40),
    longer=st.floats(0.0, 30.0),
    told=st.booleans(),
    late=st.integers(0, 4),
)


@settings(max_examples=150)
@given(laps=scenes, seed=st.integers(0, 1000))
def test_little_is_lost_at_any_time(laps: Laps, seed: int) -> None:
    """However laps behave: two per cent of the time spent, and one burst of laps the candidate."""
    found = run(laps, seed=seed, count=1200)
    burst = TrialPolicy().burst * found.dearest
    for lost, spent in zip(found.lost, found.spent, strict=True):
        assert lost <= TrialPolicy().share * spent + burst


@settings(max_examples=60)
@given(laps=scenes, seed=st.integers(0, 1000))
def test_a_short_run_is_never_touched(laps: Laps, seed: int) -> None:
    found = run(laps, seed=seed, count=600)
    begun = found.went.index(True) if True in found.went else len(found.went)
    assert begun >= 8
    assert begun >= 32 or found.spent[begun - 1] >= 5.0
    if begun < len(found.went):
        assert found.spent[begun - 1] >= 1.0


def test_laps_are_the_same_when_run_again() -> None:
    assert run(SCENES["noisy"](1.2)).went == run(SCENES["noisy"](1.2)).went


def test_no_lap_of_a_rhythm_is_always_met() -> None:
    """Otherwise a rhythm of the script would look like a gain."""
    found = run(Laps(1.0, noise=0.2), count=3000)
    met = {number % 5 for number, other in enumerate(found.went) if other}
    assert met == set(range(5))


def test_the_first_laps_of_either_way_count_for_nothing() -> None:
    found = run(Laps(2.0, lap=0.05, first=500.0, warm=3.0))
    assert found.trial.ratio == pytest.approx(2.0, rel=0.05)


def test_what_the_first_iterations_cost_is_held_against_the_candidate() -> None:
    compiling = Laps(0.9, lap=0.05, warm=200.0)
    assert run(compiling, count=400).trial.measured < 3


def test_a_lap_may_be_left_out() -> None:
    clock = MadeUp()
    trial = ABTrial(clock, TrialPolicy(seconds=0.0, fewest=2, iterations=2))
    for number in range(200):
        other = trial.next_iteration()
        if number % 2:
            trial.discard_iteration()
            clock.now += 50.0
        clock.now += 0.5 if other else 1.0
    assert trial.state is TrialState.ADOPTED
    assert trial.ratio == pytest.approx(2.0)


def test_nobody_tries_for_ever() -> None:
    """Each change costs so much that hardly any lap can be tried."""
    found = run(Laps(1.04, lap=0.1, switching=30.0), count=20000)
    assert found.trial.state is TrialState.REJECTED
    assert found.decided is not None
    assert found.decided < 5000


def test_short_laps_are_taken_together() -> None:
    """A look at the clock, and at what it tells, costs as much as a small step."""
    clock = MadeUp()
    trial = ABTrial(clock)
    went = []
    while not trial.decided:
        went.append(trial.next_iteration())
        clock.now += 0.00005 if went[-1] else 0.0001
    assert trial.state is TrialState.ADOPTED
    assert trial.ratio == pytest.approx(2.0, rel=0.01)
    assert clock.marks < len(went) / 10
    assert clock.now < 1.1


class Silent(MadeUp):
    def seconds(self, start: tuple[int, float], end: tuple[int, float]) -> float | None:
        return None


def test_a_clock_that_never_tells_ends_the_trial() -> None:
    trial = ABTrial(Silent())
    assert not any(trial.next_iteration() for _ in range(3000))
    assert trial.state is TrialState.REJECTED


class Capturing(MadeUp):
    """No moment can be taken at some times."""

    def mark(self) -> Any:
        super().mark()
        return None if self.marks % 7 == 0 else (self.marks, self.now)


def test_laps_without_a_moment_are_left_out() -> None:
    clock = Capturing()
    trial = ABTrial(clock, TrialPolicy(seconds=0.1))
    for _ in range(400):
        clock.now += 0.05 if trial.next_iteration() else 0.1
    assert trial.state is TrialState.ADOPTED
    assert trial.ratio == pytest.approx(2.0, rel=0.01)


# ---------------------------------------------------------------- clocks


def test_a_device_tells_times_when_it_has_come_so_far() -> None:
    device = Accelerator()
    clock = DeviceClock(device, torch.device("cuda"))
    start = clock.mark()
    device.queued = 0.25
    end = clock.mark()
    assert clock.seconds(start, end) is None
    device.done = 0.2
    assert clock.seconds(start, end) is None
    device.done = 0.3
    assert clock.seconds(start, end) == pytest.approx(0.25)
    device.current = 1
    assert clock.mark() is None
    device.current = 0
    assert clock.mark() is not None
    with device.capture():
        assert clock.mark() is None


@pytest.mark.parametrize("behind", [0.0, 0.15, 0.5])
def test_a_trial_on_a_device_that_is_behind(behind: float) -> None:
    device = Accelerator()
    trial = ABTrial(DeviceClock(device, torch.device("cuda")), TrialPolicy(seconds=0.5))
    for _ in range(300):
        device.queued += 0.025 if trial.next_iteration() else 0.05
        device.done = device.queued - behind
    assert trial.state is TrialState.ADOPTED
    assert trial.ratio == pytest.approx(2.0, rel=0.01)


def test_the_host_is_the_clock_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = clock_of(torch.device("cpu"))
    assert isinstance(clock, HostClock)
    assert isinstance(clock_of(torch.device("mps")), HostClock)
    times = iter([1.0, 3.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(times))
    assert clock.seconds(clock.mark(), clock.mark()) == 2.5
