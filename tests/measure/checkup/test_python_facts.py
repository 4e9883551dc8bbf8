"""What is asked of the script's Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoaccel.measure.checkup import python_facts
from autoaccel.measure.checkup.python_facts import PythonFacts, ask


def test_this_python() -> None:
    torch = pytest.importorskip("torch")
    pillow = pytest.importorskip("PIL")
    found = ask(sys.executable)
    assert isinstance(found, PythonFacts)
    assert (found.torch, found.cuda, found.pillow) == (torch.__version__, torch.version.cuda, pillow.__version__)
    assert found.threads is not None
    assert found.turbo in (True, False)


def program(folder: Path, script: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_without_libraries(tmp_path: Path) -> None:
    assert ask(program(tmp_path, "echo Hello; echo '{}'")) == PythonFacts()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no luck >&2; exit 3", "no luck"),
        ("exit 3", "exit status 3"),
        ("echo '[]'", "exit status 0"),
        ("echo Hello", "exit status 0"),
    ],
)
def test_one_that_does_not_answer(tmp_path: Path, script: str, why: str) -> None:
    path = program(tmp_path, script)
    assert ask(path) == f"{path}: {why}"


def test_one_that_is_not_there(tmp_path: Path) -> None:
    assert ask(str(tmp_path / "gone")) == f"{tmp_path / 'gone'}: No such file or directory"


def test_one_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_facts, "_PROBE_SECONDS", 0.1)
    path = program(tmp_path, "exec sleep 60")
    assert ask(path) == f"{path}: no answer"
