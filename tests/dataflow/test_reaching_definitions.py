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
        pytest.param(
            "x = 1\ntry:\n    with f():\n        x = 2\n        g()\n        x = 3\nexcept E:\n    x\n",
            [[1, 4, 6]],
            id="anywhere in a block in try",
        ),
        pytest.param("x = 1\ntry:\n    x = 2\n    f()\n    x = 3\nfinally:\n    x\n", [[1, 3, 5]], id="in finally"),
        pytest.param(
            "x = 1\ntry:\n    f()\nexcept E:\n    x = 2\n    raise\nfinally:\n    x\n",
            [[1, 5]],
            id="in finally, by a handler",
        ),
        pytest.param(
            "try:\n    import x\nexcept ImportError:\n    x = None\nelse:\n    x\nx\n",
            [[2], [2, 4]],
            id="what is imported if it is there",
        ),
        pytest.param("try:\n    f()\nexcept E as x:\n    x\n", [[3]], id="the exception"),
        pytest.param("x = 1\nwith suppress(E):\n    x = f()\nx\n", [[1, 3]], id="with that hides exceptions"),
        pytest.param("x = 1\nwith guard():\n    x = f()\nx\n", [[1, 3]], id="with that may hide exceptions"),
        pytest.param("x = 1\nwith no_grad():\n    x = f()\nx\n", [[3]], id="with that hides none"),
        pytest.param("[x := y for y in z]\nx\n", [[1]], id="walrus in a comprehension"),
        pytest.param("x = 1\nany((x := y) for y in z)\nx\n", [[1, 2]], id="walrus in a comprehension over nothing"),
        pytest.param("x = 1\nf = lambda: [\nx := 2,\nx]\nx\n", [[3], [1]], id="walrus in a lambda"),
        pytest.param("x = 1\na and (x := f())\nx\n", [[1, 2]], id="walrus that may be passed over"),
        pytest.param("x = 1\ny = (x := 2) if a else 3\nx\n", [[1, 2]], id="walrus in one of two"),
        pytest.param("x = 1\nwhile (x := f()) > 3:\n    x\n", [[2]], id="walrus of while"),
        pytest.param("for x in y:\n    pass\nelse:\n    x\n", [[1]], id="for binds its target"),
        pytest.param("while c:\n    if d:\n        x = 1\n        continue\n    x\n", [[3]], id="carried by continue"),
        pytest.param("x: int\nx\n", [[]], id="an annotation alone"),
        pytest.param("x: int = 1\nx\n", [[1]], id="an annotation and a value"),
        pytest.param("x.y = 1\nx[0] = 2\nx\n", [[], [], []], id="parts of it"),
        pytest.param("import x.y\nimport x.z\nx\n", [[2]], id="the package of a module"),
        pytest.param("from y import z as x\nx\n", [[1]], id="an import under another name"),
        pytest.param("from x import *\nx\n", [[]], id="a star import binds nothing in sight"),
        pytest.param("class x: ...\nx\n", [[1]], id="class"),
        pytest.param("@x\ndef x(): ...\nx\n", [[], [2]], id="a decorator stands before the function"),
        pytest.param("match v:\n    case {'a': 1, **x}:\n        pass\nx\n", [[2]], id="the rest of a mapping"),
        pytest.param("x = 1\nmatch v:\n    case 1:\n        x = 2\nx\n", [[1, 4]], id="no case may match"),
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
            [[2, 5]],
            id="nonlocal write",
        ),
        pytest.param(
            "class C:\n    x = 1\n    def f(self):\n        return x\n",
            [[]],
            id="class bodies are invisible to methods",
        ),
        pytest.param("def f(x, y=1):\n    return x\n", [[1]], id="parameter"),
        pytest.param("def f(*x):\n    return x\n", [[1]], id="star parameter"),
        pytest.param("x = 1\ndef f(y=x):\n    x = 2\nx = 3\n", [[1]], id="a default is read outside"),
        pytest.param(
            "x = 1\nclass C:\n    x = x\n    y = x\n", [[1], [3]], id="a class body begins with the outer name"
        ),
        pytest.param("def f():\n    for x in y: ...\n    return lambda: x\n", [[2]], id="closure of a loop variable"),
        pytest.param("def f():\n    return x\ndef g():\n    global x\n    x = 1\n", [[5]], id="bound by global alone"),
        pytest.param(
            "x = 1\ndef f():\n    x = 2\n    def g():\n        global x\n        x = 3\n    return x\n",
            [[3]],
            id="global passes over the function around",
        ),
        pytest.param(
            "x = 1\ndef f():\n    [x for x in y]\n    return x\n", [[0], [1]], id="a comprehension binds none"
        ),
    ],
)
def test_nested_scopes(text: str, expected: list[list[int]]) -> None:
    assert reaching(text, "x") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("for x in y: ...\n", ("for", "y", ()), id="for"),
        pytest.param("for _, x in enumerate(y): ...\n", ("for", "enumerate(y)", (1,)), id="for over pairs"),
        pytest.param("*_, x = y\n", ("assign", "y", (-1,)), id="behind a star"),
        pytest.param("with open(y) as x: ...\n", ("with", "open(y)", ()), id="with"),
        pytest.param("x += y\n", ("aug", "y", ()), id="augmented"),
        pytest.param("def f(a, x=y): ...\n", ("param", "y", ()), id="default"),
        pytest.param("def f(*, a, x=y): ...\n", ("param", "y", ()), id="default of a keyword"),
        pytest.param("def f(x, a=y): ...\n", ("param", None, ()), id="no default"),
        pytest.param("def f(**x): ...\n", ("param", None, ("*",)), id="keyword arguments"),
        pytest.param("def f():\n    global x\n    x = y\n", ("global", "y", ()), id="global"),
        pytest.param("match v:\n    case [x, 1]: ...\n", ("match", None, ()), id="match"),
        pytest.param("import x\n", ("import", None, ()), id="import"),
    ],
)
def test_what_is_bound(text: str, expected: tuple[str, str | None, tuple[int | str, ...]]) -> None:
    """How, the expression whose part it takes (None where there is none in sight), and which part."""
    script = load(text)
    (definition,) = (
        each for scope in script.reaching_definitions.scopes.values() for each in scope.definitions.get("x", ())
    )
    value = None if definition.value is None else script.source(definition.value)
    assert (definition.how, value, definition.path) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch.nn as x", ("torch.nn", 0)),
        ("import x.optim", ("x", 0)),
        ("from torch import nn as x", ("torch.nn", 0)),
        ("from .models import x", ("models.x", 1)),
        ("from .. import x", ("x", 2)),
    ],
)
def test_imports(text: str, expected: tuple[str, int]) -> None:
    (definition,) = load(text).reaching_definitions.imports
    assert (definition.name, (definition.target, definition.level)) == ("x", expected)


