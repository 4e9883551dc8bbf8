"""When output is coloured, and what colouring leaves alone."""

from __future__ import annotations

import io

import click
import pytest

from autoaccel.cli.terminal import colour_diff, wants_colour


class Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("choice", "variables", "is_terminal", "expected"),
    [
        pytest.param("auto", {}, True, True, id="terminal"),
        pytest.param("auto", {}, False, False, id="pipe"),
        pytest.param("auto", {"TERM": "dumb"}, True, False, id="dumb terminal"),
        pytest.param("auto", {"NO_COLOR": "1"}, True, False, id="NO_COLOR"),
        pytest.param("auto", {"NO_COLOR": ""}, True, True, id="an empty NO_COLOR says nothing"),
        pytest.param("auto", {"FORCE_COLOR": "1"}, False, True, id="FORCE_COLOR"),
        pytest.param("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False, id="NO_COLOR before FORCE_COLOR"),
        pytest.param("always", {"NO_COLOR": "1"}, False, True, id="--color before all"),
        pytest.param("never", {"FORCE_COLOR": "1"}, True, False, id="--color=never before all"),
    ],
)
def test_order_of_what_decides(
    monkeypatch: pytest.MonkeyPatch, choice: str, variables: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(choice, Stream(is_terminal=is_terminal)) is expected


def test_colours_do_not_touch_the_text() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\x0cb\n-c\r\n+d\u2028e\r\n\\ No newline at end of file\n"
    coloured = colour_diff(patch)
    assert click.unstyle(coloured) == patch
    assert "\x1b[31m-c\x1b[0m\r\n" in coloured
