"""Where Inductor keeps what it compiled."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from autoaccel.runtime.compile.inductor_cache import VARIABLE, choose_folder


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")  # so that it is put back
    monkeypatch.delenv(VARIABLE)


def test_it_is_kept_beside_what_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    choose_folder()
    assert os.environ[VARIABLE] == str(tmp_path / "autoaccel" / "inductor")
    assert (tmp_path / "autoaccel" / "inductor").is_dir()
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.delenv(VARIABLE)
    choose_folder()
    assert os.environ[VARIABLE] == str(tmp_path / "own" / "inductor")


def test_the_users_choice_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/somewhere/else")
    choose_folder()
    assert os.environ[VARIABLE] == "/somewhere/else"


def test_torchs_default_is_no_choice_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """torch itself writes it into the environment, as soon as an optimizer is made."""
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(VARIABLE, str(Path(tempfile.gettempdir(), "torchinductor_me")))
    choose_folder()
    assert os.environ[VARIABLE] == str(tmp_path / "inductor")


def test_where_nothing_can_be_written_torchs_default_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path / "file" / "below"))
    choose_folder()
    assert VARIABLE not in os.environ
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    choose_folder()
    assert VARIABLE not in os.environ
