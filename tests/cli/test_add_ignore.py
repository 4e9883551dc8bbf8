"""`lint --add-ignore`: a baseline in the code, after which the same `lint` is silent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from autoaccel.analysis import Script
from autoaccel.edits import Finding, Skipped, Tier
from autoaccel.rewriting import registry
from autoaccel.rewriting.rule import Rule

Run = Callable[..., Result]


def test_findings_are_silenced_and_told(run: Run, folder: Path) -> None:
    (folder / "a.py").write_text("x = slow(1)\ny = slow(2)\n")
    (folder / "b.py").write_text("y = 1\n")
    result = run("lint", "--add-ignore", ".")
    assert (result.exit_code, result.stdout) == (0, "")
    first, total, undo = result.stderr.splitlines()
    assert (first, total) == ("a.py: 2 findings silenced", "2 findings silenced in 1 file.")
    assert (
        folder / "a.py"
    ).read_text() == "x = slow(1)  # autoaccel: ignore[AA190]\ny = slow(2)  # autoaccel: ignore[AA190]\n"
    assert run("lint", ".").exit_code == 0
    assert run("rewrite", "--check", ".").exit_code == 0

    assert undo == "Undo: autoaccel undo"
    assert run("undo").exit_code == 0
    assert (folder / "a.py").read_text() == "x = slow(1)\ny = slow(2)\n"


def test_again_is_nothing_to_do(run: Run, folder: Path) -> None:
    (folder / "a.py").write_text("x = slow(1)\n")
    run("lint", "--add-ignore", ".")
    before = (folder / "a.py").stat().st_mtime_ns
    result = run("lint", "--add-ignore", ".")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "0 findings silenced.\n")
    assert (folder / "a.py").stat().st_mtime_ns == before


def test_a_reason(run: Run, folder: Path) -> None:
    (folder / "a.py").write_text("x = slow(1)\n")
    assert run("lint", "--add-ignore=before 2027, see #12", "a.py").exit_code == 0
    assert (folder / "a.py").read_text() == "x = slow(1)  # autoaccel: ignore[AA190] before 2027, see #12\n"


@pytest.mark.parametrize("reason", ["two\nlines", "in [brackets]", "\x0c"])
def test_a_reason_that_cannot_be_written(run: Run, folder: Path, reason: str) -> None:
    (folder / "a.py").write_text("x = slow(1)\n")
    result = run("lint", f"--add-ignore={reason}", "a.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a reason is one line without brackets" in result.stderr
    assert (folder / "a.py").read_text() == "x = slow(1)\n"


@pytest.mark.parametrize("option", ["--statistics", "--output-file=out.txt"])
def test_there_is_nothing_to_report(run: Run, folder: Path, option: str) -> None:
    (folder / "a.py").write_text("x = slow(1)\n")
    assert run("lint", "--add-ignore", option, "a.py").exit_code == 2
    assert (folder / "a.py").read_text() == "x = slow(1)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"x = slow(1)\r\n", b"x = slow(1)  # autoaccel: ignore[AA190] \xc3\xa9\r\n", id="CRLF"),
        pytest.param(b"x = slow(1)", b"x = slow(1)  # autoaccel: ignore[AA190] \xc3\xa9", id="no line end"),
        pytest.param(
            b"\xef\xbb\xbfx = slow(1)\n", b"\xef\xbb\xbfx = slow(1)  # autoaccel: ignore[AA190] \xc3\xa9\n", id="mark"
        ),
        pytest.param(
            b"# coding: latin-1\nx = slow('\xe9')\n",
            b"# coding: latin-1\nx = slow('\xe9')  # autoaccel: ignore[AA190] \xe9\n",
            id="encoding",
        ),
    ],
)
def test_faithful_text(run: Run, folder: Path, before: bytes, after: bytes) -> None:
    (folder / "a.py").write_bytes(before)
    assert run("lint", "--add-ignore=é", "a.py").exit_code == 0
    assert (folder / "a.py").read_bytes() == after


def test_a_reason_that_the_file_cannot_hold(run: Run, folder: Path) -> None:
    (folder / "a.py").write_bytes(b"# coding: latin-1\nx = slow(1)\n")
    (folder / "b.py").write_bytes(b"x = slow(1)\n")
    result = run("lint", "--add-ignore=\N{SNOWMAN}", ".")
    assert result.exit_code == 2
    assert "a.py: left alone, the reason cannot be written in iso-8859-1" in result.stderr
    assert (folder / "a.py").read_bytes() == b"# coding: latin-1\nx = slow(1)\n"
    assert "\N{SNOWMAN}" in (folder / "b.py").read_text(encoding="utf-8")


def test_stdin(run: Run) -> None:
    result = run("lint", "--add-ignore", "-", input=b"x = slow(1)\r\n")
    assert (result.exit_code, result.stdout_bytes) == (0, b"x = slow(1)  # autoaccel: ignore[AA190]\r\n")
    assert result.stderr == "1 finding silenced.\n"


@pytest.mark.parametrize("data", [b"x = slow(\n", b"x = slow(1)  # \xff\n"])
def test_stdin_that_cannot_be_done_comes_out_as_it_went_in(run: Run, data: bytes) -> None:
    result = run("lint", "--add-ignore", "-", input=data)
    assert (result.exit_code, result.stdout_bytes) == (2, data)
    assert result.stderr.startswith("error: <stdin>:")


def test_files_that_cannot_be_done_do_not_stop_the_others(run: Run, folder: Path) -> None:
    (folder / "bad.py").write_text("slow(\n")
    (folder / "good.py").write_text("slow(1)\n")
    result = run("lint", "--add-ignore", ".", "missing")
    assert result.exit_code == 2
    assert "bad.py:1: cannot parse" in result.stderr
    assert "missing: no such file" in result.stderr
    assert (folder / "good.py").read_text() == "slow(1)  # autoaccel: ignore[AA190]\n"


def test_what_cannot_be_silenced_is_named(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule("AA191", "whole-file", Tier.EXACT, (b"slow(",))

    @rule.check
    def _(script: Script) -> Iterator[Finding | Skipped]:
        yield rule.finding(script.tree, "the file as a whole")

    known = (*registry.rules(), rule)
    monkeypatch.setattr(registry, "rules", lambda: known)
    (folder / "a.py").write_text("x = slow(1)\n")
    result = run("lint", "--add-ignore", "a.py")
    assert result.exit_code == 2
    assert re.search(r"error: a.py:1:1: AA191 whole-file: cannot be silenced", result.stderr)
    assert (folder / "a.py").read_text() == "x = slow(1)\n"
