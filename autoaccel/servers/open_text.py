"""A text that is open in an editor: what there is to say about it, and what it becomes.

It stands in the place of the file, saved or not, and so do the other texts that are open.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from autoaccel import discovery, notebooks
from autoaccel.analysis import Project
from autoaccel.analysis.files import Files
from autoaccel.config import ConfigError, Configuration
from autoaccel.dataflow.syntax_index import split_lines
from autoaccel.defects import describe
from autoaccel.edits import CannotApplyError, Finding
from autoaccel.jobs import conversion
from autoaccel.jobs.pool import collecting_afterwards
from autoaccel.reports.context import reasons
from autoaccel.rewriting import engine, linting
from autoaccel.rewriting.places import raw_lines
from autoaccel.rewriting.record import Failure, Range, Record, Report
from autoaccel.sources import Source, SourceError

_TICK = 50_000_000
"""Nanoseconds by which clocks of file systems may be behind."""

Configure = Callable[[Path], Configuration]
"""Gives the configuration of a file. Raises `ConfigError`."""


class Surroundings:
    """The files around the texts that are looked at, one after the other. Each look finds them as they are then: what
    the texts before were parsed to, and who imports whom, is kept for as long as nothing that it follows from is
    another on the disk."""

    def __init__(self) -> None:
        self._files = Files()
        self._disk: dict[str, object] | None = None
        self._began = 0

    def project(self, source: Source, path: Path, others: Mapping[Path, str]) -> Project:
        """The files around a text. `noted` is to be called when it was looked at."""
        texts = {each: "\n".join(split_lines(notebooks.of_text(text, each).text)) for each, text in others.items()}
        files = Files((path,), {**texts, path: source.text})
        if self._are_as_they_were(files, *files.paths):
            files = self._files.changed(path, source.text)
        else:
            files.keep_trees(self._files)
            self._disk, self._began = {}, time.time_ns()
        self._files = files
        return Project(files)

    def noted(self) -> None:
        """Note what the answer follows from; not what was written to meanwhile."""
        if self._disk is not None:
            self._disk |= {each: _on_disk(each) for each in self._files.index_depends_on - self._disk.keys()}
            newest = max((each[0] for each in self._disk.values() if isinstance(each, tuple)), default=0)
            if newest >= self._began - _TICK:
                self._disk = None

    def _are_as_they_were(self, files: Files, path: Path) -> bool:
        earlier, disk = self._files, self._disk
        if not disk or files.paths != earlier.paths or {**files.texts, path: ""} != {**earlier.texts, path: ""}:
            return False
        noted = earlier.index_depends_on <= disk.keys()  # not where a look has failed on its way
        return noted and all(_on_disk(each) == known for each, known in disk.items())


def _on_disk(name: str) -> object:
    """What changes when a file or a folder does; for the mark of a folder's top, where this is."""
    folder, last = os.path.split(name)
    if last == discovery.TOP:
        return discovery.top_of(folder)
    try:
        status = os.stat(folder if last == discovery.WHOLE else name)  # noqa: PTH116 - a Path for each takes longer
        return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino
    except (OSError, ValueError):
        return None


class NotRewrittenError(Exception):
    """A text stays as it is; the message says why."""


@dataclass(frozen=True)
class OpenText:
    """A text, as the editor has it, and what was found in it.

    `findings` and `records` say the same, in the same order: what can be carried out, and what can be shown.
    """

    path: Path
    text: str
    source: Source
    analysis: engine.Analysis | None = None
    records: tuple[Record, ...] = ()
    problems: tuple[tuple[Failure, str], ...] = ()
    """Why nothing is said about it, with the line that says so."""

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends, as editors count them: as Python does."""
        return raw_lines(self.text)

    @property
    def findings(self) -> Sequence[Finding]:
        return self.analysis.findings if self.analysis is not None else ()

    def with_finding(self, number: int) -> str:
        """The text with one finding carried out, and with what that one needs. Raises `NotRewrittenError`."""
        assert self.analysis is not None
        try:
            after, done, refused = engine.checked(self.analysis, linting.with_needs(self.findings[number]))
            return _whole(self.source, after) if done else _refuse(*(each.reason for each in refused))
        except (engine.RewriteError, CannotApplyError, RecursionError, SourceError) as error:
            raise NotRewrittenError(str(error)) from error


def inspect(text: str, path: Path, configure: Configure, others: Mapping[Path, str], around: Surroundings) -> OpenText:
    """Look for what can be improved, as `lint` does; what the configuration excludes is not looked at.

    `others` are the texts of other files that stand in the place of what is on disk.
    """
    source = notebooks.of_text(text, path)
    try:
        configuration = configure(path)
        rules = configuration.rules_for(path)
        if (not source.problem and not engine.concerned(source.text, rules)) or _is_excluded(path, configuration):
            return OpenText(path, text, source)
        if source.problem:
            raise SourceError(source.problem)
        with collecting_afterwards():
            project = around.project(source, path, others)
            analysis = engine.analyse(source.text, path, rules, tier=configuration.tier_for(path), project=project)
            around.noted()
            return OpenText(path, text, source, analysis, tuple(_located(linting.recorded(analysis), source)))
    except ConfigError as error:
        failure = Failure(str(error), code="configuration")
    except SourceError as error:
        failure = Failure(str(error), code="left-alone")
    except engine.RewriteError as error:
        failure = linting.failure(error)
    except Exception as error:
        failure = Failure(f"{path}: internal error, the file is left alone: {describe(error)}", code="internal-error")
    return OpenText(path, text, source, problems=tuple(reasons(Report(str(path), failures=(failure,)))))


def rewritten(text: str, path: Path, configure: Configure, others: Mapping[Path, str], around: Surroundings) -> str:
    """What `rewrite` makes of the text. Raises `NotRewrittenError`."""
    source = notebooks.of_text(text, path)
    if source.problem:
        _refuse(source.problem)
    try:
        outcome = conversion.attempt(path, lambda: source, configure(path), around.project(source, path, others))
        around.noted()
        if isinstance(outcome, conversion.Refused):
            _refuse(*outcome.messages)
        return _whole(source, outcome.result.after) if outcome.result.changed else text
    except (ConfigError, SourceError) as error:
        raise NotRewrittenError(str(error)) from error


def _located(records: Iterable[Record], source: Source) -> Iterator[Record]:
    """Records by their places in the text as editors have it, where a byte order mark may be its first character."""
    for each in records:
        where = each.where
        column, end = (
            column + len(source.mark) * (line == 1)
            for line, column in ((where.line, where.column), (where.end_line, where.end_column))
        )
        yield dataclasses.replace(each, where=Range(where.line, column, where.end_line, end))


def _is_excluded(path: Path, configuration: Configuration) -> bool:
    """Who opens a file has not asked for it to be looked at: patterns hold as they do for the files of a folder."""

    def scope_of(folder: str) -> discovery.FileFilter:
        return dataclasses.replace(configuration.scope_of(folder), force_exclude=True)

    return discovery.is_forced_out(path, scope_of)


def _whole(source: Source, text: str) -> str:
    """A text of the file as editors have it, byte order mark and lines for IPython included."""
    return source.parts(text)[""]


def _refuse(*reasons: str) -> NoReturn:
    raise NotRewrittenError("\n".join(reasons))
