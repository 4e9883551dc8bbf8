"""Which rules are meant: codes, prefixes and names, layer over layer, and what a file of its own switches off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.edits import Tier
    from autoaccel.rewriting.rule import Rule


class ConfigError(ValueError):
    """A setting that cannot be honoured; the message says which, where, and what was probably meant."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What one layer says: a configuration file, or the command line. `None` for `select`: nothing but changes."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    where: str = field(default="", compare=False, repr=False)
    """The file, for messages."""


@dataclass(frozen=True, slots=True)
class Given:
    """What one layer sets of a rule, by the name of the setting."""

    name: str
    value: int | str
    where: str = field(default="", compare=False, repr=False)
    """The file, for messages."""


@dataclass(frozen=True, slots=True)
class Choice:
    """All that decides what is reported in a file: plain data, for caches and other processes."""

    layers: tuple[Selection, ...] = ()
    tier: str = "numerics"
    without: tuple[str, ...] = ()
    """Selectors that `per-file-ignores` switches off in this file."""
    mentioned: tuple[str, ...] = ()
    """All selectors of `per-file-ignores`: what names no rule is an error in every file."""
    where: str = field(default="", compare=False, repr=False)
    given: tuple[Given, ...] = ()
    """Settings of rules, each name once."""


def known_rules() -> Sequence[Rule]:
    """All rules, in the order in which they are applied. Raises `ConfigError` when a pack of rules is of no use."""
    from autoaccel.rewriting import registry

    try:
        return registry.rules()
    except registry.PackError as error:
        raise ConfigError(str(error)) from error


def rules_of(choice: Choice) -> tuple[Rule, ...]:
    """The rules for a file, in the order in which they are applied. Raises `ConfigError`."""
    rules = _with_settings(known_rules(), choice)
    _strengths(rules, choice.mentioned, f"per-file-ignores of {choice.where}" if choice.where else "per-file-ignores")
    off = _strengths(rules, choice.without, choice.where)
    return tuple(rule for rule in selected(rules, choice.layers) if rule.code not in off)


def _with_settings(rules: Sequence[Rule], choice: Choice) -> Sequence[Rule]:
    """The rules, with what is set of them. Raises `ConfigError`."""
    names = [each.name for rule in rules for each in rule.settings]
    for each in choice.given:
        place = f" ({each.where})" if each.where else ""
        if each.name not in names:
            raise ConfigError(f"no rule has a setting {each.name!r}{place}{did_you_mean(each.name, names)}")
        try:
            rules = [rule.having(each.name, each.value) for rule in rules]
        except ValueError as error:
            raise ConfigError(f"{error}{place}") from error
    return rules


def is_empty(choice: Choice) -> bool:
    """Whether no rule is left on, as by `select = []` and `ignore = ["ALL"]`. Raises `ConfigError`."""
    # Only then are the rules asked, which a run whose answers are in the cache does not import.
    words = {word.upper() for layer in choice.layers for word in layer.ignore} | {
        word.upper() for word in choice.without
    }
    may_be = "ALL" in words or any(layer.select == () for layer in choice.layers)
    return may_be and not rules_of(choice)


def all_inexact(choice: Choice) -> tuple[Rule, ...]:
    """The rules, where some are selected and all of them are less exact than the tier: hardly anything that they find
    is reported. Raises `ConfigError`."""
    from autoaccel.edits import Tier

    if choice.tier == Tier.NUMERICS.label or all(layer.select is None for layer in choice.layers):
        return ()
    rules = rules_of(choice)
    return rules if all(tier_of(choice) < rule.tier < Tier.OPT_IN for rule in rules) else ()


def tier_of(choice: Choice) -> Tier:
    from autoaccel.edits import Tier

    return Tier[choice.tier.upper()]


def selected(rules: Sequence[Rule], layers: Iterable[Selection]) -> list[Rule]:
    """The rules that the layers leave on; opt-in rules only where they are named by code or name.

    Within a layer the more specific selector wins, as in other linters: `select = ["AA1"], ignore = ["AA101"]` leaves
    AA102 to AA104. A later layer wins over an earlier one: `--ignore AA1` over a file's `select = ["AA101"]`.
    Raises `ConfigError`.
    """
    chosen = {rule.code for rule in rules if not rule.opt_in}
    for layer in layers:
        if layer.select is not None:
            chosen = set()
        on = _strengths(rules, (*(layer.select or ()), *layer.extend_select), layer.where)
        off = _strengths(rules, layer.ignore, layer.where)
        for rule in rules:
            wanted, unwanted = on.get(rule.code, -1), off.get(rule.code, -1)
            if rule.opt_in and wanted < _EXACT_MATCH:
                wanted = -1
            if wanted > unwanted:
                chosen.add(rule.code)
            elif unwanted >= 0:
                chosen.discard(rule.code)
    return [rule for rule in rules if rule.code in chosen]


def rule_named(rules: Sequence[Rule], word: str) -> Rule:
    """The one rule with this code or name. Raises `ConfigError`."""
    for rule in rules:
        if _is_named(rule, word):
            return rule
    from autoaccel.config.refusals import REFUSALS

    hint = did_you_mean(word, (*_names(rules), *(each.name for each in REFUSALS)))
    raise ConfigError(f"no rule is called {word!r}{hint} (`autoaccel rules` lists them)")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    import difflib

    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


_EXACT_MATCH = 100


def _names(rules: Iterable[Rule]) -> list[str]:
    return [name for rule in rules for name in (rule.code, rule.name)]


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
            place = f" ({where})" if where else ""
            raise ConfigError(f"no rule matches {selector!r}{place}{did_you_mean(selector, _names(rules))}")
    return strengths
