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
    backend: str = "inductor"

    @classmethod
    def recall(cls, facts: tuple[object, ...]) -> CompileOutcome:
        """Of what is known by these facts; empty if nothing is, or if it is damaged."""
        found = decision_cache.recall("compile", *facts) or {}
        number = {name: _number(found.get(name)) for name in ("ratio", "step", "warm", "steps")}
        words = {name: str(found[name]) for name in ("why", "backend") if isinstance(found.get(name), str)}
        verdict = found.get("verdict")
        steps = number["steps"]
        return cls(
            verdict if verdict == "rejected" or (verdict == "adopted" and number["step"]) else None,
            words.get("why", ""),
            number["ratio"],
            number["step"] or 0.0,
            number["warm"],
            int(steps) if steps else None,
            words.get("backend", "inductor"),
        )

    def keep(self, facts: tuple[object, ...]) -> None:
        """For later runs."""
        decision_cache.keep("compile", dataclasses.asdict(self), *facts)


def _number(value: object) -> float | None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e12
    return float(value) if fits else None  # type: ignore[arg-type]
