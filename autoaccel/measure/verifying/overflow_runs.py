"""Runs in which gradients overflow, where a script scales them: `observing.overflows`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from autoaccel.measure.observing.request import SCALER
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.verifying import comparing, spread
from autoaccel.measure.verifying.comparing import Reference
from autoaccel.measure.verifying.facts import Difference
from autoaccel.measure.verifying.trials import Trials, View
from autoaccel.measure.verifying.written_files import SteadyFiles
from autoaccel.reports.counting import counted

REHEARSED = (SCALER,)
"""So that a scaler of the runtime is on, too."""

_FIRST = 2  # steps before gradients overflow: optimizers have a state by then
_MOST_TURNS = 3
_NAME = ", where gradients overflow"


def provoked(trials: Trials, view: View, notes: list[str]) -> View | None:
    """The script with gradients that overflow; None where it does not leave out a step then, or fails."""
    # Of each of several optimizers that step in turns one loss.
    turns = min(view.reference.record.optimizers, _MOST_TURNS) or 1
    overflows = tuple(_FIRST + turn * (turns + 1) for turn in range(turns))
    steps = min(view.asked["steps"], overflows[-1] + 2 * turns + 2)
    asked = {**view.asked, "steps": steps, "overflows": overflows}
    original = trials.original(f"original{_NAME}", rehearse=REHEARSED, **asked)
    trials.note_result(f"{counted(original.skipped_steps, 'step')} left out")
    if original.went_wrong:
        notes.append(f"it was not tried what happens when gradients overflow: {comparing.failed(original)}")
    if original.went_wrong or not original.skipped_steps:
        return None
    reference = dataclasses.replace(view.reference, record=original, files=SteadyFiles())
    return View(_NAME, asked, reference, view.reached)


def differences(
    view: View, record: RunRecord, compare: Callable[[Reference, RunRecord], list[Difference]]
) -> Sequence[Difference]:
    """What another version does otherwise when gradients overflow; nothing where none did, since it scales none."""
    original = view.reference.record
    if record.overflows != original.overflows and not record.went_wrong:
        return []
    if len(record.scales) != len(original.scales):  # scalers of another make
        record = dataclasses.replace(record, scales=original.scales)
    found = compare(view.reference, record)
    if not found and (broken := spread.diverged([original], [record])) is not None:
        found = [Difference("loss", broken)]
    return [dataclasses.replace(each, text=f"{each.text}{view.name}") for each in found]
