"""Decisions of earlier runs: found again by the same command, and never in anybody's way."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path

import pytest
import torch

from autoaccel.runtime.trial import decision_cache


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that remembers, in a folder of its own."""
    path = tmp_path / "train.py"
    path.write_text("print(1)\n")
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "")
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", [str(path), "--epochs", "3"])
    decision_cache._digest.cache_clear()
    return path


def files() -> list[Path]:
    return sorted(decision_cache.folder().glob("*"))


def test_the_same_command_finds_it_again(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert decision_cache.recall("amp", "train.py:3", "cpu") is None
    decision_cache.keep("amp", {"low": True, "ratio": 1.8}, "train.py:3", "cpu")
    assert decision_cache.recall("amp", "train.py:3", "cpu") == {"low": True, "ratio": 1.8}
    monkeypatch.chdir(program.parent)
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "3"])
    assert decision_cache.recall("amp", "train.py:3", "cpu") == {"low": True, "ratio": 1.8}
    decision_cache.keep("amp", {"low": False}, "train.py:3", "cpu")
    assert decision_cache.recall("amp", "train.py:3", "cpu") == {"low": False}
    assert len(files()) == 1


def test_anything_else_is_another_decision(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decision_cache.keep("amp", {"low": True}, "train.py:3")
    assert decision_cache.recall("compile", "train.py:3") is None
    assert decision_cache.recall("amp", "train.py:4") is None
    assert decision_cache.recall("amp") is None
    with monkeypatch.context() as change:
        change.setattr(sys, "argv", [str(program), "--epochs", "4"])
        assert decision_cache.recall("amp", "train.py:3") is None
    with monkeypatch.context() as change:
        change.setattr(torch, "__version__", "2.99")
        assert decision_cache.recall("amp", "train.py:3") is None
    with monkeypatch.context() as change:
        change.setattr(torch, "get_num_threads", lambda: 77)
        assert decision_cache.recall("amp", "train.py:3") is None
    assert decision_cache.recall("amp", "train.py:3") == {"low": True}
    program.write_text("print(2)\n")
    decision_cache._digest.cache_clear()
    assert decision_cache.recall("amp", "train.py:3") is None


@pytest.mark.parametrize("word", ["off", "OFF", " 0 ", "no"])
def test_off_neither_reads_nor_writes(program: Path, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    decision_cache.keep("amp", {"low": True})
    monkeypatch.setenv("AUTOACCEL_REMEMBER", word)
    assert decision_cache.recall("amp") is None
    decision_cache.keep("compile", {"pays": True})
    assert len(files()) == 1


@pytest.mark.parametrize("argv", [[], [""], ["-c"], ["-"], ["-m", "x"], ["nowhere.py"]])
def test_a_program_without_a_file_remembers_nothing(
    program: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    decision_cache.keep("amp", {"low": True})
    assert decision_cache.recall("amp") is None
    assert files() == []


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", "3", '{"topic": "amp"}', '{"topic": "compile", "decision": {}}', "\x00"]
)
def test_a_damaged_file_is_as_good_as_none(program: Path, damage: str) -> None:
    decision_cache.keep("amp", {"low": True})
    (path,) = files()
    path.write_text(damage)
    assert decision_cache.recall("amp") is None
    path.write_bytes(b"\xff\xfe\xff")
    assert decision_cache.recall("amp") is None
    decision_cache.keep("amp", {"low": True})
    assert decision_cache.recall("amp") == {"low": True}


def test_a_place_that_cannot_be_written_is_no_error(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(program))  # a file
    decision_cache.keep("amp", {"low": True})
    assert decision_cache.recall("amp") is None


def test_no_home_is_no_error(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(self: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("AUTOACCEL_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    decision_cache.keep("amp", {"low": True})
    assert decision_cache.recall("amp") is None


def test_what_json_cannot_hold_is_not_kept(program: Path) -> None:
    decision_cache.keep("amp", {"low": object()})
    assert files() == []


def test_an_interrupted_write_leaves_nothing(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decision_cache.keep("amp", {"low": True})
    assert files() == []


def test_the_folder_stays_small(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_cache, "_MOST", 10)
    for number in range(25):
        decision_cache.keep("amp", {"number": number}, number)
        assert len(files()) <= 11
        assert decision_cache.recall("amp", number) == {"number": number}


def test_where_decisions_are_kept(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert decision_cache.folder() == program.parent / "cache" / "decisions"
    monkeypatch.delenv("AUTOACCEL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(program.parent / "xdg"))
    assert decision_cache.folder() == program.parent / "xdg" / "autoaccel" / "decisions"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(program.parent))
    assert decision_cache.folder() == program.parent / ".cache" / "autoaccel" / "decisions"


def test_other_ranks_do_not_write(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    decision_cache.keep("amp", {"low": True})
    assert files() == []
    monkeypatch.setenv("RANK", "0")
    decision_cache.keep("amp", {"low": True})
    assert len(files()) == 1


def test_forked_and_spawned_children_read_but_do_not_write(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decision_cache.keep("amp", {"low": True})
    with monkeypatch.context() as change:
        change.setattr(os, "getpid", lambda: decision_cache._PID + 1)
        decision_cache.keep("forked", {"low": True})
        assert decision_cache.recall("amp") == {"low": True}
    with monkeypatch.context() as change:
        change.setattr(multiprocessing, "parent_process", object)
        decision_cache.keep("spawned", {"low": True})
        assert decision_cache.recall("amp") == {"low": True}
    (path,) = files()
    assert json.loads(path.read_text())["topic"] == "amp"
