"""What configuration files say: `[tool.autoaccel]` of a pyproject.toml, or an autoaccel.toml, read and checked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoaccel import __version__
from autoaccel.config.selection import ConfigError, Given, Selection, did_you_mean
from autoaccel.patterns import PatternError, Patterns

FILE_NAMES = ("autoaccel.toml", "pyproject.toml")

TIERS = ("exact", "equivalent", "numerics")

# What nobody wants rewritten: environments, caches, build output.


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
    given: tuple[Given, ...] = ()
    """Settings of rules, each name once, in the order of names."""
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


def read(path: Path, *, folder: Path | None = None) -> Settings:
    """Settings of one configuration file and those that it extends. Its patterns are relative to `folder`, by default
    the file's own. Raises `ConfigError` on an unknown key or a value of the wrong type."""
    return _read(path, folder or absolute(path).parent, ())


def _read(path: Path, folder: Path, inheriting: tuple[Path, ...]) -> Settings:
    full = absolute(path)
    if full in inheriting:
        raise ConfigError(f"{inheriting[-1]}: circular extend, to {path}")
    table = _table(path)
    if table is None:
        if path.name == "pyproject.toml":
            return Settings(origins=(path,))
        raise ConfigError(f"{path}: no [tool.autoaccel] table")
    check_version(table, path)
    base = Settings()
    if "extend" in table:
        above = full.parent / os.path.expanduser(_checked("extend", table["extend"], str(path)))  # noqa: PTH111
        if not above.is_file():
            raise ConfigError(f"{path}: extend: no such file: {above}")
        above = Path(os.path.normpath(above))
        # What it inherits from afar speaks of the files here.
        theirs = above.parent if folder.is_relative_to(above.parent) else folder
        base = _read(above, theirs, (*inheriting, full))
    merged = layered(base, {key: value for key, value in table.items() if key != "extend"}, str(path), folder)
    return replace(merged, origins=(path, *base.origins))


def layered(base: Settings, table: Mapping[str, object], where: str, folder: Path) -> Settings:
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
    if "set" in said:
        known = {each.name: each for each in base.given}
        known |= {name: Given(name, value, where) for name, value in said.pop("set").items()}
        said["given"] = tuple(known[name] for name in sorted(known))
    if "cache_dir" in said:
        said["cache_dir"] = folder / os.path.expanduser(said["cache_dir"])  # noqa: PTH111
    return replace(base, **said)


def _per_file(pattern: str, selectors: tuple[str, ...], where: str, folder: Path) -> PerFile:
    others = pattern.startswith("!")
    lines = (pattern.removeprefix("!"),)
    if not lines[0].strip():
        raise ConfigError(f"{where}: per-file-ignores: {pattern!r} is not a valid pattern")
    return PerFile(_compiled(Patterns(lines, str(folder)), where, "per_file_ignores"), others, selectors)


def _compiled(patterns: Patterns, where: str, key: str) -> Patterns:
    """The same patterns, which are now known to mean something. Raises `ConfigError`."""
    try:
        patterns.matcher()
    except PatternError as error:
        raise ConfigError(f"{where}: {_line_with(error.line, where)}{key.replace('_', '-')}: {error}") from error
    return patterns


def _line_with(pattern: str, where: str) -> str:
    """Which line of the file holds a pattern, where it is spelled there as it is."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for number, line in enumerate(Path(where).read_text(encoding="utf-8-sig").splitlines(), 1):
            if f'"{pattern}"' in line or f"'{pattern}'" in line:
                return f"line {number}: "
    return ""


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
    "set": dict,
    "tier": str,
}

OUTPUT_FORMATS = ("full", "concise", "json", "github", "sarif", "gitlab", "junit", "rdjson")
_EXPECTED = {bool: "true or false", str: "a string", dict: "a table of patterns and lists of rules"}


def check_version(table: Mapping[str, object], where: Path | str) -> None:
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


def inline_table(text: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--config: {text!r} is neither a file nor valid TOML: {error}") from error


def file_in(folder: Path) -> Path | None:
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
    import tomllib

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
    if key == "set":
        return _settings_of_rules(value, where)
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


def _settings_of_rules(table: object, where: str) -> dict[str, int | str]:
    """What they mean, the rules say. Raises `ConfigError`."""
    if isinstance(table, dict) and all(type(value) in (int, str) for value in table.values()):
        return table
    raise ConfigError(f"{where}: set must be a table of names with whole numbers or words, not {table!r}")


def _choices(key: str) -> Sequence[str]:
    if key == "tier":
        return TIERS
    if key == "output-format":
        return OUTPUT_FORMATS
    return ()


def _strings(value: object, key: str, where: str) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ConfigError(f"{where}: {key} must be a list of strings, not {value!r}")


def absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))
