"""The one line that a user reads about a run that went wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoaccel.measure import failures
from autoaccel.measure.observing.run_record import FAILED, FINISHED, STOPPED, RunFailure, RunRecord


def line(failure: RunFailure) -> str:
    return failures.line(failure, script="sub/train.py", python="/venv/bin/python")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (RunFailure("RuntimeError", "shapes\ndiffer", "/x/train.py:12"), "/x/train.py:12: RuntimeError: shapes"),
        (RunFailure("KeyError", "", "/x/train.py:12"), "/x/train.py:12: KeyError"),
        (RunFailure("KeyError", "'a'"), "train.py: KeyError: 'a'"),
        (RunFailure("ModuleNotFoundError", "No module named 'wandb'", "/x/train.py:3"),
         "/x/train.py:3: needs the module 'wandb', which /venv/bin/python has not"),
        (RunFailure("ModuleNotFoundError", "loader is not there", "/x/train.py:3"),
         "/x/train.py:3: ModuleNotFoundError: loader is not there"),
        (RunFailure("exit status", "ended with exit status 3"), "train.py: ended with exit status 3"),
        (RunFailure("cannot start", "train.py:2: cannot parse: '(' was never closed"),
         "train.py:2: cannot parse: '(' was never closed"),
        (RunFailure("ValueError", "x" * 400), "train.py: ValueError: " + "x" * 299 + "…"),
    ],
)  # fmt: skip
def test_line(failure: RunFailure, said: str) -> None:
    assert line(failure) == said


def test_paths_are_shown_as_the_user_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert line(RunFailure("KeyError", "1", f"{tmp_path}/sub/train.py:12")) == f"sub{os.sep}train.py:12: KeyError: 1"


FAULT = """\
an epoch
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/lib/python3.11/ctypes/__init__.py", line 500 in string_at
  File "/x/helper.py", line 7 in crash
  File "/x/train.py", line 3 in <module>
"""
TOOL = """\
  File "/tmp/x/imports/autoaccel/measure/program.py", line 3 in run

Extension modules: numpy._core (total: 1)
"""


@pytest.mark.parametrize(
    ("status", "errors", "failure"),
    [
        (-9, "", RunFailure("signal", "killed by signal 9 (SIGKILL), often a lack of memory")),
        (-15, "", RunFailure("signal", "killed by signal 15 (SIGTERM)")),
        (-90, "", RunFailure("signal", "killed by signal 90 (unknown)")),
        (
            -11,
            FAULT,
            RunFailure("signal", "killed by signal 11 (SIGSEGV), in compiled code", "/x/helper.py:7", FAULT[:-1]),
        ),
        (1, "", RunFailure("died", "ended with exit status 1 before anything could be recorded")),
        (
            1,
            "a\nb: c\n",
            RunFailure("died", "ended with exit status 1 before anything could be recorded: b: c", "", "a\nb: c"),
        ),
    ],
)
def test_a_process_that_died(status: int, errors: str, failure: RunFailure) -> None:
    assert failures.of_death(status, errors, "/x") == failure


def test_a_script_that_ended_itself() -> None:
    silent = RunFailure("exit status", "ended with exit status 2")
    explained = RunFailure("exit status", "ended with exit status 1: no data")
    crashed = RunFailure("ValueError", "why")
    assert failures.of_exit(silent, "") == silent
    assert failures.of_exit(explained, "a warning") == explained
    assert failures.of_exit(crashed, "a warning") == crashed
    assert failures.of_exit(silent, "usage: x\nx: error: what\n") == RunFailure(
        "exit status", "ended with exit status 2: x: error: what", "", "usage: x\nx: error: what"
    )


def test_a_run_without_training() -> None:
    said = "train.py: ended after 2.1 s without a backward or an optimizer step"
    assert failures.without_training(RunRecord(FINISHED, seconds=2.06), script="sub/train.py") == said
    for record in (
        RunRecord(FINISHED, steps=1),
        RunRecord(STOPPED, backwards=1),
        RunRecord(FAILED, RunFailure("signal", "")),
    ):
        assert failures.without_training(record, script="train.py") is None
