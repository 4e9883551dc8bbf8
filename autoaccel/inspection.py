"""`lint` over many files: what there is to report on each, in the order in which the files were given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel import sources
from autoaccel.rewriting.record import Failure, Report

if TYPE_CHECKING:
    from autoaccel.config import Plan
    from autoaccel.script import Project


def inspect(files: Sequence[Path], plan: Plan, *, changes: bool = False) -> Iterator[Report]:
    """Report on files. With `changes` findings come with the edits that mend them."""
    from autoaccel.script import Project

    project = Project(files)
    for path in files:
        yield inspect_file(path, plan, project, changes=changes)


def inspect_file(path: Path, plan: Plan, project: Project, *, changes: bool = False) -> Report:
    try:
        source = sources.read(path)
    except sources.SourceError as error:
        return Report(str(path), failures=(Failure(str(error)),))
    return inspect_text(source.text, path, plan, project, changes=changes)


def inspect_text(text: str, path: Path, plan: Plan, project: Project, *, changes: bool = False) -> Report:
    from autoaccel.rewriting.linting import lint

    return lint(text, path, plan.rules_for(path), tier=plan.tier, project=project, changes=changes)
