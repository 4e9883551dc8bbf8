"""Cells of a notebook run in any order: what a name may hold where one begins."""

from __future__ import annotations

import ast

import pytest

from autoaccel.dataflow.reaching_definitions import ReachingDefinitions
from autoaccel.dataflow.syntax_index import SyntaxIndex
from autoaccel.notebooks.cells import cells, marker


def program(*codes: str) -> str:
    return "".join(f"{marker(number)}\n{code}\n" for number, code in enumerate(codes, 1))


def lines_reaching(text: str, name: str) -> list[set[tuple[int, int]]]:
    """For every read of a name, in order: the cells and lines of the bindings that may reach it."""
    place = cells(text)
    assert place is not None
    reaching = ReachingDefinitions(SyntaxIndex(text))
    tree = reaching._tree.module
    reads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    reads = sorted((each for each in reads if each.id == name), key=lambda each: each.lineno)
    return [{place.at(each.node.lineno) for each in reaching.definitions(read)} for read in reads]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        pytest.param(["x = 1", "f(x)", "x = 2"], [{(1, 1), (3, 1)}], id="a cell below, before it runs again"),
        pytest.param(["x = 1\nf(x)", "x = 2"], [{(1, 1)}], id="bound in the cell itself"),
        pytest.param(["x = 1\nx = 2", "f(x)"], [{(1, 2)}], id="what does not outlive its cell"),
        pytest.param(["x = 1", "x = g(x)"], [{(1, 1), (2, 1)}], id="itself, again"),
        pytest.param(
            ["x = 1", "def f():\n    return x", "x = 2\nx = 3"],
            [{(1, 1), (3, 1), (3, 2)}],
            id="a function, called at any time",
        ),
        pytest.param(["x = 1", "raise E", "f(x)"], [{(1, 1)}], id="an exception ends one cell"),
        pytest.param(["x = 1", "del x", "f(x)"], [{(1, 1)}], id="deleted in a cell that may run later"),
        pytest.param(["for x in y:\n    pass", "f(x)"], [{(1, 1)}], id="a loop"),
    ],
)
def test_what_reaches(codes: list[str], found: list[set[tuple[int, int]]]) -> None:
    assert lines_reaching(program(*codes), "x") == found
