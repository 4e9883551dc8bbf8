"""Settings: `[tool.autoaccel]` of the nearest file of each script, and the command line over it."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoaccel import __version__
from autoaccel.discovery import Scope
from autoaccel.patterns import Matcher, PatternError, Patterns
from autoaccel.selection import Choice, Selection, rules_of, tier_of
from autoaccel.selection import ConfigError as ConfigError
from autoaccel.selection import did_you_mean as did_you_mean
from autoaccel.selection import known_rules as known_rules
from autoaccel.selection import rule_named as rule_named

if TYPE_CHECKING:
    from autoaccel.rewriting.finding import Tier
    from autoaccel.rewriting.rule import Rule

FILE_NAMES = ("autoaccel.toml", "pyproject.toml")

TIERS = ("exact", "equivalent", "numerics")

# What nobody wants rewritten: environments, caches, build output.
EXCLUDE = (
    ".autoaccel_cache/", ".bzr/", ".eggs/", ".git/", ".hg/", ".ipynb_checkpoints/", ".mypy_cache/", ".nox/",
    ".pytest_cache/", ".ruff_cache/", ".svn/", ".tox/", ".venv/", "__pycache__/", "__pypackages__/",
    "autoaccel_runtime/", "build/", "dist/", "node_modules/", "site-packages/", "venv/",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PerFile:
    """Selectors that are switched off where a pattern matches; with `others`, everywhere else."""

    patterns: Patterns
    others: bool
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """What to apply and where to look."""

    selections: tuple[Selection, ...] = ()
    tier: str = "numerics"
    exclude: Patterns | None = None
    extend_exclude: tuple[Patterns, ...] = ()
    respect_gitignore: bool = True
    force_exclude: bool = False
    per_file_ignores: tuple[PerFile, ...] = ()
    extend_per_file_ignores: tuple[PerFile, ...] = ()
    required_version: str | None = None
    output_format: str | None = None
    cache_dir: Path | None = None
    origins: tuple[Path, ...] = field(default=(), compare=False)
    """The files that say so: the nearest one, and what it extends."""

    @property
    def origin(self) -> Path | None:
        return self.origins[0] if self.origins else None

    @property
    def ignores(self) -> tuple[PerFile, ...]:
        return self.per_file_ignores + self.extend_per_file_ignores


class Plan:
    """Settings and what follows from them, file by file. Rules are imported when they are asked for: a run that is
    answered by the cache never asks."""

    def __init__(self, chosen: Settings, settings_of: Callable[[str], Settings] | None = None) -> None:
        """`chosen` governs the run, and all files unless `settings_of` tells the settings of an absolute folder."""
        self.settings = chosen
        self._settings_of = settings_of
        self._governed: dict[str, _Governed] = {}
        self._by_settings: dict[int, _Governed] = {}
        self._rules: dict[Choice, tuple[Rule, ...]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        # To another process goes what was said, not what was made of it.
        return Plan, (self.settings, self._settings_of)

    def settings_for(self, path: Path) -> Settings:
        """The settings of one file. Raises `ConfigError`, as all that follow."""
        return self._of(_folder(path)).settings

    def scope_of(self, folder: str) -> Scope:
        """What is looked at in a folder."""
        return self._of(folder).scope

    def scope_for(self, path: Path) -> Scope:
        return self.scope_of(_folder(path))

    def choice_for(self, path: Path) -> Choice:
        """All that decides what is reported in one file; no rule is imported."""
        return self._of(_folder(path)).choice(os.path.abspath(path))

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
    def scope(self) -> Scope:
        exclude = self.settings.exclude or Patterns(EXCLUDE, str(_home(self.settings)))
        return Scope(
            (exclude, *self.settings.extend_exclude), self.settings.respect_gitignore, self.settings.force_exclude
        )

    def choice(self, path: str | None) -> Choice:
        without = () if path is None else tuple(self._without(path))
        if without not in self._choices:
            mentioned = tuple(sorted({word for each in self.settings.ignores for word in each.selectors}))
            self._choices[without] = Choice(
                self.settings.selections, self.settings.tier, without, mentioned, str(self.settings.origin or "")
            )
        return self._choices[without]

    def _without(self, path: str) -> Iterable[str]:
        for each in self.settings.ignores:
            seen, place = each.patterns.seen_from(path)
            if seen not in self._matchers:
                self._matchers[seen] = seen.matcher()
            if self._matchers[seen].covers(place) is not each.others:
                yield from each.selectors


def plan(
    anchor: Path,
    *,
    config: Path | None = None,
    isolated: bool = False,
    inline: Sequence[str] = (),
    overrides: Mapping[str, object] | None = None,
) -> Plan:
    """The plan of a run around the folder `anchor`: of the file `config`, else of the nearest file of each script,
    with `inline` TOML and then `overrides` over it. Raises `ConfigError`."""
    over = Layers(inline, overrides)
    if isolated or config is not None:
        return Plan(over.on(Settings() if config is None else read(config, folder=Path.cwd())))
    files = Nearest(over)
    return Plan(files.settings_of(os.path.abspath(anchor)), files.settings_of)


def settings(
    anchor: Path, *, config: Path | None = None, isolated: bool = False, overrides: Mapping[str, object] | None = None
) -> Settings:
    """The settings of the folder `anchor`. Raises `ConfigError`."""
    return plan(anchor, config=config, isolated=isolated, overrides=overrides).settings


class Layers:
    """What the command line says, put over the settings of files."""

    def __init__(self, inline: Sequence[str] = (), overrides: Mapping[str, object] | None = None) -> None:
        self.inline = [_inline(text) for text in inline]
        # None and nothing leave the file's word.
        self.given = {key: value for key, value in (overrides or {}).items() if value is not None and value != ()}

    def on(self, base: Settings) -> Settings:
        here = Path.cwd()
        for table in self.inline:
            _check_version(table, "--config")
            base = _layered(base, table, "--config", here)
        table = {key.replace("_", "-"): value for key, value in self.given.items()}
        return _layered(base, table, "", here) if table else base


class Nearest:
    """The settings of folders: each is governed by the nearest file upwards that speaks of autoaccel."""

    def __init__(self, over: Layers) -> None:
        self._over = over
        self._folders: dict[str, Settings] = {}

    def settings_of(self, folder: str) -> Settings:
        """Raises `ConfigError`."""
        if folder not in self._folders:
            here, parent = Path(folder), os.path.dirname(folder)  # noqa: PTH120 - for each folder of a tree
            found = _file_in(here)
            if found is not None:
                self._folders[folder] = self._over.on(read(found))
            elif parent != folder:
                self._folders[folder] = self.settings_of(parent)
            else:
                self._folders[folder] = self._over.on(Settings())
        return self._folders[folder]


def nearest(anchor: Path) -> Path | None:
    """The configuration file that governs `anchor`: the first one upwards that speaks of autoaccel."""
    start = anchor.absolute()
    for folder in (start, *start.parents) if start.is_dir() else start.parents:
        found = _file_in(folder)
        if found is not None:
            return found
    return None


def read(path: Path, *, folder: Path | None = None) -> Settings:
    """Settings of one configuration file and those that it extends. Its patterns are relative to `folder`, by default
    the file's own. Raises `ConfigError` on an unknown key or a value of the wrong type."""
    return _read(path, folder or _absolute(path).parent, ())


