"""`docs/json.md` names every key of what the commands write as JSON, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from autoaccel.cli.env import tool_facts
from autoaccel.cli.main import cli
from autoaccel.measure.checkup.readings import CheckRow, Status
from autoaccel.measure.tuning import tune_record
from autoaccel.reports import check_table, verification
from autoaccel.reports.benchmark import text
from tests.measure.tuning.test_tune_record import said
from tests.reports.benchmark.sample import RICH
from tests.reports.test_verification import REPORT as VERIFIED
from tests.reports.test_verification import failing

ROWS = [CheckRow("load", "load of others", Status.HEALTHY, "0.1 on 2 CPUs")]
_INTERVAL = {"median", "low", "high"}
_NAMED = {"machine", "tiers", "outcomes[].where", "scripts.*.machine", "scripts.*.versions"}
"""Whose own keys are names, or told in the text."""


def written(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(cli, [*arguments, "--output-format", "json"]).stdout)


def keys(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and path not in _NAMED and value.keys() != _INTERVAL:
        for key, each in value.items():
            inner = f"{path}.{key}".removeprefix(".")
            yield inner
            yield from keys(each, inner)
    elif isinstance(value, list):
        for each in value:
            yield from keys(each, f"{path}[]" if path else "")


def described(repository: Path, heading: str) -> list[str]:
    page = (repository / "docs" / "json.md").read_text(encoding="utf-8")
    section = page.split(f"## `{heading}`\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def verified() -> Iterator[str]:
    for content in (verification.to_json(failing(VERIFIED)), verification.failure_to_json("train.py", "why")):
        yield from keys(json.loads(content))


def tuned(folder: Path) -> Iterator[str]:
    """A script's name is any: `*`."""
    yield from keys(json.loads(tune_record.write(folder, "*", said("train.py")).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("heading", "found"),
    [
        pytest.param("verify --json", lambda _: verified(), id="verify"),
        pytest.param("bench --json", lambda _: keys(json.loads(text.json(RICH))), id="bench"),
        pytest.param("doctor --json", lambda _: keys(json.loads(check_table.to_json(ROWS, None))), id="doctor"),
        pytest.param(".autoaccel/tune.json", lambda folder: tuned(folder), id="tune"),
        pytest.param("rule --output-format json", lambda _: keys(written("rule", "AA301")), id="rule"),
        pytest.param("rule --output-format json", lambda _: keys(written("rules")), id="rules"),
        pytest.param(
            "lint --statistics --output-format json",
            lambda folder: keys(written("lint", "--isolated", "--statistics", str(folder))),
            id="statistics",
        ),
    ],
)  # fmt: skip
def test_the_keys_are_those_of_the_page(repository: Path, tmp_path: Path, heading: str, found: Any) -> None:
    (tmp_path / "train.py").write_text("import torch\nx = torch.zeros(3).to('cuda')\n", encoding="utf-8")
    names = described(repository, heading)
    assert len(set(names)) == len(names)
    assert set(found(tmp_path)) == set(names)


def test_the_keys_of_env(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page names those that are no topic of the runtime; some are there on some machines alone."""
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    known = described(repository, "env --output-format json")
    found = written("env")
    assert list(tool_facts()) == known[:6]
    assert set(found) - set(known) >= {"AUTOACCEL_LOG"}
    assert [key for key in known if key in found] == [key for key in found if key in known]
    assert all(isinstance(value, str) for value in found.values())
    decided = [key for key in found if key not in known and not key.startswith("AUTOACCEL_")]
    assert decided == [] if "runtime" in found else {"amp", "compile", "prefetch"} <= set(decided)
