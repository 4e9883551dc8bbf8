"""The page on the runtime names every variable that the runtime reads, and every feature that can be switched off."""

from __future__ import annotations

import re
from pathlib import Path

from autoaccel.runtime.environment import FEATURES

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "runtime.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `AUTOACCEL_(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))


def test_every_variable_is_explained() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "autoaccel" / "runtime").rglob("*.py"))
    read = {name for text in sources for name in re.findall(r'(?:setting|whole_number)\("([A-Z_]+)"', text)}
    assert set(ROWS) == read


def test_every_feature_is_named() -> None:
    assert set(re.findall(r"`(\w+)`", ROWS["DISABLE"])) == FEATURES | {"all"}
