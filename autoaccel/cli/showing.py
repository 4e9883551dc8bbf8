"""`--show-settings`: what governs a file and where that was said, as TOML that says the same again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from autoaccel import discovery
from autoaccel.cli.inputs import STDIN, UNNAMED
from autoaccel.config import Configuration, Settings
from autoaccel.reports.context import shown


def settings(configuration: Configuration, paths: Sequence[Path], stdin_filename: Path | None) -> str:
    """The settings of the first file of `paths`. Raises `ConfigError`."""
    return "\n".join(_lines(configuration, _first(configuration, paths, stdin_filename))) + "\n"


def _first(configuration: Configuration, paths: Sequence[Path], stdin_filename: Path | None) -> Path:
    if STDIN in paths:
        return stdin_filename or UNNAMED
    return next(iter(discovery.find(paths[:1], configuration.scope_of).files), paths[0])


def _lines(configuration: Configuration, path: Path) -> Iterator[str]:
    chosen = configuration.settings_for(path)
    choice = configuration.choice_for(path)
    yield shown(f"# settings for {path}")
    yield shown(f"# from {chosen.origin or 'the defaults, there is no configuration file'}")
    for origin in chosen.origins[1:]:
        yield shown(f"# which extends {origin}")
    yield "select = ["
    for rule in sorted(configuration.rules_for(path), key=lambda rule: rule.code):
        yield f"    {_quoted(rule.code)},  # {rule.name}, {rule.tier.label}"
    yield "]"
    yield f"tier = {_quoted(choice.tier)}"
    yield from _places(configuration, chosen, path)
    for name, value in (("output-format", chosen.output_format), ("cache-dir", chosen.cache_dir)):
        if value is not None:
            yield f"{name} = {_quoted(str(value))}"
    if chosen.required_version is not None:
        yield f"required-version = {_quoted(chosen.required_version)}"
    values = {each.name: each.value for each in chosen.given}
    for rule in configuration.rules_for(path):
        values.update({name: value for name, value in rule.values.items() if value is not None})
    yield from _table("set", values)
    ignores: dict[str, list[str]] = {}
    for each in chosen.ignores:
        ignores.setdefault("!" * each.others + each.patterns.lines[0], []).extend(each.selectors)
    yield from _table("per-file-ignores", ignores)


def _places(configuration: Configuration, chosen: Settings, path: Path) -> Iterator[str]:
    scope = configuration.scope_for(path)
    for name, group in (("exclude", scope.exclude[:1]), ("extend-exclude", scope.exclude[1:])):
        yield f"{name} = ["
        for patterns in group:
            yield shown(f"    # in {patterns.folder}")
            yield from (f"    {_quoted(line)}," for line in patterns.lines)
        yield "]"
    yield f"respect-gitignore = {_quoted(chosen.respect_gitignore)}"
    yield f"force-exclude = {_quoted(chosen.force_exclude)}"


def _table(name: str, table: Mapping[str, object]) -> Iterator[str]:
    if table:
        yield ""
        yield f"[{name}]"
        for key, values in table.items():
            yield f"{_quoted(key)} = {_quoted(values)}"


def _quoted(value: object) -> str:
    # Strings, booleans, numbers and lists of them are written alike in JSON and TOML.
    return json.dumps(value, ensure_ascii=False)
