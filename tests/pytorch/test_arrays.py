"""Arrays of their own, and lists that hold arrays alone."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.pytorch.arrays import array_elements, is_fresh, may_be_empty, only_last_axis_empty

HEAD = "import numpy as np\nimport torch\n\n"


def last_argument(source: str) -> tuple[Script, ast.expr]:
    """The argument of the last call of `seen(…)` in a script."""
    script = load(HEAD + source)
    calls = [call for call in script.find(ast.Call) if isinstance(call.func, ast.Name) and call.func.id == "seen"]
    return script, calls[-1].args[0]


def in_function(body: str) -> str:
    return "def f(a, n, env):\n" + "".join(f"    {line}\n" for line in body.split("\n"))


@pytest.mark.parametrize(
    "expression",
    [
        "np.stack(a)",
        "np.load('x.npy')",
        "np.random.rand(3)",
        "np.random.choice(10, size=3)",
        "np.log(np.ones(3))",
        "np.maximum(np.ones(3), 0)",
        "np.zeros(3) / 2",
        "-np.zeros(3)",
        "a.astype(np.float32)",
        "a.copy()",
        "np.zeros(4).reshape(2, 2).T",
        "np.load('x.npy').mean(axis=0)",
        "np.zeros(3) if a else np.ones(3)",
    ],
)
def test_fresh(expression: str) -> None:
    assert is_fresh(*last_argument(f"seen({expression})\n"))


@pytest.mark.parametrize(
    "expression",
    [
        "a",
        "a[0]",
        "self.data",
        "np.asarray(a)",
        "np.ascontiguousarray(a)",
        "np.load('x.npy', mmap_mode='r')",
        "np.load('x.npy', 'r')",
        "np.array(a, copy=False)",
        "np.add(a, 1, out=a)",
        "np.add(a, 1, a)",
        "np.sqrt(a, a)",
        "np.stack(a, 0, b)",
        "np.log(0.5)",
        "np.log(a)",
        "np.zeros(3).sum()",
        "np.random.normal(0, 1)",
        "np.zeros(3).cumsum(0, float, a)",
        "np.zeros(3, **options)",
        "a.astype(np.float32, copy=False)",
        "a.reshape(-1)",
        "np.load('x.npy')[0]",
        "np.broadcast_to(np.ones(3), (4, 3))",
        "np.zeros(3) / torch.ones(3)",
        "a + b",
        "a.numpy()",
        "np.zeros(3) if a else a",
    ],
)
def test_not_fresh(expression: str) -> None:
    assert not is_fresh(*last_argument(f"seen({expression})\n"))


@pytest.mark.parametrize("body", ["b = np.zeros(n)\nseen(b)", "global b\nb = np.zeros(n)\nseen(b)"])
def test_names_are_not_fresh(body: str) -> None:
    assert not is_fresh(*last_argument(in_function(body)))


@pytest.mark.parametrize(
    "body",
    [
        "seen([np.zeros(3) for _ in a])",
        "seen((np.zeros(3), np.ones(3)))",
        "b = []\nfor x in a:\n    b.append(np.eye(n)[x])\nseen(b)",
        "b, c = [], []\nfor x in a:\n    b.append(np.zeros(x))\n    c.append(x)\nseen(b)",
        "seen([np.random.normal(0, 1, n) for _ in a])",
        "seen([[np.zeros(3)], [np.zeros(3)]])",
        "seen([np.zeros(3).sum() for _ in a])",
    ],
)
def test_lists_of_arrays(body: str) -> None:
    assert array_elements(*last_argument(in_function(body)))


@pytest.mark.parametrize(
    "body",
    [
        "seen([x for x in a])",
        "seen([1.0, 2.0])",
        "seen([])",
        "seen([np.random.normal(0, 1) for _ in a])",
        "seen([2 * np.random.beta(1, 1) for _ in a])",
        "seen([np.zeros(3).tolist() for _ in a])",
        "seen(np.zeros(3) for _ in a)",
        "seen(np.zeros(3))",
        "b = [np.zeros(3)]\nb.extend(env.rows)\nseen(b)",
        "b = [np.zeros(3) for _ in a]\nb.append([0.0] * 3)\nseen(b)",
        "b = [np.zeros(3)]\nb[0] = env.row\nseen(b)",
        "b = [np.zeros(3)]\nb += env.rows\nseen(b)",
        "b = []\nfor x in a:\n    b.append(np.zeros(3))\n    b.append(x)\nseen(b)",
        "env.rows = [np.zeros(3)]\nseen(env.rows)",
    ],
)
def test_other_lists(body: str) -> None:
    assert not array_elements(*last_argument(in_function(body)))


@pytest.mark.parametrize(
    ("body", "empty"),
    [
        ("seen([np.zeros(3)])", False),
        ("seen((np.zeros(3), np.ones(3)))", False),
        ("seen([np.zeros(3) for _ in range(4)])", False),
        ("seen([[np.zeros(3)], [np.zeros(3)]])", True),
        ("seen([*a])", True),
        ("seen([np.zeros(3) for _ in range(0)])", True),
        ("seen([np.zeros(3) for _ in range(n)])", True),
        ("seen([np.zeros(3) for i in range(4) if a[i]])", True),
        ("seen([[np.zeros(3) for _ in a] for _ in range(4)])", True),
        ("b = []\nfor x in a:\n    b.append(np.zeros(3))\nseen(b)", True),
        ("b = [np.zeros(3)]\nb.pop()\nseen(b)", True),
    ],
)
def test_lists_that_may_be_empty(body: str, empty: bool) -> None:
    assert may_be_empty(*last_argument(in_function(body))) is empty


@pytest.mark.parametrize(
    ("element", "sure"),
    [
        ("np.eye(n)[1]", True),
        ("np.array([1, 2])", True),
        ("np.asarray([2 * i for i in range(n)])", True),
        ("np.array([[1], [2]])", False),
        ("np.eye(n)[1:]", False),
        ("np.zeros(n)", False),
        ("np.zeros((0, 4))", False),
        ("np.zeros((n, 4))", False),
        ("np.eye(n)[a]", False),
        ("np.zeros((2, 3))[1:]", False),
        ("np.load(a)", False),
        ("np.zeros((2, 3)).mean(axis=0)", False),
        ("np.zeros(3) + np.load(a)", False),
    ],
)
def test_arrays_without_elements(element: str, sure: bool) -> None:
    elements = array_elements(*last_argument(in_function(f"seen([{element}])")))
    assert elements
    script, _ = last_argument(in_function(f"seen([{element}])"))
    assert all(only_last_axis_empty(script, each) for each in elements) is sure
