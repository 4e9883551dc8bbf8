"""`autoaccel rewrite`: from paths to rewritten files, a patch, or an exit status."""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from autoaccel import sources
from autoaccel.cli import inputs, showing, undo, vendoring
from autoaccel.cli.inputs import STDIN, UNNAMED
from autoaccel.cli.interactive import Chooser
from autoaccel.cli.options import SourcePath, file_options, output_options, rule_options
from autoaccel.cli.terminal import Terminal, colour_diff, describe, terminal
from autoaccel.reports import diff as diffs
from autoaccel.reports import rewritten

if TYPE_CHECKING:
    from autoaccel.config import Plan
    from autoaccel.rewriting.engine import Result
    from autoaccel.rewriting.finding import Finding
    from autoaccel.script import Project

DONE, PENDING, FAILED = 0, 1, 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mode:
    """What becomes of a result."""

    diff: bool
    check: bool
    interactive: bool
    output: Path | None
    vendor: bool

    @property
    def previews(self) -> bool:
        return self.diff or self.check


@dataclass(frozen=True, slots=True)
class Task:
    """One file: where it is read, where its result goes, and what it is called in messages and patches."""

    path: Path
    destination: Path


@dataclass(frozen=True, slots=True)
class Done:
    """One file that was rewritten, or looked at in vain."""

    task: Task
    source: sources.Source
    result: Result


class Refused(Exception):  # noqa: N818 - it carries messages for the user, it is not a defect
    """One file could not be done; its arguments are the lines that say why."""


@dataclass(frozen=True, slots=True)
class Run:
    """What all files of one run share."""

    mode: Mode
    plan: Plan
    project: Project
    terminal: Terminal
    chooser: Chooser | None
    base: Path
    """The folder that the names in patches are relative to."""


@click.command(short_help="Rewrite scripts so that they train faster.")
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
@rule_options
@file_options
@output_options
def rewrite(
    paths: tuple[Path, ...],
    diff: bool,
    check: bool,
    interactive: bool,
    output: str | None,
    vendor: bool,
    stdin_filename: Path | None,
    config: tuple[str, ...],
    isolated: bool,
    show_settings: bool,
    color: str,
    quiet: bool,
    verbose: bool,
    **overrides: Any,
) -> int:
    """Rewrite plain PyTorch training scripts in place so that they train faster.

    PATHS are files and folders; `-` reads a script from stdin and prints the result. Scripts are never executed.
    """
    mode = Mode(diff, check, interactive, None if output is None else Path(output), vendor)
    _check_usage(paths, mode)
    if output is not None and len(paths) > 1 and Path(output).is_file():
        raise click.UsageError(f"--output {output} is a file; several scripts need a folder")
    plan = inputs.plan(paths, stdin_filename=stdin_filename, config=config, isolated=isolated, overrides=overrides)
    plan.rules  # noqa: B018 - what is wrong with the choice of rules is said before any file is read
    speaker = terminal(color, quiet=quiet, verbose=verbose)
    if show_settings:
        speaker.product(showing.settings(plan, paths, stdin_filename).encode())
        return DONE
    run = partial(Run, mode, plan, terminal=speaker, chooser=Chooser(speaker) if interactive else None)

    from autoaccel.script import Project

    if paths == (STDIN,):
        return _rewrite_stdin(stdin_filename, run(project=Project(), base=_base([stdin_filename or UNNAMED])))
    found = inputs.find(paths, plan, speaker)
    for path in found.files:
        plan.rules_for(path)
    tasks = [Task(path, path if output is None else _destination(path, paths, output)) for path in found.files]
    _check_collisions(tasks)
    status = _rewrite_files(tasks, run(project=Project(found.files), base=_base(found.files)))
    return FAILED if found.problems else status


def _check_usage(paths: tuple[Path, ...], mode: Mode) -> None:
    if STDIN in paths and mode.interactive:
        raise click.UsageError("--interactive asks on stdin, which `-` already reads")
    if STDIN in paths and mode.vendor:
        raise click.UsageError("--vendor needs a script on disk to put the runtime beside")
    if mode.previews and mode.interactive:
        raise click.UsageError("--interactive asks before it writes; --diff and --check write nothing")
    if mode.previews and mode.output is not None:
        raise click.UsageError("--output writes; --diff and --check write nothing")


def _check_collisions(tasks: Sequence[Task]) -> None:
    taken: dict[Path, Path] = {}
    for task in tasks:
        other = taken.setdefault(task.destination, task.path)
        if other != task.path:
            raise click.UsageError(f"{other} and {task.path} would both be written to {task.destination}")


def _destination(path: Path, paths: tuple[Path, ...], output: str) -> Path:
    """Where the result of `path` goes: of a single script into the file `output`, else into the mirrored tree."""
    target = Path(output)
    if len(paths) == 1 and not paths[0].is_dir() and not target.is_dir() and not output.endswith(("/", os.sep)):
        return target
    for given in paths:
        if given.is_dir() and path.is_relative_to(given):
            return target / path.relative_to(given)
    return target / path.name


def _rewrite_files(tasks: Sequence[Task], run: Run) -> int:
    """Rewrite everything, then write: files are judged by what the others are, not by what they are about to become."""
    attempts = [_attempt(task.path, run.terminal, partial(_rewrite, task, run)) for task in tasks]
    delivered = []
    if run.mode.vendor and not run.mode.previews:
        _copy_runtime([done for done in attempts if done is not None], run)
    try:
        for done in attempts:
            if done is not None and _attempt(done.task.path, run.terminal, partial(_deliver, done, run)):
                delivered.append(done)
    finally:
        # Also when interrupted: what was written must be told, and how to take it back.
        _summarise(delivered, len(tasks) - len(delivered), run)
    return _status(delivered, len(tasks) - len(delivered), run.mode)


