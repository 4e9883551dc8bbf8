"""A finding has the same fingerprint as long as its code is the same, and no other finding has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoaccel.reports import gitlab, sarif
from autoaccel.rewriting import registry
from autoaccel.rewriting.linting import lint
from tests.reports import sample

TEXT = """\
import torch

a = torch.zeros(2).to(device)
b = torch.zeros(2).to(device)
a = torch.zeros(2).to(device)
c = torch.zeros(2).to(device), torch.zeros(2).to(device)
"""


def gitlab_fingerprints(text: str, name: str = "train.py") -> list[str]:
    issues = json.loads(report(gitlab.render, text, name))
    assert all(0 < each["location"]["lines"]["begin"] <= each["location"]["lines"]["end"] for each in issues)
    return [each["fingerprint"] for each in issues]


def sarif_fingerprints(text: str, name: str = "train.py") -> list[str]:
    (run,) = json.loads(report(sarif.render, text, name))["runs"]
    return [next(iter(each["partialFingerprints"].values())) for each in run["results"]]


def report(render: Callable[..., str], text: str, name: str) -> str:
    rules = registry.rules()
    found = lint(text, Path(name), rules)
    assert len(found.findings) >= 5
    return render([found], sample.context(text={name: text}.__getitem__, problems=(), rules=lambda: rules))


Fingerprints = Callable[..., list[str]]
both = pytest.mark.parametrize("fingerprints", [gitlab_fingerprints, sarif_fingerprints])


@both
def test_unique_also_for_equal_lines(fingerprints: Fingerprints) -> None:
    found = fingerprints(TEXT)
    assert len(found) == len(set(found)) == 5


@both
def test_survive_shifts(fingerprints: Fingerprints) -> None:
    found = fingerprints(TEXT)
    assert fingerprints(TEXT.replace("\n\n", "\n\n\n# new\nx = 1\n\n", 1)) == found, "lines above"
    assert fingerprints(TEXT + "d = 1\n") == found, "lines below"
    assert fingerprints(TEXT.replace("\n", "\r\n")) == found, "line ends"
    assert fingerprints("if True:\n" + "".join(f"    {line}\n" for line in TEXT.splitlines())) == found, "indentation"


@both
def test_others_for_another_file_and_for_other_code(fingerprints: Fingerprints) -> None:
    found = fingerprints(TEXT)
    assert not set(found) & set(fingerprints(TEXT, "other.py"))
    changed = fingerprints(TEXT.replace("b =", "bb ="))
    assert [one == other for one, other in zip(found, changed, strict=True)] == [True, False, True, True, True]


def test_failures_have_fingerprints_too() -> None:
    issues: list[dict[str, Any]] = json.loads(gitlab.render(sample.REPORTS, sample.context()))
    fingerprints = [each["fingerprint"] for each in issues]
    assert len(set(fingerprints)) == len(issues) == 4
    assert {each["severity"] for each in issues} == {"critical", "minor"}
