"""Operators, look-ups and assignments that may run code of a class of the project."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.pytorch.special_methods import overloads, sets_by_method

HEAD = """\
import torch
from torch import nn
from torch.utils.data import Dataset
from elsewhere import unknown
"""
ADDS = "class A:\n    def __add__(self, other):\n        self.kept = other\n"
LOOKS_UP = "class A:\n    def __getitem__(self, key):\n        self.kept = key\n"
PLAIN = "class B: ...\n"

# By case: the classes, an operation on `x`, and whether it may run a method of a class.
OVERLOADS = {
    "an object of the class": (ADDS, "A() + x", True),
    "on the right": ("class A:\n    def __radd__(self, other): ...\n", "x + A()", True),
    "of a derived class": (ADDS + "class B(A): ...\n", "B() + x", True),
    "of what is not known": (ADDS, "unknown() + x", True),
    "of a name out of sight": (ADDS, "something + x", True),
    "another operator": (ADDS, "A() - x", False),
    "another class": (ADDS + PLAIN, "B() + x", False),
    "a number": (ADDS, "1 + x", False),
    "a tensor": (ADDS, "torch.zeros(3) + x", False),
    "no such class": (PLAIN, "unknown() + x", False),
    "a function of that name": ("def __add__(a, b): ...\n", "unknown() + x", False),
    "a model": ("class M(nn.Module):\n    def __add__(self, other): ...\n", "M() + x", True),
    "the product of matrices": ("class A:\n    def __matmul__(self, other): ...\n", "A() @ x", True),
    "compared": ("class A:\n    def __eq__(self, other): ...\n", "A() == x", True),
    "compared from the left": ("class A:\n    def __lt__(self, other): ...\n", "x < A()", True),
    "compared in a chain": ("class A:\n    def __lt__(self, other): ...\n", "1 < x < A()", True),
    "compared with a number": ("class A:\n    def __lt__(self, other): ...\n", "x < 1", False),
    "contained": ("class A:\n    def __contains__(self, other): ...\n", "x in A()", True),
    "contained in a list": ("class A:\n    def __contains__(self, other): ...\n", "x in [1]", False),
    "looked up": (LOOKS_UP, "A()[x]", True),
    "looked up in a table": (LOOKS_UP, "{}[x]", False),
    "looked up in what is not known": (LOOKS_UP, "unknown()[x]", True),
    "where something is looked up": (LOOKS_UP, "x[A()]", False),
    "missing": ("class A(dict):\n    def __missing__(self, key): ...\n", "A()[x]", True),
    "a sign": ("class A:\n    def __neg__(self): ...\n", "-x", False),
    "called": ("class A:\n    def __call__(self, x): ...\n", "A()(x)", False),
}


def operand(script: Script) -> ast.Name:
    return next(each for each in script.find(ast.Name) if each.id == "x" and isinstance(each.ctx, ast.Load))


@pytest.mark.parametrize("case", OVERLOADS)
def test_overloads(case: str) -> None:
    classes, operation, expected = OVERLOADS[case]
    script = load(f"{HEAD}{classes}print({operation})\n")
    x = operand(script)
    parent = script.parent(x)
    assert parent is not None
    assert overloads(script, parent, x) is expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param("class A:\n    def __iadd__(self, other): ...\ntotal = A()\n", True, id="in place"),
        pytest.param(ADDS + "total = A()\n", True, id="anew"),
        pytest.param("class A:\n    def __sub__(self, other): ...\ntotal = A()\n", False, id="another operator"),
    ],
)
def test_sums(made: str, expected: bool) -> None:
    script = load(f"{HEAD}{made}total += x\n")
    x = operand(script)
    [statement] = script.find(ast.AugAssign)
    assert overloads(script, statement, x) is expected


@pytest.mark.parametrize(
    ("derived", "expected"),
    [
        ("    def __add__(self, other): ...\n", True),
        ("    def __sub__(self, other): ...\n", False),
    ],
)
def test_self_may_be_of_a_derived_class(derived: str, expected: bool) -> None:
    script = load(f"{HEAD}class A:\n    def f(self, x):\n        return self + x\nclass B(A):\n{derived}")
    [operation] = script.find(ast.BinOp)
    assert overloads(script, operation, operation.right) is expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [("import main\n" + ADDS, True), ("import main\n" + PLAIN, False), (ADDS, False)],
    ids=["defines it", "defines nothing", "has nothing to do with it"],
)
def test_classes_of_other_files(tmp_path: Path, other: str, expected: bool) -> None:
    path, text = tmp_path / "main.py", "print(something + x)\n"
    path.write_text(text)
    (tmp_path / "other.py").write_text(other)
    script = load(text, path, Project([*tmp_path.glob("*.py")]))
    [operation] = script.find(ast.BinOp)
    assert overloads(script, operation, operation.right) is expected


# By case: the classes, the object of which `v` is set, and whether this may run a method of a class.
SETS = {
    "a plain object": (PLAIN, "B()", False),
    "a setter": (
        "class A:\n    @property\n    def v(self): ...\n    @v.setter\n    def v(self, v): ...\n",
        "A()",
        True,
    ),
    "a setter of what is not known": (
        "class A:\n    @property\n    def v(self): ...\n    @v.setter\n    def v(self, v): ...\n",
        "unknown()",
        True,
    ),
    "a setter of another name": (
        "class A:\n    @property\n    def w(self): ...\n    @w.setter\n    def w(self, w): ...\n",
        "A()",
        False,
    ),
    "a property that is not set": ("class A:\n    @property\n    def v(self): ...\n", "A()", False),
    "a property by a call": (
        "class A:\n    def get(self): ...\n    def put(self, v): ...\n    v = property(get, put)\n",
        "A()",
        True,
    ),
    "a property by a call that is not set": (
        "class A:\n    def get(self): ...\n    v = property(get)\n",
        "A()",
        False,
    ),
    "a descriptor": ("class D:\n    def __set__(self, o, v): ...\nclass A:\n    v = D()\n", "A()", True),
    "all attributes": ("class A:\n    def __setattr__(self, name, v): ...\n", "A()", True),
    "all attributes of a model": ("class M(nn.Module):\n    def __setattr__(self, name, v): ...\n", "M()", True),
    "all attributes of another class": (
        PLAIN + "class A:\n    def __setattr__(self, name, v): ...\n",
        "B()",
        False,
    ),
    "all attributes of what is not known": ("class A:\n    def __setattr__(self, name, v): ...\n", "unknown()", True),
}


@pytest.mark.parametrize("case", SETS)
def test_sets_by_method(case: str) -> None:
    classes, owner, expected = SETS[case]
    script = load(f"{HEAD}{classes}o = {owner}\no.v = x\n")
    target = next(each for each in script.find(ast.Attribute) if isinstance(each.ctx, ast.Store))
    assert sets_by_method(script, target) is expected
