"""What commands on files share: from paths and options to settings, rules and files."""

# Of what may not be looked at, and of names that are too long, `os.path` says that nothing is there; Path raises.
# ruff: noqa: PTH112, PTH113, PTH120

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from autoaccel import discovery
from autoaccel.cli.terminal import Terminal
from autoaccel.config import Configuration
from autoaccel.config import configure as configure_project
from autoaccel.config.selection import all_inexact, is_empty, known_rules, rules_of
from autoaccel.notebooks import is_notebook
from autoaccel.reports.context import shown

STDIN = Path("-")
UNNAMED = Path("<stdin>")


def configure(
    paths: Sequence[Path],
    *,
    config: Sequence[str],
    isolated: bool,
    overrides: Mapping[str, object],
    stdin_filename: Path | None = None,
) -> Configuration:
    """Settings and rules for these paths. Raises `click.UsageError` and `ConfigError`."""
    if STDIN in paths and len(paths) > 1:
        raise click.UsageError("`-` (stdin) cannot be combined with paths")
    if stdin_filename is not None and STDIN not in paths:
        raise click.UsageError("--stdin-filename is the name of what `-` reads; there is no `-`")
    anchors = [stdin_filename or UNNAMED] if STDIN in paths else paths
    file, inline = _split(config)
    if file is not None and isolated:
        raise click.UsageError(f"--isolated uses no configuration file, but --config names {file}")
    return configure_project(common_folder(anchors), config=file, isolated=isolated, inline=inline, overrides=overrides)


def find(paths: Sequence[Path], configuration: Configuration, terminal: Terminal) -> discovery.FoundFiles:
    """The files below `paths`; what is wrong with the paths is told."""
    found = discovery.find(paths, configuration.scope_of)
    for problem in found.problems:
        terminal.fail(problem)
    for path in found.barren:
        terminal.warn(f"{path}: no Python files found")
    for path in found.links:
        terminal.say(shown(f"{path}: not followed, it leads to {os.path.realpath(path)}"))
    tell_of_choice(found.files, configuration, terminal)
    return found


def tell_of_choice(paths: Sequence[Path], configuration: Configuration, terminal: Terminal) -> None:
    """Say where the choice of rules leaves nothing to be looked for."""
    choices = [*dict.fromkeys(map(configuration.choice_for, paths))]
    if choices and all(map(is_empty, choices)):
        terminal.warn("no rule is selected, nothing is looked for")
        return
    given = click.get_current_context().params
    for name in given.get("set") or ():
        setters = [rule for rule in known_rules() if any(each.name == name for each in rule.settings)]
        if not any(rule.code in {each.code for each in rules_of(choice)} for rule in setters for choice in choices):
            named = " or ".join(f"{rule.code} {rule.name}" for rule in setters)
            terminal.warn(f"--set {name} sets something of {named}, which is not selected")
    if not (given.get("select") or given.get("tier")):
        return  # a project's own choice is no slip, and rules need not be imported for what the cache knows
    inexact = [all_inexact(choice) for choice in choices]
    if inexact and all(inexact):
        names = ", ".join(dict.fromkeys(f"{rule.code} {rule.tier.label}" for rules in inexact for rule in rules))
        said = f"no selected rule is as exact as tier {choices[0].tier} ({names}); what is less exact is left alone"
        terminal.warn(said)


def refuse_notebook(path: Path) -> None:
    """What runs scripts runs no notebooks. Raises `click.ClickException`."""
    if is_notebook(path):
        raise click.ClickException(f"{path}: a notebook is not run here, only rewritten and linted; give a script")


def is_excluded_stdin(name: Path | None, configuration: Configuration) -> bool:
    """Whether what comes on stdin is to be left alone because of its name."""
    return name is not None and discovery.is_forced_out(name, configuration.scope_of)


def _split(config: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The file that `--config` names, and what else it says in TOML. Raises `click.UsageError`."""
    files = [Path(each) for each in config if "=" not in each or os.path.isfile(each)]
    if len(files) > 1:
        raise click.UsageError(f"--config names two files: {files[0]} and {files[1]}")
    return (files[0] if files else None), [each for each in config if Path(each) not in files]


def common_folder(paths: Sequence[Path]) -> Path:
    """The nearest folder that holds all paths: its configuration governs a run."""
    names = [os.path.abspath(path) for path in paths]
    folders = [Path(name if os.path.isdir(name) else os.path.dirname(name)) for name in names]
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:  # different drives
        return folders[0]
