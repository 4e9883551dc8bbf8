"""`autoaccel rewrite`: from paths to rewritten files, a patch, or an exit status."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel import notebooks, sources
from autoaccel.cli import inputs, reporting, showing, tuned, undo, vendoring
from autoaccel.cli.inputs import STDIN, UNNAMED
from autoaccel.cli.interactive import Chooser
from autoaccel.cli.options import (
    FilledPath,
    SourcePath,
    configuration_options,
    file_options,
    jobs_option,
    output_options,
    rule_options,
    settled,
)
from autoaccel.cli.progress import Progress
from autoaccel.cli.terminal import Terminal, colour_diff
from autoaccel.config import Configuration
from autoaccel.jobs import conversion, inspection, undoing
from autoaccel.jobs.conversion import Rewritten
from autoaccel.jobs.undoing import FileChange
from autoaccel.reports import diff as diffs
from autoaccel.reports import rewritten

if TYPE_CHECKING:
    from autoaccel.analysis import Project
    from autoaccel.discovery import FoundFiles

DONE, PENDING, FAILED = 0, 1, 2

_ARGUMENTS = "autoaccel.arguments"


@dataclass(frozen=True, slots=True)
class Mode:
    """What becomes of a result."""

    diff: bool
    check: bool = False
    interactive: bool = False
    output: Path | None = None
    vendor: bool = False
    verified: bool = False
    bench: bool = False
    commits: bool = False
    summary: Path | None = None

    @property
    def previews(self) -> bool:
        return self.diff or self.check


@dataclass(frozen=True, slots=True)
class Run:
    """What all files of one run share."""

    mode: Mode
    configuration: Configuration
    terminal: Terminal
    chooser: Chooser | None
    base: Path
    """The folder that the names in patches are relative to."""
    destinations: Mapping[Path, Path] = field(default_factory=dict)
    """Where the result of a file goes, if not to its place."""

    def destination(self, path: Path) -> Path:
        return self.destinations.get(path, path)


class RewriteCommand(click.Command):
    """With `--verified`, what follows `--` are the arguments of the script; else more paths, as usual."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args and "--verified" in args[: args.index("--")]:
            end = args.index("--")
            ctx.meta[_ARGUMENTS] = tuple(args[end + 1 :])
            args = args[:end]
        return super().parse_args(ctx, args)


@click.command(cls=RewriteCommand, short_help="Rewrite scripts so that they train faster.")
@click.argument("paths", nargs=-1, required=True, metavar="PATHS|-", type=SourcePath())
@click.option("--diff", is_flag=True, help="Print the changes as a patch, change nothing; exit 1 if there are any.")
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if something would change.")
@click.option("-i", "--interactive", is_flag=True, help="Show each change and ask.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="PATH",
    help="Write there instead: a file for one script, a folder for several.",
)
@click.option("--vendor", is_flag=True, help="Copy the runtime beside the script, which then needs no autoaccel.")
@click.option(
    "--verified",
    is_flag=True,
    help="Run the script, with the arguments behind `--`, in copies of the working directory, and change, in it and in "
    "the files of its project that it imports, only what trains the same.",
)
@click.option("--bench", is_flag=True, help="With --verified: measure what that gains, all together and rule by rule.")
@click.option(
    "--summary",
    type=FilledPath(),
    metavar="FILE",
    help="With --verified: write the text of a pull request there, in Markdown; its first line is the title.",
)
@click.option("--commits", is_flag=True, help="With --verified: make one commit for each rule.")
@settled(rule_options, file_options, configuration_options, jobs_option, output_options)
def rewrite(
    paths: tuple[Path, ...],
    diff: bool,
    check: bool,
    interactive: bool,
    output: str | None,
    vendor: bool,
    verified: bool,
    bench: bool,
    summary: Path | None,
    commits: bool,
    stdin_filename: Path | None,
    show_settings: bool,
    jobs: int | None,
    configure: Callable[..., Configuration],
    speaker: Terminal,
) -> int:
    """Rewrite plain PyTorch training scripts in place so that they train faster.

    PATHS are files and folders; `-` reads a script from stdin and prints the result. Scripts are never executed, but
    for one with --verified.
    """
    destination = None if output is None else Path(output)
    mode = Mode(diff, check, interactive, destination, vendor, verified, bench, commits, summary)
    _check_usage(paths, mode)
    if output is not None and len(paths) > 1 and Path(output).is_file():
        raise click.UsageError(f"--output {output} is a file; several scripts need a folder")
    configuration = configure(paths, stdin_filename=stdin_filename)
    configuration.rules  # noqa: B018 - what is wrong with the choice of rules is said before any file is read
    if show_settings:
        speaker.product(showing.settings(configuration, paths, stdin_filename).encode())
        return DONE
    chooser = Chooser(speaker) if interactive else None
    run = partial(Run, mode, terminal=speaker, chooser=chooser)

    if verified:
        run = partial(run, _heeding(paths, configuration, speaker))
        return _rewrite_verified(paths[0], click.get_current_context().meta.get(_ARGUMENTS, ()), run)
    if paths == (STDIN,):
        name, destination = stdin_filename or UNNAMED, mode.output or STDIN
        base = common_base([name])
        return _rewrite_stdin(stdin_filename, run(configuration, base=base, destinations={name: destination}))
    found = inputs.find(paths, configuration, speaker)
    configuration = _heeding(found.files, configuration, speaker)
    for path in found.files:
        configuration.rules_for(path)
    destinations = {} if output is None else {path: _destination(path, paths, output) for path in found.files}
    _check_collisions(destinations)
    this = run(configuration, base=common_base(found.files), destinations=destinations)
    status = rewrite_files(_outcomes(found, jobs, this), this)
    return FAILED if found.problems else status


