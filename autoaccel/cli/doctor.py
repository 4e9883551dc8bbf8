"""`autoaccel doctor`: what of this machine, and of the place of the script's data, costs training time."""

from __future__ import annotations

import os
import shutil
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel.cli import reporting
from autoaccel.cli.options import FilledPath, SourcePath, output_options
from autoaccel.cli.progress import Activity
from autoaccel.cli.terminal import terminal

if TYPE_CHECKING:
    from autoaccel.measure.checkup.data_files import DataFiles
    from autoaccel.measure.checkup.python_facts import PythonFacts

HEALTHY, FOUND, FAILED = 0, 1, 2
_WIDTH = 140  # where nobody says how wide a line may be


@click.command(short_help="Find what of the machine costs training time.")
@click.argument("script", metavar="[SCRIPT]", required=False, type=click.Path())
@click.option(
    "--data",
    type=FilledPath(),
    metavar="PATH",
    help="Where the script's data lie. Default: what it names, and is there.",
)
@click.option("--python", metavar="PYTHON", help="Ask this one of torch and image libraries. Default: one with torch.")
@click.option(
    "--root", type=FilledPath(), metavar="DIR", help="Look at the machine whose /proc and /sys were recorded there."
)
@click.option("--json", "json_file", type=SourcePath(), metavar="FILE|-", help="Write all that is known there.")
@output_options
def doctor(
    script: str | None,
    data: Path | None,
    python: str | None,
    root: Path | None,
    json_file: Path | None,
    color: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Look for what of this machine, and of the disk that holds the data of SCRIPT, costs training time.

    Each row has a value, how it should be, what it costs if it is not so, and what helps. Nothing is changed, and the
    script is not run. Exit status: 0 healthy, 1 something was found or cannot be read, 2 it could not be done.
    """
    from autoaccel.measure.checkup import checks
    from autoaccel.measure.checkup.data_files import read_rate
    from autoaccel.measure.checkup.host import HERE, Host
    from autoaccel.measure.checkup.nvidia import Nvidia
    from autoaccel.reports import check_table

    speaker = terminal(color, quiet=quiet, verbose=verbose)
    place = HERE if root is None else root
    if not (place / "proc").is_dir():
        raise click.ClickException(f"{place}: no folder proc in it; doctor looks at Linux")
    reporting.check_output(json_file, [] if script is None else [Path(script)], "--json")
    known = _data(script, data, place)
    with Activity(speaker) as tell:
        tell("asking the script's Python")
        answers = _answers(python, recorded=root is not None)
        # Of a recorded machine the program that it had, which says what it said there.
        program = shutil.which("nvidia-smi", path=None if root is None else str(place / "usr" / "bin"))
        rate = cache(partial(read_rate, known.place)) if known is not None and root is None else None
        tell("looking at the machine")
        rows = checks.rows(Host(place, known, rate, answers, Nvidia(program)))
    table = check_table.table(rows, shutil.get_terminal_size((_WIDTH, 24)).columns)
    done = reporting.deliver_both(table, check_table.to_json(rows, script), json_file, speaker)
    speaker.say(check_table.summary(rows))
    if not done:
        return FAILED
    return HEALTHY if check_table.healthy(rows) else FOUND


def _data(script: str | None, named: Path | None, root: Path) -> DataFiles | None:
    """What is named, or the largest of what the script names. Raises `click.ClickException`."""
    from autoaccel import sources
    from autoaccel.measure.checkup import data_files

    found: list[Path] = []
    if script is not None:
        path = Path(script)
        if not path.is_file():
            raise click.ClickException(f"{path}: {'is a folder; give a script' if path.is_dir() else 'no such file'}")
        try:
            found = data_files.named_in(sources.read(path).text, [Path.cwd(), path.parent.absolute()], root)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise click.ClickException(f"{path}: cannot be parsed: {str(error).splitlines()[0]}") from error
    if named is not None:
        found = [Path(os.path.abspath(named))]
        if not os.path.exists(root / str(found[0]).lstrip("/")):  # noqa: PTH110 - Path raises at some
            raise click.ClickException(f"{named}: no such file or folder")
    sizes = [data_files.measured(each, root) for each in found]
    return max(sizes, key=lambda each: each.size, default=None)


def _answers(python: str | None, *, recorded: bool) -> PythonFacts | str:
    """What the script's Python says, or why nothing is known. Raises `click.ClickException`."""
    from autoaccel.measure import interpreters
    from autoaccel.measure.checkup import python_facts

    if python is None and recorded:
        return "a recorded machine has no Python; --python names one"
    try:
        return python_facts.ask(interpreters.choose(python).path)
    except interpreters.InterpreterError as error:
        if python is not None:
            raise click.ClickException(str(error)) from error
        return str(error)
