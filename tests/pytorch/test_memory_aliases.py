"""Which expressions may share the memory of another."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.pytorch.memory_aliases import bound_to, same_memory, shared_elements, unfollowed


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x[0]", ["x"]),
        ("x.view(-1)", ["x"]),
        ("x.numpy()", ["x"]),
        ("x.float()", []),
        ("torch.from_numpy(x)", ["x"]),
        ("torch.from_numpy(y.T.copy())", []),
        ("torch.squeeze(x)", ["x"]),
        ("x.clone()", []),
        ("torch.zeros(3)", []),
    ],
)
def test_same_memory(expression: str, expected: list[str]) -> None:
    script = load(f"import torch\nx = torch.ones(3)\nseen({expression})\n")
    owners = [script.source(each) for value in script.values(seen(script)) for each in same_memory(value)]
    assert owners == expected


@pytest.mark.parametrize(("expression", "expected"), [("x.float()", ["x"]), ("x.abs()", []), ("x[0]", ["x"])])
def test_what_a_tensor_may_be_converted_from(expression: str, expected: list[str]) -> None:
    script = load(f"import torch\nx = torch.ones(3)\nseen({expression})\n")
    found = [each for value in script.values(seen(script)) for each in same_memory(value, converted=True)]
    assert [script.source(each) for each in found] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = f()", ["f()"]),
        ("a, x = f(), g()", ["g()"]),
        ("*a, x = f(), g()", ["g()"]),
        ("a, x = f()", ["f()"]),
        ("*a, x, b, c = f(), g()", ["(f(), g())"]),  # raises
    ],
)
def test_what_a_name_is_bound_to(text: str, expected: list[str]) -> None:
    script = load(f"{text}\nseen(x)\n")
    name = seen(script)
    assert isinstance(name, ast.Name)
    assert [ast.unparse(each) for _, each in bound_to(script, script.definitions(name))] == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x.copy()", []),
        ("x.astype(float)", []),
        ("x.astype(copy=False)", ["x", "False"]),
        ("x.copy().transpose()", []),
        ("x.copy()[0]", ["x.copy()"]),
        ("x.copy()[0].copy()", []),
        ("x.transpose()", ["x"]),
        ("merged(x.copy())", ["x.copy()"]),
    ],
)
def test_a_copy_is_another_object(expression: str, expected: list[str]) -> None:
    script = load(f"def f(x):\n    seen({expression})\n")
    assert [script.source(each) for each, _ in unfollowed(script, seen(script))] == expected


def test_a_copy_has_the_elements_of_what_it_copies() -> None:
    script = load("def f(x):\n    seen(x.copy()[0])\n")
    [(copy, part)] = unfollowed(script, seen(script))
    assert [script.source(each) for each, _ in unfollowed(script, copy, part=part)] == ["x"]


@pytest.mark.parametrize(
    ("expression", "of_whole", "of_part"),
    [
        ("x.get('image')", "x", "x"),
        ("x.copy()", None, "x"),
        ("copy.copy(x)", None, "x"),
        ("copy.deepcopy(x)", None, None),
        ("x.clone()", None, None),
    ],
)
def test_shared_elements(expression: str, of_whole: str | None, of_part: str | None) -> None:
    script = load(f"import copy\ndef f(x):\n    seen({expression})\n")
    call = seen(script)
    assert isinstance(call, ast.Call)
    found = [shared_elements(script, call, part=part) for part in (False, True)]
    assert [each and script.source(each) for each in found] == [of_whole, of_part]


def seen(script: Script) -> ast.expr:
    return next(each.args[0] for each in script.find(ast.Call) if script.source(each.func) == "seen")
