"""Explanations are generated from a rule's docstring."""

from __future__ import annotations

import sys
import types

import pytest

from autoaccel.reports.rules import explanation_markdown, explanation_text
from autoaccel.rewriting.finding import Tier
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
        "## AA999 faster\n\nTier: `opt-in`\n\nDo it faster.\n\nIt is slow because.\n\n"
        "Before:\n\n```python\nx = 1\n\ny = 2\n```\n\nAfter:\n\n```python\nx = 2\n```\n\n"
        "References:\n- https://pytorch.org/docs\n"
    )
