"""Runs under several seeds, of the original and with some changes, as this machine makes them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from autoaccel.measure.changes import Change
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.measure.verifying import comparing, spread
from autoaccel.measure.verifying.comparing import Reference
from autoaccel.measure.verifying.facts import SKIPPED, Difference
from autoaccel.measure.verifying.report import Numerics
from autoaccel.measure.verifying.trials import CannotVerifyError, Trials, View

_DTYPE, _MODE = "AUTOACCEL_AMP_DTYPE", "AUTOACCEL_COMPILE_MODE"
_TRIED = ("AUTOACCEL_CHANNELS_LAST", "AUTOACCEL_MATMUL_PRECISION", "AUTOACCEL_CUDNN_BENCHMARK")


class Spreading:
    """Makes as many as it takes to tell whether changes lie within the spread of the original."""

    def __init__(self, trials: Trials, view: View, most: int, *, low: bool, workers: bool) -> None:
        self.trials = trials
        self.view = view
        self.most = most
        self.originals = [view.reference.record]
        self.perturbation = 0.0
        self.verdicts: dict[frozenset[Change], spread.Judgement] = {}
        self.environment = _at_once(low=low, on_cpu=view.reference.record.device == "cpu")
        if workers:
            self.environment["AUTOACCEL_NUM_WORKERS"] = "2"

    def wrong(self, chosen: Sequence[Change]) -> Sequence[Difference]:
        """What is wrong with some changes; nothing when they lie within the spread."""
        runs: list[RunRecord] = []
        while True:
            seed = len(runs)
            while len(self.originals) <= seed:
                self.originals.append(self._original(len(self.originals)))
            runs.append(self.rewritten(chosen, seed))
            if found := self._structure(runs):
                return self.trials.concluded(found)
            if seed == 0 and self.view.reference.repeats and not comparing.differences(self.view.reference, runs[0]):
                self.trials.note_result("the same, bit for bit")
                return []
            verdict = spread.judge(self.originals[: seed + 1], runs, last=seed + 1 >= self.most)
            if len(self.originals) > 1 and not verdict.spreads and not self.perturbation:
                # Seeds make no difference to this script; rounding does.
                self.perturbation = spread.HALF
                self.originals = self.originals[:1]
                runs.clear()
                continue
            if verdict.within is not None:
                self.verdicts[frozenset(chosen)] = verdict
                self.trials.note_result(verdict.reason or "within the spread of the original")
                return [] if verdict.within else [Difference("loss", verdict.reason)]

    def rewritten(self, chosen: Sequence[Change], seed: int) -> RunRecord:
        asked = {**self.view.asked, "seed": 0 if self.perturbation else seed}
        return self.trials.rewritten(f"rewritten, seed {seed}{self.view.name}", chosen, self.environment, **asked)

    def summary(self, chosen: Sequence[Change]) -> Numerics | None:
        verdict = self.verdicts.get(frozenset(chosen))
        end = None if verdict is None else verdict.end
        if verdict is None or end is None:
            return None
        drawn = "with other random numbers" if "AUTOACCEL_NUM_WORKERS" in self.environment else "as on this machine"
        what = "in bfloat16" if self.environment.get(_DTYPE) == "bfloat16" else drawn
        return Numerics(verdict.seeds, end.original, end.rewritten, end.spread, what)

    def _original(self, number: int) -> RunRecord:
        asked = {**self.view.asked, "seed": number}
        if self.perturbation:
            asked["perturbation"] = self.perturbation
        name = f"disturbed {number}" if self.perturbation else f"seed {number}{self.view.name}"
        record = self.trials.original(f"original, {name}", **asked)
        if record.went_wrong:
            raise CannotVerifyError(f"under seed {number} {comparing.failed(record)}", record.failure)
        self.trials.note_result("for the spread")
        return record

    def _structure(self, runs: Sequence[RunRecord]) -> list[Difference]:
        """What may not differ whatever the numbers are. What the numbers decide (a scheduler that waits for a loss to
        fall, an end that comes early) is known only from several runs of the original."""
        varying = comparing.reference(self.originals).varying | self.view.reference.varying
        few = len(self.originals) < spread.FEWEST
        for original, record in zip(self.originals, runs, strict=False):
            found = comparing.structure(Reference(original, varying | {("count", SKIPPED)}), record)
            found = [each for each in found if each.kind in ("failure", "mark") or not (few or _by_numbers(each))]
            if found:
                return found
        return []


def _at_once(*, low: bool, on_cpu: bool) -> dict[str, str]:
    """What has the runtime do at once what it would first try, or do later: runs are too short for that.

    On a CPU low precision is bfloat16, which most have no units for, and nothing is compiled, which takes long.
    Elsewhere, and for how to compile, the user's own settings stand.
    """
    at_once = {"AUTOACCEL_FUSED": os.environ.get("AUTOACCEL_FUSED") or "on"}
    if not low:
        return at_once
    mode = {} if os.environ.get(_MODE) else {_MODE: "off" if on_cpu else "default"}
    mode |= at_once | {name: os.environ.get(name) or "on" for name in _TRIED}
    if on_cpu:
        return {_DTYPE: "bfloat16", **mode}
    return mode if os.environ.get(_DTYPE) else {_DTYPE: "hardware", **mode}


def _by_numbers(difference: Difference) -> bool:
    """Whether a difference may follow from numbers: settings do, but for the mode that modules are in."""
    return difference.kind == "setting" and " mode" not in difference.text
