"""Which functions of a project some code may run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.pytorch.reachable_code import reachable_code, running_code, tabled_functions

HEAD = """\
import functools
import torch
from torch import nn
from elsewhere import unknown
"""
MODEL = "class M(nn.Module):\n    def __init__(self): ...\n    def forward(self, x): ...\n    def extra(self): ...\n"
OTHER = "class N(nn.Module):\n    def forward(self, x): ...\n"


def described(found: list[tuple[Script, ast.AST]]) -> list[str]:
    """The names of the functions, with their classes."""
    names = []
    for script, each in found:
        cls = script.parent(each)
        name = each.name if isinstance(each, ast.FunctionDef) else type(each).__name__
        names.append(f"{cls.name}.{name}" if isinstance(cls, ast.ClassDef) else name)
    return names


# By case: what stands before `f(x)`, its body, and what it may run besides itself.
REACHED: dict[str, tuple[str, str, list[str]]] = {
    "nothing": ("def g(): ...\n", "return x", []),
    "a function": ("def g(): ...\n", "g()", ["g"]),
    "through another": ("def h(): ...\ndef g():\n    h()\n", "g()", ["g", "h"]),
    "itself": ("", "f(x)", ["f"]),
    "a function that it makes": ("def g(): ...\n", "def h():\n    g()\nreturn h", ["g"]),
    "a function under another name": ("def g(): ...\nh = g\n", "h()", ["g"]),
    "a method": ("class A:\n    def go(self): ...\n    def stay(self): ...\n", "A().go()", ["A.go"]),
    "a constructor": ("class A:\n    def __init__(self): ...\n", "A()", ["A.__init__"]),
    "an object that is called": ("class A:\n    def __call__(self): ...\n", "a = A()\na()", ["A.__call__"]),
    "a model that is made": (MODEL, "M()", ["M.__init__", "M.forward"]),
    "a model that is run": (MODEL + "m = M()\n", "m(x)", ["M.__init__", "M.forward"]),
    "a method of a model": (MODEL + "m = M()\n", "m.extra()", ["M.__init__", "M.extra", "M.forward"]),
    "a model among others": (MODEL + OTHER, "M()", ["M.__init__", "M.forward"]),
    "a sequence of models": (MODEL + OTHER + "m = nn.Sequential(N())\n", "m(x)", ["N.forward"]),
    "a sequence out of sight": (
        MODEL + OTHER + "m = nn.Sequential(*unknown())\n",
        "m(x)",
        ["M.forward", "N.forward"],
    ),
    "whatever model": (MODEL + OTHER, "x(1)", ["M.forward", "N.forward"]),
    "a method of whatever object": (
        "class A:\n    def go(self): ...\nclass B:\n    def go(self): ...\n    def stay(self): ...\n",
        "x.go()",
        ["A.go", "B.go"],
    ),
    "a function that is stored on an object": ("def g(): ...\nT = [g]\no.go = g\n", "x.go()", ["g"]),
    "a method of a tensor, whose name an object stores": ("x = torch.ones(3)\ndef g(): ...\no.go = g\n", "x.go()", []),
    "a number that is stored on an object": ("def g(): ...\nT = [g]\no.go = p.go = 0\n", "x.go()", []),
    "a sum that is stored on an object": ("def g(): ...\nT = [g]\no.go = 0\no.go += y\n", "x.go()", []),
    "a quotient that is stored on an object": ("def g(): ...\nT = [g]\no.go = y / 2\n", "x.go()", []),
    "nothing yet": ("def g(): ...\nT = [g]\no.go = None\n", "x.go()", ["g"]),
    "added to nothing yet": ("def g(): ...\nT = [g]\no.go = ''\no.go += y\n", "x.go()", ["g"]),
    "a number or a function": ("def g(): ...\nT = [g]\no.go = 0\np.go, q.go = g, 1\n", "x.go()", ["g"]),
    "a sum of layers": ("def g(): ...\nT = [g]\no.go = nn.Sequential() + y\n", "x.go()", ["g"]),
    "what is added to no number": ("def g(): ...\nT = [g]\no.go = y\no.go += y\n", "x.go()", ["g"]),
    "what an operator composes": ("def g(): ...\nT = [g]\no.go = g | y\n", "x.go()", ["g"]),
    "what arithmetic of a class composes": (
        "def g(): ...\nT = [g]\nclass A:\n    def __sub__(self, other): ...\no.go = A() - g\n",
        "x.go()",
        ["g"],
    ),
    "a function of a library": (MODEL + "def g(): ...\n", "torch.relu(x)", []),
    "a function that is handed on": ("def g(): ...\n", "unknown(g)", ["g"]),
    "a model that is handed on": (MODEL + "m = M()\n", "unknown(m)", ["M.__init__", "M.forward"]),
    "a function of a table": ("def g(): ...\nT = {'a': g}\n", "T[x](1)", ["g"]),
    "a partial function": ("def g(y): ...\nh = functools.partial(g, 1)\n", "h()", ["g"]),
    "a property": ("class A:\n    @property\n    def size(self): ...\n", "return A().size", ["A.size"]),
    "a loop": ("class A:\n    def __iter__(self): ...\n", "for y in A():\n    pass", ["A.__iter__"]),
    "a context": (
        "class A:\n    def __enter__(self): ...\n    def __exit__(self): ...\n",
        "with A():\n    pass",
        ["A.__enter__", "A.__exit__"],
    ),
    "a hook": ("def g(m, i, o): ...\nnn.Linear(1, 1).register_forward_hook(g)\n", "return x", ["g"]),
    "a hook of inputs": ("def g(m, i): ...\nnn.Linear(1, 1).register_forward_pre_hook(g)\n", "return x", ["g"]),
    "what a hook calls": (
        "def h(): ...\ndef g(m, i, o):\n    h()\nnn.Linear(1, 1).register_forward_hook(g)\n",
        "return x",
        ["g", "h"],
    ),
    "the base of a model": (
        MODEL + "class N(M):\n    def forward(self, x):\n        return super().forward(x)\nm = N()\n",
        "m(x)",
        ["M.__init__", "M.forward", "N.forward"],
    ),
    "looked up": ("class A:\n    def go(self): ...\n", "getattr(A(), 'go')()", ["A.go"]),
}


@pytest.mark.parametrize("case", REACHED)
def test_reachable_code(case: str) -> None:
    before, body, expected = REACHED[case]
    script = load(HEAD + before + "def f(x):\n" + "".join(f"    {line}\n" for line in body.split("\n")))
    function = script.tree.body[-1]
    start, *found = reachable_code(script, [function])
    assert start == (script, function)
    assert sorted(described(found)) == expected


def test_statements_alone() -> None:
    script = load("def g(): ...\ndef h(): ...\ng()\nh()\n")
    assert described(reachable_code(script, [script.tree.body[-2]])) == ["Expr", "g"]


def test_code_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def inner(): ...\ndef step():\n    inner()\ndef other(): ...\n")
    path, text = tmp_path / "main.py", "from steps import step\nstep()\n"
    path.write_text(text)
    script = load(text, path, Project([*tmp_path.glob("*.py")]))
    assert described(reachable_code(script, [script.tree.body[-1]])) == ["Expr", "step", "inner"]


# By case: code, and which of `g`, `h` and `A.go` may be called under other names.
TABLED: dict[str, tuple[str, list[str]]] = {
    "nothing": ("g()\nh()", []),
    "a table": ("T = {'g': g}", ["g"]),
    "in a pair of a table": ("T = {'g': (0.5, g)}", ["g"]),
    "a list": ("for each in [g, h]:\n    each()", ["g", "h"]),
    "added to a table": ("T = {}\nT['h'] = h", ["h"]),
    "a method": ("T = [A().go]", ["A.go"]),
    "a partial function": ("k = functools.partial(g, 1)", ["g"]),
    "wrapped by the project": ("k = wrap(h)", ["h"]),
    "wrapped by torch": ("k = torch.compile(h)", []),
    "handed on for no result": ("run(h)", []),
    "all names": ("globals()[name]()", ["g", "h", "wrap"]),
    "a result": ("T = [g()]", []),
    "a number": ("T = {'g': 1}", []),
}


@pytest.mark.parametrize("case", TABLED)
def test_tabled_functions(case: str) -> None:
    text, expected = TABLED[case]
    own = "def g(): ...\ndef h(): ...\ndef wrap(f): ...\nclass A:\n    def go(self): ...\n"
    script = load(f"{HEAD}{own}{text}\n")
    assert sorted(described([*tabled_functions(script)])) == expected


# By case: the constructor of a model, what stands beside it, and what runs of it when the model does.
BUILT: dict[str, tuple[str, str, list[str]]] = {
    "a helper that builds layers": (
        "def __init__(self): self.a = self.make()",
        "def make(self): return N()",
        ["M.forward", "N.forward"],
    ),
    "a helper of a helper": (
        "def __init__(self): self.a = self.make()",
        "def make(self): return self.one()\n    def one(self): return N()",
        ["M.forward", "N.forward"],
    ),
    "a helper that the forward pass calls as well": (
        "def __init__(self): self.a = self.extra()",
        "def extra(self): ...",
        ["M.extra", "M.forward"],
    ),
    "a function that is kept": (
        "def __init__(self): self.a = self.make",
        "def make(self): ...",
        ["M.forward", "M.make"],
    ),
    "one that is called and kept": (
        "def __init__(self): self.a, self.b = self.make, self.make()",
        "def make(self): ...",
        ["M.forward", "M.make"],
    ),
    "one that makes a function": (
        "def __init__(self): self.a = self.make()",
        "def make(self): return lambda x: x @ x",
        ["M.forward", "M.make"],
    ),
}


@pytest.mark.parametrize("case", BUILT)
def test_helpers_of_constructors_run_before(case: str) -> None:
    constructor, helpers, expected = BUILT[case]
    forward = "def forward(self, x): return self.extra(self.a, x)"
    model = f"class M(nn.Module):\n    {constructor}\n    {helpers}\n    {forward}\n"
    script = load(f"{HEAD}{OTHER}{model}m = M()\ndef f(x): return m(x)\n")
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "f")
    found = [each for each in described(running_code(script, [function])) if not each.endswith(("f", "__init__"))]
    assert sorted(found) == expected


def test_helpers_of_constructors_that_run_now() -> None:
    made = "class A:\n    def __init__(self): self.make()\n    def make(self): ...\n"
    script = load(f"{HEAD}{made}def f(x): return A()\n")
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "f")
    assert described(running_code(script, [function])) == ["f", "A.__init__", "A.make"]
