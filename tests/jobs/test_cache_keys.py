"""What makes all answers of a cache invalid: another tool, other rules, another Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from autoaccel.jobs import cache_keys
from autoaccel.jobs.cache_keys import fingerprint
from autoaccel.rewriting import packs


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the search path with a package in it."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("RULE = 1\n")
    return tmp_path


def announce(place: Path, text: str, version: str = "1.0") -> None:
    distribution = place / f"pack-{version}.dist-info"
    distribution.mkdir()
    (distribution / "entry_points.txt").write_text(text)


def test_it_stays_the_same(place: Path) -> None:
    announce(place, "[console_scripts]\npack = pack:main\n")
    first = fingerprint()
    (place / "pack" / "__init__.py").write_text("RULE = 22\n")
    assert fingerprint() == first, "what announces no rules does not matter"
    assert str(Path(cache_keys.__file__).parent) not in first, "the tool may lie elsewhere"


def test_other_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    first = fingerprint()
    monkeypatch.setattr(cache_keys, "__version__", "99")
    assert fingerprint() != first
    monkeypatch.undo()
    monkeypatch.setattr(sys, "version", "4.0")
    assert fingerprint() != first
    monkeypatch.undo()
    monkeypatch.setattr(sys, "version", f"{sys.version.split()[0]} (of another machine)")
    assert fingerprint() == first


def test_a_pack_that_is_installed_edited_upgraded(place: Path) -> None:
    seen = [fingerprint()]
    announce(place, f"[{packs.GROUP}]\npack = pack\n\n[other]\nx = nowhere.at.all\n")
    seen.append(fingerprint())
    (place / "pack" / "__init__.py").write_text("RULE = 22\n")
    seen.append(fingerprint())
    (place / "pack" / "more.py").write_text("")
    seen.append(fingerprint())
    (place / "pack-1.0.dist-info").rename(place / "pack-2.0.dist-info")
    seen.append(fingerprint())
    assert len(set(seen)) == len(seen)


def test_times_matter_in_checkouts_alone(place: Path) -> None:
    announce(place, f"[{packs.GROUP}]\npack = pack.rules:RULE\n")
    first = fingerprint()
    os.utime(place / "pack" / "__init__.py", (1, 1))
    assert fingerprint() == first, "an installed release has its sizes"
    (place / "pyproject.toml").write_text("")
    checkout = fingerprint()
    os.utime(place / "pack" / "__init__.py", (2, 2))
    assert fingerprint() != checkout


def test_what_may_announce_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library.zip").write_bytes(b"PK")
    (tmp_path / "broken-1.0.dist-info").mkdir()
    (tmp_path / "broken-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff")
    announce(tmp_path, f"[{packs.GROUP}]\npack = pack\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing"), str(tmp_path / "library.zip")])
    assert [Path(name).name for name, _ in packs.announced()] == ["pack-1.0.dist-info", "library.zip"]