def _read(path: Path, folder: Path, inheriting: tuple[Path, ...]) -> Settings:
    full = _absolute(path)
    if full in inheriting:
        raise ConfigError(f"{inheriting[-1]}: extend leads in a circle, to {path}")
    table = _table(path)
    if table is None:
        if path.name == "pyproject.toml":
            return Settings(origins=(path,))
        raise ConfigError(f"{path}: no [tool.autoaccel] table")
    _check_version(table, path)
    base = Settings()
    if "extend" in table:
        above = full.parent / os.path.expanduser(_checked("extend", table["extend"], str(path)))  # noqa: PTH111
        if not above.is_file():
            raise ConfigError(f"{path}: extend: no such file: {above}")
        above = Path(os.path.normpath(above))
        # What it inherits from afar speaks of the files here.
        theirs = above.parent if folder.is_relative_to(above.parent) else folder
        base = _read(above, theirs, (*inheriting, full))
    merged = _layered(base, {key: value for key, value in table.items() if key != "extend"}, str(path), folder)
    return replace(merged, origins=(path, *base.origins))


def _layered(base: Settings, table: Mapping[str, object], where: str, folder: Path) -> Settings:
    """`table` over `base`: what extends is added, everything else is replaced. Raises `ConfigError`."""
    said: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}{did_you_mean(key, _KEYS)}")
        said[key.replace("-", "_")] = _checked(key, value, where)
    if "extend" in said:
        raise ConfigError(f"{where}: extend is for files")
    layer = Selection(said.pop("select", None), said.pop("ignore", ()), said.pop("extend_select", ()), where)
    if layer != Selection():
        said["selections"] = (*base.selections, layer)
    for key in ("exclude", "extend_exclude"):
        if key in said:
            said[key] = _compiled(Patterns(said[key], str(folder)), where, key)
    if "extend_exclude" in said:
        said["extend_exclude"] = (*base.extend_exclude, said["extend_exclude"])
    for key in ("per_file_ignores", "extend_per_file_ignores"):
        if key in said:
            said[key] = tuple(_per_file(pattern, words, where, folder) for pattern, words in said[key].items())
    if "extend_per_file_ignores" in said:
        said["extend_per_file_ignores"] = base.extend_per_file_ignores + said["extend_per_file_ignores"]
    if "cache_dir" in said:
        said["cache_dir"] = folder / os.path.expanduser(said["cache_dir"])  # noqa: PTH111
    return replace(base, **said)


