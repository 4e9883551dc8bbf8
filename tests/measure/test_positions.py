"""Rewritten code keeps the line numbers of the file that is on disk."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from autoaccel.measure.positions import compile_as_original

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def raised(before: str, after: str) -> list[traceback.FrameSummary]:
    code = compile_as_original(before, after, "train.py")
    try:
        exec(code, {})
    except ZeroDivisionError as error:
        return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "train.py"]
    raise AssertionError("nothing was raised")


def test_tracebacks_speak_of_the_original() -> None:
    before = "def f(x):\n    y = 1\n    return x / 0\n\nf(2)\n"
    after = "import io\n\ndef f(x):\n    with io.StringIO():\n        y = 1\n        return x / 0\n\nf(2)\n"
    frames = raised(before, after)
    assert [(frame.lineno, frame.name) for frame in frames] == [(5, "<module>"), (3, "f")]
    assert (frames[-1].colno, frames[-1].end_colno) == (11, 16)


def test_of_a_new_line_the_whole_line_is_meant() -> None:
    before = "def f(x):\n    return (x,\n            1)\n\nf(2)\n"
    after = "def f(x):\n    x = x / 0\n    return (x,\n            1)\n\nf(2)\n"
    assert raised(before, after)[-1].lineno == 2


@pytest.mark.parametrize(
    "after", sorted(FIXTURES.glob("*/*.out.py")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_every_rewrite_compiles_within_the_lines_of_its_original(after: Path) -> None:
    before = after.with_name(after.name.replace(".out.py", ".in.py"))
    old, new = before.read_text("utf-8"), after.read_text("utf-8")
    last = len(old.splitlines())
    for code in codes(compile_as_original(old, new, "x.py")):
        lines = [line for _, _, line in code.co_lines() if line]
        assert max(lines) <= last
        assert code.co_firstlineno <= last


def test_what_is_unchanged_has_the_positions_that_it_has_by_itself() -> None:
    text = (FIXTURES / "scripts" / "mnist.py").read_text("utf-8")
    plain = compile(ast.parse(text), "x.py", "exec")
    assert [list(code.co_positions()) for code in codes(compile_as_original(text, text, "x.py"))] == [
        list(code.co_positions()) for code in codes(plain)
    ]


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)
