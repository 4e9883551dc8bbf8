"""Where lines of a rewritten text stood before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.rewriting.line_origins import LineOrigins
from autoaccel.rewriting.record import Range

BEFORE = "import torch\n\nfor x in loader:\n    y = net(x)\n    y.backward()\n"
AFTER = (
    "import torch\nimport accel\n\nfor x in loader:\n    with accel.autocast():\n        y = net(x)\n    y.backward()\n"
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        pytest.param(Range(1, 8, 1, 13), Range(1, 8, 1, 13), id="above all that was changed"),
        pytest.param(Range(6, 13, 6, 19), Range(4, 9, 4, 15), id="indented since"),
        pytest.param(Range(7, 5, 7, 17), Range(5, 5, 5, 17), id="below"),
        pytest.param(Range(6, 9, 7, 17), Range(4, 5, 5, 17), id="two lines"),
        pytest.param(Range(5, 10, 5, 25), Range(4, 5, 4, 15), id="new: what it stands before"),
        pytest.param(Range(2, 1, 2, 13), Range(2, 1, 2, 1), id="new, before an empty line"),
    ],
)
def test_places(where: Range, expected: Range) -> None:
    assert LineOrigins(BEFORE, AFTER).place(where) == expected


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a b c d", "a x d", [1, 2, 4]),
        ("a b d", "a x y z d", [1, 2, 2, 2, 3]),
        ("a", "a x", [1, 1]),
    ],
)
def test_a_line_that_replaces_others_counts_as_the_first_of_them(before: str, after: str, lines: list[int]) -> None:
    origins = LineOrigins(before.replace(" ", "\n"), after.replace(" ", "\n"))
    assert [origins.line(number) for number in range(1, len(lines) + 1)] == lines


def test_sentences() -> None:
    origins = LineOrigins(BEFORE, AFTER)
    assert origins.worded("lines 6 and 7 of it (net.py, line 6)") == "lines 4 and 5 of it (net.py, line 6)"


def test_a_changed_line_is_marked_as_a_whole() -> None:
    assert LineOrigins("  f(1)  # two\n", "  g(1)  # two\n").place(Range(1, 5, 1, 6)) == Range(1, 3, 1, 14)


TEXTS = st.lists(st.sampled_from(["a", "  a", "b", "", "\f"]), max_size=8).map("\r\n".join)


@given(TEXTS, TEXTS)
def test_every_line_stands_for_one_of_the_file(before: str, after: str) -> None:
    origins = LineOrigins(before, after)
    lines = [origins.line(number) for number in range(1, after.count("\n") + 2)]
    assert lines == sorted(lines)
    assert set(lines) <= set(range(1, before.count("\n") + 2))
    if before == after:
        assert lines == list(range(1, len(lines) + 1))
