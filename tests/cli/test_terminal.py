"""When output is coloured, and what colouring leaves alone."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from autoaccel.cli.terminal import colour_diff, wants_colour

Run = Callable[..., Result]


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


NASTY = "a\x1b[31m\n::error::b.py"


@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
@pytest.mark.parametrize(
    "arguments",
    [
        ["lint"],
        ["lint", "--output-format", "concise"],
        ["lint", "--show-settings"],
        ["rewrite"],
        ["rewrite", "--check"],
        ["rewrite", "--diff"],
    ],
)
@pytest.mark.parametrize("text", ["x = slow(1)\n", "x = slow(*y)\n", "x = slow(1\n", "# coding: klingon\n", None])
def test_names_are_shown_and_do_nothing(run: Run, folder: Path, arguments: list[str], text: str | None) -> None:
    """Neither to the terminal, nor to a CI system that takes lines for commands."""
    for name in (NASTY, "::error::c.py"):
        if text is not None:
            (folder / name).write_text(text)
        result = run(*arguments, "-v", name)
        assert "\x1b" not in result.output
        assert not any(line.lstrip().startswith("::") for line in result.output.splitlines())
        assert name.rpartition("::")[2] in result.output


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("lint --tier=exat", "exact"),
        ("lint --color=alway", "always"),
        ("lint --output-format=githb", "github"),
        ("rule AA101 --output-format=markdwn", "markdown"),
        ("rules --output-format=jsn", "json"),
        ("env --output-format=jsno", "json"),
    ],
)
def test_what_was_meant(run: Run, folder: Path, option: str, meant: str) -> None:
    result = run(*option.split())
    assert result.exit_code == 2
    assert f"did you mean {meant!r}?" in result.stderr
