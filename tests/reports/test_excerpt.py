"""A line of a file under a mark: what a terminal would show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.reports.excerpt import excerpt


@pytest.mark.parametrize(
    ("line", "start", "end", "expected"),
    [
        pytest.param("x = f(1)", 4, 8, ("x = f(1)", "    ^^^^"), id="plain"),
        pytest.param("\tx = f(1)", 5, 9, ("    x = f(1)", "        ^^^^"), id="tab"),
        pytest.param("x = '\t', f", 4, 7, ("x = '    ', f", "    ^^^^^^"), id="tab inside of the mark"),
        pytest.param("x = '宽', f", 4, 7, ("x = '宽', f", "    ^^^^"), id="wide characters take two columns"),
        pytest.param("宽 = f", 4, 5, ("宽 = f", "     ^"), id="wide characters before the mark"),
        pytest.param("e\u0301 = f", 5, 6, ("e\u0301 = f", "    ^"), id="combining characters take none"),
        pytest.param("x = '\x1b[2J'\u200b", 4, 10, ("x = '�[2J'�", "    ^^^^^^"), id="control characters do no harm"),
        pytest.param("x = f(  # why", 4, 99, ("x = f(  # why", "    ^^^^^^^^^"), id="goes on below"),
        pytest.param("x", 5, 9, ("x", " ^"), id="the file has changed since"),
        pytest.param("", 0, 0, ("", "^"), id="empty"),
        pytest.param("x = f()  \r", 4, 7, ("x = f()", "    ^^^"), id="blanks at the end"),
    ],
)
def test_excerpt(line: str, start: int, end: int, expected: tuple[str, str]) -> None:
    assert excerpt(line, start, end) == expected


def test_long_lines_are_cut_around_the_mark() -> None:
    line = "first(" + "a, " * 100 + "target(1), " + "b, " * 100 + ")"
    start = line.index("target")
    code, marks = excerpt(line, start, start + 9)
    assert len(code) <= 110
    assert code.startswith("…")
    assert code.endswith("…")
    assert code[marks.index("^") : marks.rindex("^") + 1] == "target(1)"


def test_long_marks_are_cut() -> None:
    code, marks = excerpt("x = " + "f" * 500, 4, 504)
    assert (len(code), len(marks)) == (110, 110)
    assert code.endswith("f…")


@given(st.text(st.characters(exclude_characters="\r\n")), st.integers(0, 40), st.integers(0, 40))
def test_any_text(line: str, start: int, length: int) -> None:
    code, marks = excerpt(line, start, start + length)
    assert set(marks) <= {" ", "^"}
    assert marks.endswith("^")
    assert not any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in code)


@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=400), st.integers(0, 400), st.integers(1, 60)
)
def test_the_mark_is_under_what_it_marks(line: str, start: int, length: int) -> None:
    wanted = line.rstrip()[start : start + length]
    code, marks = excerpt(line, start, start + length)
    assert len(code) <= 110
    shown = code[marks.index("^") : marks.rindex("^") + 1].removesuffix("…")
    assert wanted.startswith(shown.rstrip())
    if len(wanted.strip()) > 0:
        assert wanted == shown or wanted.rstrip() == shown or len(line.rstrip()) > 110
