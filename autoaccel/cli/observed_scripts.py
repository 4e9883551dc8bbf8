"""What `verify`, `bench` and `tune` share: a script of the user's that is run under observation, several times."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel.cli import inputs
from autoaccel.cli.options import together
from autoaccel.cli.progress import Activity
from autoaccel.cli.terminal import Terminal

if TYPE_CHECKING:
    from autoaccel.measure.benching.contenders import Processes
    from autoaccel.measure.benching.report import BenchReport
    from autoaccel.measure.changes import Changes
    from autoaccel.measure.observing.request import Request
    from autoaccel.measure.observing.run_record import RunFailure


@dataclass(frozen=True, slots=True)
class Trial:
    """What to run."""

    request: Request
    """The original."""
    python: str
    """The interpreter that it is for."""
    folder: Path
    """Its working directory."""
    path: Path
    """A file of the project, whose configuration governs: the script, where it is known without running anything."""


trial_options = together(
    click.argument("script", metavar="SCRIPT", type=click.Path()),
    click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS]...", type=click.UNPROCESSED),
    click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, as with `python -m`."),
    click.option("--python", metavar="PYTHON", help="Run the script with this one. Default: one with torch."),
    click.option("--scratch", is_flag=True, expose_value=False,
                 help="Changes nothing: scripts always run in copies of the project."),
    click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=600.0, show_default=True,
                 metavar="SECONDS", help="Give up on a script that makes no step for so long."),
)  # fmt: skip
"""What to run, and how."""

time_option = click.option(
    "--time",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each contender is timed.",
)


def prepare(script: str, arguments: tuple[str, ...], *, is_module: bool, python: str | None) -> Trial:
    """Find out what to run. Raises `click.ClickException`."""
    from autoaccel.measure import interpreters, launching
    from autoaccel.measure.observing.request import Request
    from autoaccel.measure.rewriter import project_root

    path, folder = _path(script, is_module=is_module), Path.cwd()
    root = project_root(path if path.is_dir() else path.parent)
    try:
        chosen = interpreters.choose(python)
    except interpreters.InterpreterError as error:
        raise click.ClickException(str(error)) from error
    request = Request(script, arguments, is_module, root=str(root), protected=tuple(launching.protected(folder, root)))
    return Trial(request, str(chosen.path), folder, path)


@contextlib.contextmanager
def timing(trial: Trial, timeout: float, speaker: Terminal) -> Iterator[tuple[Processes, Activity]]:
    """What runs the script to be timed, and what shows that. What goes wrong meanwhile is a `click.ClickException`."""
    from autoaccel.measure.benching.contenders import Processes
    from autoaccel.measure.benching.procedure import BenchError
    from autoaccel.measure.scratch import ScratchError

    try:
        with Activity(speaker) as tell:
            yield Processes(trial.python, trial.folder, timeout), tell
    except BenchError as error:
        raise gave_up(str(error), error.failure, verbose=speaker.verbose) from error
    except ScratchError as error:
        raise click.ClickException(f"{trial.request.script}: {error}") from error


def benchmark(
    trial: Trial,
    find: Callable[[Iterable[Path]], Changes],
    timeout: float,
    speaker: Terminal,
    *,
    seconds: float,
    steps: int | None = None,
    ablate: bool = False,
) -> BenchReport:
    """Time the script, with what `find` says would change in its files. Raises `click.ClickException`."""
    from autoaccel.config import known_rules
    from autoaccel.measure.benching import procedure

    command = shlex.join(["autoaccel", *sys.argv[1:]])
    task = procedure.Task(trial.request, command, trial.python, seconds, steps, ablate)
    with timing(trial, timeout, speaker) as (runs, tell):
        return procedure.bench(task, runs, find, known_rules(), tell)


def gave_up(message: str, failure: RunFailure | None, *, verbose: bool) -> click.ClickException:
    """The error for a script that went wrong; `verbose` shows its own traceback at once."""
    if verbose and failure is not None and failure.traceback.strip():
        click.echo(failure.traceback.rstrip(), err=True)
    return click.ClickException(message)


def _path(script: str, *, is_module: bool) -> Path:
    if is_module:
        return _of_module(script)
    path = Path(script)
    if script == "-":
        raise click.UsageError("a script on disk is needed; `-` is none")
    if path.is_dir():
        raise click.ClickException(f"{path}: is a folder; give a script")
    if not path.is_file():
        raise click.ClickException(f"{path}: no such file")
    inputs.refuse_notebook(path)
    return path


def _of_module(name: str) -> Path:
    """Where a module of the working directory is; importing its packages is not for this process."""
    place = Path(*name.split("."))
    found = (each for each in (place.with_suffix(".py"), place / "__main__.py") if each.is_file())
    return next(found, Path.cwd())
