"""Runs that tell rounding from a mistake."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.verifying import rounding_differences
from autoaccel.measure.verifying.rounding_differences import STRICT, Strictness
from autoaccel.measure.verifying.tolerances import DOUBLE, ROUNDING, SINGLE
from autoaccel.measure.verifying.trials import Trials, View

_SAID = {True: "the same but for rounding", False: "not the same, and not by rounding", None: "it does not tell"}


@dataclass(slots=True)
class RoundingRuns:
    """Makes them; those of the original once."""

    trials: Trials
    known: dict[str, RunRecord] = field(default_factory=dict)

    def in_double(self, view: View, rewritten: Callable[[], RunRecord]) -> bool | None:
        """Whether what differs is smaller in float64, by as much as that resolves more; None where that does not tell.

        `rewritten` makes the other run, in float64.
        """
        if not view.reference.repeats:
            return None
        original = self._original(view, "in float64", double=True)
        if not rounding_differences.runs_in_double(view.reference.record, original):
            return None
        record = rewritten()
        found = rounding_differences.is_rounding_in_double(
            dataclasses.replace(view.reference, record=original),
            record,
            lambda: self._original(view, "in float64, rounded otherwise", double=True, perturbation=ROUNDING[DOUBLE]),
        )
        self.trials.note_result(_SAID[found])
        return found

    def in_single(self, view: View, record: RunRecord, strictness: Strictness = STRICT) -> bool:
        """Whether what differs stays within what roundings grow to."""
        return rounding_differences.is_rounding(
            view.reference,
            record,
            lambda: self._original(view, "its first step", steps=1),
            lambda: self._original(view, "rounded otherwise", perturbation=ROUNDING[SINGLE]),
            strictness,
        )

    def _original(self, view: View, what: str, **asked: Any) -> RunRecord:
        name = f"original, {what}{view.name}"
        if name not in self.known:
            self.known[name] = self.trials.original(name, **{**view.asked, **asked})
        return self.known[name]
