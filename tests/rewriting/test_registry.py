"""The rules there are, and packs of others."""

from __future__ import annotations

import types
from collections.abc import Iterator
from importlib import metadata

import pytest

from autoaccel.rewriting import packs, registry
from tests.rewriting.subject import toy


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    registry.rules.cache_clear()
    yield
    registry.rules.cache_clear()


class Entry:
    """What `importlib.metadata` hands out, as far as the registry looks."""

    name, value = "pack", "pack.rules"

    def __init__(self, loaded: object) -> None:
        self.loaded = loaded

    def load(self) -> object:
        if isinstance(self.loaded, BaseException):
            raise self.loaded
        return self.loaded


def install(monkeypatch: pytest.MonkeyPatch, loaded: object) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda group: [Entry(loaded)] if group == packs.GROUP else [])
    monkeypatch.setattr(packs, "announced", lambda: iter([("pack-1.0.dist-info", packs.GROUP)]))


def pack(code: str) -> types.ModuleType:
    module = types.ModuleType("pack.rules")
    module.RULE = toy(code)  # type: ignore[attr-defined]
    return module


def test_every_built_in_rule_is_complete() -> None:
    for rule in registry.rules():
        assert rule.code.startswith("AA")
        assert rule.function or rule.comment_function
        assert rule.module.rpartition(".")[2] == rule.name.replace("-", "_"), "a rule's module is named as the rule"
        assert "Before:" in rule.explanation
        assert "After:" in rule.explanation
        assert "TODO" not in rule.explanation, "`tools/new_rule.py` leaves these to be replaced"


def test_a_pack_adds_its_rules_after_the_built_in_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, pack("ZZ001"))
    assert registry.rules()[-1].code == "ZZ001"


@pytest.mark.parametrize(
    ("loaded", "message"),
    [
        pytest.param(pack("AA201"), "both define AA201", id="taken code"),
        pytest.param(types.ModuleType("pack.empty"), "defines no RULE", id="no rule"),
        pytest.param(ImportError("no module"), "cannot be imported", id="does not import"),
        pytest.param(
            RuntimeError("no\nway"), r"rule pack .* cannot be imported: RuntimeError: no$", id="fails when imported"
        ),
        pytest.param(SystemExit(3), "cannot be imported: SystemExit: 3", id="ends the process"),
        pytest.param(42, "is not a module", id="no module"),
    ],
)
def test_a_bad_pack_is_named(monkeypatch: pytest.MonkeyPatch, loaded: object, message: str) -> None:
    install(monkeypatch, loaded)
    with pytest.raises(registry.PackError, match=message):
        registry.rules()
