"""What commands on files share: from paths and options to settings, rules and files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from autoaccel import sources
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Plan, Settings, settings

STDIN = Path("-")
UNNAMED = Path("<stdin>")


def plan(
    paths: Sequence[Path],
    *,
    stdin_filename: Path | None,
    config: Path | None,
    isolated: bool,
    overrides: Mapping[str, object],
) -> Plan:
    """Settings and rules for these paths. Raises `click.UsageError` and `ConfigError`."""
    if STDIN in paths and len(paths) > 1:
        raise click.UsageError("`-` (stdin) cannot be combined with paths")
    if stdin_filename is not None and STDIN not in paths:
        raise click.UsageError("--stdin-filename is the name of what `-` reads; there is no `-`")
    anchors = [stdin_filename or UNNAMED] if STDIN in paths else paths
    return Plan(settings(common_folder(anchors), config=config, isolated=isolated, overrides=overrides))


def find(paths: Sequence[Path], chosen: Settings, terminal: Terminal) -> sources.Found:
    """The files below `paths`; what is wrong with the paths is told."""
    found = sources.find(
        paths,
        exclude=chosen.excluded,
        root=chosen.origin.parent if chosen.origin else None,
        respect_gitignore=chosen.respect_gitignore,
    )
    for problem in found.problems:
        terminal.fail(problem)
    for path in found.barren:
        terminal.warn(f"{path}: no Python files found")
    return found


def common_folder(paths: Sequence[Path]) -> Path:
    """The nearest folder that holds all paths: its configuration governs a run."""
    folders = [path if path.is_dir() else path.parent for path in (Path(os.path.abspath(path)) for path in paths)]
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:  # different drives
        return folders[0]
