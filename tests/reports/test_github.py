"""Workflow commands, read back as the runner of GitHub Actions reads them."""

from __future__ import annotations

import re
from pathlib import Path

from autoaccel.reports import github
from autoaccel.rewriting.record import Report
from tests.reports import sample

COMMAND = re.compile(r"::(?P<name>\w+) (?P<properties>.*?)::(?P<data>.*)")


def read(line: str) -> tuple[str, dict[str, str], str]:
    match = COMMAND.fullmatch(line)
    assert match is not None
    properties = dict(each.split("=", 1) for each in match["properties"].split(","))
    return match["name"], {key: _property(value) for key, value in properties.items()}, _data(match["data"])


def _data(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def _property(text: str) -> str:
    return _data(text.replace("%3A", ":").replace("%2C", ","))


def test_everything_comes_back() -> None:
    lines = github.render(sample.REPORTS, sample.context()).splitlines()
    assert len(lines) == 5
    name, properties, message = read(lines[2])
    assert name == "error"
    assert properties == {
        "title": "autoaccel (AA101 create-on-device)",
        "file": "src/déjà vu, 1:2.py",
        "line": "2",
        "col": "11",
        "endLine": "2",
        "endColumn": "32",
    }
    assert message.split("\n")[1] == "then copied <slowly> [equivalent]"
    assert message.split("\n")[2] == '  fix: `torch.zeros(2).cuda()` -> `torch.zeros(2, device="cuda")`'


def test_odd_names() -> None:
    for name in ("a%0Ab.py", "a\r\nb,c:d=e.py", "100%.py", "::error::.py"):
        (line,) = github.render([Report(name, (sample.MOVED,))], sample.context(problems=())).splitlines()
        assert read(line)[1]["file"] == name


def test_names_are_relative_to_the_repository() -> None:
    reports = [Report("../lib/a.py", (sample.MOVED,)), Report("/else/b.py", (sample.MOVED,))]
    context = sample.context(here=Path("/home/me/repo/src"), problems=())
    files = [read(line)[1]["file"] for line in github.render(reports, context).splitlines()]
    assert files == ["lib/a.py", "/else/b.py"]
