"""Where names surely have a value."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis.definite_assignment import is_bound, is_made_by_calls, last_binding
from autoaccel.analysis.script import Script, load


def _made(script: Script, *names: str) -> list[list[ast.stmt]]:
    assigns = sorted(script.find(ast.Assign), key=lambda each: each.lineno)
    return [[each for each in assigns if script.source(each.targets[0]) == name] for name in names]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a = 1\nb = 2\nprint()", 2),
        ("if x:\n    a = 1\n    b = 2\nelse:\n    a = 3\n    b = 4\n", 1),
        ("if x:\n    a = 1\nelse:\n    b = 2\n", None),
        ("if x:\n    a = 1\n    b = 2\nelse:\n    raise SystemExit\n", 3),
        ("a = b = 0\nb = 3\nif x:\n    a = 1\n", 3),
        ("try:\n    a = 1\n    b = 2\nexcept ImportError:\n    a = 3\n    b = 4\n", 1),
        ("try:\n    a = 1\n    b = 2\nexcept ImportError:\n    a = 3\n", None),
        ("match x:\n    case 1:\n        a = 1\n        b = 1\n    case _:\n        a = 2\n        b = 2\n", 1),
        ("match x:\n    case 1:\n        a = 1\n        b = 1\n    case 2:\n        a = 2\n        b = 2\n", None),
        ("a = 1\nfor i in y:\n    b = 2\n", None),
    ],
)
def test_last_binding(source: str, line: int | None) -> None:
    script = load(source)
    found = last_binding(script, _made(script, "a", "b"))
    assert (None if found is None else found.lineno) == line


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a):\n    for i in y:\n        if i:\n            a.step()\n", True),
        ("def f():\n    a = 1\n    for i in y:\n        if i:\n            a.step()\n", True),
        ("def f():\n    if x:\n        a = 1\n    for i in y:\n        if i:\n            a.step()\n", False),
        ("def f():\n    for i in y:\n        a = 1\n        a.step()\n", False),
        ("if x:\n    a = 1\ndef f():\n    for i in y:\n        if i:\n            a.step()\n", False),
        ("if x:\n    a = 1\ndef f():\n    for i in y:\n        a.step()\n", True),
        ("a = 1\ndef f():\n    for i in y:\n        if i:\n            a.step()\n", True),
    ],
)
def test_is_bound(source: str, expected: bool) -> None:
    script = load(source)
    home = next(script.find(ast.FunctionDef))
    place = next(script.find(ast.For))
    read = next(each for each in script.find(ast.Name) if each.id == "a" and isinstance(each.ctx, ast.Load))
    assert is_bound(script, home, place, read) is expected


@pytest.mark.parametrize(
    ("methods", "body", "made"),
    [
        ("def setup(self): self.model = 1", "for i in y:\n    self.setup()\n    self.model", True),
        ("def setup(self): self.model = 1", "self.setup()\nfor i in y:\n    self.model", False),
        ("def setup(self): self.build()\ndef build(self): self.model = 1", "for i in y:\n    self.setup()", True),
        ("def setup(self): self.other = 1", "for i in y:\n    self.setup()\n    self.model", False),
        ("def __init__(self): self.model = 1", "for i in y:\n    T()\n    self.model", False),
        ("def setup(self): self.model = 1", "for i in y:\n    pass\nself.setup()", True),
    ],
)
def test_what_is_made_by_calls(methods: str, body: str, made: bool) -> None:
    """From the loop on: what was called before it has made what it makes."""
    indented = "\n".join(f"    {line}" for line in f"{methods}\ndef run(self):".splitlines())
    text = f"class T:\n{indented}\n" + "\n".join(f"        {line}" for line in body.splitlines()) + "\n"
    script = load(text)
    run = next(each for each in script.find(ast.FunctionDef) if each.name == "run")
    expression = ast.parse("self.model", mode="eval").body
    assert is_made_by_calls(script, run, next(script.find(ast.For)), expression) is made


def test_a_global_that_a_function_makes_anew() -> None:
    script = load("def reset():\n    global model\n    model = 1\nfor i in y:\n    reset()\n    model\n")
    loop = next(script.find(ast.For))
    for name, made in (("model", True), ("other", False)):
        assert is_made_by_calls(script, script.tree, loop, ast.parse(name, mode="eval").body) is made


@pytest.mark.parametrize(
    ("constructor", "methods", "expected"),
    [
        ("self.build()", "def build(self): self.opt = 1", True),
        ("self.build()", "def build(self): self.more()\ndef more(self): self.opt = 1", True),
        ("self.build()", "def build(self):\n    if x: self.opt = 1", False),
        ("self.build()", "def build(self):\n    if x: return\n    self.opt = 1", False),
        ("if x: self.build()", "def build(self): self.opt = 1", False),
        ("for i in y: self.build()", "def build(self): self.opt = 1", False),
        ("self.build()", "def build(self): self.build()", False),
        ("self.build", "def build(self): self.opt = 1", False),
        ("other.build()", "def build(self): self.opt = 1", False),
        ("self.build()", "def build(self): ...\n\nclass U(T):\n    def build(self): self.opt = 1", False),
        ("self.build()", "def build(self): self.opt = 1\n\nclass U(T):\n    def build(self): ...", False),
    ],
)
def test_attributes_that_methods_set_for_the_constructor(constructor: str, methods: str, expected: bool) -> None:
    run = "def run(self):\n    for i in y:\n        if i:\n            self.opt.step()\n"
    first, derived, rest = methods.partition("\n\nclass")
    body = f"def __init__(self):\n    {constructor}\n{first}\n{run}"
    script = load("class T:\n" + "".join(f"    {line}\n" for line in body.splitlines()) + derived.strip() + rest + "\n")
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "run")
    loop = next(each for each in script.find(ast.For) if script.function(each) is function)
    assert is_bound(script, function, loop, ast.parse("self.opt", mode="eval").body) is expected
