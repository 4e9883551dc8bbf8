"""`autoaccel rule` and `autoaccel rules`, and `autoaccel env`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from click.testing import Result

from autoaccel.config.refusals import REFUSALS, Refusal

Run = Callable[..., Result]


def test_rules_as_a_table(run: Run) -> None:
    lines = run("rules").stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [["AA190", "fast-call", "exact"], ["AA690", "brave-call", "opt-in"]]


def test_rules_as_json(run: Run) -> None:
    found = json.loads(run("rules", "--output-format", "json").stdout)
    assert [(each["code"], each["tier"]) for each in found] == [("AA190", "exact"), ("AA690", "opt-in")]


def test_rules_as_markdown(run: Run) -> None:
    lines = run("rules", "--output-format", "markdown").stdout.splitlines()
    assert lines[:2] == ["rule|tier|what it does", "---|---|---"]
    assert lines[2].startswith("AA190 fast-call|exact|Commands under click's runner")


@pytest.mark.parametrize("word", ["AA190", "aa190", "fast-call", "fast_call"])
def test_rule(run: Run, word: str) -> None:
    result = run("rule", word)
    assert result.exit_code == 0
    assert result.stdout.startswith("AA190 fast-call (exact)\n\nCommands under click's runner")


def test_rule_as_json_and_markdown(run: Run) -> None:
    assert json.loads(run("rule", "AA190", "--output-format", "json").stdout)["name"] == "fast-call"
    assert run("rule", "AA190", "--output-format", "markdown").stdout.startswith("# AA190 fast-call\n\nTier: `exact` (")


def test_unknown_rule(run: Run) -> None:
    result = run("rule", "fast-cal")
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr
        == "error: no rule is called 'fast-cal'; did you mean 'fast-call'? (`autoaccel rules` lists them)\n"
    )


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda each: each.name)
def test_what_is_refused_says_why(run: Run, refused: Refusal) -> None:
    result = run("rule", refused.name.upper().replace("-", "_"))
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert said == f"{refused.name} (refused) {refused.reason} {refused.instead}"
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert run("rule", refused.name, "--output-format", "markdown").stdout.startswith(f"# {refused.name}\n\nRefused. ")
    found = json.loads(run("rule", refused.name, "--output-format", "json").stdout)
    assert (found["name"], found["refused"]) == (refused.name, True)


def test_what_is_refused_is_suggested_and_not_selected(run: Run) -> None:
    assert "did you mean 'pruning'?" in run("rule", "prunning").stderr
    assert run("lint", "--select", "pruning").exit_code == 2


def test_env(run: Run) -> None:
    facts = json.loads(run("env", "--output-format", "json").stdout)
    assert {"autoaccel", "python", "torch", "num_workers", "amp"} <= set(facts)


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        ("Traceback\nModuleNotFoundError: No module named 'torch'\n", ("torch", "not installed here")),
        (
            "OSError: libcudart.so.12: cannot open\n",
            ("runtime", "not available: OSError: libcudart.so.12: cannot open"),
        ),
        ("", ("runtime", "not available: exit status 1")),
    ],
)
def test_env_without_a_working_torch(
    run: Run, monkeypatch: pytest.MonkeyPatch, stderr: str, expected: tuple[str, str]
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", stderr))
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", "3")
    result = run("env", "--output-format", "json")
    facts = json.loads(result.stdout)
    name, value = expected
    assert result.exit_code == 0
    assert facts[name].startswith(value)
    assert facts["AUTOACCEL_NUM_WORKERS"] == "3"
