"""Which parameters an argument may be passed for."""

from __future__ import annotations

import ast

import pytest

from autoaccel.dataflow.call_arguments import given_values, may_be_passed_for


@pytest.mark.parametrize(
    ("call", "own", "collecting"),
    [
        pytest.param("f(0, HERE)", ["b"], [], id="by position"),
        pytest.param("f(c=HERE)", ["c"], [], id="by name"),
        pytest.param("f(other=HERE)", [], ["args", "kwargs"], id="by another name"),
        pytest.param("f(0, 1, 2, HERE)", [], ["args", "kwargs"], id="one more"),
        pytest.param("f(*x, HERE)", ["a", "b"], [], id="behind a star"),
        pytest.param("f(*HERE)", ["a", "b", "c"], ["args", "kwargs"], id="with a star"),
        pytest.param("f(**HERE)", ["a", "b", "c"], [], id="with two stars"),
    ],
)
def test_what_an_argument_is_passed_for(call: str, own: list[str], collecting: list[str]) -> None:
    text = f"def f(self, a, b, *args, c, **kwargs): ...\n{call}\n"
    function, statement = ast.parse(text).body
    made = statement.value  # type: ignore[attr-defined]
    argument = next(each for each in (*made.args, *made.keywords) if "HERE" in ast.unparse(each))
    assert argument in (*given_values(made), *made.keywords)
    assert may_be_passed_for(function, made, argument, bound=True) == (own, collecting)
