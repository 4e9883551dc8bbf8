"""Runs of the original: how long they are, whether they repeat themselves, and ways to reach more of the script."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autoaccel.measure.changes import Changes
from autoaccel.measure.observing.request import REHEARSALS
from autoaccel.measure.observing.run_record import FAILED, RunRecord
from autoaccel.measure.verifying import comparing, spread
from autoaccel.measure.verifying.facts import Difference
from autoaccel.measure.verifying.trials import CannotVerifyError, Trials, View
from autoaccel.measure.verifying.written_files import SteadyFiles
from autoaccel.reports.counting import counted

STEPS = 40
AT_LEAST = 0.5
"""Seconds of training: short steps are made more often, since some faults show at every fiftieth only."""
SEEDS = 8
"""At most; three are enough where the rewritten script is close to the original."""
PATIENCE = 6.0
"""Seconds after the first step when a run is long enough; a verification makes about ten."""
_WHOLE = 6.0  # seconds of training, in which two versions by hand are compared to their end
_MOST_STEPS = 10_000
_LONGER = 10.0
_SHORT_PASS = 3  # batches, where passes are cut short to reach what comes after them


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a verification goes."""

    steps: int = STEPS
    seeds: int = SEEDS
    patience: float | None = PATIENCE
    """None: however long the steps take."""
    at_least: float = AT_LEAST


