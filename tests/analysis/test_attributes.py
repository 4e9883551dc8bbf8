"""What may be stored in an attribute of a class, by whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Kind, Project, load

HEAD = "import torch\nfrom torch import nn\n"
MODULE, NUMBER, TENSOR, NONE, UNKNOWN = Kind.MODULE, Kind.NUMBER, Kind.TENSOR, Kind.NONE, Kind.UNKNOWN
CASES = {
    "by a method": ("class T:\n    def __init__(self):\n        self.x = nn.Linear(1, 1)\n", {MODULE}),
    "by the class": ("class T:\n    x = 3\n", {NUMBER}),
    "by the class and a method": ("class T:\n    x = None\n    def f(self):\n        self.x = 3\n", {NONE, NUMBER}),
    "from outside": ("class T:\n    x = None\nt = T()\nt.x = nn.Linear(1, 1)\n", {NONE, MODULE}),
    "from outside, in a function": (
        "class T:\n    x = None\ndef use(t):\n    t.x = nn.Linear(1, 1)\nuse(T())\n",
        {NONE, MODULE},
    ),
    "on an object of unknown class": (
        "class T:\n    x = None\ndef use(t):\n    t.x = nn.Linear(1, 1)\n",
        {NONE, MODULE},
    ),
    "on another class": ("class T:\n    x = 3\nclass U:\n    pass\nu = U()\nu.x = nn.Linear(1, 1)\n", {NUMBER}),
    "by a class that derives": (
        "class T:\n    x = None\nclass U(T):\n    def f(self):\n        self.x = nn.Linear(1, 1)\n",
        {NONE, MODULE},
    ),
    "by a sister": (
        "class B:\n    pass\nclass T(B):\n    x = 3\nclass U(B):\n    def f(self):\n        self.x = nn.Linear(1, 1)\n",
        {NUMBER},
    ),
    "a sum of numbers": ("class T:\n    x = 0\n    def f(self):\n        self.x += 1\n", {NUMBER}),
    "a sum that becomes a tensor": (
        "class T:\n    x = 0\n    def f(self):\n        self.x += torch.ones(1)\n",
        {NUMBER, TENSOR},
    ),
    "in a function within a method": (
        "class T:\n    def f(self):\n        def g():\n            self.x = 3\n        g()\n",
        {NUMBER},
    ),
    "by a loop": ("class T:\n    def f(self):\n        for self.x in range(3):\n            pass\n", {NUMBER}),
    "by unpacking": ("class T:\n    def f(self):\n        self.y, (self.x, *_) = 1, (nn.ReLU(), 2)\n", {MODULE}),
    "by name": ("class T:\n    x = None\n    def f(self):\n        setattr(self, 'x', 3)\n", {NONE, NUMBER}),
    "by another name": ("class T:\n    x = 3\n    def f(self):\n        setattr(self, 'y', None)\n", {NUMBER}),
    "by a computed name": (
        "class T:\n    x = 3\n    def f(self, k, v):\n        setattr(self, k, v)\n",
        {NUMBER, UNKNOWN},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_kinds(case: str) -> None:
    text, kinds = CASES[case]
    script = load(HEAD + text + "\n\ndef read(t: T):\n    return t.x\n")
    read = next(each.value for each in script.find(ast.Return) if each.value is not None)
    assert {value.kind for value in script.values(read)} == kinds


def test_another_file_stores_it(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text("class T:\n    x = None\n    def run(self):\n        return self.x\n")
    (tmp_path / "main.py").write_text("from torch import nn\nfrom trainer import T\nt = T()\nt.x = nn.Linear(1, 1)\n")
    path = tmp_path / "trainer.py"
    script = load(path.read_text(), path, Project(sorted(tmp_path.glob("*.py"))))
    read = next(each.value for each in script.find(ast.Return) if each.value is not None)
    assert {value.kind for value in script.values(read)} == {NONE, MODULE}
