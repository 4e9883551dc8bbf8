"""Rewritten code keeps the line numbers of the file that is on disk."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from autoaccel.measure.positions import LineOrigin, compile_as_original, trace_lines

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def test_lines_that_only_moved_are_the_same_lines() -> None:
    old = ["a()", "for x in y:", "    b(x)", "    c(x)"]
    new = ["import z", "a()", "for x in y:", "    with z:", "        b(x)", "    c(x)"]
    assert trace_lines(old, new) == [
        LineOrigin(1, None), LineOrigin(1, 0), LineOrigin(2, 0),
        LineOrigin(3, None), LineOrigin(3, -4), LineOrigin(4, 0),
    ]  # fmt: skip


def test_a_line_that_replaces_others_counts_as_the_first_of_them() -> None:
    assert trace_lines(["a", "b", "c", "d"], ["a", "x", "d"]) == [
        LineOrigin(1, 0),
        LineOrigin(2, None),
        LineOrigin(4, 0),
    ]
    assert trace_lines(["a", "b", "d"], ["a", "x", "y", "z", "d"])[1:4] == [LineOrigin(2, None)] * 3
    assert trace_lines(["a"], ["a", "x"])[1] == LineOrigin(1, None)


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
