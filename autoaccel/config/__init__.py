"""Settings: `[tool.autoaccel]` of the nearest file of each script, and the command line over it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.config.selection import Choice, rules_of, tier_of
from autoaccel.config.selection import ConfigError as ConfigError
from autoaccel.config.selection import did_you_mean as did_you_mean
from autoaccel.config.selection import known_rules as known_rules
from autoaccel.config.selection import rule_named as rule_named
from autoaccel.config.settings import TIERS as TIERS
from autoaccel.config.settings import Settings as Settings
from autoaccel.config.settings import absolute, check_version, file_in, inline_table, layered, read
from autoaccel.discovery import EXCLUDE, FileFilter
from autoaccel.patterns import Matcher, Patterns

if TYPE_CHECKING:
    from autoaccel.edits import Tier
    from autoaccel.rewriting.rule import Rule


class Configuration:
    """Settings and what follows from them, file by file. Rules are imported when they are asked for: a run that is
    answered by the cache never asks."""

    def __init__(
        self,
        chosen: Settings,
        settings_of: Callable[[str], Settings] | None = None,
        left_out: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`chosen` governs the run, and all files unless `settings_of` tells the settings of an absolute folder.
        `left_out` are codes of rules that are switched off in files, by their absolute paths."""
        self.settings = chosen
        self._settings_of = settings_of
        self._left_out = left_out or {}
        self._governed: dict[str, _Governed] = {}
        self._by_settings: dict[int, _Governed] = {}
        self._rules: dict[Choice, tuple[Rule, ...]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        # To another process goes what was said, not what was made of it.
        return Configuration, (self.settings, self._settings_of, self._left_out)

    def leaving_out(self, codes: Mapping[str, Sequence[str]]) -> Configuration:
        """The same without these rules, in files by their absolute paths."""
        return Configuration(self.settings, self._settings_of, codes)

    def settings_for(self, path: Path) -> Settings:
        """The settings of one file. Raises `ConfigError`, as all that follow."""
        return self._of(_folder(path)).settings

    def scope_of(self, folder: str) -> FileFilter:
        """What is looked at in a folder."""
        return self._of(folder).scope

    def scope_for(self, path: Path) -> FileFilter:
        return self.scope_of(_folder(path))

    def choice_for(self, path: Path) -> Choice:
        """All that decides what is reported in one file; no rule is imported."""
        name = os.path.abspath(path)
        choice = self._of(_folder(path)).choice(name)
        left_out = tuple(self._left_out.get(name, ()))
        return dataclasses.replace(choice, without=(*choice.without, *left_out)) if left_out else choice

    def rules_for(self, path: Path) -> tuple[Rule, ...]:
        """The rules for one file, in the order in which they are applied."""
        return self._rules_of(self.choice_for(path))

    def tier_for(self, path: Path) -> Tier:
        return tier_of(self.choice_for(path))

    @cached_property
    def rules(self) -> Sequence[Rule]:
        """The rules for files of which nothing special is said."""
        return self._rules_of(_Governed(self.settings).choice(None))

    @property
    def tier(self) -> Tier:
        return tier_of(_Governed(self.settings).choice(None))

    def _rules_of(self, choice: Choice) -> tuple[Rule, ...]:
        if choice not in self._rules:
            self._rules[choice] = rules_of(choice)
        return self._rules[choice]

    def _of(self, folder: str) -> _Governed:
        if folder not in self._governed:
            found = self._settings_of(folder) if self._settings_of else self.settings
            self._governed[folder] = self._by_settings.setdefault(id(found), _Governed(found))
        return self._governed[folder]


class _Governed:
    """Settings at work: patterns are compiled once for all the folders that they govern."""

    def __init__(self, chosen: Settings) -> None:
        self.settings = chosen
        self._choices: dict[tuple[str, ...], Choice] = {}
        self._matchers: dict[Patterns, Matcher] = {}

    @cached_property
    def scope(self) -> FileFilter:
        exclude = self.settings.exclude or Patterns(EXCLUDE, str(_home(self.settings)))
        return FileFilter(
            (exclude, *self.settings.extend_exclude), self.settings.respect_gitignore, self.settings.force_exclude
        )

    def choice(self, path: str | None) -> Choice:
        without = () if path is None else tuple(self._without(path))
        if without not in self._choices:
            mentioned = tuple(sorted({word for each in self.settings.ignores for word in each.selectors}))
            self._choices[without] = Choice(
                self.settings.selections,
                self.settings.tier,
                without,
                mentioned,
                str(self.settings.origin or ""),
                self.settings.given,
            )
        return self._choices[without]

    def _without(self, path: str) -> Iterable[str]:
        for each in self.settings.ignores:
            seen, place = each.patterns.seen_from(path)
            if seen not in self._matchers:
                self._matchers[seen] = seen.matcher()
            if self._matchers[seen].covers(place) is not each.others:
                yield from each.selectors


def configure(
    anchor: Path,
    *,
    config: Path | None = None,
    isolated: bool = False,
    inline: Sequence[str] = (),
    overrides: Mapping[str, object] | None = None,
) -> Configuration:
    """The configuration of a run around the folder `anchor`: of the file `config`, else of the nearest file of each
    script, with `inline` TOML and then `overrides` over it. Raises `ConfigError`."""
    nearest = Nearest(inline, overrides)
    if isolated or config is not None:
        return Configuration(nearest.layered(Settings() if config is None else read(config, folder=Path.cwd())))
    return Configuration(nearest.settings_of(os.path.abspath(anchor)), nearest.settings_of)


class Nearest:
    """The settings of folders: each is governed by the nearest file upwards that speaks of autoaccel, and over it by
    what the command line says."""

    def __init__(self, inline: Sequence[str] = (), overrides: Mapping[str, object] | None = None) -> None:
        self._inline = [inline_table(text) for text in inline]
        # None and nothing leave the file's word.
        given = {key: value for key, value in (overrides or {}).items() if value is not None and value != ()}
        self._overrides = {key.replace("_", "-"): value for key, value in given.items()}
        self._folders: dict[str, Settings] = {}

    def settings_of(self, folder: str) -> Settings:
        """Raises `ConfigError`."""
        if folder not in self._folders:
            here, parent = Path(folder), os.path.dirname(folder)  # noqa: PTH120 - for each folder of a tree
            found = file_in(here)
            if found is not None:
                self._folders[folder] = self.layered(read(found))
            elif parent != folder:
                self._folders[folder] = self.settings_of(parent)
            else:
                self._folders[folder] = self.layered(Settings())
        return self._folders[folder]

    def layered(self, base: Settings) -> Settings:
        """With what the command line says. Raises `ConfigError`."""
        here = Path.cwd()
        for table in self._inline:
            check_version(table, "--config")
            base = layered(base, table, "--config", here)
        return layered(base, self._overrides, "", here) if self._overrides else base


def _home(chosen: Settings) -> Path:
    return absolute(chosen.origin).parent if chosen.origin else Path.cwd()


def _folder(path: Path) -> str:
    return os.path.dirname(os.path.abspath(path))  # noqa: PTH120 - for each file
