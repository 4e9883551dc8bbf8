"""Where the report of `lint` goes, and what is said beside it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from autoaccel import notebooks, sources
from autoaccel.cli.inputs import STDIN
from autoaccel.cli.terminal import Terminal
from autoaccel.config import known_rules
from autoaccel.reports import totals
from autoaccel.reports.context import Context
from autoaccel.reports.formats import FOR_PEOPLE, WITH_STATISTICS, renderer
from autoaccel.rewriting.record import Report

# `os.path` where Path raises: about what may not be looked at there is nothing to find out.

_TEXT = re.compile("[^\udc80-\udcff]+")  # all but these, which stand for bytes


def context(texts: Mapping[str, sources.Source], problems: Sequence[str] = ()) -> Context:
    """What reports need to know; `texts` are those of files that are not on disk."""
    here = Path.cwd()
    known = dict(texts)

    def source(name: str) -> sources.Source:
        if name not in known:
            try:
                known[name] = notebooks.read(Path(name))
            except sources.SourceError:  # gone since it was looked at
                known[name] = sources.Source(b"", "", "utf-8")
        return known[name]

    def row(name: str, cell: int | None, line: int) -> int:
        return source(name).row(cell, line)

    return Context(here, _root(here), lambda name: source(name).text, known_rules, tuple(problems), row)


def _root(here: Path) -> Path:
    """The folder of the repository, which platforms know files relative to."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    if workspace and here.is_relative_to(folder := Path(os.path.realpath(workspace))):
        return folder
    return next((folder for folder in (here, *here.parents) if os.path.exists(folder / ".git")), here)  # noqa: PTH110


def check_statistics(output_format: str) -> None:
    if output_format not in WITH_STATISTICS:
        raise click.UsageError(f"--statistics has no {output_format} format; {', '.join(sorted(WITH_STATISTICS))} do")


def check_output(output_file: Path | None, files: Sequence[Path], option: str = "--output-file") -> None:
    """`lint --output-file *.py` is a slip that must not cost anybody a script."""
    if output_file is None or not os.path.isfile(output_file):  # noqa: PTH113
        return
    known = output_file.stat()
    if any(os.path.samestat(known, each.stat()) for each in files if os.path.exists(each)):  # noqa: PTH110
        raise click.UsageError(f"{option} {output_file} would replace a script that is looked at")


def check_written(file: Path, scripts: Sequence[Path], option: str) -> None:
    """What cannot be written is said before, not after, all is measured. Raises `click.ClickException`."""
    check_output(file, scripts, option)
    if file.is_dir() or not file.parent.is_dir():
        raise click.ClickException(f"{file}: cannot write: {'is' if file.is_dir() else 'not in'} a folder")


def rendered(reports: Sequence[Report], chosen: Context, output_format: str, *, numbers: bool) -> str:
    if numbers:
        from autoaccel.reports import statistics

        return statistics.render_json(reports) if output_format == "json" else statistics.render(reports)
    return renderer(output_format)(reports, chosen)


def deliver(text: str, output_format: str, output_file: Path | None, speaker: Terminal) -> bool:
    """Write the report to a file or to stdout; what cannot be written to the file goes to stdout, too, and is False."""
    if output_file is not None:
        try:
            _write(output_file, _utf8(click.unstyle(text) if output_format in FOR_PEOPLE else text))
            return True
        except sources.SourceError as error:
            speaker.fail(f"{error}; the report follows on stdout")
    if output_format in FOR_PEOPLE:
        speaker.product(_for_terminal(text if speaker.colour_out else click.unstyle(text)))
    else:
        speaker.product(_utf8(text))
    return output_file is None


def deliver_json(text: str, file: Path, speaker: Terminal) -> bool:
    """The same for what `--json` names: `-` is stdout."""
    return deliver(text, "json", None if file == STDIN else file, speaker)


def deliver_both(text: str, json: str, file: Path | None, speaker: Terminal) -> bool:
    """The report on stdout, unless JSON takes its place there, and JSON where `--json` wants it; false where that
    cannot be written."""
    if file != STDIN:
        deliver(text, "full", None, speaker)
    return file is None or deliver_json(json, file, speaker)


def _write(path: Path, data: bytes) -> None:
    """Atomically where that can be: not what is no file, such as a pipe, nor what a stream of ours leads to, such as
    /dev/stdout, where others write, too. Raises `SourceError`."""
    if os.path.exists(path) and not path.is_dir() and (not path.is_file() or _stream(path) is not None):  # noqa: PTH110
        try:
            stream = _stream(path)
            with open(path if stream is None else stream, "wb", closefd=stream is None) as file:
                file.write(data)
        except OSError as error:
            raise sources.SourceError(f"{path}: cannot write: {(error.strerror or str(error)).lower()}") from error
    else:
        sources.write(path, sources.Source(b"", "", "utf-8"), data.decode())


def _stream(path: Path) -> int | None:
    """The stream of this process, stdout or stderr, that leads to a file."""
    known = path.stat()
    for number in (1, 2):
        with contextlib.suppress(OSError):  # closed
            if os.path.samestat(known, os.fstat(number)):
                return number
    return None


def _utf8(text: str) -> bytes:
    """Names of files that are no text are escaped, in the way of JSON as it happens."""
    return text.encode("utf-8", "backslashreplace")


def _for_terminal(text: str) -> bytes:
    """Names of files that are no text go out as the bytes that they are; what the terminal cannot show is escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        return _TEXT.sub(lambda match: match[0].encode(encoding, "backslashreplace").decode(encoding), text).encode(
            encoding, "surrogateescape"
        )


def tell(reports: Sequence[Report], speaker: Terminal) -> bool:
    """Say on stderr what the report has no place for; whether all files could be looked at."""
    if speaker.verbose:
        for line in totals.left_alone(reports):
            speaker.say(line)
    for report in reports:
        for note in report.notes:
            speaker.warn(note)
        for failure in report.failures:
            speaker.fail(failure.message)
            if failure.traceback and speaker.verbose:
                speaker.fail(failure.traceback, lines=True)
    for line in totals.summary(reports, verbose=speaker.verbose):
        speaker.say(line)
    return not any(report.failures for report in reports)
