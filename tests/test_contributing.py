"""CONTRIBUTING, word for word: in a copy of the repository its files are written and its commands run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

NEEDED = ("autoaccel", "codemods", "docs", "tests", "tools", "fixtures/scripts", "README.md", "pyproject.toml")
STEPS = re.compile(r"^## A rule in ten minutes\n(.*?)^## ", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(
    r"(?P<before>.*?)^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
FILE = re.compile(r"`([\w./-]+)`:\s*$")
STATUS = re.compile(r"exit status (\d+)")
EXAMPLE = "fixtures/fused-sgd/example.in.py"


def steps(contributing: str) -> Iterator[tuple[str, str, str]]:
    """The language and the text of each block of code, and the words that lead to it."""
    section = STEPS.search(contributing)
    assert section is not None
    for block in BLOCK.finditer(section[1]):
        yield block["language"], textwrap.dedent(block["body"]), block["before"]


def command_line(text: str, copy: Path) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join((str(copy), str(copy / "codemods")))
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = {**os.environ, "PATH": programs, "PYTHONPATH": search}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=copy, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which somebody did what CONTRIBUTING says."""
    repository = Path(__file__).resolve().parent.parent
    copy = tmp_path_factory.mktemp("copy")
    for name in NEEDED:
        original = repository / name
        if original.is_dir():
            shutil.copytree(original, copy / name, dirs_exist_ok=True)
        else:
            shutil.copy2(original, copy / name)
    for language, text, before in steps((repository / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        if language == "bash":
            done = command_line(text, copy)
            status = STATUS.search(before)
            assert done.returncode == (int(status[1]) if status else 0), f"{text}{done.stdout}{done.stderr}"
        else:
            path = FILE.search(before)
            assert path is not None, f"it is not said where this goes:\n{text}"
            (copy / path[1]).write_text(text, encoding="utf-8")
    return copy


def test_the_tool_lists_the_rule(followed: Path) -> None:
    done = command_line("autoaccel rules", followed)
    assert re.search(r"^AA609 +fused-sgd +equivalent +\w", done.stdout, re.MULTILINE), done.stderr


def test_the_tool_rewrites_the_example(followed: Path) -> None:
    done = command_line(f"autoaccel rewrite --select AA609 - < {EXAMPLE}", followed)
    before = (followed / EXAMPLE).read_text(encoding="utf-8")
    assert done.stdout == before.replace("lr=1e-3", "lr=1e-3, fused=True")
    assert done.stdout == (followed / EXAMPLE.replace(".in.", ".out.")).read_text(encoding="utf-8")


def test_the_fixtures_of_the_rule_pass(followed: Path) -> None:
    done = command_line("python -m pytest -q tests/test_fixtures.py -k fused-sgd", followed)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^7 passed", done.stdout, re.MULTILINE), done.stdout  # three cases twice, and their number


def test_what_is_generated_names_the_rule(followed: Path) -> None:
    assert "\nAA609 fused-sgd|" in (followed / "README.md").read_text(encoding="utf-8")
    assert (followed / "docs" / "rules" / "fused-sgd.md").is_file()


def test_the_rule_is_clean(followed: Path) -> None:
    module = "codemods/autoaccel_codemods/fused_sgd.py"
    done = command_line(f"python -m ruff check --no-cache {module}; python -m ruff format --check {module}", followed)
    assert done.returncode == 0, done.stdout
