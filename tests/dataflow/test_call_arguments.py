"""Which parameters an argument may be passed for."""

from __future__ import annotations

import ast

import pytest

from autoaccel.dataflow.call_arguments import fits, given_values, may_be_passed_for


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


@pytest.mark.parametrize(
    ("call", "fitting"),
    [
        ("f(0)", True),
        ("f(0, 1)", True),
        ("f(0, c=1)", True),
        ("f(*x)", True),
        ("f(**x)", True),
        ("f()", False),
        ("f(0, 1, 2)", False),
        ("f(0, d=1)", False),
        ("f(b=0)", False),
    ],
)
def test_as_many_arguments_as_a_function_takes(call: str, fitting: bool) -> None:
    function, statement = ast.parse(f"def f(self, a, b=0, *, c=1): ...\n{call}\n").body
    assert isinstance(function, ast.FunctionDef)
    assert fits(function, statement.value, bound=True) is fitting  # type: ignore[attr-defined]


def test_arguments_that_must_be_named() -> None:
    function, without, given = ast.parse("def f(*a, c, **k): ...\nf(0, 1, d=2)\nf(0, c=1)\n").body
    assert isinstance(function, ast.FunctionDef)
    assert not fits(function, without.value, bound=False)  # type: ignore[attr-defined]
    assert fits(function, given.value, bound=False)  # type: ignore[attr-defined]
