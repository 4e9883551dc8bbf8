"""What the README shows is what the tool does: the table and the example are generated (`AUTOACCEL_UPDATE=1`)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoaccel.cli.main import COMMANDS, cli

UPDATE = os.environ.get("AUTOACCEL_UPDATE") == "1"


def section(readme: str, name: str) -> re.Match[str]:
    """What stands between `<!-- name… -->` and `<!-- /name -->`."""
    found = re.search(rf"(?<=<!-- {name})(?P<argument>.*?) -->\n(?P<body>.*?)(?=<!-- /{name} -->)", readme, re.DOTALL)
    assert found is not None, f"no section {name}"
    return found


def command(*arguments: str) -> str:
    return CliRunner().invoke(cli, list(arguments)).stdout


def example(arguments: str) -> str:
    return f"```diff\n{command(*arguments.split())}```\n"


@pytest.mark.parametrize("name", ["rules", "example"])
def test_generated_section(repository: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(repository)
    path = repository / "README.md"
    readme = path.read_text(encoding="utf-8")
    found = section(readme, name)
    if name == "rules":
        expected = command("rules", "--output-format", "markdown")
    else:
        words = found["argument"].removeprefix(": autoaccel ")
        expected = example(words)
    if UPDATE:
        start, end = found.span("body")
        path.write_text(readme[:start] + expected + readme[end:], encoding="utf-8")
    else:
        assert found["body"] == expected, "AUTOACCEL_UPDATE=1 pytest tests/test_readme.py renews it"


def test_every_command_is_described(repository: Path) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^autoaccel (\w+)", section_commands(readme), re.MULTILINE))
    assert described == set(COMMANDS)


def section_commands(readme: str) -> str:
    return readme.split("## Commands", 1)[1].split("###", 1)[0]


def test_every_flag_that_is_described_exists(repository: Path) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    help_text = "".join(command(name, "--help") for name in COMMANDS)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", section_commands(readme)))
    assert flags
    assert {flag for flag in flags if flag not in help_text} == set()
