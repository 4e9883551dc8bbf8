"""`rewrite --verified`: what of a rewrite trains the same, what that gains, and how it is handed on."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.cli import observed_scripts, verify
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration

if TYPE_CHECKING:
    from autoaccel.jobs import conversion
    from autoaccel.measure.benching.report import BenchReport
    from autoaccel.measure.changes import Change, Changes, Rewrites
    from autoaccel.measure.verifying.report import Verification

_SECONDS = 10.0  # for which each contender is timed, as in `bench`
_TIMEOUT = 600.0  # s without a step


@dataclass(frozen=True, slots=True)
class Verified:
    """A script, and of what would be changed in it and in the files of its project that it imports what trains the
    same."""

    script: Path
    trial: observed_scripts.Trial
    report: Verification
    changes: Rewrites
    good: tuple[Change, ...]

    def outcomes(self) -> list[conversion.Rewritten]:
        """What becomes of each file. Raises `SourceError`."""
        return self._outcomes(self.good, reasons_against(self.report, self.changes, self.good))

    def by_rule(self) -> Iterator[tuple[tuple[Change, ...], list[conversion.Rewritten]]]:
        """The changes of one rule after the other, each with what becomes of all files when they and those before them
        are made. Raises `SourceError`."""
        made: tuple[Change, ...] = ()
        for code in dict.fromkeys(each.record.code for each in self.good):
            wanted = {*made, *(each for each in self.good if each.record.code == code)}
            wanted.update(need for each in [*wanted] for need in self.changes.needs(each))
            added = tuple(each for each in self.good if each in wanted and each not in made)
            if added:
                made = tuple(each for each in self.good if each in wanted)
                yield added, self._outcomes(made, {})

    def _outcomes(self, chosen: Sequence[Change], reasons: Mapping[Change, str]) -> list[conversion.Rewritten]:
        return [rewritten(path, self.script, chosen, reasons, self.changes) for path in self.changes.files]

    def gains(self, speaker: Terminal) -> BenchReport:
        """Time it, all together and rule by rule. Raises `click.ClickException`."""
        chosen = dataclasses.replace(self.changes, all=self.good)
        return observed_scripts.benchmark(
            self.trial, lambda _: chosen, _TIMEOUT, speaker, seconds=_SECONDS, ablate=True
        )

    def page(self, gains: BenchReport | None, *, committed: bool) -> str:
        """The text of a pull request."""
        from autoaccel.reports import pull_request

        outcomes = zip(self.changes, self.report.outcomes, strict=True)
        applied = [outcome for change, outcome in outcomes if change in self.good]
        arguments = self.trial.request.arguments
        given = [str(self.script), *(["--", *arguments] if arguments else [])]
        commands = [["verify"], *([["bench", "--ablate"]] if gains else [])]
        undo = "`git revert` takes back the changes of a rule." if committed else "`autoaccel undo`, where it was made."
        repeated = [shlex.join(["autoaccel", *each, *given]) for each in commands]
        return pull_request.page(self.report, applied, gains, repeated, undo)


def verified(script: Path, arguments: tuple[str, ...], configuration: Configuration, speaker: Terminal) -> Verified:
    """Run the script, and say what of its rewrite trains the same. Raises `click.ClickException`."""
    from autoaccel.measure.changes import Rewrites
    from autoaccel.measure.verifying.trials import CannotVerifyError
    from autoaccel.reports import verification

    trial = observed_scripts.prepare(str(script), arguments, is_module=False, python=None)
    try:
        report, changes = verify.Session(trial).verify(configuration, speaker)
    except CannotVerifyError as error:
        raise observed_scripts.gave_up(verify.reason(error, trial), error.failure, verbose=speaker.verbose) from error
    speaker.say(verification.verdict(report))
    assert isinstance(changes, Rewrites)
    return Verified(script, trial, report, changes, passing(report, changes))


def passing(report: Verification, changes: Changes) -> tuple[Change, ...]:
    """What trains the same; the report's outcomes are in the order of the changes."""
    from autoaccel.measure.verifying.report import Verdict

    outcomes = zip(changes, report.outcomes, strict=True)
    return changes.closed([each for each, outcome in outcomes if outcome.verdict is Verdict.PASSED])


def reasons_against(report: Verification, changes: Changes, good: Sequence[Change]) -> dict[Change, str]:
    """Why the others are left out."""
    from autoaccel.measure.verifying.report import Verdict

    reasons = {}
    for each, outcome in zip(changes, report.outcomes, strict=True):
        if each not in good:
            why = outcome.reason if outcome.verdict is not Verdict.PASSED else "it needs what was not verified"
            said = "it makes a difference" if outcome.verdict is Verdict.FAILED else "not verified"
            reasons[each] = f"{said}: {why}"
    return reasons


def rewritten(
    path: Path, script: Path, chosen: Sequence[Change], reasons: Mapping[Change, str], changes: Rewrites
) -> conversion.Rewritten:
    """One file with the chosen changes; `reasons` say why others are left out. Raises `SourceError`."""
    from autoaccel import sources
    from autoaccel.jobs import conversion
    from autoaccel.measure.changes import known_as
    from autoaccel.rewriting import engine

    analysis = changes.files[path]
    source = sources.read(path)
    if source.text != analysis.places.text:
        raise sources.SourceError(f"{path}: left alone, it was changed while it was being verified")
    after, _, _ = engine.checked(analysis, changes.first_round(path, chosen))
    after = changes.later_rounds(path, after, chosen)
    skipped = [record for each, record in changes.skipped if each == path]
    skipped += [dataclasses.replace(each.record, message=why) for each, why in reasons.items() if each.path == path]
    applied = tuple(each.record for each in chosen if each.path == path)
    name = script if path == script.resolve() else known_as(path)
    result = engine.Result(name, source.text, after, applied, tuple(skipped))
    return conversion.Rewritten(name, source, result)
