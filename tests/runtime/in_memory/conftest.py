"""torchvision where there is one; the stand-in elsewhere. Small datasets are looked into."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from autoaccel.runtime.in_memory import eligible_loaders

STANDINS = Path(__file__).resolve().parents[2] / "standins"


def _imported() -> ModuleType:
    try:
        return importlib.import_module("torchvision")
    except Exception:  # none, or one for another torch
        _forget()
        sys.path.insert(0, str(STANDINS))
        try:
            return importlib.import_module("torchvision")
        finally:
            sys.path.remove(str(STANDINS))


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def torchvision() -> Iterator[ModuleType]:
    yield _imported()
    _forget()


@pytest.fixture(autouse=True)
def few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets of these tests are small: loaders of a few batches are looked into as well."""
    monkeypatch.setattr(eligible_loaders, "_FEWEST_BATCHES", 1)