def _heeding(files: Sequence[Path], configuration: Configuration, speaker: Terminal) -> Configuration:
    """What `tune` has measured to be of no use here is left out, unless the command line says which rules to apply."""
    if tuned.is_heeded(click.get_current_context().params):
        return tuned.heeding(files, configuration, speaker)
    return configuration


def _check_usage(paths: tuple[Path, ...], mode: Mode) -> None:
    if STDIN in paths and mode.interactive:
        raise click.UsageError("--interactive asks on stdin, which `-` already reads")
    if STDIN in paths and mode.vendor:
        raise click.UsageError("--vendor needs a script on disk to put the runtime beside")
    if mode.verified and (len(paths) != 1 or STDIN in paths):
        raise click.UsageError("--verified needs one script on disk, which it runs; its arguments stand behind `--`")
    if not mode.verified:
        for path in paths:
            if str(path).startswith("--") and not path.exists():
                raise click.UsageError(f"{path}: no such file; arguments for the script need --verified, which runs it")
    if mode.verified and (mode.interactive or mode.output is not None):
        raise click.UsageError("--verified changes scripts in place, and does not ask")
    for option, given in (("--bench", mode.bench), ("--summary", mode.summary), ("--commits", mode.commits)):
        if given and not mode.verified:
            raise click.UsageError(f"{option} needs --verified, which runs the script")
    if mode.commits and (mode.previews or mode.vendor):
        raise click.UsageError("--commits writes rewritten scripts alone; it is not for --diff, --check and --vendor")
    if mode.previews and mode.interactive:
        raise click.UsageError("--interactive asks before it writes; --diff and --check write nothing")
    if mode.previews and mode.output is not None:
        raise click.UsageError("--output writes; --diff and --check write nothing")


def _check_collisions(destinations: Mapping[Path, Path]) -> None:
    taken: dict[Path, Path] = {}
    for path, destination in destinations.items():
        if notebooks.is_notebook(path) and not notebooks.is_notebook(destination):
            raise click.UsageError(f"--output {destination}: a notebook stays one; its name has to end in .ipynb")
        other = taken.setdefault(destination, path)
        if other != path:
            raise click.UsageError(f"{other} and {path} would both be written to {destination}")


def _destination(path: Path, paths: tuple[Path, ...], output: str) -> Path:
    """Where the result of `path` goes: of a single script into the file `output`, else into the mirrored tree."""
    target = Path(output)
    if len(paths) == 1 and not paths[0].is_dir() and not target.is_dir() and not output.endswith(("/", os.sep)):
        return target
    for given in paths:
        if given.is_dir() and path.is_relative_to(given):
            return target / path.relative_to(given)
    return target / path.name


def rewrite_files(outcomes: Iterable[conversion.Outcome], run: Run) -> int:
    """Rewrite everything, then write: files are judged by what the others are, not by what they are about to become.

    Raises `SourceError` where the runtime cannot be copied, and then no script was written."""
    attempts = [_done(outcome, run) for outcome in outcomes]
    done = [each for each in attempts if each is not None]
    delivered: list[Rewritten] = []
    runtime = _runtime(done, run) if run.mode.vendor and not run.mode.previews else {}
    files = [each for written in runtime.values() for each in written]
    # Kept before anything is written: also what is killed on the way can be taken back.
    kept = undo.keep(planned, files) if (planned := _in_place(done, run)) else None
    try:
        _copy_runtime(runtime, run)
        for each in done:
            if _delivered(each, run):
                delivered.append(each)
    finally:
        # Also when interrupted: what was written must be told, and how to take it back.
        if kept is not None and len(written := _in_place(delivered, run)) < len(planned):
            kept.discard()
            kept = undo.keep(written, files) if written else None
        _summarise(delivered, len(attempts) - len(delivered), run, kept)
    return _status(delivered, len(attempts) - len(delivered), run.mode)


