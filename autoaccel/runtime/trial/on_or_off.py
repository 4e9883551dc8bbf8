"""What is on or off in all steps to come: as the user wishes, as an earlier run found out, or as a trial shows."""

from __future__ import annotations

import time
from typing import Final

import torch

from ..environment import Decision, note, setting
from ..execution_mode import is_distributed
from . import decision_cache
from .ab_trial import ABTrial, TrialPolicy
from .clocks import Clock

IDLE: Final = 60.0  # seconds without a step: nobody waits for a trial any longer


class Question:
    """Whether something is on: as the user wishes, else as an earlier run found out, else as a trial shows.

    Args:
        topic: What it is called where answers are kept.
        variable: By which users say it, without `AUTOACCEL_`.
        noted: What it is called in the log, if not by its topic.
    """

    def __init__(self, topic: str, variable: str, noted: str = "") -> None:
        self.answer: bool | None = None  # None as long as it is tried, and before it is asked
        self.trial: ABTrial | None = None
        self._topic = topic
        self._variable = variable
        self._noted = noted or topic
        self._facts: tuple[object, ...] = ()
        self._stepped = 0.0  # when the last step began
        self._first = 0.0  # seconds that the first steps took

    def is_tried(self, now: float) -> bool:
        """Whether it has yet to be decided, by steps that are still made at this moment of `time.monotonic`."""
        return self.trial is not None and now - self._stepped <= IDLE

    def ask(
        self,
        problem: str,
        facts: tuple[object, ...],
        clock: Clock,
        policy: TrialPolicy,
        against: str,
        *,
        untried: bool | None = None,
    ) -> None:
        """Answer it, or begin a trial.

        Args:
            problem: Why it is off, whatever anybody wishes; empty if nothing speaks against it.
            facts: What an answer holds for.
            against: What it is held against, for the log.
            untried: What it is in runs that are to repeat themselves, for which no time counts; None in others.
        """
        self._facts = facts
        self._stepped = time.monotonic()
        self.answer = self.trial = None
        if problem:
            self.decide(False, problem)
        elif known := self._known(recall=untried is None):
            self.decide(known.value, known.reason)
        elif untried is not None:
            self.decide(untried, "untried: runs are to repeat themselves")
        else:
            self.trial = ABTrial(clock, policy)
            note(self._noted, Decision("trying", against))

    def note_step(self) -> None:
        """A step begins."""
        before, self._stepped = self._stepped, time.monotonic()
        if self.trial is not None and self.trial.iterations < 3:
            self._first = max(self._first, self._stepped - before)

    def next_step(self, undisturbed: bool, *, chooses_kernels: bool = False, steps: str = "steps") -> bool:
        """Whether it is on in the step that begins.

        Args:
            undisturbed: Whether nothing else is tried, which must not change beneath what this compares.
            chooses_kernels: Whether the first step that it is on in takes as long as the first one of all.
            steps: What is compared, for the log.
        """
        trial = self.trial
        if trial is None:
            return bool(self.answer)
        if not undisturbed:
            trial.wait()
            return False
        trial.setup = self._first if chooses_kernels else 0.0
        on = trial.next_iteration()
        if trial.decided:
            why = trial.why if trial.ratio is None else f"{trial.ratio:.2f}x over {trial.measured} {steps}"
            self.decide(on, why, keep=True)
        return on

    def decide(self, on: bool, why: str, *, keep: bool = False) -> None:
        """Answer it, and keep the answer for later runs where these can rely on it."""
        self.answer, self.trial = on, None
        if keep:
            decision_cache.keep(self._topic, {"on": on, "why": why}, *self._facts)
        note(self._noted, Decision(on, why))

    def _known(self, *, recall: bool) -> Decision | None:
        """What the user wishes, else what an earlier run found out; None if it is to be tried."""
        wish = setting(self._variable).lower()
        if wish in ("on", "off"):
            return Decision(wish == "on", f"AUTOACCEL_{self._variable}")
        earlier = decision_cache.recall(self._topic, *self._facts) if recall else None
        if earlier is None or not isinstance(earlier.get("on"), bool):
            return None
        return Decision(earlier["on"], f"{earlier.get('why')}, in an earlier run")


def untriable(*, exact: bool = False) -> str:
    """Why nothing is tried in this program; empty if nothing speaks against it.

    Args:
        exact: Whether it is the same in each run all the same: both ways compute the same bits, or no time decides.
    """
    if is_distributed():
        return "all processes have to compute alike"
    if torch.are_deterministic_algorithms_enabled() or (torch.backends.cudnn.deterministic and not exact):
        return "what is tried is not the same in each run"
    return ""
