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
from autoaccel.notebooks.cells import END, marker
from autoaccel.rewriting import imports
from autoaccel.rewriting.cell_limits import parted
from autoaccel.rewriting.places import Places
from autoaccel.rewriting.rule import Rule

RULE = Rule("AA199", "sample", Tier.EXACT, (b"x",))


def places(*codes: str) -> Places:
    text = "".join(f"{marker(number)}\n{code}\n" for number, code in enumerate(codes, 1))
    return Places(text, ast.parse(text))


def reason(where: Places, *edits: Edit) -> str | None:
    found, left = parted([Finding(RULE, where.tree.body[-1], "m", Tier.EXACT, edits)], where)
    assert len(found) + len(left) == 1
    return left[0].reason if left else None


MOVES = "it would move code from one cell to another"
SHOWS = "the cell shows the value of this line, which has to stay its last"


def test_wraps_stay_in_a_cell() -> None:
    where = places("a = 1\nb = 2", "c = 3")
    _, a, b, _, c = where.tree.body
    header = Code("with f()")
    assert reason(where, WrapStatements(a, b, header)) is None
    assert reason(where, WrapStatements(b, c, header)) == MOVES


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


def test_nothing_stands_below_the_last_cell() -> None:
    text = f"{marker(1)}\na = 1\n{END}\n"
    where = Places(text, ast.parse(text))
    last = where.tree.body[-1]
    assert reason(where, InsertAfter(last, Code("d()"))) == MOVES
    assert reason(where, InsertBefore(last, Code("d()"))) is None


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
    assert reason(where, Replace(line.value, Code("z"))) == "it would change a line for IPython"


def test_what_is_made_of_others_is_renewed_with_them() -> None:
    where = places("m = f()\no = g(m)", "p = g(m)", "for x in y:\n    o.step()")
    o, p, loop = (where.tree.body[index] for index in (2, 4, 6))
    assert isinstance(loop, ast.For)
    use = Replace(loop.body[0].value, Code("s.step(o)"))  # type: ignore[attr-defined]
    assert reason(where, InsertAfter(o, Code("s = accel.grad_scaler(o)")), use) is None
    assert reason(where, InsertBefore(loop, Code("s = accel.grad_scaler(o)")), use) is None
    said = "`s` would be out of date when the cell that binds `o` runs again"
    assert reason(where, InsertAfter(p, Code("s = accel.grad_scaler(o, p)")), use) == said


def test_other_programs_are_not_limited() -> None:
    text = "a\nb = 1\n"
    where = Places(text, ast.parse(text))
    assert reason(where, InsertBefore(where.tree.body[1], Code("d()"))) is None


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
