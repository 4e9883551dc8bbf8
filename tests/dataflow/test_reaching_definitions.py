"""Reaching definitions: which bindings a read may see."""

from __future__ import annotations

import ast
import inspect
import sys

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.reaching_definitions import ReachingDefinitions
from autoaccel.dataflow.syntax_index import SyntaxIndex


def reaching(text: str, name: str) -> list[list[int]]:
    """Per read of `name` in source order, the lines of the bindings that reach it."""
    script = load(text)
    reads = [node for node in script.find(ast.Name) if node.id == name and isinstance(node.ctx, ast.Load)]
    return [sorted(getattr(each.node, "lineno", 0) for each in script.definitions(read)) for read in reads]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1\nx = 2\nx\n", [[2]], id="the last binding wins"),
        pytest.param("x = 1\nif c:\n    x = 2\nx\n", [[1, 3]], id="a branch may be taken"),
        pytest.param("if c:\n    x = 1\nelse:\n    x = 2\nx\n", [[2, 4]], id="both branches"),
        pytest.param("x = 1\nif c:\n    x = 2\n    raise E\nx\n", [[1]], id="a branch that raises does not join"),
        pytest.param("x = 1\nfor i in y:\n    x\n    x = 2\nx\n", [[1, 4], [1, 4]], id="round the loop"),
        pytest.param("x = 1\nwhile c:\n    x = 2\n    break\nelse:\n    x = 3\nx\n", [[3, 6]], id="break skips else"),
        pytest.param(
            "x = 1\nfor i in y:\n    if i:\n        x = 2\n        continue\n    x = 3\nx\n", [[1, 4, 6]], id="continue"
        ),
        pytest.param("x = 1\ntry:\n    x = 2\n    f()\nexcept E:\n    x\n", [[1, 3]], id="anywhere in try"),
        pytest.param("x = 1\ntry:\n    x = 2\nfinally:\n    pass\nx\n", [[3]], id="finally"),
        pytest.param("x = 1\ndel x\nx\n", [[]], id="deleted"),
        pytest.param("x = 1\nx += 1\nx\n", [[2]], id="augmented"),
        pytest.param("with f() as x:\n    x\n", [[1]], id="with"),
        pytest.param("if (x := f()):\n    x\n", [[1]], id="walrus"),
        pytest.param("x = 1\n[x for x in y]\nx\n", [[0], [1]], id="a comprehension has its own"),
        pytest.param("x = 1\n[x for i in y]\n", [[1]], id="a comprehension sees the scope"),
        pytest.param("(x, (y, *z)) = f()\nx\n", [[1]], id="unpacking"),
        pytest.param("match v:\n    case [x, *_]:\n        x\n", [[2]], id="match"),
        pytest.param("x = 1\nlambda x: x\n", [[2]], id="a lambda's parameter"),
    ],
)
def test_module_scope(text: str, expected: list[list[int]]) -> None:
    assert reaching(text, "x") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1\ndef f():\n    return x\nx = 2\n", [[1, 4]], id="a function sees later bindings"),
        pytest.param(
            "import x\nx = x.M()\ndef f():\n    return x\n", [[1], [2]], id="but none overwritten before it was made"
        ),
        pytest.param("def f():\n    x\n    x = 1\n", [[]], id="local before assignment"),
        pytest.param("x = 1\ndef f():\n    global x\n    x = 2\nx\n", [[1, 4]], id="global"),
        pytest.param(
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    return x\n",
            [[2]],
            id="nonlocal write",
        ),
        pytest.param(
            "class C:\n    x = 1\n    def f(self):\n        return x\n",
            [[]],
            id="class bodies are invisible to methods",
        ),
        pytest.param("def f(x, y=1):\n    return x\n", [[1]], id="parameter"),
        pytest.param("def f(*x):\n    return x\n", [[1]], id="star parameter"),
    ],
)
def test_nested_scopes(text: str, expected: list[list[int]]) -> None:
    assert reaching(text, "x") == expected


def test_uses_are_the_inverse_of_definitions() -> None:
    script = load("x = 1\nif c:\n    x = 2\nprint(x)\ny = x\n")
    first = next(node for node in script.find(ast.Name) if node.id == "x")
    (definition,) = script.definitions(first)
    assert [use.lineno for use in script.uses(definition)] == [4, 5]


def test_unpacking_paths() -> None:
    script = load("for i, (a, *b) in enumerate(loader):\n    a, b\n")
    paths = {name.id: script.definitions(name)[0].path for name in script.find(ast.Name) if name.id in "ab"}
    assert paths == {"a": (1, 0), "b": (1, "*")}


def test_augmented_assignments_read_what_they_add_to() -> None:
    script = load("x = 1\nx += 2\nfor i in range(3):\n    x += i\nprint(x)\n")
    written = (name for name in script.find(ast.Name) if name.id == "x" and isinstance(name.ctx, ast.Store))
    first, second, third = written
    (made,) = script.definitions(first)
    (added,) = script.definitions(second)
    assert script.additions(made) == [second]
    assert script.additions(added) == [third]
    assert script.uses(made) == []


def test_a_body_that_is_too_deep_for_the_stack_is_looked_at_again() -> None:
    tree = SyntaxIndex(f"def f(x):\n    y = x\n    z = {'-' * 60}y\n    return z\n")
    flow = ReachingDefinitions(tree)
    read = next(name for name in tree.find(ast.Name) if name.id == "y" and isinstance(name.ctx, ast.Load))
    limit = sys.getrecursionlimit()

    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            flow.definitions(read)

    with pytest.raises(RecursionError):
        deep(limit - len(inspect.stack()) - 30)
    assert [each.how for each in flow.definitions(read)] == ["assign"]
    assert [each.name for each in flow.scopes[tree.module.body[0]].definitions["y"]] == ["y"]


def test_only_what_is_asked_for_is_looked_at() -> None:
    tree = SyntaxIndex("import a\n\ndef f():\n    b = a\n    def g():\n        return b\n\ndef h():\n    c = a\n")
    flow = ReachingDefinitions(tree)
    b = next(name for name in tree.find(ast.Name) if name.id == "b" and isinstance(name.ctx, ast.Load))
    assert [each.how for each in flow.definitions(b)] == ["assign"]
    functions = {function.name: function for function in tree.find(ast.FunctionDef)}
    assert "b" in flow.known[functions["f"]].definitions
    assert not flow.known[functions["h"]].definitions
    assert "c" in flow.scopes[functions["h"]].definitions