def _in_place(done: Sequence[Rewritten], run: Run) -> list[undo.WrittenFile]:
    """What is changed where it is."""
    if run.mode.previews:
        return []
    changed = (each for each in done if each.result.changed and each.path == run.destination(each.path))
    return [undo.WrittenFile(each.path, each.source, each.result.after) for each in changed]


def _runtime(done: Sequence[Rewritten], run: Run) -> dict[Path, list[FileChange]]:
    """The files of the runtime, by the folder that it is copied to. Raises `SourceError`."""
    concerned = [each.path for each in done if vendoring.is_vendored(each.result.after)]
    if not concerned:
        return {}
    folders = dict.fromkeys(vendoring.home(path, run.destination(path)) for path in concerned)
    destinations = [run.destination(each.path) for each in done]
    shared = inputs.common_folder(destinations)
    if any(Path(os.path.abspath(each)).parent == shared for each in destinations):
        # A script there may import what is concerned, whether or not it has anything to rewrite itself.
        folders[shared] = None
    return {folder: vendoring.runtime_files(folder) for folder in folders}


def _copy_runtime(runtime: Mapping[Path, Sequence[FileChange]], run: Run) -> None:
    """Before any script is written: one that imports what is not there would be broken. Raises `SourceError`."""
    for folder, files in runtime.items():
        for each in files:
            undoing.put(each.path, each.after)
        run.terminal.say(f"The runtime was copied to {folder / vendoring.FOLDER}.")


def _rewrite_stdin(name: Path | None, run: Run) -> int:
    """The filter: whatever happens, what came in goes out, rewritten where that was possible."""
    from autoaccel.analysis import Project

    data = sys.stdin.buffer.read()
    path = name or UNNAMED
    is_excluded = inputs.is_excluded_stdin(name, run.configuration)
    done = None
    if not is_excluded:
        inputs.tell_of_choice([path], run.configuration, run.terminal)
        wrong = inspection.syntax_report(data, path).failures
        if wrong:
            outcome: conversion.Outcome = conversion.Refused(path, tuple(each.message for each in wrong))
        else:
            outcome = conversion.attempt(path, lambda: notebooks.decode(data, path), run.configuration, Project())
        done = _done(outcome, run)
    if done is None:
        if run.destination(path) == STDIN and not run.mode.previews:
            run.terminal.product(data)
        return DONE if is_excluded else FAILED
    delivered = _delivered(done, run)
    _summarise([done] if delivered else [], 0 if delivered else 1, run, None)
    return _status([done], 0 if delivered else 1, run.mode)


def _rewrite_verified(script: Path, arguments: tuple[str, ...], run: Callable[..., Run]) -> int:
    """Rewrite what a verification has passed: in the script and in the files of its project that it imports."""
    from autoaccel.cli import commits
    from autoaccel.cli.verified import verified
    from autoaccel.reports.benchmark.summary import explanation, headline

    settings = run(base=Path.cwd())
    mode = settings.mode
    if mode.commits:
        commits.check([script])
    if mode.summary is not None:
        reporting.check_written(mode.summary, [script], "--summary")
    found = verified(script, arguments, settings.configuration, settings.terminal)
    gains = found.gains(settings.terminal) if mode.bench and found.good else None
    if gains is not None:
        settings.terminal.say(f"{gains.script}: {headline(gains)}. {explanation(gains)}")
    outcomes = found.outcomes()
    written = True
    if mode.summary is not None:  # first: what was measured is kept, whatever comes next
        page = found.page(gains, committed=mode.commits)
        written = reporting.deliver(page, "markdown", mode.summary, settings.terminal)
    if mode.commits:
        commits.write(found, settings.terminal)
        return DONE if written else FAILED
    status = rewrite_files(outcomes, run(base=common_base([outcome.path for outcome in outcomes])))
    return status if written else FAILED


def _outcomes(found: FoundFiles, jobs: int | None, run: Run) -> Iterable[conversion.Outcome]:
    files = found.files
    if run.chooser is None:
        texts = run.mode.vendor or run.mode.output is not None
        with Progress(len(files), run.terminal) as progress:
            return conversion.rewrite_files(
                files, run.configuration, texts=texts, named=found.named, jobs=jobs, progress=progress
            )
    from autoaccel.analysis import Project

    project = Project(files)
    ask = partial(_ask, run.chooser, project, run)
    return (
        conversion.attempt(path, partial(notebooks.read, path), run.configuration, project, partial(ask, path))
        for path in files
    )