def _copy_runtime(attempts: Sequence[Done], run: Run) -> None:
    """Before anything is written: a script that imports what is not there would be broken. Raises `SourceError`."""
    concerned = [done.task for done in attempts if vendoring.is_vendored(done.result.after)]
    if not concerned:
        return
    folders = dict.fromkeys(vendoring.home(task.path, task.destination) for task in concerned)
    destinations = [done.task.destination for done in attempts]
    shared = inputs.common_folder(destinations)
    if any(Path(os.path.abspath(each)).parent == shared for each in destinations):
        # A script there may import what is concerned, whether or not it has anything to rewrite itself.
        folders[shared] = None
    for folder in folders:
        run.terminal.say(f"The runtime was copied to {vendoring.copy_runtime(folder)}.")


def _rewrite_stdin(name: Path | None, run: Run) -> int:
    """The filter: whatever happens, what came in goes out, rewritten where that was possible."""
    data = sys.stdin.buffer.read()
    task = Task(name or UNNAMED, run.mode.output or STDIN)
    if inputs.is_excluded_stdin(name, run.plan):
        if task.destination == STDIN and not run.mode.previews:
            run.terminal.product(data)
        return DONE
    done = _attempt(task.path, run.terminal, lambda: _rewritten(task, sources.decode(data, task.path), run))
    if done is None:
        if task.destination == STDIN and not run.mode.previews:
            run.terminal.product(data)
        return FAILED
    delivered = _attempt(task.path, run.terminal, partial(_deliver, done, run))
    _summarise([done] if delivered else [], 0 if delivered else 1, run)
    return _status([done], 0 if delivered else 1, run.mode)


def _rewrite(task: Task, run: Run) -> Done:
    return _rewritten(task, sources.read(task.path), run)


def _rewritten(task: Task, source: sources.Source, run: Run) -> Done:
    """Raises `Refused` for what the engine will not do."""
    from autoaccel.rewriting import engine

    accept = _ask(task, source, run.chooser, run) if run.chooser else None
    result = engine.rewrite(
        source.text, task.path, run.plan.rules, tier=run.plan.tier, project=run.project, accept=accept
    )
    if result.errors:
        raise Refused(*result.errors, *([result.traceback] if result.traceback and run.terminal.verbose else []))
    if run.mode.vendor:
        result = dataclasses.replace(result, after=vendoring.import_vendored(result.after))
    return Done(task, source, result)


def _ask(task: Task, source: sources.Source, chooser: Chooser, run: Run) -> Callable[[Finding], bool] | None:
    """The user's word on each finding, for the engine, which meets the same findings in the same order."""
    from autoaccel.rewriting import engine

    concerned = engine.concerned(source.text, run.plan.rules)
    try:
        analysis = engine.analyse(source.text, task.path, concerned, tier=run.plan.tier, project=run.project)
    except engine.RewriteError:
        return None  # `rewrite` will say the same
    accepted = chooser.choose(analysis, task.path)
    verdicts = iter([finding in accepted for finding in analysis.findings])
    return lambda _: next(verdicts)


def _deliver(done: Done, run: Run) -> bool:
    """Write, print or compare one result, and report it."""
    task, source, result = done.task, done.source, done.result
    if run.mode.diff:
        _show(done, run)
    elif run.mode.check:
        pass
    elif task.destination == STDIN:
        run.terminal.product(source.encode(result.after))
    elif task.destination != task.path:
        sources.write(task.destination, source, result.after)
    elif result.changed:
        sources.replace(task.path, source, result.after)
    for line in rewritten.lines(result, task.path):
        run.terminal.say(line)
    return True


def _attempt(path: Path, terminal: Terminal, action: Callable[[], T]) -> T | None:
    """What `action` returns; None, with the reason told, where it fails: the other files are still processed."""
    try:
        return action()
    except Refused as refusal:
        messages = list(refusal.args)
    except sources.SourceError as error:
        messages = [str(error)]
    except BrokenPipeError:
        raise
    except Exception as error:
        messages = [f"{path}: internal error, the file is left alone: {describe(error)}"]
        if terminal.verbose:
            messages.append(traceback.format_exc())
    for message in messages:
        terminal.fail(message)
    return None


def _show(done: Done, run: Run) -> None:
    """The patch on stdout, in the file's own encoding."""
    file = Path("stdin") if done.task.path == UNNAMED else _named(done.task.path)
    label = file.relative_to(run.base if file.is_relative_to(run.base) else file.anchor).as_posix()
    mark = done.source.mark
    patch = diffs.unified(mark + done.source.text, mark + done.result.after, label)
    run.terminal.product(diffs.encoded(colour_diff(patch) if run.terminal.colour_out else patch, done.source.encoding))


def _base(paths: Sequence[Path]) -> Path:
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


def _summarise(done: Sequence[Done], failures: int, run: Run) -> None:
    for line in rewritten.summary([each.result for each in done], preview=run.mode.previews, failed=failures):
        run.terminal.say(line)
    if run.mode.output not in (None, STDIN) and done:
        run.terminal.say(f"Written to {run.mode.output}; the original is as it was.")
    in_place = [each for each in done if each.result.changed and each.task.path == each.task.destination]
    if in_place and not run.mode.previews:
        run.terminal.say(undo.hint([undo.Change(each.task.path, each.source, each.result.after) for each in in_place]))


def _status(done: Sequence[Done], failures: int, mode: Mode) -> int:
    if failures:
        return FAILED
    return PENDING if mode.previews and any(each.result.changed for each in done) else DONE
