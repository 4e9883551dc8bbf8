"""What edits may not do in a notebook."""

from __future__ import annotations

import ast

import pytest

from autoaccel.edits import (
    Code,
    Edit,
    Finding,
    InsertAfter,
    InsertBefore,
    RemoveStatement,
    Replace,
    Tier,
    WrapStatements,
)
from autoaccel.notebooks.cells import marker
from autoaccel.rewriting import imports
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.plan import plan
from autoaccel.rewriting.rule import Rule

RULE = Rule("AA199", "sample", Tier.EXACT, (b"x",))


def places(*codes: str) -> Places:
    text = "".join(f"{marker(number)}\n{code}\n" for number, code in enumerate(codes, 1))
    return Places(text, ast.parse(text))


def reason(where: Places, *edits: Edit) -> str | None:
    found = plan([Finding(RULE, where.tree.body[-1], "m", Tier.EXACT, edits)], where)
    return found.skipped[0].reason if found.skipped else None


MOVES = "it would move code from one cell to another"
SHOWS = "the cell shows the value of this line, which has to stay its last"


def test_wraps_stay_in_a_cell() -> None:
    where = places("a = 1\nb = 2", "c = 3")
    _, a, b, _, c = where.tree.body
    header = Code("with f()")
    assert plan([Finding(RULE, a, "m", Tier.EXACT, (WrapStatements(a, b, header),))], where).skipped == ()
    [skipped] = plan([Finding(RULE, a, "m", Tier.EXACT, (WrapStatements(b, c, header),))], where).skipped
    assert skipped.reason == MOVES


def test_what_is_removed_stays_in_its_cell() -> None:
    where = places("a = 1", "b = 2\nc = 3")
    _, a, _, b, c = where.tree.body
    assert reason(where, InsertBefore(b, Code("d()")), RemoveStatement(c)) is None
    assert reason(where, InsertBefore(a, Code("d()")), RemoveStatement(c)) == MOVES


def test_nothing_stands_above_the_first_cell() -> None:
    where = places("a = 1", "b = 2")
    first, _, second, _ = where.tree.body
    assert reason(where, InsertBefore(first, Code("d()"))) == MOVES
    assert reason(where, InsertBefore(second, Code("d()"))) is None
    assert reason(where, RemoveStatement(second)) == MOVES


@pytest.mark.parametrize(
    ("code", "inserted", "expected"),
    [
        ("a = 1", "d(a)", None),
        ("a", "d(a)", SHOWS),
        ("a;", "d(a)", None),
        ("f(a)", "d(a)", SHOWS),
        ("print(a)", "d(a)", None),
        ("loss.backward()", "d(a)", None),
        ("m.to(device)", "accel.compile(m, steps=3)", None),
        ("m.to(device)", "accel.compile(n)", SHOWS),
        ("m", "accel.channels_last(m)", None),
    ],
)
def test_what_a_cell_shows(code: str, inserted: str, expected: str | None) -> None:
    where = places(code, "b = 2")
    last, below = where.tree.body[1], where.tree.body[2]
    assert reason(where, InsertAfter(last, Code(inserted))) == expected
    assert reason(where, InsertBefore(below, Code(inserted))) == expected


def test_a_value_within_a_cell_is_not_shown() -> None:
    where = places("a\nb = 1", "c")
    assert reason(where, InsertAfter(where.tree.body[1], Code("d()"))) is None
    assert reason(where, WrapStatements(where.tree.body[4], where.tree.body[4], Code("with f()"))) == SHOWS


def test_lines_for_ipython_stay() -> None:
    where = places("x = get_ipython(y)  #autoaccel[line 0]\na = 1")
    line = where.tree.body[1]
    assert isinstance(line, ast.Assign)
    [skipped] = plan([Finding(RULE, line, "m", Tier.EXACT, (Replace(line.value, Code("z")),))], where).skipped
    assert skipped.reason == "it would change a line for IPython"


@pytest.mark.parametrize(
    ("codes", "line"),
    [
        (["print()  #autoaccel[line 0]", "import os", "import torch\nimport x\ny = 1\nimport z", "import torch"], 9),
        (["a = 1", "from torch import nn", "f()"], 4),
        (["try:\n    import torch\nexcept ImportError:\n    torch = None", "f()"], 2),
        (["a = 1", "f()"], 1),
        (["print()  #autoaccel[line 0]\nprint()  #autoaccel[line 1]\na = 1", "f()"], 3),
        (["print()  #autoaccel[line 0]", "f()"], 2),
    ],
)
def test_where_imports_go(codes: list[str], line: int) -> None:
    where = places(*codes)
    found = imports.anchor(where, len(where.tree.body))
    assert found is not None
    assert found.lineno == line