def _per_file(pattern: str, selectors: tuple[str, ...], where: str, folder: Path) -> PerFile:
    others = pattern.startswith("!")
    lines = (pattern.removeprefix("!"),)
    if not lines[0].strip():
        raise ConfigError(f"{where}: per-file-ignores: {pattern!r} is no pattern")
    return PerFile(_compiled(Patterns(lines, str(folder)), where, "per_file_ignores"), others, selectors)


def _compiled(patterns: Patterns, where: str, key: str) -> Patterns:
    """The same patterns, which are now known to mean something. Raises `ConfigError`."""
    try:
        patterns.matcher()
    except PatternError as error:
        raise ConfigError(f"{where}: {key.replace('_', '-')}: {error}") from error
    return patterns


_KEYS: dict[str, type] = {
    "cache-dir": str,
    "exclude": list,
    "extend": str,
    "extend-exclude": list,
    "extend-per-file-ignores": dict,
    "extend-select": list,
    "force-exclude": bool,
    "ignore": list,
    "output-format": str,
    "per-file-ignores": dict,
    "required-version": str,
    "respect-gitignore": bool,
    "select": list,
    "tier": str,
}

_EXPECTED = {bool: "true or false", str: "a string", dict: "a table of patterns and lists of rules"}


def _check_version(table: Mapping[str, object], where: Path | str) -> None:
    """Raises `ConfigError`: first of all, for a newer file may have keys that are not known here."""
    if "required-version" not in table:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    wanted = _checked("required-version", table["required-version"], str(where))
    exact = f"=={wanted}" if wanted[:1].isdigit() else wanted
    try:
        met = SpecifierSet(exact).contains(__version__, prereleases=True)
    except InvalidSpecifier as error:
        raise ConfigError(f"{where}: required-version must be a version or a specifier, not {wanted!r}") from error
    if not met:
        raise ConfigError(f"{where}: autoaccel {wanted} is required, this is {__version__}")


def _inline(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--config: {text!r} is neither a file nor valid TOML: {error}") from error


def _file_in(folder: Path) -> Path | None:
    for name in FILE_NAMES:
        candidate = folder / name
        if os.path.isfile(candidate) and _speaks_of_us(candidate):  # noqa: PTH113 - False where it may not be asked
            return candidate
    return None


def _speaks_of_us(path: Path) -> bool:
    """Whether a file configures this tool. Raises `ConfigError`: but what is wrong with others' files is not said."""
    if path.name == "pyproject.toml":
        with contextlib.suppress(OSError):
            if b"autoaccel" not in path.read_bytes():
                return False
    return _table(path) is not None


def _table(path: Path) -> dict[str, object] | None:
    try:
        # Editors on Windows put a byte order mark there.
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the configuration: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    tool = document.get("tool", {})
    table = tool.get("autoaccel") if isinstance(tool, dict) else None
    if table is None and path.name != "pyproject.toml":
        # autoaccel.toml holds nothing but our settings: the keys may stand at the top as well.
        table = document
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.autoaccel must be a table")
    return table


def _checked(key: str, value: object, where: str) -> Any:
    """Raises `ConfigError`."""
    expected = _KEYS[key]
    if expected is list:
        return _strings(value, key, where)
    if not isinstance(value, expected):
        raise ConfigError(f"{where}: {key} must be {_EXPECTED[expected]}, not {value!r}")
    if isinstance(value, dict):
        return {pattern: _strings(words, f"{key}: {pattern!r}", where) for pattern, words in value.items()}
    known = _choices(key)
    if known and value not in known:
        raise ConfigError(
            f"{where}: {key} must be one of {', '.join(known)}, not {value!r}{did_you_mean(str(value), known)}"
        )
    return value


def _choices(key: str) -> Sequence[str]:
    if key == "tier":
        return TIERS
    if key == "output-format":
        from autoaccel.reports.formats import FORMATS

        return FORMATS
    return ()


def _strings(value: object, key: str, where: str) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ConfigError(f"{where}: {key} must be a list of strings, not {value!r}")


def _home(chosen: Settings) -> Path:
    return _absolute(chosen.origin).parent if chosen.origin else Path.cwd()


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _folder(path: Path) -> str:
    return os.path.dirname(os.path.abspath(path))  # noqa: PTH120 - for each file
