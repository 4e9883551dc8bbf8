"""The numbers that rules know of the runtime are the runtime's."""

from __future__ import annotations

import pytest

from autoaccel.library_models.runtime_trials import STEPS_TO_COMPILE, STEPS_TO_LOWER
from autoaccel.runtime.amp import autocast_controller
from autoaccel.runtime.compile import compile_controller
from autoaccel.runtime.trial.ab_trial import ABTrial, TrialPolicy, TrialState


class Clock:
    """Time that passes as it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def mark(self) -> float:
        return self.now

    def seconds(self, start: float, end: float) -> float:
        return end - start


def steps_to_adopt(policy: TrialPolicy, seconds: float) -> int:
    """The steps that a trial takes where the candidate is as much faster as can be."""
    clock = Clock()
    trial = ABTrial(clock, policy)
    while not trial.decided:
        clock.now += seconds * (1e-3 if trial.next_iteration() else 1.0)
    assert trial.state is TrialState.ADOPTED
    return trial.iterations


STEPS = [1e-4, 1e-2, 0.2, 1.0, 60.0]


@pytest.mark.parametrize("seconds", STEPS)
def test_no_trial_of_low_precision_is_shorter(seconds: float) -> None:
    assert steps_to_adopt(autocast_controller.POLICY, seconds) >= STEPS_TO_LOWER


def test_long_steps_take_so_many() -> None:
    assert steps_to_adopt(autocast_controller.POLICY, max(STEPS)) == STEPS_TO_LOWER


def test_compiling_begins_after_some_and_is_compared() -> None:
    compared = min(steps_to_adopt(compile_controller.POLICY, seconds) for seconds in STEPS)
    assert compile_controller._FEWEST + compared == STEPS_TO_COMPILE
