"""`lint --add-ignore`: findings are not reported but silenced, by a comment in the code beside each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel import notebooks, sources
from autoaccel.cli import inputs
from autoaccel.cli.inputs import STDIN, UNNAMED
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration
from autoaccel.jobs import inspection
from autoaccel.reports.context import shown
from autoaccel.reports.counting import counted

if TYPE_CHECKING:
    from autoaccel.analysis import Project
    from autoaccel.rewriting.baseline import Baseline

DONE, FAILED = 0, 2

FLAG = "--add-ignore"


class WithBaseline(click.Command):
    """A command whose `--add-ignore` takes a value only behind `=`: what follows it is a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [f"{FLAG}=" if arg == FLAG else arg for arg in args[:end]] + args[end:])


def reason(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The reason that is written behind each comment; empty for none, None where nothing is to be written."""
    if value is None:
        return None
    if not value.isprintable() or "[" in value or "]" in value:
        raise click.BadParameter("a reason is one line without brackets", ctx=ctx, param=parameter)
    return value.strip()


baseline_option = click.option(
    FLAG, callback=reason, metavar="[=REASON]", help="Do not report: silence each finding by a comment beside it."
)


def add(
    paths: Sequence[Path], why: str, configuration: Configuration, speaker: Terminal, stdin_filename: Path | None
) -> int:
    """Silence everything that `lint` finds in these paths. Files in which that is impossible stay as they are."""
    from autoaccel.analysis import Project
    from autoaccel.cli import undo

    if paths == (STDIN,):
        return _filter(stdin_filename, why, configuration, speaker)
    found = inputs.find(paths, configuration, speaker)
    project = Project(found.files)
    done: list[tuple[undo.WrittenFile, int]] = []
    failed = bool(found.problems)
    try:
        for path in found.files:
            try:
                if not inspection.speaks_to(path, sources.data(path), configuration.rules_for(path)):
                    continue
                source = notebooks.read(path)
                made = _baseline(source, path, why, configuration, project)
                if made.text != source.text:
                    sources.replace(path, source, made.text)
                    done.append((undo.WrittenFile(path, source, made.text), made.silenced))
            except (_Refused, sources.SourceError) as error:
                failed = True
                for message in error.args:
                    speaker.fail(str(message))
    finally:
        # Also when interrupted: what was written must be told, and how to take it back.
        for change, findings in done:
            speaker.say(f"{shown(str(change.path))}: {counted(findings, 'finding')} silenced")
        where = f" in {counted(len(done), 'file')}" if done else ""
        speaker.say(f"{counted(sum(findings for _, findings in done), 'finding')} silenced{where}.")
        if done:
            speaker.say(undo.keep([change for change, _ in done]).hint, always=True)
    return FAILED if failed else DONE


class _Refused(Exception):  # noqa: N818 - it carries messages for the user, it is not a defect
    """One file that could not be done; its arguments are the lines that say why."""


def _filter(name: Path | None, why: str, configuration: Configuration, speaker: Terminal) -> int:
    """Whatever happens, what came in goes out, with comments where that was possible."""
    from autoaccel.analysis import Project

    data = sys.stdin.buffer.read()
    path = name or UNNAMED
    try:
        if inputs.is_excluded_stdin(name, configuration):
            speaker.product(data)
            return DONE
        source = notebooks.decode(data, path)
        made = _baseline(source, path, why, configuration, Project())
        speaker.product(source.encode(made.text))
    except (_Refused, sources.SourceError) as error:
        for message in error.args:
            speaker.fail(str(message))
        speaker.product(data)
        return FAILED
    speaker.say(f"{counted(made.silenced, 'finding')} silenced.")
    return DONE


def _baseline(source: sources.Source, path: Path, why: str, configuration: Configuration, project: Project) -> Baseline:
    from autoaccel.rewriting import baseline, engine

    if source.problem:
        raise _Refused(source.problem)
    rules, tier = configuration.rules_for(path), configuration.tier_for(path)
    try:
        made = baseline.silence(source.text, path, rules, reason=why, tier=tier, project=project)
    except engine.RewriteError as error:
        raise _Refused(str(error)) from error
    if made.left:
        left = (f"{path}:{each.place}: {each.code} {each.name}" for each in made.left)
        raise _Refused(*(f"{each}: cannot be silenced by a comment here" for each in left))
    try:
        source.encode(made.text)
    except UnicodeEncodeError as error:
        raise _Refused(f"{path}: left alone, the reason cannot be written in {source.encoding}") from error
    return made
