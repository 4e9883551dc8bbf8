"""All reasons of AA301 stand in one table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autoaccel.analysis import load
from autoaccel.edits import Skipped
from autoaccel_codemods import autocast
from autoaccel_codemods.autocast import skip_reasons

FOLDER = Path(skip_reasons.__file__).parent
REASONS = {name: text for name, text in vars(skip_reasons).items() if name.isupper()}
PATTERNS = [re.sub(r"\\\{\w+\\\}", ".+", re.escape(text)) for text in REASONS.values()]
SCRIPTS = sorted((Path(__file__).parents[3] / "fixtures" / "autocast").glob("noop_*.py"))


@pytest.mark.parametrize("name", REASONS)
def test_a_reason_is_given_somewhere(name: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py") if path.stem != "skip_reasons"]
    assert any(f"skip_reasons.{name}" in text for text in texts)


def test_reasons_are_told_apart() -> None:
    assert len(set(REASONS.values())) == len(REASONS)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_is_told_is_in_the_table(path: Path) -> None:
    script = load(path.read_text(encoding="utf-8"), Path("/alone", path.name))  # beside it lie too many to look at
    for each in autocast.RULE.run(script):
        if isinstance(each, Skipped):
            reason = re.sub(r" \(.+, line \d+\)$", "", each.reason)
            assert any(re.fullmatch(pattern, reason) for pattern in PATTERNS), reason
