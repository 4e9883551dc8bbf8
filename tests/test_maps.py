"""The maps of the larger rooms, for newcomers, name every module in them and no other."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import autoaccel_codemods
from autoaccel import analysis, dataflow, library_models, measure, pytorch, rewriting, runtime
from autoaccel.measure import benching, checkup, observing, tuning, verifying

# not as attributes of the runtime: `runtime.compile` is the verb
PACKAGES = [
    import_module(f"autoaccel.runtime.{name}")
    for name in ("amp", "compile", "distributed", "in_memory", "loading", "trial")
]

RULES = [
    import_module(f"autoaccel_codemods.{each.name}")
    for each in pkgutil.iter_modules(autoaccel_codemods.__path__)
    if each.ispkg
]


@pytest.mark.parametrize(
    "room",
    [
        dataflow,
        library_models,
        analysis,
        pytorch,
        rewriting,
        measure,
        observing,
        verifying,
        benching,
        checkup,
        tuning,
        runtime,
        *PACKAGES,
    ],
)
def test_the_map_names_every_module(room: ModuleType) -> None:
    assert named(room.__doc__) == modules(room)


@pytest.mark.parametrize("rule", RULES)
def test_the_check_of_a_rule_names_every_module(rule: ModuleType) -> None:
    """The docstring of the package is the rule's page, so the map stands where a reader of the policy begins."""
    assert named(inspect.getdoc(rule.check)) == modules(rule)


def named(text: str | None) -> list[str]:
    return sorted(re.findall(r"^    \[?(\w+)\]? {2,}", text or "", re.MULTILINE))


def modules(room: ModuleType) -> list[str]:
    folder = Path(room.__file__ or "").parent
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    return sorted(names | {path.parent.name for path in folder.glob("*/__init__.py")})
