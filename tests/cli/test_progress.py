"""The line that says how far a run is: late, only on a terminal, and gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from autoaccel.cli.progress import Progress
from autoaccel.cli.terminal import Terminal


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    return now


def shown(monkeypatch: pytest.MonkeyPatch, clock: list[float], screen: Screen, *, quiet: bool = False) -> str:
    """What is written in a run of four seconds."""
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(40, Terminal(False, False, quiet=quiet)) as done:
        for _ in range(4):
            clock[0] += 0.9
            done(10)
            done(0)
    return screen.getvalue()


def test_it_waits_counts_and_clears(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    clear = "\r\x1b[K"
    lines = shown(monkeypatch, clock, Screen())
    assert lines == "".join(f"{clear}{count} of 40 files" for count in (20, 30, 40)) + clear


def test_nothing_where_nobody_looks(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    assert shown(monkeypatch, clock, Screen(terminal=False)) == ""
    assert shown(monkeypatch, clock, Screen(), quiet=True) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert shown(monkeypatch, clock, Screen()) == ""


def test_short_runs_say_nothing(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(1, Terminal(False, False)) as done:
        clock[0] += 0.5
        done(1)
    assert screen.getvalue() == ""


def test_it_is_cleared_when_the_run_fails(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(KeyboardInterrupt), Progress(2, Terminal(False, False)) as done:
        clock[0] += 2
        done(1)
        raise KeyboardInterrupt
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_terminal_that_is_gone_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    class Gone(Screen):
        def flush(self) -> None:
            raise OSError("gone")

    monkeypatch.setattr(sys, "stderr", Gone())
    with Progress(2, Terminal(False, False)) as done:
        clock[0] += 2
        done(1)
        clock[0] += 2
        done(1)
