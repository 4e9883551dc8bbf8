"""The benchmark of the runtime's own cost runs to its end, and tells the two kinds of steps apart."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from benchmarks.step_overhead import __main__ as step_overhead
from benchmarks.step_overhead.__main__ import Contest, main, measure


def test_every_contest_has_its_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(step_overhead, "_PATIENCE", 0.0)
    monkeypatch.setattr(step_overhead, "_LEAST", 1)
    monkeypatch.setattr(torch, "set_num_threads", lambda _count: None)  # other tests have theirs
    result = CliRunner().invoke(main, ["--turns", "2", "--output", str(tmp_path / "table.md")])
    assert result.exit_code == 0
    rows = (tmp_path / "table.md").read_text().splitlines()[6:]
    assert [row.split("|")[1].strip() for row in rows] == [each.verbs for each in step_overhead.contests()]


def test_what_takes_longer_is_told_per_step() -> None:
    def busy(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    contest = Contest("", lambda: busy(0.005), lambda: busy(0.015), steps=10)
    plain, (_low, median, _high) = measure(contest, 4)
    assert plain >= 500
    assert median >= 900
