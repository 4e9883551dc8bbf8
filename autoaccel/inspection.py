"""`lint` over many files: what there is to report on each, in the order in which the files were given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel import sources
from autoaccel.rewriting.record import Failure, Report

if TYPE_CHECKING:
    from autoaccel.config import Plan
    from autoaccel.rewriting.rule import Rule
    from autoaccel.script import Project

_SHARD = 16  # files: neighbours share what is parsed, and a slow folder must not keep one process busy to the end
_ENOUGH = 24  # files to analyse before a second process is worth its start

DIED = "not looked at, the process that worked on it died (out of memory, or a crash of the interpreter)"


def inspect(
    files: Sequence[Path],
    plan: Plan,
    *,
    changes: bool = False,
    jobs: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Report]:
    """Report on files. With `changes` findings come with the edits that mend them.

    `jobs` is the number of processes; by default what the work is worth. `progress` hears how many more files are done.
    """
    reports: dict[Path, Report] = {}
    concerned = []
    for path in files:
        try:
            data = sources.data(path)
        except sources.SourceError as error:
            reports[path] = Report(str(path), failures=(Failure(str(error)),))
            continue
        if speaks_to(data, plan.rules_for(path)):
            concerned.append(path)
        else:
            reports[path] = Report(str(path))
    progress(len(reports))
    for report in _analysed(concerned, files, plan, changes=changes, jobs=jobs):
        reports[Path(report.path)] = report
        progress(1)
    return [reports[path] for path in files]


def _analysed(
    concerned: Sequence[Path], files: Sequence[Path], plan: Plan, *, changes: bool, jobs: int | None
) -> Iterator[Report]:
    from autoaccel import pool

    work = pool.shards(concerned, lambda path: path.parent, _SHARD)
    jobs = jobs or (pool.usable_cpus() if len(concerned) > _ENOUGH else 1)
    for _, results in pool.run(work, partial(_inspector, tuple(files), plan, changes), _lost, jobs=jobs):
        yield from results


def _inspector(files: Iterable[Path], plan: Plan, changes: bool) -> Callable[[Path], Report]:
    """Made once in each process: the files of a project share what is read and parsed."""
    from autoaccel.script import Project

    return partial(inspect_file, plan=plan, project=Project(files), changes=changes)


def _lost(path: Path) -> Report:
    return Report(str(path), failures=(Failure(f"{path}: {DIED}"),))


def inspect_file(path: Path, plan: Plan, project: Project, *, changes: bool = False) -> Report:
    try:
        source = sources.read(path)
    except sources.SourceError as error:
        return Report(str(path), failures=(Failure(str(error)),))
    return inspect_text(source.text, path, plan, project, changes=changes)


def inspect_text(text: str, path: Path, plan: Plan, project: Project, *, changes: bool = False) -> Report:
    from autoaccel.rewriting.linting import lint

    return lint(text, path, plan.rules_for(path), tier=plan.tier, project=project, changes=changes)


def speaks_to(data: bytes, rules: Iterable[Rule]) -> bool:
    """Whether a rule may have something to say about a file: most files are read, and neither decoded nor parsed."""
    return any(rule.concerns(data) for rule in rules)
