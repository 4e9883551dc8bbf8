"""Explanations are generated from a rule's docstring."""

from __future__ import annotations

import sys
import tomllib
import types
from pathlib import Path

import pytest

from autoaccel import HOME
from autoaccel.edits import Tier
from autoaccel.reports.rules import explanation_markdown, explanation_text, table_markdown
from autoaccel.rewriting.rule import Rule

DOCSTRING = """Do it faster.

It is slow because.

Before:
    x = 1

    y = 2
After:
    x = 2
"""


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Rule:
    module = types.ModuleType("sample_rule", DOCSTRING)
    monkeypatch.setitem(sys.modules, "sample_rule", module)
    return Rule("AA999", "faster", Tier.OPT_IN, (), ("https://pytorch.org/docs",), module="sample_rule")


def test_text(rule: Rule) -> None:
    assert explanation_text(rule) == (
        f"AA999 faster (opt-in)\n\n{DOCSTRING.rstrip()}\n\nReferences:\n- https://pytorch.org/docs\n"
    )


def test_markdown(rule: Rule) -> None:
    assert explanation_markdown(rule) == (
        "# AA999 faster\n\n"
        "Tier: `opt-in` (training behaviour changes; applied only when it is selected by code or name); "
        "torch 2.6 or newer\n\nDo it faster.\n\nIt is slow because.\n\n"
        "Before:\n\n```python\nx = 1\n\ny = 2\n```\n\nAfter:\n\n```python\nx = 2\n```\n\n"
        "```bash\nautoaccel lint --select AA999 .                  # report\n"
        "autoaccel rewrite --diff --select AA999 train.py # preview; without --diff: rewrite\n```\n\n"
        "`# autoaccel: ignore[AA999] reason`, on the line or above the statement, keeps code as it is.\n\n"
        "References:\n- https://pytorch.org/docs\n"
    )


def test_the_table_links_to_pages(rule: Rule) -> None:
    assert table_markdown([rule], "docs/").splitlines()[2] == "AA999 [faster](docs/faster.md)|opt-in|Do it faster."


def test_rules_of_others_have_no_page_of_ours(rule: Rule) -> None:
    urls = [rule.url]
    rule.references = ()
    urls.append(rule.url)
    rule.module = "autoaccel_codemods.faster"
    urls.append(rule.url)
    page = "https://github.com/autoaccel/autoaccel/blob/main/docs/rules/faster.md"
    assert urls == ["https://pytorch.org/docs", None, page]


def test_home_is_the_one_of_the_package(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Homepage"] == HOME
