"""`docs/rules` is what the rules say of themselves (`AUTOACCEL_UPDATE=1` writes it)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from autoaccel.config import known_rules
from autoaccel.config.refusals import REFUSALS
from autoaccel.reports.rules import explanation_markdown, refusals_markdown, table_markdown
from autoaccel.rewriting.rule import Rule

UPDATE = os.environ.get("AUTOACCEL_UPDATE") == "1"
RULES = sorted((rule for rule in known_rules() if rule.url), key=lambda rule: rule.code)
INDEX = """# Rules

What each rule does, why that is faster, and when it leaves code alone; in a terminal: `autoaccel rule CODE`.

"""
REFUSED = """
## Refused

What is no rule, and will be none; `autoaccel rule pruning` says so in a terminal.

"""
PAGES = {f"{rule.name}.md": explanation_markdown(rule) for rule in RULES}
PAGES["README.md"] = f"{INDEX}{table_markdown(RULES, '')}{REFUSED}{refusals_markdown(REFUSALS)}"


@pytest.mark.parametrize("name", PAGES)
def test_page(repository: Path, name: str) -> None:
    path = repository / "docs" / "rules" / name
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGES[name], encoding="utf-8")
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    assert found == PAGES[name], "AUTOACCEL_UPDATE=1 pytest tests/test_rule_pages.py renews it"


def test_no_page_is_left_over(repository: Path) -> None:
    assert {path.name for path in (repository / "docs" / "rules").iterdir()} == set(PAGES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_page_shows_both_sides(repository: Path, rule: Rule) -> None:
    page = PAGES[f"{rule.name}.md"]
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        assert block.strip()
    assert page.index("Before:") < page.index("After:")
    address = rule.url
    assert address is not None
    assert (repository / address.split("/blob/main/")[1]).is_file()
