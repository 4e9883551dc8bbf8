"""The rules there are: whatever stands among the built-in ones, and packs that announce themselves."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from autoaccel.rewriting import packs
from autoaccel.rewriting.packs import GROUP
from autoaccel.rewriting.rule import Rule

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


_BUILT_IN = "autoaccel_codemods"


class PackError(ValueError):
    """A pack of rules that cannot be used; the message says which and why."""


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order in which they are applied: an earlier rule wins over a later one. Raises `PackError`."""
    built_in = importlib.import_module(_BUILT_IN)
    names = sorted(each.name for each in pkgutil.iter_modules(built_in.__path__))
    found = [_rule(importlib.import_module(f"{_BUILT_IN}.{name}")) for name in names]
    found.sort(key=lambda rule: rule.precedence)
    for entry in _packs():
        found.extend(_pack(entry))
    known: dict[str, Rule] = {}
    for rule in found:
        for word in (rule.code, rule.name):
            other = known.setdefault(word, rule)
            if other is not rule:
                raise PackError(f"{rule.module} and {other.module} both define {word}")
    return tuple(found)


def _packs() -> list[EntryPoint]:
    """The entry points of packs. Few environments have one, and importing the library that finds them takes long."""
    if not any(packs.announced()):
        return []
    from importlib import metadata

    return sorted(metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def _pack(entry: EntryPoint) -> list[Rule]:
    """The rules of an entry point: a module with `RULE`, or a package whose `MODULES` names such modules."""
    try:
        loaded = entry.load()
        if not isinstance(loaded, ModuleType):
            raise PackError(f"rule pack {entry.name!r} ({entry.value}) is not a module")
        names = getattr(loaded, "MODULES", None)
        if names is None:
            return [_rule(loaded)]
        return [_rule(importlib.import_module(f"{loaded.__name__}.{name}")) for name in names]
    except PackError:
        raise
    except (Exception, SystemExit) as error:  # somebody else's module, which may do anything when it is imported
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = said if isinstance(error, ImportError) else f"{type(error).__name__}: {said}"
        raise PackError(f"rule pack {entry.name!r} ({entry.value}) cannot be imported: {what}") from error


def _rule(module: ModuleType) -> Rule:
    rule = getattr(module, "RULE", None)
    if not isinstance(rule, Rule):
        raise PackError(f"{module.__name__} defines no RULE")
    return rule
