"""What compiling came to in an earlier run of the same program, for the next one to start with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..trial import decision_cache


@dataclass(frozen=True, slots=True)
class CompileOutcome:
    """What an earlier run found out.

    step: seconds of an eager step.  warm: seconds that compiling took with Inductor's cache on disk.  steps: of the
    whole run.
    """

    verdict: str | None = None
    why: str = ""
    ratio: float | None = None
    step: float = 0.0
    warm: float | None = None
    steps: int | None = None

    @classmethod
    def recall(cls, facts: tuple[object, ...]) -> CompileOutcome:
        """Of what is known by these facts; empty if nothing is, or if it is damaged."""
        match decision_cache.recall("compile", *facts):
            case {
                "verdict": "adopted" | "rejected" | None as verdict,
                "why": str() as why,
                "ratio": int() | float() | None as ratio,
                "step": int() | float() as step,
                "warm": int() | float() | None as warm,
                "steps": int() | None as steps,
            } if step > 0 or verdict != "adopted":
                return cls(verdict, why, ratio, step, warm, steps)
        return cls()

    def keep(self, facts: tuple[object, ...]) -> None:
        """For later runs."""
        decision_cache.keep("compile", dataclasses.asdict(self), *facts)
