"""The lattice of values: what sets of them say, their elements, what arithmetic gives."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.abstract_values import (
    ANY,
    BOOL,
    NONE,
    NOTHING,
    NUMBER,
    STRING,
    UNKNOWN,
    Items,
    Kind,
    Value,
    Values,
    any_item,
    arithmetic,
    item,
    merged,
    shallow,
    union,
)
from autoaccel.library_models.library_values import without_checkpoint_reads

SCRIPT = load("a + b\n")
NODE = next(SCRIPT.find(ast.BinOp))
TENSOR, ARRAY, MODULE = Value(Kind.TENSOR), Value(Kind.ARRAY), Value(Kind.MODULE)
READ = Value(Kind.UNKNOWN, name="torch.load", how="read")
PART = Value(Kind.UNKNOWN, name="torch.load", how="read part")


def values(*each: Value) -> Values:
    return Values(each)


def sequence(*elements: Values) -> Value:
    return Value(Kind.SEQUENCE, NODE, SCRIPT, items=tuple(enumerate(elements)))


def loose(elements: Values) -> Value:
    return Value(Kind.SEQUENCE, NODE, SCRIPT, items=((None, elements),))


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        pytest.param(values(TENSOR), Kind.TENSOR, id="one"),
        pytest.param(values(TENSOR, Value(Kind.TENSOR, NODE, SCRIPT)), Kind.TENSOR, id="two of a kind"),
        pytest.param(values(TENSOR, NUMBER), None, id="two kinds"),
        pytest.param(values(TENSOR, NONE), Kind.TENSOR, id="a default"),
        pytest.param(values(NONE), Kind.NONE, id="none"),
        pytest.param(values(TENSOR, UNKNOWN), None, id="and something unknown"),
        pytest.param(values(UNKNOWN, NONE), None, id="unknown or none"),
        pytest.param(ANY, None, id="unknown"),
        pytest.param(NOTHING, None, id="nothing"),
    ],
)
def test_the_kind_that_is_certain(given: Values, kind: Kind | None) -> None:
    assert given.kind is kind


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (values(NUMBER), values(NUMBER), {Kind.NUMBER}),
        (values(NUMBER), values(BOOL), {Kind.NUMBER}),
        (values(TENSOR), values(NUMBER), {Kind.TENSOR}),
        (values(NUMBER), values(Value(Kind.PARAMETER)), {Kind.TENSOR}),
        (values(ARRAY), values(NUMBER), {Kind.ARRAY}),
        (values(ARRAY), ANY, {Kind.UNKNOWN}),
        (values(NUMBER), ANY, {Kind.UNKNOWN}),
        (values(STRING), values(NUMBER), {Kind.STRING}),
        (values(Value(Kind.BATCH)), values(NUMBER), {Kind.BATCH}),
        (values(loose(values(TENSOR))), values(NUMBER), {Kind.SEQUENCE}),
        (values(loose(values(TENSOR))), values(loose(values(NUMBER))), {Kind.SEQUENCE}),
        (values(MODULE), values(NUMBER), {Kind.UNKNOWN}),
        (values(NONE), values(NUMBER), {Kind.UNKNOWN}),
    ],
)
def test_arithmetic(left: Values, right: Values, expected: set[Kind]) -> None:
    assert arithmetic(left, right, NODE, SCRIPT).kinds == expected
    assert arithmetic(right, left, NODE, SCRIPT).kinds == expected


def test_arithmetic_keeps_what_is_known_of_elements() -> None:
    (joined,) = arithmetic(values(sequence(values(TENSOR))), values(loose(values(NUMBER))), NODE, SCRIPT)
    assert any_item(joined) == values(TENSOR, NUMBER)
    (batch,) = arithmetic(values(Value(Kind.BATCH, how="view")), values(NUMBER), NODE, SCRIPT)
    assert batch.how == "copy"


PAIR: Items = ((0, values(TENSOR)), (1, values(NUMBER)))
NAMED: Items = (("x", values(TENSOR)), (None, values(NUMBER)))


@pytest.mark.parametrize(
    ("items", "step", "expected"),
    [
        pytest.param(PAIR, 0, values(TENSOR), id="by position"),
        pytest.param(PAIR, -1, values(NUMBER), id="from the end"),
        pytest.param(PAIR, 2, ANY, id="behind the end"),
        pytest.param(PAIR, -3, ANY, id="before the beginning"),
        pytest.param(PAIR, None, values(TENSOR, NUMBER), id="by an unknown position"),
        pytest.param(NAMED, "x", values(TENSOR, NUMBER), id="by a key that another may be"),
        pytest.param(NAMED, "y", values(NUMBER), id="by a key that is not told"),
        pytest.param(NAMED, None, values(TENSOR, NUMBER), id="by an unknown key"),
        pytest.param(((None, values(TENSOR)),), -1, values(TENSOR), id="any"),
        pytest.param((("x", values(TENSOR)), ("x", values(NUMBER))), "x", values(NUMBER), id="the last of a key"),
        pytest.param((), 0, ANY, id="of nothing that is known"),
        pytest.param((), None, ANY, id="any of nothing that is known"),
    ],
)
def test_elements(items: Items, step: int | str | None, expected: Values) -> None:
    assert item(Value(Kind.SEQUENCE, items=items), step) == expected


def test_elements_that_lie_too_deep_may_be_anything() -> None:
    deep = values(loose(values(loose(values(TENSOR)))))
    assert deep.nesting == 2
    (cut,) = shallow(deep, 1, {})
    assert cut.kind is Kind.SEQUENCE
    (inner,) = any_item(cut)
    assert any_item(inner) == ANY
    assert shallow(deep, 2, {}) is deep
    assert shallow(values(Value(Kind.BATCH, path=(0, 1))), 1, {}) == ANY


def test_containers_from_one_place_are_joined() -> None:
    (alike,) = merged(values(sequence(values(TENSOR), values(NUMBER)), sequence(values(ARRAY), values(NUMBER))))
    assert alike.items == ((0, values(TENSOR, ARRAY)), (1, values(NUMBER)))
    (other,) = merged(values(sequence(values(TENSOR)), sequence(values(ARRAY), values(NUMBER))))
    assert other.items == ((None, values(TENSOR, ARRAY, NUMBER)),)
    elsewhere = values(sequence(values(TENSOR)), Value(Kind.SEQUENCE, SCRIPT.tree, SCRIPT, items=PAIR))
    assert merged(elsewhere) is elsewhere


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (values(MODULE, READ), values(MODULE)),
        (values(READ), values(READ)),
        (values(MODULE, READ, UNKNOWN), values(MODULE, READ, UNKNOWN)),
        (values(MODULE, UNKNOWN), values(MODULE, UNKNOWN)),
        (values(NUMBER, READ), values(NUMBER)),
        (values(MODULE, PART), values(MODULE)),
        (values(NUMBER, PART), values(NUMBER, PART)),
        (values(MODULE, NUMBER, PART), values(MODULE, NUMBER, PART)),
        (values(MODULE, UNKNOWN, PART), values(MODULE, UNKNOWN, PART)),
    ],
)
def test_checkpoints_that_are_read_back(given: Values, expected: Values) -> None:
    assert without_checkpoint_reads(given) == expected


def test_sets_are_told_apart_by_where_their_values_come_from() -> None:
    script = load("a = f(1)\nb = f(2)\n")
    first, second = (values(Value(Kind.EXTERNAL, each, script)) for each in script.find(ast.Call))
    assert first.digest != second.digest
    assert (first | second).digest == (second | first).digest
    assert [value.node for value in second | first] == [*script.find(ast.Call)]
    assert (first | second).without(first) == second
    assert union([first, NOTHING, second]) == first | second
    assert first | NOTHING is first
    assert NOTHING | first is first
