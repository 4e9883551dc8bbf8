"""The maps of the larger rooms, for newcomers, name every module in them and no other."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from autoaccel import analysis, dataflow, library_models, measure, pytorch, rewriting, runtime
from autoaccel.measure import benching, observing, verifying

# not as attributes of the runtime: `runtime.compile` is the verb
PACKAGES = [import_module(f"autoaccel.runtime.{name}") for name in ("amp", "compile", "in_memory", "loading", "trial")]


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
        runtime,
        *PACKAGES,
    ],
)
def test_the_map_names_every_module(room: ModuleType) -> None:
    folder = Path(room.__file__ or "").parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    folders = {path.parent.name for path in folder.glob("*/__init__.py")}
    named = re.findall(r"^    (\w+) {2,}", room.__doc__ or "", re.MULTILINE)
    assert sorted(named) == sorted(modules | folders)
