"""`autoaccel verify`: whether the rewritten script trains the same and, where it does not, which change is to blame."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from autoaccel.cli import distribute, observed_scripts, reporting
from autoaccel.cli.options import SourcePath, configuration_options, output_options, rule_options, settled
from autoaccel.cli.progress import Activity
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration

if TYPE_CHECKING:
    from autoaccel.measure.changes import Changes
    from autoaccel.measure.observing.request import Request
    from autoaccel.measure.observing.run_record import RunRecord
    from autoaccel.measure.scratch import Scratch
    from autoaccel.measure.verifying.originals import Limits
    from autoaccel.measure.verifying.report import Verification
    from autoaccel.measure.verifying.trials import CannotVerifyError
    from autoaccel.measure.versions import TextOf

Seen = TypeVar("Seen")

SAME, DIFFERENT, FAILED = 0, 1, 2
_MOST_RANKS = 64


class RankNumbers(click.ParamType):  # type: ignore[type-arg]
    """`2,3`: numbers of processes, each once."""

    name = "ranks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        numbers = [part.strip() for part in value.split(",")]
        if not all(each.isdecimal() and 2 <= int(each) <= _MOST_RANKS for each in numbers):
            self.fail(f"{value!r}: numbers of processes are wanted, from 2 to {_MOST_RANKS}, as in 2,3", param, ctx)
        return tuple(dict.fromkeys(map(int, numbers)))


@click.command(short_help="Prove that a rewritten script trains the same.")
@observed_scripts.trial_options
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Optimizer steps of each run. Default: 40, fewer where they take long, more where they are short.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=3),
    metavar="N",
    help="Compare numbers over so many seeds at most; 3 are enough where they are close. Default: 8.",
)
@click.option(
    "--against",
    metavar="FILE|REVISION",
    help="Compare with another version of SCRIPT: a file, or a revision of git with all that it has of the project.",
)
@click.option(
    "--ranks",
    type=RankNumbers(),
    metavar="N[,M]",
    help="Compare with what `distribute` makes of SCRIPT, run by one process and by N, and M, on the CPU.",
)
@click.option("--shard", is_flag=True, help="With --ranks: compare with what `distribute --shard` makes of it.")
@click.option("--stderr", is_flag=True, help="Compare what is written to standard error, too.")
@click.option("--json", "json_file", type=SourcePath(), metavar="FILE|-", help="Write all that is known there.")
@settled(rule_options, configuration_options, output_options)
def verify(
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    python: str | None,
    timeout: float,
    steps: int | None,
    seeds: int | None,
    against: str | None,
    ranks: tuple[int, ...],
    shard: bool,
    stderr: bool,
    json_file: Path | None,
    configure: Callable[..., Configuration],
    speaker: Terminal,
) -> int:
    """Run SCRIPT as it is and rewritten in memory, with the same seeds, and compare how they train.

    No file of the script changes. What follows `--` are the script's own arguments.

    Compared are losses, parameters, buffers, optimizers, schedulers, batches, random numbers and what is printed: bit
    for bit where a rule is exact, within the original's own spread over several seeds where numbers change. Where
    something differs, the change that makes the difference is searched for and named. With `--against` nothing is
    rewritten: the hunks between two versions are the changes. With `--ranks` it is the distributed script that is
    compared, by several processes, within rounding. Exit status: 0 the same, 1 a difference, 2 nothing can be said.
    """
    trial = observed_scripts.prepare(script, arguments, is_module=is_module, python=python)
    reporting.check_output(json_file, [trial.path], "--json")
    if ranks:
        _check_ranks(trial.path)
    elif shard:
        raise click.UsageError("--shard is about several processes: it wants --ranks")
    configuration = distribute.configured(configure, trial.path, shard=shard) if ranks else configure([trial.path])
    configuration.rules  # noqa: B018 - what is wrong with the choice of rules is said before anything runs
    session = Session(
        trial, timeout, steps, seeds, against, None if against is None else _other(trial.path, against), ranks, stderr
    )
    from autoaccel.measure.verifying.trials import CannotVerifyError
    from autoaccel.reports import verification

    try:
        report = session.distributed(configuration, speaker) if ranks else session.verify(configuration, speaker)[0]
    except CannotVerifyError as error:
        message = reason(error, trial)
        if json_file is not None:
            reporting.deliver_json(verification.failure_to_json(script, message), json_file, speaker)
        raise observed_scripts.gave_up(message, error.failure, verbose=speaker.verbose) from error
    text = verification.text(report, quiet=speaker.quiet, verbose=speaker.verbose)
    delivered = reporting.deliver_both(text, verification.to_json(report), json_file, speaker)
    if not delivered or report.says_nothing:
        return FAILED
    return SAME if report.same else DIFFERENT


@dataclass(frozen=True, slots=True)
class Session:
    """Verifies one script; also for `rewrite --verified`."""

    trial: observed_scripts.Trial
    timeout: float = 600.0
    steps: int | None = None
    seeds: int | None = None
    against: str | None = None
    """What another version is called; its texts are those of `other`."""
    other: TextOf | None = None
    ranks: tuple[int, ...] = ()
    """By how many processes the distributed script is run, beside one."""
    stderr: bool = False
    """Whether what is written to standard error is compared, too."""

    def verify(self, configuration: Configuration, speaker: Terminal) -> tuple[Verification, Changes]:
        """Raises `CannotVerifyError`."""
        from autoaccel.measure.verifying import procedure

        by_hand = self.against is not None
        request = dataclasses.replace(self.trial.request, by_kind=by_hand, samples=by_hand, stderr=self.stderr)
        if self.against is not None and Path(self.against).is_file():
            request = dataclasses.replace(request, import_original=True)
        find, limits = partial(self._changes, configuration), self._limits()
        with self._runs(speaker) as runs:
            return procedure.verify(request, find, runs.one, limits=limits, tell=runs.begin, against=self.against)

    def distributed(self, configuration: Configuration, speaker: Terminal) -> Verification:
        """Raises `CannotVerifyError`."""
        from autoaccel.measure import distributed_changes
        from autoaccel.measure.verifying import several_ranks
        from autoaccel.measure.verifying.trials import CannotVerifyError

        scripts = distribute.with_imports(self.trial.path)
        files = [each.path for each in scripts if each.path is not None] or [self.trial.path]
        changes = distributed_changes.find(files, configuration)
        if not changes.all:
            reasons = (record.message for _, record in changes.skipped)
            why = next(iter((*changes.problems, *reasons)), distribute.NOTHING)
            raise CannotVerifyError(f"not distributed: {why}")
        with self._runs(speaker) as runs:
            return several_ranks.verify(
                self.trial.request, changes, runs.one, runs.ranks, self.ranks, limits=self._limits(), tell=runs.begin
            )

    @contextlib.contextmanager
    def _runs(self, speaker: Terminal) -> Iterator[_Runs]:
        """Raises `CannotVerifyError`."""
        from autoaccel.measure import scratch
        from autoaccel.measure.verifying.trials import CannotVerifyError

        trial = self.trial
        try:
            with Activity(speaker) as activity, scratch.copy(trial.folder, Path(trial.request.root)) as copy:
                yield _Runs(trial.python, self.timeout, copy, activity)
        except scratch.ScratchError as error:
            raise CannotVerifyError(str(error)) from error

    def _changes(self, configuration: Configuration, paths: Sequence[Path]) -> Changes:
        from autoaccel import sources
        from autoaccel.measure import changes, versions
        from autoaccel.measure.verifying.trials import CannotVerifyError

        if self.against is None or self.other is None:
            return changes.find(paths, configuration)
        try:
            return versions.between(paths, self.other, self.against)
        except sources.SourceError as error:
            raise CannotVerifyError(str(error)) from error

    def _limits(self) -> Limits:
        from autoaccel.measure.verifying import originals

        usual = originals.Limits()
        if self.steps:  # a number that was asked for is made
            return originals.Limits(self.steps, self.seeds or usual.seeds, None, 0.0)
        return originals.Limits(seeds=self.seeds or usual.seeds)


_NOT_WITH_RANKS = ("against", "seeds", "stderr", "select", "ignore", "extend_select", "tier")


def _check_ranks(script: Path) -> None:
    """Raises `click.UsageError` for what makes no sense with `--ranks`."""
    given = click.get_current_context().params
    if name := next((name for name in _NOT_WITH_RANKS if given.get(name)), None):
        option = f"--{name.replace('_', '-')}"
        raise click.UsageError(f"--ranks looks at what `distribute` writes, under one seed; {option} is not for that")
    if script.is_dir():
        raise click.UsageError("--ranks needs a script whose file is known")


def _other(script: Path, against: str) -> TextOf:
    """The other version of a script. Raises `click.ClickException`."""
    from autoaccel import sources
    from autoaccel.measure import versions

    if script.is_dir():
        raise click.UsageError("--against needs a script whose file is known")
    try:
        if Path(against).is_file():
            return versions.in_file(script, Path(against))
        return versions.in_revision(script, against)
    except (versions.NoVersionError, sources.SourceError) as error:
        raise click.ClickException(str(error)) from error


@dataclass
class _Runs:
    """Runs in one copy of the project, one after the other; which of them goes on and how far it is, is shown."""

    python: str
    timeout: float
    copy: Scratch
    activity: Activity
    number: int = 0
    name: str = ""

    def begin(self, name: str) -> None:
        self.number += 1
        self.name = f"run {self.number}: {name}"
        self.activity(self.name)

    def one(self, request: Request, environment: Mapping[str, str]) -> RunRecord:
        from autoaccel.measure import launching

        return self.copy.record(self._in_fresh_copy(launching.observe, request, environment))

    def ranks(self, request: Request, environment: Mapping[str, str], count: int) -> tuple[RunRecord, ...]:
        from autoaccel.measure import launching

        observe = partial(launching.observe_ranks, count=count)
        return tuple(map(self.copy.record, self._in_fresh_copy(observe, request, environment)))

    def _in_fresh_copy(self, observe: Callable[..., Seen], request: Request, environment: Mapping[str, str]) -> Seen:
        self.copy.restore()
        return observe(
            self.copy.request(request),
            python=self.python,
            environment=environment,
            folder=self.copy.folder,
            timeout=self.timeout,
            on_steps=partial(self._show_step, request),
        )

    def _show_step(self, request: Request, made: int) -> None:
        of = f" of {request.steps}" if request.steps else ""
        self.activity(f"{self.name}, step {made}{of}")


def reason(error: CannotVerifyError, trial: observed_scripts.Trial) -> str:
    """Why nothing can be said, in one line."""
    from autoaccel.measure import failures

    if error.failure is None:
        return f"{trial.request.script}: {error}"
    return failures.line(error.failure, script=trial.request.script, python=trial.python)
