"""What is on or off: by wish, by an earlier run, untried, or by a trial."""

from __future__ import annotations

import pytest

from autoaccel.runtime.trial import decision_cache
from autoaccel.runtime.trial.ab_trial import TrialPolicy
from autoaccel.runtime.trial.clocks import HostClock
from autoaccel.runtime.trial.on_or_off import Question


@pytest.mark.parametrize(
    ("problem", "wish", "earlier", "untried", "answer"),
    [
        ("", "", None, None, None),
        ("", "", True, None, True),
        ("", "", None, True, True),
        ("", "", None, False, False),
        ("", "", False, True, True),  # what was found by time is no matter for runs that repeat themselves
        ("", "off", None, True, False),
        ("", "on", None, False, True),
        ("not here", "on", True, True, False),
    ],
)
def test_answers(
    monkeypatch: pytest.MonkeyPatch,
    problem: str,
    wish: str,
    earlier: bool | None,
    untried: bool | None,
    answer: bool | None,
) -> None:
    monkeypatch.setenv("AUTOACCEL_FUSED", wish)
    known = None if earlier is None else {"on": earlier, "why": "1.1x"}
    monkeypatch.setattr(decision_cache, "recall", lambda *facts: known)
    question = Question("fused", "FUSED")
    question.ask(problem, (), HostClock(), TrialPolicy(), "the other", untried=untried)
    assert question.answer is answer
    assert (question.trial is not None) is (answer is None)
