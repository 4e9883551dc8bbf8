"""`lint --add-ignore`: findings are not reported but silenced, by a comment in the code beside each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoaccel import notebooks, sources
from autoaccel.cli import inputs
from autoaccel.cli.inputs import STDIN, UNNAMED
from autoaccel.jobs import inspection
from autoaccel.reports.context import shown
from autoaccel.reports.counting import counted

if TYPE_CHECKING:
    from autoaccel.analysis import Project
    from autoaccel.cli.terminal import Terminal
    from autoaccel.cli.undo import WrittenFile
    from autoaccel.config import Configuration
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


@dataclass(frozen=True, slots=True)
class _Silenced:
    change: WrittenFile
    findings: int


def add(
    paths: Sequence[Path], why: str, configuration: Configuration, speaker: Terminal, stdin_filename: Path | None
) -> int:
    """Silence everything that `lint` finds in these paths. Files in which that is impossible stay as they are."""
    from autoaccel.analysis import Project

    if paths == (STDIN,):
        return _filter(stdin_filename, why, configuration, speaker)
    found = inputs.find(paths, configuration, speaker)
    project = Project(found.files)
    done: list[_Silenced] = []
    failed = bool(found.problems)
    try:
        for path in found.files:
            try:
                if inspection.speaks_to(path, sources.data(path), configuration.rules_for(path)):
                    done += _in_file(path, why, configuration, project)
            except _Refused as refusal:
                failed = True
                for message in refusal.args:
                    speaker.fail(message)
            except sources.SourceError as error:
                failed = True
                speaker.fail(str(error))
    finally:
        # Also when interrupted: what was written must be told, and how to take it back.
        _tell(done, speaker)
    return FAILED if failed else DONE


class _Refused(Exception):  # noqa: N818 - it carries messages for the user, it is not a defect
    """One file that could not be done; its arguments are the lines that say why."""


def _in_file(path: Path, why: str, configuration: Configuration, project: Project) -> list[_Silenced]:
    """Raises `_Refused` and `SourceError`, and then nothing was written."""
    from autoaccel.cli.undo import WrittenFile

    source = notebooks.read(path)
    made = _baseline(source, path, why, configuration, project)
    if made.text == source.text:
        return []
    sources.replace(path, source, made.text)
    return [_Silenced(WrittenFile(path, source, made.text), made.silenced)]


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
    try:
        made = baseline.silence(
            source.text,
            path,
            configuration.rules_for(path),
            reason=why,
            tier=configuration.tier_for(path),
            project=project,
        )
    except engine.RewriteError as error:
        raise _Refused(str(error)) from error
    if made.left:
        raise _Refused(
            *(
                f"{path}:{each.place}: {each.code} {each.name}: cannot be silenced by a comment here"
                for each in made.left
            )
        )
    try:
        source.encode(made.text)
    except UnicodeEncodeError as error:
        raise _Refused(f"{path}: left alone, the reason cannot be written in {source.encoding}") from error
    return made


def _tell(done: Sequence[_Silenced], speaker: Terminal) -> None:
    for each in done:
        speaker.say(f"{shown(str(each.change.path))}: {counted(each.findings, 'finding')} silenced")
    findings, files = sum(each.findings for each in done), len(done)
    where = f" in {counted(files, 'file')}" if done else ""
    speaker.say(f"{counted(findings, 'finding')} silenced{where}.")
    if done:
        from autoaccel.cli import undo

        speaker.say(undo.keep([each.change for each in done]).hint, always=True)
