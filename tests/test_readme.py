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
    described = set(re.findall(r"^autoaccel (\w+)", commands(repository), re.MULTILINE))
    assert described == set(COMMANDS)


def commands(repository: Path) -> str:
    page = (repository / "docs" / "commands.md").read_text(encoding="utf-8")
    return page.split("## Lint", 1)[0]


def test_every_flag_that_is_described_exists(repository: Path) -> None:
    help_text = "".join(command(name, "--help") for name in COMMANDS)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", commands(repository)))
    assert flags
    assert {flag for flag in flags if flag not in help_text} == set()


def test_it_is_short(repository: Path) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 600


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs"])
def test_links_lead_somewhere(repository: Path, page: str) -> None:
    pages = sorted((repository / page).rglob("*.md")) if page == "docs" else [repository / page]
    for each in pages:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", each.read_text(encoding="utf-8")):
            assert "://" in target or (each.parent / target).exists(), f"{each.name}: {target}"
