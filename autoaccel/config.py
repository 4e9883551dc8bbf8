"""Settings: `[tool.autoaccel]` of the nearest file, the command line over it, and the rules they choose."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.rewriting.finding import Tier
    from autoaccel.rewriting.rule import Rule

FILE_NAMES = ("autoaccel.toml", "pyproject.toml")

TIERS = ("exact", "equivalent", "numerics")

# What nobody wants rewritten: environments, caches, build output. Patterns are gitignore's.
EXCLUDE = (
    ".bzr/", ".eggs/", ".git/", ".hg/", ".ipynb_checkpoints/", ".mypy_cache/", ".nox/", ".pytest_cache/",
    ".ruff_cache/", ".svn/", ".tox/", ".venv/", "__pycache__/", "__pypackages__/", "autoaccel_runtime/", "build/",
    "dist/", "node_modules/", "site-packages/", "venv/",
)  # fmt: skip


class ConfigError(ValueError):
    """A setting that cannot be honoured; the message says which, where, and what was probably meant."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to apply and where to look. `None` for `select` means every rule."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    tier: str = "numerics"
    exclude: tuple[str, ...] = EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    origin: Path | None = field(default=None, compare=False)

    @property
    def excluded(self) -> tuple[str, ...]:
        return self.exclude + self.extend_exclude


class Plan:
    """Settings and what follows from them. Rules are imported when they are asked for: a run that is answered by the
    cache never asks."""

    def __init__(self, chosen: Settings) -> None:
        self.settings = chosen

    def __reduce__(self) -> tuple[type[Plan], tuple[Settings]]:
        """Other processes import the rules themselves."""
        return Plan, (self.settings,)

    @cached_property
    def rules(self) -> Sequence[Rule]:
        """The chosen rules, in the order in which they are applied. Raises `ConfigError`."""
        return select_rules(known_rules(), self.settings)

    def rules_for(self, path: Path) -> Sequence[Rule]:
        """The rules for one file. Raises `ConfigError`."""
        return self.rules

    @property
    def tier(self) -> Tier:
        from autoaccel.rewriting.finding import Tier

        return Tier[self.settings.tier.upper()]


