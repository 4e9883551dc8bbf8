"""The procedure of `verify`: which runs are made, in which order, and what follows from them.

The original is run twice, for what does not repeat itself cannot be compared. Then everything is rewritten and
rehearsed at once (`observing.rehearsal`): the runtime does all that it does on a GPU, in a form that is bit-equal to
the original where the rewriting is right. One run tells, then; only where it differs are changes judged in groups.
What changes the numbers is run as this machine runs it, under several seeds, and must lie within the spread of the
original.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from autoaccel import sources
from autoaccel.edits import Tier
from autoaccel.measure.changes import Change, Changes
from autoaccel.measure.observing.request import FUSED, REHEARSALS, WORKERS, Request
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.verifying import comparing, overflow_runs, regrouping, rounding_differences, spread
from autoaccel.measure.verifying.bisecting import Culprit, bisect
from autoaccel.measure.verifying.comparing import Reference
from autoaccel.measure.verifying.facts import Difference
from autoaccel.measure.verifying.originals import Limits, Originals, steps_per_pass
from autoaccel.measure.verifying.outcomes import LOW, VerificationState, outcomes
from autoaccel.measure.verifying.renaming import renamed
from autoaccel.measure.verifying.report import Numerics, Verification
from autoaccel.measure.verifying.rounding_runs import RoundingRuns
from autoaccel.measure.verifying.seeds import Spreading
from autoaccel.measure.verifying.trials import Runner, Trials, View

_FLOAT16_STEPS = 2
_WITHOUT_WORKERS = tuple(each for each in REHEARSALS if each != WORKERS)

Compare = Callable[[Reference, RunRecord], list[Difference]]
ChangesOf = Callable[[Sequence[Path]], Changes]
Verdicts = Sequence[Difference]


def verify(
    request: Request,
    changes_of: ChangesOf,
    runner: Runner,
    *,
    limits: Limits | None = None,
    tell: Callable[[str], None] = lambda _: None,
    against: str | None = None,
) -> tuple[Verification, Changes]:
    """Verify one script; also what its changes are. `changes_of` gets the project files that the script ran or
    imported; `against` is what the version that they make is called. Raises `CannotVerifyError`."""
    return _Procedure(Trials(request, runner, tell), limits or Limits(), against).run(changes_of)


class _Procedure:
    def __init__(self, trials: Trials, limits: Limits, against: str | None) -> None:
        self.trials = trials
        self.limits = limits
        self.against = against
        self.began = time.monotonic()
        self.rounding = RoundingRuns(trials)
        self.rehearses = True
        """Whether there is a runtime that could do anything."""

    def run(self, changes_of: ChangesOf) -> tuple[Verification, Changes]:
        originals = Originals(self.trials, self.limits, by_hand=self.against is not None)
        first, asked, notes = originals.first_run()
        changes = self.trials.changes = changes_of([Path(name) for name in first.files])
        self.rehearses = self.against is None or _uses_runtime(first, changes)
        notes.extend(changes.problems)
        if changes.later:
            notes.append(f"{len(changes.later)} more would be found in the rewritten files; they are not verified")
        views = originals.views(first, asked, changes) if changes.all else []
        state = VerificationState(changes.all, notes=notes)
        for view in [*views]:
            if view.cut and regrouping.cut_otherwise(
                view.reference.record, self._rehearsed(view, state.good, REHEARSALS)
            ):
                notes.append("what comes after passes in batches of another size was not compared: they were cut short")
                views.remove(view)
                continue
            if self._differences(view, state.good, REHEARSALS):
                originals.control(view, REHEARSALS if self.rehearses else ())
                self._exact(view, state)
                self._with_workers(view, state)
            self._otherwise_rounded(view, state)
            self._on_accelerator(view, state)
            self._unsteady(view, state)
        if views:
            self._overflowing(views[0], state)
        numerics, here = self._numerics(views, state) if views else (None, first)
        if originals.to_the_end and views and not any(view.ends for view in views):
            notes.append("no run came to the end of the script, so what it does there was not compared")
        notes.extend(dict.fromkeys(note for view in views for note in self._in_vain(view, state)))
        reference = views[0].reference if views else comparing.reference([first])
        report = Verification(
            script=self.trials.request.script,
            outcomes=outcomes(changes, state, views, numerics, self._lines),
            steps=first.steps or first.backwards,
            complete=first.exit_status is not None,
            repeats=reference.repeats,
            device=first.device,
            torch=first.torch,
            python=first.python,
            seconds=time.monotonic() - self.began,
            trials=tuple(self.trials.noted),
            numerics=numerics,
            decisions=here.decisions,
            notes=tuple(state.notes),
            against=self.against,
            steps_per_pass=steps_per_pass(first),
        )
        return report, changes

    def _lines(self, view: View, chosen: Sequence[Change]) -> Mapping[str, Collection[int]]:
        """What is reached with some changes, by the lines of the texts that they make."""
        name = f"the other version, for its lines{view.name}"
        record = self.trials.rewritten(name, chosen, {}, lines=True, own_lines=True, **view.asked)
        self.trials.note_result("for what never runs")
        return record.reached

    # -- bit-equal

    def _exact(self, view: View, state: VerificationState) -> None:
        """Find the changes that are not bit-equal; those that may draw other random numbers are put aside."""
        probe = partial(self._differences, view, rehearse=_WITHOUT_WORKERS)
        found = bisect(self._bit_equal(state), probe, self.trials.changes.needs, unclear=self._only_fails)
        state.helpless.update(found.helpless)
        for culprit in found.culprits:
            if self._only_rounds(view, culprit, _WITHOUT_WORKERS, state):
                continue
            if self._may_draw_elsewhere(view, culprit):
                state.random[culprit.item] = comparing.told(culprit.verdict)
            else:
                self._fail(culprit, state)
        if found.helpless and not state.failed:
            known = {each.text for culprit in found.culprits for each in culprit.verdict}
            self._judge_together(view, found.helpless, known, state)

    def _judge_together(
        self, view: View, helpless: tuple[Change, ...], known: Collection[str], state: VerificationState
    ) -> None:
        """What cannot be run without a culprit is judged with it, where that turned out to be none. `known` is what the
        culprit does by itself."""
        said = self._harmless(view, state.good, _WITHOUT_WORKERS)
        if said is not None:
            state.rounding_only.update(dict.fromkeys(helpless, said[0]))
            state.proven.update(helpless if said[1] else ())
        elif found := self._differences(view, state.good, _WITHOUT_WORKERS):
            own = [each for each in found if each.text not in known]
            self._fail(Culprit(helpless[-1], own or found, helpless[:-1]), state)

    def _only_fails(self, found: Verdicts) -> bool:
        """Whether hunks may fail for want of another one: not all that they need is known."""
        return self.against is not None and any(each.kind == "failure" for each in found)

    def _otherwise_rounded(self, view: View, state: VerificationState) -> None:
        """What need not be exact once more, with the kernels that the runtime may choose."""
        if all(each.topic != "fused optimizer" for each in self._rehearsed(view, state.good, REHEARSALS).decisions):
            return
        kernels = (*_WITHOUT_WORKERS, FUSED)
        equivalent = (each for each in self._bit_equal(state) if each.tier is Tier.EQUIVALENT)
        left = [each for each in equivalent if each.is_reached(view.reached)]
        probe = partial(self._differences, view, rehearse=kernels)
        for culprit in bisect(left, probe, self.trials.changes.needs).culprits:
            if not self._only_rounds(view, culprit, kernels, state):
                self._fail(culprit, state)

    def _only_rounds(
        self, view: View, culprit: Culprit[Change, Verdicts], rehearse: tuple[str, ...], state: VerificationState
    ) -> bool:
        """Whether a change that need not be exact differs by rounding alone (sums in another order, captured graphs) or
        does the same in other portions; it is put aside then. So is a hunk that does not, where all together do."""
        if culprit.item.tier is Tier.EXACT:
            return False
        said = self._harmless(view, self._with_dependencies(culprit), rehearse)
        if said is None and self.against is not None and (said := self._harmless(view, state.good, rehearse)):
            said = said if self._is_made_up_for(view, culprit.item, rehearse, state) else None
        if said is None:
            return False
        state.rounding_only[culprit.item], proven = said
        if proven and self.against is not None:
            state.proven.add(culprit.item)
        return True

    def _is_made_up_for(self, view: View, change: Change, rehearse: tuple[str, ...], state: VerificationState) -> bool:
        """Whether others undo what one hunk does: those that need it, or those that do something else without it. Where
        none is missed, it is only lost among what rounds."""
        changes = self.trials.changes
        users = [each for each in state.good if change in changes.needs(each)]
        wanted = {change, *changes.needs(change), *users, *(need for each in users for need in changes.needs(each))}
        if users and self._harmless(view, changes.closed([*wanted]), rehearse):
            return True
        others = changes.closed([each for each in state.good if each is not change])
        return bool(others) and not self._harmless(view, others, rehearse)

    def _harmless(self, view: View, chosen: Sequence[Change], rehearse: tuple[str, ...]) -> tuple[str, bool] | None:
        """What is said of some changes that differ by rounding, or do the same with what is put together otherwise, and
        whether it is proven; None of those that do something else."""
        record = self._rehearsed(view, chosen, rehearse)
        found = comparing.differences(view.reference, record)
        if self.against is not None and [each.kind for each in found] == ["data"]:
            if comparing.is_another_batch(found[0]) and not comparing.structure(view.reference, record):
                return f"bit for bit but for how batches are put together; {found[0].text}", True
        if not rounding_differences.may_be_rounding(view.reference, record):
            return None
        portions = [each.text for each in found if each.kind == "portion"]
        rounds = len(found) > len(portions)
        proven = self._rounds(view, record, chosen, rehearse) if rounds else True
        if proven is False:
            return None
        said = ["the same but for rounding"] if rounds else []
        return "; ".join([*said, *portions[:1]]), bool(proven)

    def _rounds(
        self, view: View, record: RunRecord, chosen: Sequence[Change], rehearse: tuple[str, ...]
    ) -> bool | None:
        """Whether some changes differ by rounding; None where they may, and it is not proven."""
        alike = rounding_differences.trains_alike(view.reference, record)
        if (alike or self.against is None) and not self.rounding.in_single(view, record):
            return False
        if self.against is None:  # of rewrites more is known, and one run is saved in each verification
            return None
        proven = self.rounding.in_double(view, lambda: self._rehearsed(view, chosen, rehearse, double=True))
        if proven is False:
            return False
        if alike:
            return proven or rounding_differences.is_trained_alike(view.reference, record) or None
        # In float64 other random numbers are drawn, and it may not come to what differs here.
        strictness = rounding_differences.COARSE if proven else rounding_differences.STRICT
        return proven if self.rounding.in_single(view, record, strictness) else False

    def _may_draw_elsewhere(self, view: View, culprit: Culprit[Change, Verdicts]) -> bool:
        """Whether a change draws the same sort of numbers from another stream: that of the accelerator. Where there is
        none, the stream is the same."""
        if culprit.item.tier is not Tier.EQUIVALENT or view.reference.record.device == "cpu":
            return False
        return not self._differences(view, self._with_dependencies(culprit), _WITHOUT_WORKERS, comparing.structure)

    def _with_workers(self, view: View, state: VerificationState) -> None:
        """Where the loaders have workers, datasets may draw other random numbers; nothing else may differ."""
        everything = partial(self._differences, view, rehearse=REHEARSALS)
        left = self._bit_equal(state)
        if not self.rehearses or not everything(left):
            return
        # What is exact must be so with workers, too; what is equivalent must do the same things as often, and has no
        # excuse where no dataset draws random numbers.
        draws = any(each.draws for each in view.reference.record.passes)
        self._fail_wrong([each for each in left if not (draws and each.tier is Tier.EQUIVALENT)], everything, state)
        self._fail_wrong(self._bit_equal(state), partial(everything, compare=comparing.structure), state)
        left = self._bit_equal(state)
        if found := everything(left):
            drawing = [each for each in left if each.tier is Tier.EQUIVALENT]
            state.random.update(dict.fromkeys(drawing, comparing.told(found)))

    def _on_accelerator(self, view: View, state: VerificationState) -> None:
        """There copies overlap with the work of others, which no rehearsal shows."""
        if view.reference.record.device == "cpu":
            return

        def probe(chosen: Sequence[Change]) -> Verdicts:
            record = self.trials.rewritten(f"exact changes{view.name}", chosen, {}, **view.asked)
            return self.trials.concluded(comparing.differences(view.reference, record))

        self._fail_wrong([each for each in self._bit_equal(state) if each.tier is Tier.EXACT], probe, state)

    def _bit_equal(self, state: VerificationState) -> tuple[Change, ...]:
        aside = {*state.random, *state.rounding_only}
        return self.trials.changes.closed([each for each in state.good if each not in aside])

    def _differences(
        self,
        view: View,
        chosen: Sequence[Change],
        rehearse: tuple[str, ...],
        compare: Compare = comparing.differences,
    ) -> Verdicts:
        return self.trials.concluded(compare(view.reference, self._rehearsed(view, chosen, rehearse)))

    def _rehearsed(self, view: View, chosen: Sequence[Change], rehearse: tuple[str, ...], **asked: Any) -> RunRecord:
        every = len(chosen) == len(self.trials.changes)
        name = "rewritten" if every else f"{len(chosen)} of {len(self.trials.changes)} changes"
        rehearse = rehearse if self.rehearses else ()
        name += ", rehearsed" if rehearse else ""
        if rehearse == _WITHOUT_WORKERS:
            name += " without workers"
        if asked.get("double"):
            name += ", in float64"
        record = self.trials.rewritten(f"{name}{view.name}", chosen, {}, rehearse=rehearse, **{**view.asked, **asked})
        return record if self.against is None else renamed(view.reference.record, record)

    def _in_vain(self, view: View, state: VerificationState) -> Iterator[str]:
        """What should have been rehearsed and was not, although all is bit-equal."""
        record = self._rehearsed(view, state.good, REHEARSALS)
        for each in record.decisions:
            if each.value == "in vain" or (each.value == "off" and each.topic.startswith("compile")):
                yield f"{each.topic}: {each.value} ({each.reason}), so that was not verified"

    def _with_dependencies(self, culprit: Culprit[Change, Verdicts]) -> tuple[Change, ...]:
        changes = self.trials.changes
        wanted = {culprit.item, *culprit.company}
        wanted.update(need for each in tuple(wanted) for need in changes.needs(each))
        return tuple(each for each in changes if each in wanted)

    def _fail_wrong(
        self, items: Sequence[Change], probe: Callable[[Sequence[Change]], Verdicts], state: VerificationState
    ) -> None:
        for culprit in bisect(items, probe, self.trials.changes.needs).culprits:
            self._fail(culprit, state)

    def _fail(self, culprit: Culprit[Change, Verdicts], state: VerificationState) -> None:
        state.failed[culprit.item] = culprit.verdict, culprit.company
        state.good = self.trials.changes.without((*state.failed, *state.helpless))

    # -- gradients that overflow

    def _overflowing(self, view: View, state: VerificationState) -> None:
        """Where both versions have a gradient scaler: whether they do the same when gradients overflow."""
        first = view.reference.record
        if not first.scalers or not self._rehearsed(view, state.good, REHEARSALS).scalers:
            return
        provoked = overflow_runs.provoked(self.trials, view, state.notes)
        if provoked is None:
            return

        def differing(chosen: Sequence[Change], compare: Compare) -> Verdicts:
            record = self._rehearsed(provoked, chosen, overflow_runs.REHEARSED)
            return self.trials.concluded(overflow_runs.differences(provoked, record, compare))

        self._fail_wrong(self._bit_equal(state), partial(differing, compare=comparing.differences), state)
        exact = self._bit_equal(state)
        rounding = [each for each in state.good if each in state.rounding_only]
        closed = self.trials.changes.closed
        self._fail_wrong(rounding, lambda chosen: differing(closed([*exact, *chosen]), comparing.structure), state)

    # -- an original that does not repeat itself

    def _unsteady(self, view: View, state: VerificationState) -> None:
        """Its runs under the same seed spread, too: within that must lie what should be bit-equal."""
        if "loss" not in view.reference.unsteady and "state" not in view.reference.unsteady:
            return
        original = [view.reference.record]

        def probe(chosen: Sequence[Change]) -> Verdicts:
            rewritten: list[RunRecord] = []
            while True:
                number = len(rewritten)
                if len(original) <= number:
                    original.append(self.trials.original(f"original, run {number + 1}", **view.asked))
                name = f"rewritten, run {number + 1}"
                asked = {**view.asked, "repetition": number, "rehearse": _WITHOUT_WORKERS}
                rewritten.append(self.trials.rewritten(name, chosen, {}, **asked))
                if found := comparing.structure(view.reference, rewritten[-1]):
                    return found
                last = len(rewritten) == self.limits.seeds
                verdict = spread.judge(original, rewritten, last=last, resolution=spread.FLOAT32_RESOLUTION)
                if verdict.within is not None:
                    return [] if verdict.within else [Difference("loss", verdict.reason)]

        self._fail_wrong(state.good, probe, state)

    # -- within the spread

    def _numerics(self, views: Sequence[View], state: VerificationState) -> tuple[Numerics | None, RunRecord]:
        """Run as this machine does what changes numbers or draws other random numbers, under several seeds."""
        summary, here = None, views[0].reference.record
        left = self._inexact(state)
        for view in views:
            candidates = [each for each in left if each in state.good and each.is_reached(view.reached)]
            if not candidates:
                continue
            left = [each for each in left if each not in candidates]
            low = any(each.tier in LOW for each in candidates)
            spreading = Spreading(self.trials, view, self.limits.seeds, low=low, workers=bool(state.random))
            self._blame(candidates, spreading.wrong, state)
            if low:
                self._blame(candidates, partial(self._too_large, view), state)
            if summary is None:
                summary, here = spreading.summary(state.good), spreading.rewritten(state.good, 0)
        for each in here.decisions:
            if each.topic.startswith("LSTM layers"):
                said = f"{each.topic}: {each.value} ({each.reason})"
                state.notes.append(f"{said}, so their low precision was not verified")
        return summary, here

    def _blame(
        self, candidates: Sequence[Change], wrong: Callable[[Sequence[Change]], Verdicts], state: VerificationState
    ) -> None:
        """Find out which of the candidates, beside all other changes, are wrong."""
        candidates = [each for each in candidates if each in state.good]
        found = wrong(state.good)
        if not found or not candidates:
            return
        fixed = [each for each in state.good if each not in candidates]

        def probe(chosen: Sequence[Change]) -> Verdicts:
            return wrong(self.trials.changes.closed([*fixed, *chosen]))

        def needs(change: Change) -> Sequence[Change]:
            return [each for each in self.trials.changes.needs(change) if each in candidates]

        if len(candidates) == 1:
            self._fail(Culprit(candidates[0], found), state)
            return
        for culprit in bisect(candidates, probe, needs, wrong=found).culprits:
            self._fail(culprit, state)

    def _too_large(self, view: View, chosen: Sequence[Change]) -> Verdicts:
        """Whether a number does not fit into float16, in which accelerators compute that have no bfloat16.

        Nothing else is judged: a CPU computes it slowly, and not everything.
        """
        asked = {**view.asked, "steps": min(view.asked["steps"], _FLOAT16_STEPS)}
        environment = {"AUTOACCEL_AMP_DTYPE": "float16", "AUTOACCEL_COMPILE_MODE": "off"}
        record = self.trials.rewritten(f"rewritten, in float16{view.name}", chosen, environment, **asked)
        overflows = record.failure is not None and "overflow" in record.failure.message
        self.trials.note_result(
            "a number is too large" if overflows else "every number fits" if not record.failure else "not possible here"
        )
        return [Difference("failure", f"in float16 {comparing.failed(record)}")] if overflows else []

    def _inexact(self, state: VerificationState) -> list[Change]:
        """What is to lie within the spread, since it is not bit-equal, and nothing else is proven of it."""
        otherwise = (*state.random, *(each for each in state.rounding_only if each not in state.proven))
        return [each for each in state.good if each.tier in LOW or each in otherwise]


def _uses_runtime(original: RunRecord, changes: Changes) -> bool:
    """Whether one of two versions by hand, or what they import of their project, speaks of it."""
    texts = [*changes.texts().values()]
    for name in original.files:
        with contextlib.suppress(sources.SourceError):
            texts.append(sources.read(Path(name)).text)
    return any("autoaccel" in text for text in texts)
