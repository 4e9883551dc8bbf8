"""The procedure of `verify --ranks`: the distributed script by one process and by several, held against the original.

All of it runs on the CPU, where processes meet over gloo, and in float64 where the script allows: what is added in
another order differs by 1e-16 then, and what a mistake makes by a million times that. Where something differs, edits
are left out until it does not.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from autoaccel.measure.changes import Change, Changes, known_as
from autoaccel.measure.distributed_changes import writes_files
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FINISHED, RunRecord
from autoaccel.measure.verifying import comparing, rank_differences
from autoaccel.measure.verifying.bisecting import bisect
from autoaccel.measure.verifying.facts import NUMBERS, Difference
from autoaccel.measure.verifying.originals import Limits, Originals
from autoaccel.measure.verifying.outcomes import VerificationState, outcome
from autoaccel.measure.verifying.report import Verdict, Verification
from autoaccel.measure.verifying.tolerances import DOUBLE, MOST, ROUNDING, SINGLE, Tolerances, growth, off
from autoaccel.measure.verifying.trials import CannotVerifyError, RanksRunner, Runner, Trials, View
from autoaccel.reports.counting import counted, listed

ON_CPU: Final = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "AUTOACCEL_RANK_TIMEOUT": "60"}
"""The environment of all runs: processes on one machine have a CPU each, at most, and do not wait for ever."""
_DEVICE: Final = re.compile(r"cuda|nvidia|accelerator|\bgpu", re.IGNORECASE)

Found = Sequence[Difference]


def verify(
    request: Request,
    changes: Changes,
    runner: Runner,
    launcher: RanksRunner,
    ranks: Sequence[int],
    *,
    limits: Limits | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Verification:
    """Verify that one script trains the same by several processes.

    Args:
        request: The script.
        changes: What `distribute` makes of it, or the calls of the runtime that it has.
        runner: Makes one run by one process.
        launcher: Makes one run by several.
        ranks: How many.
        limits: How far the runs go.
        tell: Is told which run begins.

    Raises:
        CannotVerifyError: Nothing can be said.
    """

    def alone(asked: Request, environment: Mapping[str, str]) -> RunRecord:
        return runner(asked, {**ON_CPU, **environment})

    def together(asked: Request, environment: Mapping[str, str], count: int) -> tuple[RunRecord, ...]:
        return launcher(asked, {**ON_CPU, **environment}, count)

    request = dataclasses.replace(request, traced=True, double=True)
    trials = Trials(request, alone, tell, changes, launcher=together)
    return _RanksProcedure(trials, limits or Limits(), tuple(dict.fromkeys(ranks))).run()


@dataclass(slots=True)
class _RanksProcedure:
    trials: Trials
    limits: Limits
    ranks: tuple[int, ...]
    began: float = field(default_factory=time.monotonic)
    others: list[str] = field(default_factory=list)
    """What differs though no change is to blame."""
    worst: float = 0.0
    """How far losses of what is distributed were off at most, relative to themselves."""

    def run(self) -> Verification:
        originals = Originals(self.trials, self.limits)
        first, asked, notes = self._first_run(originals)
        if first.exit_status:
            raise CannotVerifyError(comparing.failed(first), first.failure)
        changes = self.trials.changes
        notes.extend(changes.problems)
        views = originals.views(first, asked, changes)
        state = VerificationState(changes.all, notes=notes)
        for view in views:
            if "loss" in view.reference.unsteady:
                raise CannotVerifyError("it does not train the same when it is run again, so ranks cannot be compared")
            if found := self._alone(view, state.good):
                self._blame(found, partial(self._alone, view), state, "by one process")
                continue
            for count in self.ranks:
                tolerances = self._tolerances()
                if found := self._together(view, state.good, count, tolerances):
                    found, tolerances = self._beyond_rounding(view, state.good, count, found)
                if found:
                    self._find_the_line(view, state, count, tolerances, found)
                    break
                records = self._by_several(view, state.good, count)
                self.worst = max(self.worst, off(view.reference.record, records))
                notes.extend(rank_differences.notes(records))
        outcomes = tuple(outcome(each, changes, state, views, None) for each in changes)
        same = f"by one process bit for bit, by {listed([*map(str, self.ranks)])} within {self.worst:.0e} of it"
        same = "it makes no difference" if state.failed or self.others else same
        return Verification(
            script=self.trials.request.script,
            outcomes=tuple(
                dataclasses.replace(each, reason=same) if each.verdict is Verdict.PASSED else each for each in outcomes
            ),
            steps=first.steps or first.backwards,
            complete=first.ending == FINISHED,
            repeats=views[0].reference.repeats,
            device="cpu",
            torch=first.torch,
            python=first.python,
            seconds=time.monotonic() - self.began,
            trials=tuple(self.trials.noted),
            notes=tuple(dict.fromkeys(state.notes)),
            ranks=self.ranks,
            differences=tuple(dict.fromkeys(self.others)),
        )

    def _first_run(self, originals: Originals) -> tuple[RunRecord, dict[str, object], list[str]]:
        """In float64, if the script does not fail of that."""
        try:
            return originals.first_run()
        except CannotVerifyError as error:
            if error.failure is None:
                raise
            said = error.failure
        self.trials.note_result("it fails in float64")
        self.trials.request = dataclasses.replace(self.trials.request, double=False)
        try:
            first, asked, notes = originals.first_run()
        except CannotVerifyError as error:
            raise _on_the_cpu(error) from error
        why = f"{said.kind}: {said.message}".partition("\n")[0]
        return first, asked, [*notes, f"it does not run in float64 ({why}), so losses in float32 were compared"]

    # -- what differs

    def _alone(self, view: View, chosen: Collection[Change]) -> Found:
        """By one process nothing differs, not by a bit."""
        return self.trials.concluded(comparing.differences(view.reference, self._by_one(view, chosen)))

    def _by_one(self, view: View, chosen: Collection[Change]) -> RunRecord:
        return self.trials.rewritten(self._name(view, chosen, "1 process"), chosen, {}, **view.asked)

    def _by_several(self, view: View, chosen: Collection[Change], count: int) -> tuple[RunRecord, ...]:
        name = self._name(view, chosen, f"{count} processes")
        return self.trials.by_ranks(name, chosen, {}, count, **view.asked)

    def _name(self, view: View, chosen: Collection[Change], processes: str) -> str:
        of = len(self.trials.changes)
        what = "distributed" if len(chosen) == of else f"{len(chosen)} of {of} changes"
        return f"{what}, {processes}{view.name}"

    def _together(self, view: View, chosen: Collection[Change], count: int, tolerances: Tolerances) -> Found:
        ranks = self._by_several(view, chosen, count)
        return self.trials.concluded(self._differences(view, ranks, tolerances))

    def _differences(self, view: View, ranks: Sequence[RunRecord], tolerances: Tolerances) -> Found:
        alone = self._by_one(view, self.trials.changes.all)  # what it writes, which is known already
        return rank_differences.differences(view.reference, alone, ranks, tolerances)

    def _beyond_rounding(
        self, view: View, chosen: Collection[Change], count: int, found: Found
    ) -> tuple[Found, Tolerances]:
        """The same, once it is known how far roundings grow in this script; that is looked at only here."""
        tolerances = self._tolerances()
        relative = tolerances.relative
        worst = off(view.reference.record, self._by_several(view, chosen, count))
        if {each.kind for each in found} - NUMBERS - {"setting", "file"} or worst > MOST[relative]:
            return found, tolerances
        name = f"original, rounded otherwise{view.name}"
        disturbed = self.trials.original(name, perturbation=ROUNDING[relative], **view.asked)
        tolerances = Tolerances(relative, growth(view.reference.record, disturbed))
        return self._together(view, chosen, count, tolerances), tolerances

    # -- who is to blame

    def _find_the_line(
        self, view: View, state: VerificationState, count: int, tolerances: Tolerances, found: Found
    ) -> None:
        trained = _without_files(found)
        by = f"by {counted(count, 'process', 'processes')}"
        for each in _by(found, by):
            if each.kind == "file":
                self._blame_the_writer(each, state)
        # before they join, other processes may draw other numbers than the first
        first = bool(_without_files(self._differences(view, self._by_several(view, state.good, count)[:1], tolerances)))

        def probe(chosen: Sequence[Change]) -> Found:
            """Without files, which each process writes until it is told not to."""
            records = self._by_several(view, chosen, count)
            found = self._differences(view, records[:1] if first else records, tolerances)
            return self.trials.concluded(_without_files(found))

        if trained:
            self._blame(trained, probe, state, by)

    def _blame_the_writer(self, found: Difference, state: VerificationState) -> None:
        """The change on whose line a file is written, if there is one."""
        at = [each for each in state.good if found.text.startswith(f"{known_as(each.path)}:{each.record.line}: ")]
        if not at:
            self.others.append(found.text)
        for each in at:
            state.failed[each] = (found,), ()
        state.good = self.trials.changes.without(state.failed)

    def _blame(
        self, found: Found, probe: Callable[[Sequence[Change]], Found], state: VerificationState, by: str
    ) -> None:
        """Find the changes without which it is the same, unless it is not even without any.

        What writes files is never left out: processes would spoil one another's.
        """
        changes = self.trials.changes
        fixed = tuple(each for each in state.good if writes_files(each))
        items = [each for each in state.good if each not in fixed]

        def with_fixed(chosen: Sequence[Change]) -> Found:
            return probe(changes.closed([*fixed, *chosen]))

        if not items or with_fixed(()):
            self.others.append(comparing.told(_by(found, by)))
            return
        culprits = bisect(items, with_fixed, changes.needs, wrong=found).culprits
        for each in culprits:
            state.failed[each.item] = _by(found if len(culprits) == 1 else each.verdict, by), each.company
        state.good = changes.without(state.failed)

    # -- words

    def _tolerances(self) -> Tolerances:
        return Tolerances(DOUBLE if self.trials.request.double else SINGLE)


def _on_the_cpu(error: CannotVerifyError) -> CannotVerifyError:
    """The same, told of a script that wants a device."""
    failure = error.failure
    if failure is None or not _DEVICE.search(failure.message):
        return error
    return CannotVerifyError(
        str(error), dataclasses.replace(failure, message=f"{failure.message} (ranks are compared on the CPU)")
    )


def _by(found: Found, by: str) -> Found:
    """The same, by so many processes."""
    return [dataclasses.replace(each, text=f"{each.text}, {by}") for each in found]


def _without_files(found: Found) -> Found:
    return [each for each in found if each.kind != "file"]
