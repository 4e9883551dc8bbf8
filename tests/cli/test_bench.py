"""`autoaccel bench` at its edges: what it asks for, what it writes where, and how it ends; nothing is measured here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from autoaccel.measure import interpreters
from autoaccel.measure.benching import procedure
from autoaccel.measure.benching.contenders import Processes
from autoaccel.measure.benching.procedure import BenchError, Task
from autoaccel.measure.benching.report import BenchReport, BreakEven, Column, Interval
from autoaccel.measure.changes import Changes
from autoaccel.measure.interpreters import Interpreter, InterpreterError
from autoaccel.measure.observing.run_record import RunFailure

Run = Callable[..., Result]

FAILURE = RunFailure(
    "RuntimeError", "no luck", "train.py:2", "Traceback (most recent call last):\nRuntimeError: no luck\n"
)


def column(name: str, speedup: Interval) -> Column:
    step = Interval(0.01, 0.009, 0.011)
    return Column(name, 1, 3, (0.01,) * 3, None, step, speedup, 2.0, 2.1, 10, 0.1, 1 << 28, 0, None)


REPORT = BenchReport(
    "train.py",
    "autoaccel bench train.py",
    {"cores": "2"},
    None,
    (column("original", Interval(1, 1, 1)), column("rewritten", Interval(2.0, 1.9, 2.1))),
    BreakEven(0, measured=True),
)


@dataclass
class Bench:
    """In the place of a benchmark: remembers what was asked for."""

    error: BaseException | None = None
    task: Task | None = None
    runs: Processes | None = None
    found: Changes | None = None
    python: list[str | None] = field(default_factory=list)

    def bench(self, task: Task, runs: Processes, find: Any, rules: Any, tell: Any) -> BenchReport:
        self.task, self.runs = task, runs
        self.found = find([Path("train.py")])
        tell("original: 3 steps", 0.5)
        if self.error is not None:
            raise self.error
        return REPORT

    def choose(self, named: str | None) -> Interpreter:
        self.python.append(named)
        return Interpreter(named or sys.executable, (3, 11, 0), "2.13.0")


@pytest.fixture
def measured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    (folder / "train.py").write_text("import torch\nx = slow(1)\n")
    stage = Bench()
    monkeypatch.setattr(procedure, "bench", stage.bench)
    monkeypatch.setattr(interpreters, "choose", stage.choose)
    return stage


def test_the_table(run: Run, measured: Bench) -> None:
    result = run("bench", "train.py")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("train.py: 2.00 times as fast after rewriting\n")
    assert "rewritten" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\x1b" in run("bench", "train.py", "--color", "always").stdout


def test_what_is_asked_for(run: Run, measured: Bench, folder: Path) -> None:
    result = run("bench", "--time", "2.5", "train.py", "--steps", "40", "--ablate", "--", "--epochs", "1", "data")
    assert result.exit_code == 0
    task, runs = measured.task, measured.runs
    assert task is not None
    assert runs is not None
    assert (task.seconds, task.steps, task.ablate) == (2.5, 40, True)
    assert (task.request.script, task.request.arguments) == ("train.py", ("--epochs", "1", "data"))
    assert (task.request.is_module, task.request.root) == (False, str(folder.resolve()))
    assert task.request.protected
    assert (runs.python, runs.folder, runs.timeout) == (sys.executable, folder.resolve(), 600)


def test_how_the_script_is_run(run: Run, measured: Bench) -> None:
    assert run("bench", "train.py", "--python", "python3.12", "--scratch", "--timeout", "5").exit_code == 0
    assert measured.python == ["python3.12"]
    assert measured.runs is not None
    assert (measured.runs.python, measured.runs.timeout) == ("python3.12", 5)


def test_a_module(run: Run, measured: Bench, folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "main.py").write_text("raise SystemExit('must not be imported here')\n")
    assert run("bench", "-m", "pack.main").exit_code == 0
    assert measured.task is not None
    assert (measured.task.request.script, measured.task.request.is_module) == ("pack.main", True)


def test_rules_are_chosen_as_ever(run: Run, measured: Bench) -> None:
    run("bench", "train.py")
    assert measured.found is not None
    assert [each.record.code for each in measured.found] == ["AA190"]
    run("bench", "train.py", "--ignore", "AA190")
    assert measured.found is not None
    assert len(measured.found) == 0


def test_json_in_a_file(run: Run, measured: Bench, folder: Path) -> None:
    result = run("bench", "train.py", "--json", "out.json")
    assert result.exit_code == 0
    assert "as fast" in result.stdout
    assert json.loads((folder / "out.json").read_text())["script"] == "train.py"


def test_json_on_stdout(run: Run, measured: Bench) -> None:
    result = run("bench", "train.py", "--json", "-", "--color", "always")
    assert json.loads(result.stdout)["columns"][1]["speedup"]["median"] == 2.0


def test_html(run: Run, measured: Bench, folder: Path) -> None:
    result = run("bench", "train.py", "--html", "out.html")
    assert result.exit_code == 0
    assert (folder / "out.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


ENDINGS = [
    (["missing.py"], 2, "error: missing.py: no such file\n"),
    (["pack"], 2, "error: pack: is a folder; give a script\n"),
    (["-"], 2, "a script on disk is needed"),
    ([], 2, "Missing argument 'SCRIPT'"),
    (["train.py", "--epochs", "1"], 2, "No such option"),
    (["train.py", "--time", "0"], 2, "--time"),
    (["train.py", "--steps", "0"], 2, "--steps"),
    (["train.py", "--select", "AA999"], 2, "AA999"),
    (["train.py", "--json", "none/out.json"], 2, "error: none/out.json: cannot write: not in a folder\n"),
    (["train.py", "--html", "pack"], 2, "error: pack: cannot write: is a folder\n"),
    (["train.py", "--json", "train.py"], 2, "would replace a script"),
    (["train.py", "--html", "train.py"], 2, "would replace a script"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), ENDINGS, ids=lambda value: str(value)[:40])
def test_what_ends_before_anything_runs(
    run: Run, measured: Bench, folder: Path, arguments: list[str], status: int, message: str
) -> None:
    (folder / "pack").mkdir()
    result = run("bench", *arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr
    assert measured.task is None
    assert (folder / "train.py").read_text() == "import torch\nx = slow(1)\n"


def test_a_script_that_fails(run: Run, measured: Bench) -> None:
    measured.error = BenchError("train.py:2: RuntimeError: no luck", FAILURE)
    result = run("bench", "train.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: train.py:2: RuntimeError: no luck\n"
    verbose = run("bench", "train.py", "-v")
    assert verbose.stderr == f"{FAILURE.traceback}error: train.py:2: RuntimeError: no luck\n"


def test_no_interpreter(run: Run, measured: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(named: str | None) -> Interpreter:
        raise InterpreterError("no Python with torch was found")

    monkeypatch.setattr(interpreters, "choose", choose)
    result = run("bench", "train.py")
    assert (result.exit_code, result.stderr) == (2, "error: no Python with torch was found\n")


def test_interrupted(run: Run, measured: Bench) -> None:
    measured.error = KeyboardInterrupt()
    result = run("bench", "train.py")
    assert (result.exit_code, result.stdout) == (130, "")
    assert "interrupted" in result.stderr


def test_a_page_that_cannot_be_written(run: Run, measured: Bench, folder: Path) -> None:
    (folder / "out.html").symlink_to(folder / "gone" / "out.html")
    result = run("bench", "train.py", "--html", "out.html")
    assert result.exit_code == 2
    assert "error: out.html: cannot write: " in result.stderr
    assert "as fast" in result.stdout
