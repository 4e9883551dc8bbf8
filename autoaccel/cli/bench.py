"""`autoaccel bench`: the original against the rewritten script, in turns on the same machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from autoaccel.cli import inputs, observed_scripts, reporting
from autoaccel.cli.options import FilledPath, SourcePath, configuration_options, output_options, rule_options, settled
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration


@click.command(short_help="Measure what rewriting a script gains.")
@observed_scripts.trial_options
@observed_scripts.time_option
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Make at most so many optimizer steps. Default: what the time allows.",
)
@click.option("--ablate", is_flag=True, help="Measure what each rule is worth, too, which takes longer.")
@click.option("--json", "json_file", type=SourcePath(), metavar="FILE|-", help="Write all figures there.")
@click.option("--html", "html_file", type=FilledPath(), metavar="FILE", help="Write a page with pictures there.")
@settled(rule_options, configuration_options, output_options)
def bench(
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    python: str | None,
    timeout: float,
    seconds: float,
    steps: int | None,
    ablate: bool,
    json_file: Path | None,
    html_file: Path | None,
    configure: Callable[..., Configuration],
    speaker: Terminal,
) -> int:
    """Run SCRIPT as it is and rewritten in memory, in turns over the same steps, and say what was gained.

    No file of the script changes. What follows `--` are the script's own arguments.

    Speed-ups are medians with 99 % intervals. The original runs once more beside itself, which shows the noise.
    """
    from autoaccel.measure import changes
    from autoaccel.reports.benchmark import text

    trial = observed_scripts.prepare(script, arguments, is_module=is_module, python=python)
    _check_outputs(json_file, html_file, trial.path)
    configuration = configure([trial.path])
    configuration.rules  # noqa: B018 - what is wrong with the choice of rules is said before anything runs
    find = partial(changes.find, configuration=configuration)
    report = observed_scripts.benchmark(trial, find, timeout, speaker, seconds=seconds, steps=steps, ablate=ablate)
    delivered = reporting.deliver_both(text.table(report), text.json(report), json_file, speaker)
    if html_file is not None:
        from autoaccel.reports.benchmark.page import page

        delivered = _written(html_file, page(report), speaker) and delivered
    return 0 if delivered else 2


def _check_outputs(json_file: Path | None, html_file: Path | None, script: Path) -> None:
    """What cannot be written is said before, not after, all is measured. Raises `click.ClickException`."""
    for option, file in (("--json", json_file), ("--html", html_file)):
        if file is not None and file != inputs.STDIN:
            reporting.check_written(file, [script], option)


def _written(path: Path, text: str, speaker: Terminal) -> bool:
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        speaker.fail(f"{path}: cannot write: {(error.strerror or str(error)).lower()}")
        return False
    return True
