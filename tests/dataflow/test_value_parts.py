"""What unpacking, subscripts and loops take out of values."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.abstract_values import ANY, NUMBER, STRING, UNKNOWN, Kind, Value, Values
from autoaccel.dataflow.definitions import STAR
from autoaccel.dataflow.value_parts import container_method, element, part, subscript

SCRIPT = load("for x in loader:\n    x[0], x[-1], x['k'], x[i], x['k' if i else 0], x[1:], x.f()\n")
LOOP = next(SCRIPT.find(ast.For))
NODES = {ast.unparse(each.slice): each for each in SCRIPT.find(ast.Subscript)}
CALL = next(SCRIPT.find(ast.Call))
BATCH, TENSOR, ARRAY, LOADER = (Value(each) for each in (Kind.BATCH, Kind.TENSOR, Kind.ARRAY, Kind.LOADER))
PAIR = Value(Kind.SEQUENCE, items=((0, Values({NUMBER})), (1, Values({STRING}))))
TABLE = Value(Kind.MAPPING, items=(("k", Values({NUMBER})),))
NUMBERS = Value(Kind.ITERATOR, items=((None, Values({NUMBER})),))


def said(values: Values) -> list[tuple[Kind, tuple[int | str, ...], str | None]]:
    return [(each.kind, each.path, each.how) for each in values]


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        pytest.param(BATCH, (0, "x"), [(Kind.BATCH, (0, "x"), None)], id="of a batch"),
        pytest.param(PAIR, (1,), [(Kind.STRING, (), None)], id="by position"),
        pytest.param(PAIR, (STAR,), [(Kind.SEQUENCE, (), None)], id="the rest"),
        pytest.param(ARRAY, (0,), [(Kind.ARRAY, (), "view")], id="of an array"),
        pytest.param(NUMBERS, (0,), [(Kind.NUMBER, (), None)], id="of an iterator"),
        pytest.param(LOADER, (0,), [(Kind.UNKNOWN, (), None)], id="not known"),
        pytest.param(UNKNOWN, (), [(Kind.UNKNOWN, (), None)], id="all of it"),
    ],
)
def test_part(value: Value, path: tuple[int | str, ...], expected: list[object]) -> None:
    assert said(part(Values({value}), path)) == expected


@pytest.mark.parametrize(
    ("value", "index", "expected"),
    [
        (BATCH, "0", [(Kind.BATCH, (0,), None)]),
        (BATCH, "'k'", [(Kind.BATCH, ("k",), None)]),
        (BATCH, "i", [(Kind.BATCH, (), "view")]),
        (BATCH, "'k' if i else 0", [(Kind.BATCH, (0,), None), (Kind.BATCH, ("k",), None)]),
        (TENSOR, "1:", [(Kind.TENSOR, (), None)]),
        (PAIR, "-1", [(Kind.STRING, (), None)]),
        (PAIR, "1:", [(Kind.SEQUENCE, (), None)]),
        (TABLE, "'k'", [(Kind.NUMBER, (), None)]),
        (LOADER, "0", [(Kind.UNKNOWN, (), None)]),
    ],
)
def test_subscript(value: Value, index: str, expected: list[object]) -> None:
    assert said(subscript(Values({value}), NODES[index], SCRIPT)) == expected


def test_a_loop_names_the_batches_that_it_gets() -> None:
    (batch,) = element(Values({LOADER}), LOOP, SCRIPT)
    assert (batch.kind, batch.node) == (Kind.BATCH, LOOP)
    assert said(element(Values({BATCH}), LOOP, SCRIPT)) == [(Kind.BATCH, (STAR,), None)]
    numbered = Value(Kind.ITERATOR, how="enumerate", items=((None, Values({LOADER})),))
    (pair,) = element(Values({numbered}), LOOP, SCRIPT)
    assert said(part(Values({pair}), (1,))) == [(Kind.BATCH, (), None)]


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (TABLE, "values", Kind.SEQUENCE),
        (TABLE, "keys", None),
        (PAIR, "pop", None),
        (PAIR, "copy", Kind.SEQUENCE),
        (Value(Kind.ITERATOR, how="iter", items=((None, Values({LOADER})),)), "__next__", Kind.BATCH),
        (NUMBERS, "send", None),
    ],
)
def test_methods_of_containers(value: Value, name: str, expected: Kind | None) -> None:
    assert container_method(value, name, CALL, SCRIPT).kind is expected


def test_what_is_not_known_stays_so() -> None:
    for found in (part(ANY, (0,)), subscript(ANY, NODES["0"], SCRIPT), element(ANY, LOOP, SCRIPT)):
        assert found == ANY
