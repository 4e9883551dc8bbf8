"""The benchmark of answers in an editor: its scripts are what it says they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.config import configure
from autoaccel.servers import open_text
from benchmarks.editor.__main__ import _typed
from benchmarks.editor.script import script


@pytest.mark.parametrize(("lines", "loops"), [(250, 1), (1000, 3)])
def test_a_script_is_as_long_as_it_says_and_trains_as_often(tmp_path: Path, lines: int, loops: int) -> None:
    text = script(lines, loops)
    assert lines <= text.count("\n") < lines + 60
    found = open_text.inspect(
        text, tmp_path / "train.py", lambda path: configure(path.parent), {}, open_text.Surroundings()
    )
    assert sum(each.code == "AA301" for each in found.records) == loops
    assert sum(each.code == "AA501" for each in found.records) == loops


def test_each_key_gives_another_text_that_can_be_parsed() -> None:
    typed = _typed(script(250, 1), 5)
    assert len(set(typed)) == 5
    for each in typed:
        ast.parse(each)
