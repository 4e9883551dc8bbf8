"""Which Python is taken, and what is said of those that cannot be."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from autoaccel.measure import interpreters
from autoaccel.measure.interpreters import Interpreter, InterpreterError

ANSWER = '#!/bin/sh\necho greetings\necho \'{{"path": "{path}", "python": [{python}], "torch": {torch}}}\'\n'


def pretend(path: Path, python: str = "3, 12, 1", torch: str = '"2.7.0+cpu"') -> str:
    """An interpreter that knows one answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ANSWER.format(path=path, python=python, torch=torch))
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tool runs under an interpreter that has no torch."""
    path = pretend(tmp_path / "tool" / "python", torch="null")
    monkeypatch.setattr(sys, "executable", path)
    return path


def installed(folder: Path, version: str | None) -> str:
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise RuntimeError('was imported')\n")
    if version is not None:
        (folder / "torch" / "version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\n")
    return str(folder)


@pytest.mark.parametrize("version", ["2.9.0a0+git12ab", None])
def test_torch_is_found_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    monkeypatch.setenv("PYTHONPATH", installed(tmp_path / "installed", version))
    found = interpreters.choose(sys.executable)
    assert found == Interpreter(sys.executable, sys.version_info[:3], version or "")
    assert interpreters.choose(None) == found


def test_a_torch_in_the_working_directory_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", installed(tmp_path / "installed", "2.9.0"))
    installed(tmp_path / "work", "1.0.0")
    monkeypatch.chdir(tmp_path / "work")
    assert interpreters.choose(None).torch == "2.9.0"


def test_a_name_or_the_folder_of_an_environment(tmp_path: Path) -> None:
    venv, conda = pretend(tmp_path / "venv" / "bin" / "python3"), pretend(tmp_path / "conda" / "python.exe")
    path = {"PATH": f"{tmp_path}/nowhere{os.pathsep}{tmp_path}/venv/bin"}
    assert interpreters.choose(str(tmp_path / "venv")) == Interpreter(venv, (3, 12, 1), "2.7.0+cpu")
    assert interpreters.choose(str(tmp_path / "conda")).path == conda
    assert interpreters.choose("python3", path).path == venv


def test_the_order(tmp_path: Path, no_torch: str) -> None:
    active, conda = pretend(tmp_path / "venv" / "bin" / "python"), pretend(tmp_path / "conda" / "bin" / "python")
    on_path = pretend(tmp_path / "bin" / "python3")
    environment = {"VIRTUAL_ENV": str(tmp_path / "venv"), "CONDA_PREFIX": str(tmp_path / "conda")}
    environment["PATH"] = str(tmp_path / "bin")
    for expected in (active, conda, on_path):
        assert interpreters.choose(None, environment).path == expected
        pretend(Path(expected), torch="null")
    with pytest.raises(InterpreterError) as raised:
        interpreters.choose(None, environment)
    tried = f"{no_torch}, {active}, {conda}, {on_path}"
    assert str(raised.value) == f"no interpreter with torch: tried {tried}; name one with --python"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing", "{}: no such interpreter"),
        ("empty", "{}: is a folder without an interpreter"),
        ("plain", "{}: is not a Python that works: oh dear"),
        ("text", "{}: cannot be run: "),
        ("none", "{}: has no torch"),
        ("python39", "{}: is Python 3.9.18; at least 3.10 is needed"),
        ("torch25", "{}: has torch 2.5.1; at least 2.6 is needed"),
    ],
)
def test_what_cannot_run_the_script(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    pretend(tmp_path / "plain")
    (tmp_path / "plain").write_text("#!/bin/sh\necho oh dear >&2\n")
    (tmp_path / "text").write_text("nothing to run")
    pretend(tmp_path / "none", torch="null")
    pretend(tmp_path / "python39", python="3, 9, 18")
    pretend(tmp_path / "torch25", torch='"2.5.1"')
    with pytest.raises(InterpreterError) as raised:
        interpreters.choose(str(tmp_path / path))
    assert str(raised.value).startswith(said.format(tmp_path / path))
    assert "\n" not in str(raised.value)


def test_one_that_is_too_old_is_not_passed_over(tmp_path: Path, no_torch: str) -> None:
    """It has torch: the user means it, and must hear that it does not do."""
    assert no_torch
    pretend(tmp_path / "venv" / "bin" / "python", torch='"1.13.0"')
    with pytest.raises(InterpreterError, match=r"has torch 1\.13\.0; at least 2\.6 is needed"):
        interpreters.choose(None, {"VIRTUAL_ENV": str(tmp_path / "venv")})
