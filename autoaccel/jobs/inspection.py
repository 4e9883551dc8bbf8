"""`lint` over many files: what there is to report on each, in the order in which the files were given."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel import notebooks, sources
from autoaccel.defects import describe
from autoaccel.rewriting.record import Failure, Report

if TYPE_CHECKING:
    from autoaccel.analysis import Project
    from autoaccel.analysis.files import Files
    from autoaccel.analysis.project import Consulted
    from autoaccel.config import Configuration
    from autoaccel.config.selection import Choice
    from autoaccel.edits import Tier
    from autoaccel.jobs.cache import Cache
    from autoaccel.rewriting.rule import Rule

_SHARD = 16  # files: neighbours share what is parsed, and a slow folder must not keep one process busy to the end
_ENOUGH = 64  # files to analyse that are worth the start of a process
_SPARED = 2_000_000  # characters; of smaller projects, what is known takes less memory than time to let it go

DIED = "left alone, the process that worked on it died (out of memory, or a crash of the interpreter)"


@dataclass(frozen=True, slots=True)
class Inspected:
    """A file that was read and analysed: the report, and what it follows from."""

    path: Path
    report: Report
    content: str = ""
    """A digest of the bytes that were analysed; empty where there were none."""
    consulted: Consulted | None = None


def inspect(
    files: Sequence[Path],
    configuration: Configuration,
    *,
    named: Container[Path] = (),
    changes: bool = False,
    jobs: int | None = None,
    cache: Cache | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Report]:
    """Report on files. With `changes` findings come with the edits that mend them. Files that are `named` are parsed
    even where no rule has anything to say about them: nobody shall be told that a file is clean which is none.

    `jobs` is the number of processes; automatic by default. What `cache` knows is not asked again.
    `progress` hears how many more files are done.
    """
    reports: dict[Path, Report] = {}
    concerned: list[Path] = []
    known: dict[Path, str] = {}

    @functools.cache
    def shared() -> Files:
        from autoaccel.analysis.files import Files

        return Files(files, known=None if cache is None else cache.summary)

    if cache is not None:
        cache.attach(shared)
    for path in files:
        try:
            data = sources.data(path)
            choice = "" if cache is None else repr(configuration.choice_for(path))
            if cache is not None:
                cache.note(path, data)
                if cache.has_answer(path, choice, parsed=path in named):
                    known[path] = choice
            if path in known or speaks_to(path, data, configuration.rules_for(path)):
                concerned.append(path)
                continue
        except sources.SourceError as error:
            reports[path] = Report(str(path), failures=(Failure(str(error), code="unreadable"),))
            continue
        # Most files are read, and neither decoded nor parsed.
        reports[path] = syntax_report(data, path) if path in named else Report(str(path))
        if cache is not None and not reports[path].failures:
            cache.remember_silent(path, choice, parsed=path in named)
    if cache is not None:
        answers = ((path, cache.report(path, choice)) for path, choice in known.items())
        reports.update({path: report for path, report in answers if report is not None})
        concerned = [path for path in concerned if path not in reports]
    progress(len(reports))
    try:
        for each in _analysed(concerned, shared, configuration, changes=changes, jobs=jobs):
            reports[each.path] = each.report
            if cache is not None and each.consulted is not None:
                choice = repr(configuration.choice_for(each.path))
                cache.remember(each.path, choice, each.content, each.report, each.consulted)
            progress(1)
    finally:
        # Also when interrupted: a long run need not begin anew.
        if cache is not None:
            cache.save()
    return [reports[path] for path in files]


def syntax_report(data: bytes, path: Path) -> Report:
    """A report on the syntax alone."""
    from autoaccel.rewriting import engine, linting

    try:
        engine.check_syntax(notebooks.decode(data, path).text, path)
    except engine.RewriteError as error:
        return Report(str(path), failures=(linting.failure(error),))
    except sources.SourceError as error:
        return Report(str(path), failures=(Failure(str(error), code="unreadable"),))
    return Report(str(path))


def speaks_to(path: Path, data: bytes, rules: Iterable[Rule]) -> bool:
    """Whether a rule may have something to say about a file. Raises `SourceError` for what is no notebook."""
    code = notebooks.program(data, path)
    return any(rule.concerns(code) for rule in rules)


def _analysed(
    concerned: Sequence[Path],
    shared: Callable[[], Files],
    configuration: Configuration,
    *,
    changes: bool,
    jobs: int | None,
) -> Iterator[Inspected]:
    if not concerned:
        return
    from autoaccel.jobs import pool

    jobs = jobs or worthwhile_jobs(len(concerned))
    items = [[(path, configuration.choice_for(path)) for path in shard] for shard in shards(concerned)]
    prepare = partial(_inspector, prepared(shared(), jobs), changes)
    for _, results in pool.run(items, prepare, _lost, jobs=jobs):
        yield from results


def prepared(shared: Files, jobs: int) -> Files:
    """What all analyses share. Several processes shall not each find out which file imports what."""
    if sum(map(shared.size, shared.paths)) <= _SPARED:
        shared.spare(_SPARED)
    if jobs > 1:
        import autoaccel.rewriting.linting  # noqa: F401 - processes that are forked have it, then

        _ = shared.index
    return shared


def shards(files: Sequence[Path]) -> list[list[Path]]:
    """Neighbours together, in their order."""
    from autoaccel.jobs import pool

    return pool.shards(files, lambda path: path.parent, _SHARD)


def worthwhile_jobs(files: int) -> int:
    """How many processes so many files to analyse are worth."""
    from autoaccel.jobs import pool

    return max(1, min(pool.usable_cpus(), files // _ENOUGH))


def _inspector(files: Files, changes: bool) -> Callable[[tuple[Path, Choice]], Inspected]:
    """Made once in each process: all analyses share what is read and parsed."""
    from autoaccel.config.selection import rules_of

    return partial(_inspect_file, files=files, rules_of=functools.cache(rules_of), changes=changes)


def _lost(item: tuple[Path, Choice]) -> Inspected:
    path, _ = item
    return Inspected(path, Report(str(path), failures=(Failure(f"{path}: {DIED}", code="internal-error"),)))


def _inspect_file(
    item: tuple[Path, Choice], *, files: Files, rules_of: Callable[[Choice], Sequence[Rule]], changes: bool
) -> Inspected:
    from autoaccel.analysis import Project
    from autoaccel.config.selection import tier_of
    from autoaccel.jobs.cache_files import digest

    path, choice = item
    try:
        data = sources.data(path)
    except sources.SourceError as error:
        return Inspected(path, Report(str(path), failures=(Failure(str(error), code="unreadable"),)))
    project = Project(files)
    report = inspect_data(data, path, rules_of(choice), tier_of(choice), project, changes=changes)
    return Inspected(path, report, digest(data), project.consulted)


def inspect_text(text: str, path: Path, configuration: Configuration, project: Project) -> Report:
    from autoaccel.rewriting.linting import lint

    return lint(text, path, configuration.rules_for(path), tier=configuration.tier_for(path), project=project)


def inspect_data(
    data: bytes, path: Path, rules: Sequence[Rule], tier: Tier, project: Project, *, changes: bool = False
) -> Report:
    """Report on the bytes of one file; whatever goes wrong concerns this file alone."""
    from autoaccel.rewriting.linting import lint

    try:
        source = notebooks.decode(data, path)
        if source.problem:
            return Report(str(path), notes=(source.problem,))
        report = lint(source.text, path, rules, tier=tier, project=project, changes=changes)
        return dataclasses.replace(report, notes=source.notes)
    except sources.SourceError as error:
        failure = Failure(str(error), code="unreadable")
    except Exception as error:
        import traceback

        message = f"{path}: internal error, the file is left alone: {describe(error)}"
        failure = Failure(message, traceback=traceback.format_exc(), code="internal-error")
    return Report(str(path), failures=(failure,))
