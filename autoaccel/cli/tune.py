"""`autoaccel tune`: rewrites a script by what trains the same and is measured to pay on this machine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoaccel.cli import observed_scripts, reporting
from autoaccel.cli.options import configuration_options, output_options, rule_options, settled
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import BenchReport
    from autoaccel.measure.changes import Change, Changes, Rewrites
    from autoaccel.measure.tuning.deciding import RuleWorth, Tuning
    from autoaccel.measure.verifying.report import Verification


@click.command(short_help="Rewrite by what is measured to pay on this machine.")
@observed_scripts.trial_options
@observed_scripts.time_option
@click.option("--diff", is_flag=True, help="Print the changes as a patch, change nothing; exit 1 if there are any.")
@click.option("--batch", is_flag=True, help="Try larger batches instead, show what they bring, and change nothing.")
@settled(rule_options, configuration_options, output_options)
def tune(
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    python: str | None,
    timeout: float,
    seconds: float,
    diff: bool,
    batch: bool,
    configure: Callable[..., Configuration],
    speaker: Terminal,
) -> int:
    """Rewrite SCRIPT, and what it imports of its project, by the rules that pay on this machine.

    Changes are verified first; those that train the same are timed together, each by itself and all but each; those
    that win are timed twice more, and written if they win each time. What was left out and why stands in
    .autoaccel/tune.json, which `rewrite` heeds on the same machine. What follows `--` are the script's own arguments.
    """
    from autoaccel.cli import verified, verify
    from autoaccel.measure.changes import Rewrites
    from autoaccel.measure.tuning import deciding, tune_record
    from autoaccel.measure.verifying.trials import CannotVerifyError

    if batch and diff:
        raise click.UsageError("--batch changes nothing, so there is no --diff of it")
    trial = observed_scripts.prepare(script, arguments, is_module=is_module, python=python)
    configuration = configure([trial.path])
    configuration.rules  # noqa: B018 - what is wrong with the choice of rules is said before anything runs
    if batch:
        return _try_batches(trial, timeout, seconds, speaker)
    root = Path(trial.request.root)
    try:
        tune_record.read(root)  # what cannot be added to is said before anything runs
        report, changes = verify.Session(trial, timeout).verify(configuration, speaker)
    except tune_record.RecordError as error:
        raise click.ClickException(f"{error}; move it away") from error
    except CannotVerifyError as error:
        message = verify.reason(error, trial)
        raise observed_scripts.gave_up(message, error.failure, verbose=speaker.verbose) from error
    assert isinstance(changes, Rewrites)
    good = verified.passing(report, changes)
    reasons = verified.reasons_against(report, changes, good)
    tuning = None

    def measure(chosen: Changes, ablate: bool) -> BenchReport:
        return observed_scripts.benchmark(trial, lambda _: chosen, timeout, speaker, seconds=seconds, ablate=ablate)

    if good:
        tuning = deciding.tune(dataclasses.replace(changes, all=good), measure)
    rules = _rules(tuning, reasons)
    _tell(script, rules, tuning, speaker, to_stdout=not diff)
    status = _rewrite(trial, tuning, {**_losses(tuning, good), **reasons}, changes, configuration, speaker, diff=diff)
    if diff or status or not rules:
        return status
    try:
        path = tune_record.write(root, _relative(trial, root), _entry(trial, report, changes, rules, tuning))
    except tune_record.RecordError as error:
        raise click.ClickException(str(error)) from error
    speaker.say(f"What was measured, and why the rest was left out: {os.path.relpath(path)}.")
    return status


def _try_batches(trial: observed_scripts.Trial, timeout: float, seconds: float, speaker: Terminal) -> int:
    """Show what larger batches bring. Raises `click.ClickException`."""
    from autoaccel.measure.tuning import batch_sizes
    from autoaccel.reports import tuning_tables

    script = trial.request.script
    with observed_scripts.timing(trial, timeout, speaker) as (runs, tell):
        found = batch_sizes.sweep(trial.request, runs, seconds, tell)
    if not found.trials:
        raise observed_scripts.gave_up(f"{script}: {found.ending}", found.failure, verbose=speaker.verbose)
    reporting.deliver(tuning_tables.batches(script, found), "full", None, speaker)
    return 0


def _rules(tuning: Tuning | None, reasons: Mapping[Change, str]) -> list[RuleWorth]:
    """What was measured, and rules of which nothing trains the same."""
    from autoaccel.measure.tuning.deciding import RuleWorth

    found = {each.code: each for each in tuning.rules} if tuning else {}
    for change, why in reasons.items():
        code, number = change.record.code, sum(each.record.code == change.record.code for each in reasons)
        found.setdefault(code, RuleWorth(code, change.record.name, number, None, None, False, why))
    return list(found.values())


def _losses(tuning: Tuning | None, good: Sequence[Change]) -> dict[Change, str]:
    """Why changes that train the same are not written."""
    if tuning is None:
        return {}
    reasons = {each.code: each.reason or "others of its rule pay" for each in tuning.rules}
    return {each: f"it does not pay here: {reasons[each.record.code]}" for each in good if each not in tuning.kept}


def _tell(
    script: str, rules: Sequence[RuleWorth], tuning: Tuning | None, speaker: Terminal, *, to_stdout: bool
) -> None:
    from autoaccel.measure.tuning.deciding import speedup
    from autoaccel.reports import tuning_tables

    gain = speedup(tuning.confirmed) if tuning and tuning.confirmed else None
    text = tuning_tables.table(script, rules, gain, _notes(tuning))
    if to_stdout:
        reporting.deliver(text, "full", None, speaker)
    else:
        speaker.say(text.rstrip())


def _notes(tuning: Tuning | None) -> tuple[str, ...]:
    if tuning is None:
        return ()
    confirmed = tuning.confirmed.notes if tuning.confirmed else ()
    return tuple(dict.fromkeys((*tuning.together.notes, *confirmed)))


def _rewrite(
    trial: observed_scripts.Trial,
    tuning: Tuning | None,
    reasons: Mapping[Change, str],
    changes: Rewrites,
    configuration: Configuration,
    speaker: Terminal,
    *,
    diff: bool,
) -> int:
    """Write what is kept, or show it."""
    from autoaccel.cli import rewrite, verified

    kept = tuning.kept if tuning else ()
    outcomes = [verified.rewritten(path, trial.path, kept, reasons, changes) for path in changes.files]
    base = rewrite.common_base([each.path for each in outcomes])
    run = rewrite.Run(rewrite.Mode(diff, verified=True), configuration, speaker, None, base)
    return rewrite.rewrite_files(outcomes, run)


def _entry(
    trial: observed_scripts.Trial,
    report: Verification,
    changes: Rewrites,
    rules: Sequence[RuleWorth],
    tuning: Tuning | None,
) -> dict[str, Any]:
    from autoaccel import __version__
    from autoaccel.measure.benching.medians import LEVEL
    from autoaccel.measure.tuning import tune_record
    from autoaccel.measure.tuning.deciding import speedup
    from autoaccel.measure.tuning.machine_facts import machine_facts

    root = Path(trial.request.root)
    return tune_record.entry(
        files=sorted(path.relative_to(root).as_posix() for path in changes.files if path.is_relative_to(root)),
        arguments=trial.request.arguments,
        machine=machine_facts(),
        versions={"autoaccel": __version__, "torch": report.torch, "python": report.python},
        rules=rules,
        speedup=speedup(tuning.confirmed) if tuning and tuning.confirmed else None,
        level=LEVEL,
        notes=_notes(tuning),
    )


def _relative(trial: observed_scripts.Trial, root: Path) -> str:
    """The script's name in the record: from the root of the project or, where its file is not known, as it is given."""
    real = trial.path.resolve()
    return real.relative_to(root).as_posix() if real.is_file() and real.is_relative_to(root) else trial.request.script