@dataclass(frozen=True, slots=True)
class Originals:
    """Makes them."""

    trials: Trials
    limits: Limits
    by_hand: bool = False
    """Whether two versions by hand are compared: any line may do something that shows only at the end of the script."""

    @property
    def to_the_end(self) -> bool:
        """Whether to look for a way to the end of the script, too."""
        return self.by_hand and self.limits.patience is not None

    def first_run(self) -> tuple[RunRecord, dict[str, Any], list[str]]:
        """It says how many steps there is time for; what else is asked of all runs, and notes."""
        limits = self.limits
        tries = max(limits.at_least, _WHOLE) if self.to_the_end and limits.at_least else limits.at_least
        asked: dict[str, Any] = {"steps": limits.steps, "at_least": tries, "patience": limits.patience}
        first = self.trials.original("original", **asked)
        self._check(first)
        made, notes = first.steps or first.backwards, list[str]()
        # Of a script that ends, one more step would be seen.
        ended = first.exit_status is not None
        steps = made if not ended else limits.steps if made < limits.steps else made + STEPS
        if not ended and tries > limits.at_least:  # too long to run it whole each time
            steps = min(made, max(limits.steps, int(made * limits.at_least / tries)))
        if not ended and made < limits.steps:
            limit = f"{limits.patience or 0:g} s"
            notes.append(f"{counted(steps, 'step')} are as many as are made within {limit}; --steps makes more")
        sound = _sound_steps(first)
        if sound is not None:
            if not sound:
                raise CannotVerifyError("the loss is NaN from the first step, so there is nothing to compare with")
            steps = min(steps, sound)
            notes.append(f"the original itself diverges, so only its first {counted(sound, 'step')} were compared")
        if steps < made:
            first = self.trials.original(f"original, {counted(steps, 'step')}", steps=steps)
            self._check(first)
        return first, {"steps": steps}, notes

    def _check(self, record: RunRecord) -> None:
        trains = record.steps or record.backwards
        if record.went_wrong or (record.ending == FAILED and not trains):
            assert record.failure is not None
            raise CannotVerifyError(comparing.failed(record), record.failure)
        if not trains:
            why = "there was neither a backward nor an optimizer step in its own process"
            raise CannotVerifyError(f"it trains nothing: {why}")

    def views(self, first: RunRecord, asked: dict[str, Any], changes: Changes) -> list[View]:
        """The script as it is and, where that does not reach every change, other ways to run it."""
        again = self.trials.original("original again", lines=True, **asked)
        self._check(again)
        runs = [first, again]
        reference = comparing.reference(runs)
        if not reference.repeats:
            runs.append(self.trials.original("original once more", **asked))
            self._check(runs[-1])
            reference = comparing.reference(runs)
        self._note_repetition(reference)
        views = [View("", asked, reference, again.reached)]
        if reference.repeats:
            views.extend(self._further_views(views[0], asked, changes))
        return views

    def _note_repetition(self, known: comparing.Reference) -> None:
        varies = ", ".join(sorted(known.unsteady))
        self.trials.note_result("the same, bit for bit" if known.repeats else f"not the same: {varies}")

    def _further_views(self, first: View, asked: dict[str, Any], changes: Changes) -> Iterator[View]:
        """For what was not reached: the script with its passes cut short, for longer, and both to come to its end."""
        missing = [each for each in changes if not each.is_reached(first.reached)]
        wants_end = self.to_the_end and not first.ends
        short = {"pass_batches": _SHORT_PASS} if first.reference.record.passes else {}
        longer = {"steps": _MOST_STEPS, "patience": _LONGER}
        ways: list[tuple[str, dict[str, Any], bool]] = []
        if short:
            ways.append((", passes cut short", {**asked, **short}, False))
        if self.limits.patience is not None:
            ways.append((", for longer", longer, False))
            ways.append((", to its end", {**longer, **short}, True))
        for name, wanted, is_for_end in ways:
            if not (wants_end if is_for_end else missing):
                continue
            record = self.trials.original(f"original{name}", lines=True, **wanted)
            self.trials.note_result("" if record.went_wrong else "for comparison")
            reached = [each for each in missing if each.is_reached(record.reached)]
            ends = wants_end and record.exit_status is not None
            if record.went_wrong or not (reached or ends) or _sound_steps(record) is not None:
                continue
            missing = [each for each in missing if each not in reached]
            wants_end = wants_end and not ends
            steps = wanted["steps"] if record.exit_status is not None else record.steps or record.backwards
            wanted = {**wanted, "steps": steps, "patience": None}
            yield View(name, wanted, self._known(first, record, name, wanted, ends=ends), record.reached)

    def _known(
        self, first: View, record: RunRecord, name: str, wanted: dict[str, Any], *, ends: bool
    ) -> comparing.Reference:
        """What is compared in another way to run the script. Of what it prints and writes at its end only a second run
        tells what varies."""
        masks, prints = first.reference.masks, first.reference.prints
        if not ends:
            known = comparing.reference([record])
            return dataclasses.replace(known, masks=masks, prints=prints, files=SteadyFiles())
        again = self.trials.original(f"original{name}, again", **wanted)
        self._check(again)
        known = comparing.reference([record, again])
        self._note_repetition(known)
        return dataclasses.replace(known, masks=masks.joined(known.masks), prints=prints and known.prints)

    def control(self, view: View, rehearse: tuple[str, ...] = REHEARSALS) -> None:
        """Before any change is blamed: whether the original is the same when it is rehearsed, and when it is not."""
        disturbed: Sequence[Difference] = ()
        failure = None
        if rehearse:
            rehearsed = self.trials.original(f"original, rehearsed{view.name}", rehearse=rehearse, **view.asked)
            disturbed = self.trials.concluded(comparing.differences(view.reference, rehearsed))
            failure = rehearsed.failure
            if not disturbed:
                return
        control = self.trials.original(f"original as a control{view.name}", **view.asked)
        self._check(control)
        found = self.trials.concluded(comparing.differences(view.reference, control))
        if not found and disturbed:
            raise CannotVerifyError(f"the rehearsal itself disturbs it: {comparing.told(disturbed)}", failure)
        view.reference = comparing.less_steady(view.reference, control)


def _sound_steps(record: RunRecord) -> int | None:
    """How many steps are made before gradients can have been no numbers; None where all losses are numbers."""
    broken = spread.first_broken(record.losses)
    return None if broken is None else max(broken.step - 1, 0)


def steps_per_pass(record: RunRecord) -> int | None:
    """Of a run that was stopped within a pass over a loader how many steps a whole one takes, at the rate so far."""
    under_way = [each for each in record.passes if not each.complete and each.batches]
    if record.exit_status is not None or not under_way:
        return None
    last = under_way[-1]
    of_loader = [each for each in record.passes if each.loader == last.loader]
    is_left_early = any(each is not last and not each.complete for each in of_loader)
    if is_left_early or last.length is None or last.length <= len(last.batches):
        return None
    return record.steps * last.length // sum(len(each.batches) for each in of_loader) or None