def _done(outcome: conversion.Outcome, run: Run) -> Rewritten | None:
    """What is to be delivered; None, with the reason told, for what could not be done."""
    if isinstance(outcome, conversion.Refused):
        _tell(outcome, run)
        return None
    if not run.mode.vendor:
        return outcome
    after = vendoring.import_vendored(outcome.result.after)
    return dataclasses.replace(outcome, result=dataclasses.replace(outcome.result, after=after))


def _tell(refused: conversion.Refused, run: Run) -> None:
    for message in refused.messages:
        run.terminal.fail(message)
    if refused.traceback and run.terminal.verbose:
        run.terminal.fail(refused.traceback, lines=True)


def _ask(chooser: Chooser, project: Project, run: Run, path: Path, source: sources.Source) -> conversion.Accept | None:
    """The user's word on each finding, for the engine, which meets the same findings in the same order."""
    from autoaccel.rewriting import engine

    rules = run.configuration.rules_for(path)
    try:
        analysis = engine.analyse(source.text, path, rules, tier=run.configuration.tier_for(path), project=project)
    except engine.RewriteError:
        return None  # `rewrite` will say the same
    accepted = chooser.choose(analysis, path, source)
    verdicts = iter([finding in accepted for finding in analysis.findings])
    return lambda _: next(verdicts)


def _deliver(done: Rewritten, run: Run) -> None:
    """Write, print or compare one result, and report it."""
    path, source, result = done.path, done.source, done.result
    destination = run.destination(path)
    if run.mode.diff:
        _show(done, run)
    elif run.mode.check:
        pass
    elif destination == STDIN:
        run.terminal.product(source.encode(result.after))
    elif destination != path:
        sources.write(destination, source, result.after)
    elif result.changed:
        sources.replace(path, source, result.after)
    for note in result.notes:
        run.terminal.warn(note)
    for line in rewritten.lines(result, path):
        run.terminal.say(line)


def _delivered(done: Rewritten, run: Run) -> bool:
    """Whether a result was delivered; where it fails, the reason is told and the other files are still processed."""
    try:
        _deliver(done, run)
    except BrokenPipeError:
        raise
    except Exception as error:
        _tell(conversion.refused(done.path, error), run)
        return False
    return True


def _show(done: Rewritten, run: Run) -> None:
    """The patch on stdout, in the file's own encoding."""
    file = Path("stdin") if done.path == UNNAMED else _named(done.path)
    label = file.relative_to(run.base if file.is_relative_to(run.base) else file.anchor).as_posix()
    patch = diffs.of_source(done.source, done.source.text, done.result.after, label)
    run.terminal.product(diffs.encoded(colour_diff(patch) if run.terminal.colour_out else patch, done.source.encoding))


def common_base(paths: Sequence[Path]) -> Path:
    """The working directory or, where some of the files lie elsewhere, the folder that holds them all and it."""
    here = Path.cwd()
    files = [_named(path) for path in paths]
    if all(file.is_relative_to(here) for file in files):
        return here
    try:
        return Path(os.path.commonpath([here, *(file.parent for file in files)]))
    except ValueError:  # different drives
        return here


def _named(path: Path) -> Path:
    """The file that a patch speaks of: git applies none to a link, only to what it leads to."""
    return Path(os.path.realpath(path) if path.is_symlink() else os.path.abspath(path))


def _summarise(done: Sequence[Rewritten], failures: int, run: Run, kept: undo.Kept | None) -> None:
    declined = run.chooser.declined if run.chooser else 0
    results = [each.result for each in done]
    for line in rewritten.summary(results, preview=run.mode.previews, failed=failures, declined=declined):
        run.terminal.say(line)
    if run.mode.output not in (None, STDIN) and done:
        run.terminal.say(f"Written to {run.mode.output}; the original is as it was.")
    importing = [each for each in results if vendoring.IMPORT in each.after and vendoring.IMPORT not in each.before]
    if importing and not run.mode.previews:
        run.terminal.say(
            "What was rewritten needs autoaccel where it runs, or `--vendor`, which puts its runtime beside it."
        )
    if kept is not None:
        run.terminal.say(kept.hint, always=True)


def _status(done: Sequence[Rewritten], failures: int, mode: Mode) -> int:
    if failures:
        return FAILED
    return PENDING if mode.previews and any(each.result.changed for each in done) else DONE
