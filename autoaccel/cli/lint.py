"""`autoaccel lint`: report slow patterns, and fail the build where there are any."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoaccel import inspection, sources
from autoaccel.cli import inputs
from autoaccel.cli.inputs import STDIN, UNNAMED
from autoaccel.cli.options import SourcePath, file_options, jobs_option, output_options, rule_options
from autoaccel.cli.terminal import Terminal, terminal
from autoaccel.config import known_rules
from autoaccel.reports.context import Context
from autoaccel.reports.formats import FORMATS, WITH_CHANGES, renderer

if TYPE_CHECKING:
    from autoaccel.config import Plan
    from autoaccel.rewriting.record import Report

CLEAN, FOUND, FAILED = 0, 1, 2


@click.command(short_help="Report slow patterns; exit 1 if there are any.")
@click.argument("paths", nargs=-1, required=True, metavar="PATHS|-", type=SourcePath())
@click.option("--output-format", type=click.Choice(FORMATS), default="concise", show_default=True)
@click.option("--exit-zero", is_flag=True, help="Exit 0 even if there are findings.")
@rule_options
@file_options
@jobs_option
@output_options
def lint(
    paths: tuple[Path, ...],
    output_format: str,
    exit_zero: bool,
    stdin_filename: Path | None,
    config: Path | None,
    isolated: bool,
    jobs: int | None,
    color: str,
    quiet: bool,
    verbose: bool,
    **overrides: Any,
) -> int:
    """Report what `rewrite` would improve. Nothing is changed; scripts are never executed."""
    plan = inputs.plan(paths, stdin_filename=stdin_filename, config=config, isolated=isolated, overrides=overrides)
    speaker = terminal(color, quiet=quiet, verbose=verbose)
    changes = output_format in WITH_CHANGES
    texts: dict[str, str] = {}
    problems = False
    if paths == (STDIN,):
        reports = [_lint_stdin(stdin_filename or UNNAMED, plan, texts, changes=changes)]
    else:
        found = inputs.find(paths, plan.settings, speaker)
        problems = bool(found.problems)
        reports = inspection.inspect(found.files, plan, changes=changes, jobs=jobs)
    context = Context(
        Path.cwd(), lambda name: texts[name] if name in texts else sources.read(Path(name)).text, known_rules
    )
    _deliver(renderer(output_format)(reports, context), speaker)
    failed = problems | _tell_failures(reports, speaker)
    return _status(reports, failed=failed, exit_zero=exit_zero)


def _lint_stdin(name: Path, plan: Plan, texts: dict[str, str], *, changes: bool) -> Report:
    from autoaccel.script import Project

    source = sources.decode(sys.stdin.buffer.read(), name)
    texts[str(name)] = source.text
    return inspection.inspect_text(source.text, name, plan, Project(), changes=changes)


def _deliver(text: str, speaker: Terminal) -> None:
    speaker.product((text if speaker.colour_out else click.unstyle(text)).encode())


def _tell_failures(reports: Sequence[Report], speaker: Terminal) -> bool:
    for report in reports:
        for failure in report.failures:
            speaker.fail(failure.message)
            if failure.traceback and speaker.verbose:
                speaker.fail(failure.traceback)
    return any(report.failures for report in reports)


def _status(reports: Sequence[Report], *, failed: bool, exit_zero: bool) -> int:
    if failed:
        return FAILED
    return FOUND if any(report.findings for report in reports) and not exit_zero else CLEAN