def settings(
    anchor: Path, *, config: Path | None = None, isolated: bool = False, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Settings for files below `anchor`: of the file `config`, else of the nearest one, with `overrides` over them.

    Overrides that are `None` or empty leave the file's word. Raises `ConfigError`.
    """
    found = None if isolated else config or nearest(anchor)
    base = Settings() if found is None else read(found)
    given = {key: value for key, value in (overrides or {}).items() if value is not None and value != ()}
    if "select" in given:
        # Choosing on the command line replaces all that the file chooses …
        base = replace(base, ignore=(), extend_select=())
    # … and extending adds to it.
    for key in ("extend_select", "extend_exclude"):
        if key in given:
            given[key] = (*getattr(base, key), *_strings(given[key], key, "the command line"))
    return replace(base, **given)  # type: ignore[arg-type]  # the keys are Settings' fields, the command line has checked the values


def nearest(anchor: Path) -> Path | None:
    """The configuration file that governs `anchor`: the first one upwards that speaks of autoaccel."""
    start = anchor.absolute()
    for folder in (start, *start.parents) if start.is_dir() else start.parents:
        for name in FILE_NAMES:
            candidate = folder / name
            if candidate.is_file() and _table(candidate) is not None:
                return candidate
    return None


def read(path: Path) -> Settings:
    """Settings of one configuration file. Raises `ConfigError` on an unknown key or a value of the wrong type."""
    table = _table(path)
    if table is None:
        if path.name == "pyproject.toml":
            return Settings(origin=path)
        raise ConfigError(f"{path}: no [tool.autoaccel] table")
    values: dict[str, object] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise ConfigError(f"{path}: unknown key {key!r}{did_you_mean(key, _KEYS)}")
        values[key.replace("-", "_")] = _checked(key, value, path)
    return Settings(origin=path, **values)  # type: ignore[arg-type]  # every value went through _checked


def known_rules() -> Sequence[Rule]:
    """All rules, in the order in which they are applied. Raises `ConfigError` when a pack of rules cannot be used."""
    from autoaccel.rewriting import registry

    try:
        return registry.rules()
    except registry.PackError as error:
        raise ConfigError(str(error)) from error


def select_rules(rules: Sequence[Rule], chosen: Settings) -> list[Rule]:
    """The rules that `chosen` asks for; opt-in rules only where they are named by code or name. Raises `ConfigError`.

    The more specific selector wins, as in other linters: `select = ["AA1"], ignore = ["AA101"]` leaves AA102 to AA104.
    """
    from autoaccel.rewriting.finding import Tier

    where = f" ({chosen.origin})" if chosen.origin else ""
    on = _strengths(rules, (*(chosen.select or ()), *chosen.extend_select), where)
    off = _strengths(rules, chosen.ignore, where)
    picked = []
    for rule in rules:
        default = 0 if chosen.select is None and rule.tier is not Tier.OPT_IN else -1
        wanted = on.get(rule.code, default)
        if rule.tier is Tier.OPT_IN and wanted < _EXACT_MATCH:
            continue
        if wanted >= 0 and wanted > off.get(rule.code, -1):
            picked.append(rule)
    return picked


def rule_named(rules: Sequence[Rule], word: str) -> Rule:
    """The one rule with this code or name. Raises `ConfigError`."""
    for rule in rules:
        if _is_named(rule, word):
            return rule
    names = [name for rule in rules for name in (rule.code, rule.name)]
    raise ConfigError(f"no rule is called {word!r}{did_you_mean(word, names)} (`autoaccel rules` lists them)")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word.lower(), {name.lower(): name for name in known}, n=1, cutoff=0.6)
    names = {name.lower(): name for name in known}
    return f"; did you mean {names[close[0]]!r}?" if close else ""


_KEYS = {
    "select": list,
    "ignore": list,
    "extend-select": list,
    "tier": str,
    "exclude": list,
    "extend-exclude": list,
    "respect-gitignore": bool,
}

_EXACT_MATCH = 100


def _is_named(rule: Rule, word: str) -> bool:
    return word.upper() == rule.code or word.lower().replace("_", "-") == rule.name


def _strengths(rules: Sequence[Rule], selectors: Iterable[str], where: str) -> dict[str, int]:
    """How specifically each rule is named: the length of the prefix, or `_EXACT_MATCH` for a whole code or a name."""
    strengths: dict[str, int] = {}
    for selector in selectors:
        matched = False
        for rule in rules:
            if _is_named(rule, selector):
                strength = _EXACT_MATCH
            elif selector.upper() == "ALL":
                strength = 0
            elif selector and selector.upper().startswith("AA") and rule.code.startswith(selector.upper()):
                strength = len(selector)
            else:
                continue
            matched = True
            strengths[rule.code] = max(strength, strengths.get(rule.code, 0))
        if not matched:
            names = [name for rule in rules for name in (rule.code, rule.name)]
            raise ConfigError(f"no rule matches {selector!r}{where}{did_you_mean(selector, names)}")
    return strengths


def _table(path: Path) -> dict[str, object] | None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
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


def _checked(key: str, value: object, path: Path) -> object:
    expected = _KEYS[key]
    if expected is list:
        return _strings(value, key, str(path))
    if not isinstance(value, expected):
        raise ConfigError(f"{path}: {key} must be {'true or false' if expected is bool else 'a string'}, not {value!r}")
    if key == "tier" and value not in TIERS:
        raise ConfigError(
            f"{path}: tier must be one of {', '.join(TIERS)}, not {value!r}{did_you_mean(str(value), TIERS)}"
        )
    return value


def _strings(value: object, key: str, where: str) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ConfigError(f"{where}: {key} must be a list of strings, not {value!r}")
