"""`autoaccel lint`: report slow patterns, and fail the build where there are any."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel import notebooks, sources
from autoaccel.cli import baseline, inputs, reporting
from autoaccel.cli.inputs import STDIN, UNNAMED
from autoaccel.cli.options import (
    Choice,
    FilledPath,
    SourcePath,
    cache_options,
    configuration_options,
    file_options,
    jobs_option,
    output_options,
    rule_options,
    settled,
)
from autoaccel.cli.progress import Progress
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration
from autoaccel.config.settings import OUTPUT_FORMATS, TIERS
from autoaccel.jobs import inspection
from autoaccel.reports.formats import DEFAULT, WITH_CHANGES
from autoaccel.reports.totals import in_order

if TYPE_CHECKING:
    from autoaccel.jobs.cache import Cache
    from autoaccel.rewriting.record import Report

CLEAN, FOUND, FAILED = 0, 1, 2


@click.command(short_help="Report slow patterns; exit 1 if there are any.", cls=baseline.WithBaseline)
@click.argument("paths", nargs=-1, metavar="[PATHS|-]", type=SourcePath())
@click.option("--output-format", type=Choice(OUTPUT_FORMATS), help=f"Default: {DEFAULT}.")
@click.option("--output-file", type=FilledPath(), metavar="FILE", help="Write the report there, not to stdout.")
@click.option("--statistics", is_flag=True, help="Report how often each rule found something.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 even if there are findings.")
@click.option("--fail-on", type=Choice(TIERS), help="Exit 1 only for findings that are at least so exact.")
@baseline.baseline_option
@settled(rule_options, file_options, configuration_options, jobs_option, cache_options, output_options)
def lint(
    paths: tuple[Path, ...],
    output_format: str | None,
    output_file: Path | None,
    statistics: bool,
    exit_zero: bool,
    fail_on: str | None,
    add_ignore: str | None,
    stdin_filename: Path | None,
    show_settings: bool,
    jobs: int | None,
    no_cache: bool,
    cache_dir: Path | None,
    configure: Callable[..., Configuration],
    speaker: Terminal,
) -> int:
    """Report what `rewrite` would improve. Nothing is changed; scripts are never executed.

    PATHS are files and folders, by default the working directory; `-` reads a script from stdin.
    """
    paths = paths or (Path(),)
    configuration = configure(paths, stdin_filename=stdin_filename)
    output_format = output_format or configuration.settings.output_format or DEFAULT
    if statistics:
        reporting.check_statistics(output_format)
    if show_settings:
        from autoaccel.cli import showing

        speaker.product(showing.settings(configuration, paths, stdin_filename).encode())
        return CLEAN
    if add_ignore is not None:
        if output_file is not None or statistics:
            raise click.UsageError("--add-ignore silences what is found; there is nothing left to report")
        return baseline.add(paths, add_ignore, configuration, speaker, stdin_filename)
    changes = output_format in WITH_CHANGES and not statistics
    if exit_zero and fail_on is not None:
        raise click.UsageError("--exit-zero fails on nothing; --fail-on says on what to fail")
    texts: dict[str, sources.Source] = {}
    problems: Sequence[str] = ()
    if inputs.is_excluded_stdin(stdin_filename, configuration):
        reports = []
    elif paths == (STDIN,):
        inputs.tell_of_choice([stdin_filename or UNNAMED], configuration, speaker)
        reports = [_lint_stdin(stdin_filename or UNNAMED, configuration, texts, changes=changes)]
    else:
        found = inputs.find(paths, configuration, speaker)
        problems = found.problems
        reporting.check_output(output_file, found.files)
        if not found.files:
            configuration.rules  # noqa: B018 - what is wrong with the choice of rules is said even where there is nothing to do
        cache = None if no_cache else _cache(cache_dir, found.files, configuration, speaker, changes=changes)
        with Progress(len(found.files), speaker) as progress:
            reports = inspection.inspect(
                found.files,
                configuration,
                named=found.named,
                changes=changes,
                jobs=jobs,
                cache=cache,
                progress=progress,
            )
    reports = in_order(reports)
    context = reporting.context(texts, problems)
    text = reporting.rendered(reports, context, output_format, numbers=statistics)
    delivered = reporting.deliver(text, output_format, output_file, speaker)
    done = reporting.tell(reports, speaker) and delivered and not problems
    failing = () if exit_zero else TIERS[: TIERS.index(fail_on) + 1] if fail_on else None
    return _status(reports, failed=not done, failing=failing)


def _lint_stdin(name: Path, configuration: Configuration, texts: dict[str, sources.Source], *, changes: bool) -> Report:
    from autoaccel.analysis import Project

    data = sys.stdin.buffer.read()
    rules = configuration.rules_for(name)
    report = inspection.syntax_report(data, name)
    if not report.failures and inspection.speaks_to(name, data, rules):
        report = inspection.inspect_data(data, name, rules, configuration.tier_for(name), Project(), changes=changes)
    if not report.failures:
        texts[str(name)] = notebooks.decode(data, name)
    return report


def _cache(
    folder: Path | None, files: Sequence[Path], configuration: Configuration, speaker: Terminal, *, changes: bool
) -> Cache | None:
    """Where it is told, else in the project: where its configuration is, else here. None where others may have
    written it: their word for it that a file is clean is not taken."""
    from autoaccel.jobs.cache import FOLDER, Cache
    from autoaccel.jobs.tracked import is_tracked

    root = configuration.settings.origin.parent if configuration.settings.origin else Path.cwd()
    shared = os.environ.get("AUTOACCEL_CACHE_DIR", "").strip()
    folder = folder or (Path(shared).expanduser() / "lint" if shared else configuration.settings.cache_dir)
    folder = folder or root / FOLDER
    if is_tracked(folder):
        speaker.warn(f"{folder}: not used, git tracks it: it may have come with somebody's change")
        return None
    return Cache(folder, root, files, changes=changes)


def _status(reports: Sequence[Report], *, failed: bool, failing: Sequence[str] | None) -> int:
    """`failing` are the tiers whose findings count; None for all, those that have to be asked for as well."""
    if failed:
        return FAILED
    tiers = {each.tier for report in reports for each in report.findings}
    return FOUND if (tiers if failing is None else tiers.intersection(failing)) else CLEAN
