"""`rewrite` over many files: what becomes of each, in the order in which the files were given. Nothing is written."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel import notebooks, sources
from autoaccel.defects import describe
from autoaccel.jobs import inspection

if TYPE_CHECKING:
    from autoaccel.analysis import Project
    from autoaccel.analysis.files import Files
    from autoaccel.config import Configuration
    from autoaccel.edits import Finding
    from autoaccel.rewriting.engine import Result

Accept = Callable[["Finding"], bool]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One file that was rewritten, or looked at in vain."""

    path: Path
    source: sources.Source
    result: Result


@dataclass(frozen=True, slots=True)
class Refused:
    """One file that could not be done: the lines that say why and, where it is a defect of ours, the traceback."""

    path: Path
    messages: tuple[str, ...]
    traceback: str = ""


Outcome = Rewritten | Refused

_NOTHING = sources.Source(b"", "", "utf-8")


def rewrite_files(
    files: Sequence[Path],
    configuration: Configuration,
    *,
    texts: bool,
    named: Container[Path] = (),
    jobs: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Outcome]:
    """What becomes of each file. `texts`: whether those of unchanged files are wanted, too. Files that are `named` are
    parsed even where no rule has anything to say about them."""
    from autoaccel.analysis.files import Files
    from autoaccel.jobs import pool
    from autoaccel.rewriting.engine import Result

    outcomes: dict[Path, Outcome] = {}
    concerned = []
    for path in files:
        try:
            data = sources.data(path)
            concerns = inspection.speaks_to(path, data, configuration.rules_for(path))
            wrong = () if concerns or path not in named else inspection.syntax_report(data, path).failures
            if wrong:
                outcomes[path] = Refused(path, tuple(each.message for each in wrong))
            elif texts or concerns:
                concerned.append(path)
            else:
                outcomes[path] = Rewritten(path, _NOTHING, Result(path, "", ""))
        except sources.SourceError as error:
            outcomes[path] = refused(path, error)
    progress(len(outcomes))
    work = inspection.shards(concerned)
    jobs = jobs or inspection.worthwhile_jobs(len(concerned))
    prepare = partial(_rewriter, inspection.prepared(Files(files), jobs), configuration, texts)
    for _, done in pool.run(work, prepare, _lost, jobs=jobs):
        outcomes.update({outcome.path: outcome for outcome in done})
        progress(len(done))
    return [outcomes[path] for path in files]


def _rewriter(files: Files, configuration: Configuration, texts: bool) -> Callable[[Path], Outcome]:
    """Made once in each process: all analyses share what is read and parsed."""
    return partial(_rewrite_file, configuration=configuration, files=files, texts=texts)


def _rewrite_file(path: Path, configuration: Configuration, files: Files, *, texts: bool) -> Outcome:
    from autoaccel.analysis import Project

    outcome = attempt(path, lambda: notebooks.read(path), configuration, Project(files))
    if isinstance(outcome, Refused):
        return outcome
    # Findings hold syntax trees and rules, which no other process has a use for.
    result = dataclasses.replace(outcome.result, findings=())
    if result.changed or texts:
        return Rewritten(path, outcome.source, result)
    return Rewritten(path, _NOTHING, dataclasses.replace(result, before="", after=""))


def _lost(path: Path) -> Outcome:
    return Refused(path, (f"{path}: {inspection.DIED}",))


def attempt(
    path: Path,
    read: Callable[[], sources.Source],
    configuration: Configuration,
    project: Project,
    ask: Callable[[sources.Source], Accept | None] | None = None,
) -> Outcome:
    """Rewrite what is read, as far as `ask` lets; whatever goes wrong concerns this file alone."""
    from autoaccel.rewriting import engine

    try:
        source = read()
        if source.problem:
            return Rewritten(path, source, engine.Result(path, source.text, source.text, notes=(source.problem,)))
        rules, tier = configuration.rules_for(path), configuration.tier_for(path)
        accept = None if ask is None else ask(source)
        result = engine.rewrite(source.text, path, rules, tier=tier, project=project, accept=accept)
    except Exception as error:
        return refused(path, error)
    if result.errors:
        return Refused(path, result.errors, result.traceback)
    return Rewritten(path, source, dataclasses.replace(result, notes=source.notes))


def refused(path: Path, error: Exception) -> Refused:
    """What an error that was just caught means for a file: what is not about its text is a defect of ours."""
    if isinstance(error, sources.SourceError):
        return Refused(path, (str(error),))
    message = f"{path}: internal error, the file is left alone: {describe(error)}"
    return Refused(path, (message,), traceback.format_exc())
