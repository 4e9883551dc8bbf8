"""What is on or off in all steps to come: as the user wishes, as an earlier run found out, or as a trial shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from ..environment import Decision, setting
from ..execution_mode import is_distributed
from . import decision_cache
from .ab_trial import ABTrial, TrialState

IDLE: Final = 60.0  # seconds without a step: nobody waits for a trial any longer


@dataclass(frozen=True, slots=True)
class Question:
    """Whether something is on.

    topic: What it is called in decisions.
    variable: By which users say it, without `AUTOACCEL_`.
    facts: What an answer holds for.
    """

    topic: str
    variable: str
    facts: tuple[object, ...] = ()

    def given(self, *facts: object) -> Question:
        """The same question where these are the facts."""
        return Question(self.topic, self.variable, facts)

    def known(self) -> Decision | None:
        """What the user wishes, else what an earlier run found out; None if it is to be tried."""
        wish = setting(self.variable).lower()
        if wish in ("on", "off"):
            return Decision(wish == "on", f"AUTOACCEL_{self.variable}")
        earlier = decision_cache.recall(self.topic, *self.facts)
        if earlier is None or not isinstance(earlier.get("on"), bool):
            return None
        return Decision(earlier["on"], f"{earlier.get('why')}, in an earlier run")

    def concluded(self, trial: ABTrial, what: str = "steps") -> Decision:
        """What a trial that is decided has shown, kept for later runs."""
        why = trial.why if trial.ratio is None else f"{trial.ratio:.2f}x over {trial.measured} {what}"
        decision = Decision(trial.state is TrialState.ADOPTED, why)
        self.keep(decision)
        return decision

    def keep(self, decision: Decision) -> None:
        decision_cache.keep(self.topic, {"on": decision.value, "why": decision.reason}, *self.facts)


def untriable() -> str:
    """Why nothing is tried in this program; empty if nothing speaks against it."""
    if is_distributed():
        return "all processes have to compute alike"
    if torch.are_deterministic_algorithms_enabled():
        return "what is tried is not the same in each run"
    return ""
