"""`autoaccel rewrite`: from paths to rewritten files, a patch, or an exit status."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoaccel import sources
from autoaccel.cli import undo, vendoring
from autoaccel.cli.interactive import Chooser
from autoaccel.cli.options import file_options, output_options, rule_options
from autoaccel.cli.terminal import Terminal, colour_diff, describe, terminal
from autoaccel.config import select_rules, settings
from autoaccel.reports import diff as diffs
from autoaccel.reports import full

if TYPE_CHECKING:
    from autoaccel.rewriting.engine import Result
    from autoaccel.rewriting.rule import Rule
    from autoaccel.script import Project

DONE, PENDING, FAILED = 0, 1, 2

STDIN = Path("-")


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

    @property
    def changed(self) -> bool:
        return self.result.after != self.result.before


class Refused(Exception):  # noqa: N818 - it carries messages for the user, it is not a defect
    """One file could not be done; the messages say why."""

    @property
    def messages(self) -> tuple[str, ...]:
        return self.args


@dataclass(frozen=True, slots=True)
class Run:
    """What all files of one run share."""

    mode: Mode
    rules: Sequence[Rule]
    project: Project
    terminal: Terminal


@click.command(short_help="Rewrite scripts so that they train faster.")
@click.argument("paths", nargs=-1, required=True, metavar="PATHS|-", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--diff", is_flag=True, help="Print the changes as a patch, change nothing; exit 1 if there are any.")
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if something would change.")
@click.option("-i", "--interactive", is_flag=True, help="Show each change and ask.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
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
    output: Path | None,
    vendor: bool,
    stdin_filename: Path | None,
    config: Path | None,
    isolated: bool,
    color: str,
    quiet: bool,
    verbose: bool,
    **overrides: Any,
) -> int:
    """Rewrite plain PyTorch training scripts in place so that they train faster.

    PATHS are files and folders; `-` reads a script from stdin and prints the result. Scripts are never executed.
    """
    mode = Mode(diff, check, interactive, output, vendor)
    _check_usage(paths, mode, stdin_filename)
    anchors = [stdin_filename or Path("stdin.py")] if paths == (STDIN,) else paths
    chosen = settings(_common_folder(anchors), config=config, isolated=isolated, overrides=overrides)

    from autoaccel.rewriting import registry
    from autoaccel.script import Project

    rules = select_rules(registry.rules(), chosen)
    speaker = terminal(color, quiet=quiet, verbose=verbose)
    if paths == (STDIN,):
        return _rewrite_stdin(stdin_filename, Run(mode, rules, Project(), speaker))

    found = sources.find(
        paths,
        exclude=chosen.excluded,
        root=chosen.origin.parent if chosen.origin else None,
        respect_gitignore=chosen.respect_gitignore,
    )
    for problem in found.problems:
        speaker.fail(problem)
    for path in found.barren:
        speaker.warn(f"{path}: no Python files found")
    tasks = [Task(path, path if output is None else _destination(path, paths, output)) for path in found.files]
    status = _rewrite_files(tasks, Run(mode, rules, Project(found.files), speaker))
    return FAILED if found.problems else status


def _check_usage(paths: tuple[Path, ...], mode: Mode, stdin_filename: Path | None) -> None:
    if STDIN in paths and len(paths) > 1:
        raise click.UsageError("`-` (stdin) cannot be combined with paths")
    if STDIN in paths and mode.interactive:
        raise click.UsageError("--interactive asks on stdin, which `-` already reads")
    if STDIN in paths and mode.vendor:
        raise click.UsageError("--vendor needs a script on disk to put the runtime beside")
    if stdin_filename is not None and STDIN not in paths:
        raise click.UsageError("--stdin-filename is the name of what `-` reads; there is no `-`")
    if mode.previews and mode.interactive:
        raise click.UsageError("--interactive asks before it writes; --diff and --check write nothing")
    if mode.previews and mode.output is not None:
        raise click.UsageError("--output writes; --diff and --check write nothing")


def _common_folder(paths: Sequence[Path]) -> Path:
    """The folder whose configuration governs a run: the nearest one that holds all paths."""
    folders = [path if path.is_dir() else path.parent for path in (Path(os.path.abspath(path)) for path in paths)]
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:  # different drives
        return folders[0]


def _destination(path: Path, paths: tuple[Path, ...], output: Path) -> Path:
    """Where the result of `path` goes below `--output`: the tree below each given folder is mirrored."""
    single = len(paths) == 1 and not paths[0].is_dir()
    if single and not output.is_dir() and not str(output).endswith(("/", os.sep)):
        return output
    for given in paths:
        if given.is_dir() and path.is_relative_to(given):
            return output / path.relative_to(given)
    return output / path.name


def _rewrite_files(tasks: Sequence[Task], run: Run) -> int:
    done: list[Done] = []
    failures = 0
    try:
        for task in tasks:
            try:
                done.append(_rewrite_one(task, run))
            except Refused as refusal:
                failures += 1
                for message in refusal.messages:
                    run.terminal.fail(message)
        if run.mode.vendor and not run.mode.previews and any(each.result.applied for each in done):
            vendoring.copy_runtime(_common_folder([task.destination for task in tasks]))
    finally:
        # Also when interrupted: what was written must be told, and how to take it back.
        _summarise(done, failures, run)
    if failures:
        return FAILED
    return PENDING if run.mode.previews and any(each.changed for each in done) else DONE


def _rewrite_one(task: Task, run: Run) -> Done:
    """Read, rewrite, deliver and report one file. Raises `Refused`."""
    with _refusing(task.path, run.terminal):
        source = sources.read(task.path)
        done = Done(task, source, _result(source, task.path, run))
        if run.mode.diff:
            _show(done, task.path, run.terminal)
        elif not run.mode.check:
            if task.destination != task.path:
                sources.write(task.destination, source, done.result.after)
            elif done.changed:
                sources.replace(task.path, source, done.result.after)
    _report(done, run)
    return done


def _rewrite_stdin(name: Path | None, run: Run) -> int:
    """The filter: whatever happens, what came in goes out, rewritten where that was possible."""
    data = click.get_binary_stream("stdin").read()
    task = Task(name or Path("<stdin>"), run.mode.output or STDIN)
    to_stdout = task.destination == STDIN and not run.mode.previews
    try:
        with _refusing(task.path, run.terminal):
            source = sources.decode(data, task.path)
            done = Done(task, source, _result(source, name, run))
    except Refused as refusal:
        for message in refusal.messages:
            run.terminal.fail(message)
        if to_stdout:
            run.terminal.product(data)
        return FAILED
    if run.mode.diff:
        _show(done, name or Path("stdin"), run.terminal)
    elif to_stdout:
        run.terminal.product(source.encode(done.result.after))
    elif not run.mode.check:
        sources.write(task.destination, source, done.result.after)
    _report(done, run)
    _summarise([done], 0, run)
    return PENDING if run.mode.previews and done.changed else DONE


@contextlib.contextmanager
def _refusing(path: Path, terminal: Terminal) -> Iterator[None]:
    """Turn whatever goes wrong with one file into `Refused`: the others are still processed."""
    try:
        yield
    except (Refused, BrokenPipeError):
        raise
    except sources.SourceError as error:
        raise Refused(str(error)) from error
    except Exception as error:
        messages = [f"{path}: internal error, the file is left alone: {describe(error)}"]
        raise Refused(*messages, *([traceback.format_exc()] if terminal.verbose else [])) from error


def _result(source: sources.Source, path: Path | None, run: Run) -> Result:
    from autoaccel.rewriting import engine

    result = engine.rewrite(source.text, path, run.rules, project=run.project)
    if result.errors:
        raise Refused(*result.errors)
    return result


def _show(done: Done, name: Path, terminal: Terminal) -> None:
    """The patch on stdout, in the file's own encoding."""
    mark, absolute = done.source.mark, Path(os.path.abspath(name))
    below = absolute.is_relative_to(Path.cwd())
    label = absolute.relative_to(Path.cwd() if below else absolute.anchor).as_posix()
    patch = diffs.unified(mark + done.source.text, mark + done.result.after, label)
    terminal.product((colour_diff(patch) if terminal.colour_out else patch).encode(done.source.encoding))


def _report(done: Done, run: Run) -> None:
    for line in full.lines(done.result, done.task.path):
        run.terminal.say(line)


def _summarise(done: Sequence[Done], failures: int, run: Run) -> None:
    for line in full.summary([each.result for each in done], preview=run.mode.previews, failed=failures):
        run.terminal.say(line)
    if not run.mode.previews:
        in_place = [each for each in done if each.changed and each.task.path == each.task.destination]
        if in_place:
            run.terminal.say(
                undo.hint([undo.Change(each.task.path, each.source, each.result.after) for each in in_place])
            )