@pytest.mark.parametrize(
    ("text", "expected", "found_without_bodies"),
    [
        ("import torch as x\ndef f():\n    x.a\n", "torch.a", True),
        ("import x\nimport x.nn\ndef f():\n    x.a\n", "x.a", True),
        ("if c:\n    from torch import x\ndef f():\n    x.a\n", "torch.x.a", True),
        ("def f():\n    x.a\nfrom torch import x\n", "torch.x.a", True),
        ("def f(y):\n    y.a\n", None, True),
        ("x.a\nimport x\n", None, True),
        ("try:\n    import x\nexcept E:\n    x = None\ndef f():\n    x.a\n", None, False),
        ("if c:\n    import a as x\nelse:\n    import b as x\ndef f():\n    x.a\n", None, False),
        ("import x\ndef f():\n    x.a\n    for x in y:\n        pass\n", None, False),
        ("import x\ndef f(x):\n    x.a\n", None, False),
        ("import x\ndef f():\n    import y as x\n    x.a\n", "y.a", False),
        ("import x\nclass A:\n    import y as x\n    def f(self):\n        x.a\n", "x.a", False),
        ("import x\ndef f():\n    x.a\ndef g():\n    global x\n    import y as x\n", None, True),
        ("import x\ndef f():\n    match y:\n        case {**x}:\n            x.a\n", None, False),
        ("import x\ndef f():\n    try:\n        g()\n    except E as x:\n        x.a\n", None, False),
    ],
)
def test_what_is_imported_is_told_without_going_through_bodies(
    text: str, expected: str | None, found_without_bodies: bool
) -> None:
    tree = SyntaxIndex(text)
    flow = ReachingDefinitions(tree)
    read = next(each for each in tree.find(ast.Attribute) if each.attr == "a")
    before = len(flow._reach)
    found = flow.qualified(read)
    assert (found and found.name) == expected
    assert (len(flow._reach) == before) is found_without_bodies


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
    assert "b" in flow._reached.scopes[functions["f"]].definitions
    assert not flow._reached.scopes[functions["h"]].definitions
    assert "c" in flow.scopes[functions["h"]].definitions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = f()", "f()"),
        ("a, x = f(), g()", "g()"),
        ("(a, [b, x]), c = (f(), [g(), h()]), i()", "h()"),
        ("*a, x = f(), g()", "g()"),
        ("x, a = f()", None),
        ("a, x = f(),", None),
        ("*a, x, b, c = f(), g()", None),  # raises
        ("a, x = *f(), g()", None),
        ("x += f()", None),
    ],
)
def test_what_an_assignment_gives_a_name_all_of(text: str, expected: str | None) -> None:
    script = load(f"{text}\nx\n")
    (definition,) = script.definitions(script.tree.body[-1].value)  # type: ignore[attr-defined]
    assert (definition.whole and ast.unparse(definition.whole)) == expected
