"""The plugin of flake8: called as flake8 calls it, and by flake8 itself."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from autoaccel.flake8 import Plugin
from autoaccel.jobs import inspection

SCRIPT = """\
import torch

device = torch.device("cuda")
mask = torch.zeros(3).to(device)
bias = torch.zeros(3).to(device)  # noqa: AA101
rest = torch.zeros(3).to(device)  # autoaccel: ignore[AA101] a reason
"""
PLACE = 4, 7


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(text: str, filename: str = "train.py") -> list[tuple[int, int, str]]:
    plugin = Plugin(ast.parse(text), text.splitlines(keepends=True), filename)
    return [(line, column, message) for line, column, message, _ in plugin.run()]


def test_findings_less_what_comments_silence() -> None:
    [(line, column, message)] = said(SCRIPT)
    assert (line, column) == PLACE
    assert message.startswith("AA101 create-on-device: `torch.zeros")


def test_configuration_counts() -> None:
    Path("autoaccel.toml").write_text('ignore = ["AA101"]\n', encoding="utf-8")
    assert said(SCRIPT) == []


@pytest.mark.parametrize("filename", ["-", "stdin"])
def test_standard_input(filename: str) -> None:
    assert len(said(SCRIPT, filename)) == 1


def test_bad_configuration_is_told() -> None:
    Path("autoaccel.toml").write_text("slect = []\n", encoding="utf-8")
    [(line, column, message)] = said(SCRIPT)
    assert (line, column) == (1, 0)
    assert message.startswith("AA000 ")
    assert "did you mean 'select'?" in message


def test_no_file_stops_flake8(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("first\nsecond")

    monkeypatch.setattr(inspection, "inspect_text", fail)
    assert said(SCRIPT) == [(1, 0, "AA000 train.py: internal error: first")]


def test_flake8_runs_it(repository: Path) -> None:
    pytest.importorskip("flake8")
    Path("train.py").write_text(SCRIPT + "unused = 1 ;\n", encoding="utf-8")
    Path("broken.py").write_text("for\n", encoding="utf-8")
    settings = "[flake8]\nselect = AA,E9\n"
    if not any(each.value == "autoaccel.flake8:Plugin" for each in metadata.entry_points(group="flake8.extension")):
        # autoaccel runs from its source here: as setup.cfg names a plugin that is not installed.
        settings += "[flake8:local-plugins]\nextension =\n    AA = autoaccel.flake8:Plugin\n"
    Path("setup.cfg").write_text(settings, encoding="utf-8")
    roots = os.pathsep.join([str(repository), str(repository / "codemods")])
    result = subprocess.run(
        [sys.executable, "-m", "flake8", "."],
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = sorted(result.stdout.replace("\\", "/").splitlines())
    assert (result.returncode, len(lines)) == (1, 2), result.stdout + result.stderr
    assert lines[0].startswith("./broken.py:1:") and " E999 " in lines[0]
    assert lines[1].startswith("./train.py:4:8: AA101 create-on-device: ")


def test_the_entry_point_is_declared(repository: Path) -> None:
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, value)] = project["entry-points"]["flake8.extension"].items()
    assert metadata.EntryPoint(name, value, "flake8.extension").load() is Plugin
