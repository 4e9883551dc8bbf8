"""SARIF: valid by the published schema, relative, and the same findings from one commit to the next."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urljoin

import jsonschema
import pytest

from autoaccel.reports import sarif
from autoaccel.rewriting import registry
from autoaccel.rewriting.linting import lint
from autoaccel.rewriting.record import Failure, Report
from tests.reports import sample

SCHEMA = json.loads(Path(__file__).with_name("schemas").joinpath("sarif-2.1.0.json").read_text())
FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


def run_of(reports: Any, **changes: Any) -> dict[str, Any]:
    document = json.loads(sarif.render(reports, sample.context(**changes)))
    jsonschema.validate(document, SCHEMA, format_checker=jsonschema.FormatChecker())
    (run,) = document["runs"]
    assert isinstance(run, dict)
    return run


def test_the_schema_refuses_what_is_no_sarif() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"version": "2.1.0", "runs": [{"results": []}]}, SCHEMA)


def test_sample_is_valid() -> None:
    run = run_of(sample.REPORTS)
    assert [each["ruleId"] for each in run["results"]] == ["AA101", "AA202", "AA103"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])


def test_rules_bring_their_help(tmp_path: Path) -> None:
    """Real findings of every rule, in files with nothing around them that may have to do with them."""
    reports = []
    for rule in registry.rules():
        folder = FIXTURES / rule.name
        path = tmp_path / rule.name / "train.py"
        path.parent.mkdir()
        shutil.copy(min(folder.glob("*.in.py"), default=folder / "noop_only_reported.py"), path)
        reports.append(lint(path.read_text(), path, registry.rules(), changes=True))
    assert not [report.failures for report in reports if report.failures]
    texts = {report.path: Path(report.path).read_text() for report in reports}
    run = run_of(reports, text=texts.__getitem__, rules=registry.rules, root=tmp_path, problems=())
    found = {each["ruleId"] for each in run["results"]}
    described = {each["id"]: each for each in run["tool"]["driver"]["rules"]}
    assert found == described.keys()
    assert len(found) == len(registry.rules())
    for each in described.values():
        assert each["help"]["markdown"].startswith(f"# {each['id']}")
        assert each["helpUri"].endswith(f"/{each['name']}.md")
    assert {each["ruleId"] for each in run["results"] if not each.get("fixes")} == {"AA502", "AA803"}  # only reported
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_what_could_not_be_done_is_notified() -> None:
    (invocation,) = run_of(sample.REPORTS)["invocations"]
    assert invocation["executionSuccessful"] is False
    path, syntax = invocation["toolExecutionNotifications"]
    assert path["message"]["text"] == "none.py: no such file or folder"
    assert syntax["descriptor"] == {"id": "invalid-syntax"}
    place = syntax["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/broken.py"
    assert place["region"] == {"startLine": 7, "startColumn": 3}


@pytest.mark.skipif(sys.platform == "win32", reason="names are bytes on POSIX only")
def test_names_survive_the_uri() -> None:
    names = [
        "a b.py",
        "50%.py",
        "a:b.py",
        "déjà.py",
        os.fsdecode(b"caf\xe9.py"),
        "new\nline.py",
        "#?.py",
        "/else/where.py",
    ]
    reports = [Report(name, failures=(Failure(f"{name}: cannot read: no"),)) for name in names]
    run = run_of(reports, problems=())
    base = run["originalUriBaseIds"]["%SRCROOT%"]["uri"]
    found = []
    for each in run["invocations"][0]["toolExecutionNotifications"]:
        artifact = each["locations"][0]["physicalLocation"]["artifactLocation"]
        uri = urljoin(base, artifact["uri"]) if "uriBaseId" in artifact else artifact["uri"]
        found.append(os.fsdecode(unquote_to_bytes(uri.removeprefix("file://"))))
    assert found == [str(Path("/home/me/repo") / name) for name in names]


def test_root_is_a_folder_above() -> None:
    run = run_of(sample.REPORTS, root=Path("/home/me"))
    uris = {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]}
    assert uris == {"repo/src/train.py", "repo/src/d%C3%A9j%C3%A0%20vu%2C%201%3A2.py"}
    assert run["originalUriBaseIds"] == {"%SRCROOT%": {"uri": "file:///home/me/"}}


def test_root_may_be_the_root_of_all() -> None:
    assert run_of(sample.REPORTS, root=Path("/"))["originalUriBaseIds"] == {"%SRCROOT%": {"uri": "file:///"}}
