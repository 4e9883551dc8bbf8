"""Which expressions calls pass for a parameter, and whether its first one is the receiver."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.analysis.bound_receivers import is_bound
from autoaccel.analysis.call_sites import arguments_for

METHOD = "class T:\n    def f(self, x): ...\n"
# By case: a file, and whether the first parameter of `f` is the receiver of its last call.
BOUND = {
    "a function": ("def f(x): ...\nf(1)\n", False),
    "a function of a module": ("import m\ndef f(x): ...\nf(1)\n", False),
    "a method": (METHOD + "T().f(1)\n", True),
    "a method of the class": (METHOD + "T.f(T(), 1)\n", False),
    "a method of a class that derives": (METHOD + "class U(T): ...\nU.f(U(), 1)\n", False),
    "a method of an object of a class that derives": (METHOD + "class U(T): ...\nU().f(1)\n", True),
    "a method by super": (METHOD + "class U(T):\n    def g(self):\n        super().f(1)\n", True),
    "a method of an unknown object": (METHOD + "def g(t):\n    t.f(1)\n", True),
    "a method by getattr": (METHOD + "getattr(T(), 'f')(1)\n", True),
    "a static method": ("class T:\n    @staticmethod\n    def f(x): ...\nT().f(1)\n", False),
    "a static method of the class": ("class T:\n    @staticmethod\n    def f(x): ...\nT.f(1)\n", False),
    "a class method": ("class T:\n    @classmethod\n    def f(cls, x): ...\nT.f(1)\n", True),
    "a class method of an object": ("class T:\n    @classmethod\n    def f(cls, x): ...\nT().f(1)\n", True),
    "a function that a class is given": ("def f(self, x): ...\nclass T: ...\nT.f = f\nt = T()\nt.f(1)\n", True),
    "a function that an object is given": ("def f(x): ...\nclass T: ...\nt = T()\nt.f = f\nt.f(1)\n", False),
}
MADE = {
    "of a class": ("class T:\n    def __init__(self, x): ...\nT(1)\n", True),
    "by super": (
        "class T:\n    def __init__(self, x): ...\nclass U(T):\n    def g(self):\n        super().__init__(1)\n",
        True,
    ),
    "by its class": (
        "class T:\n    def __init__(self, x): ...\nclass U(T):\n    def g(self):\n        T.__init__(self, 1)\n",
        False,
    ),
    "by a class between": (
        "class T:\n    def __init__(self, x): ...\nclass U(T): ...\nclass V(U):\n    def g(v): U.__init__(v, 1)\n",
        False,
    ),
}
PROCESS = "from torch.multiprocessing import Process, spawn\nfrom threading import Thread\n"
# By case: a file, and what is passed for the parameter `x` of `f`.
PASSED = {
    "by position": ("def f(a, x): ...\nf(1, 2)\n", ["2"]),
    "by keyword": ("def f(a, x): ...\nf(1, x=2)\n", ["2"]),
    "not at all": ("def f(a, x=3): ...\nf(1)\n", []),
    "by several": ("def f(x): ...\nf(1)\nf(2)\n", ["1", "2"]),
    "to a method": (METHOD + "T().f(1)\nT.f(T(), 2)\n", ["1", "2"]),
    "to a class method": ("class T:\n    @classmethod\n    def f(cls, x): ...\nT.f(1)\n", ["1"]),
    "to a static method": ("class T:\n    @staticmethod\n    def f(x): ...\nT.f(1)\n", ["1"]),
    "behind a star": ("def f(a, x): ...\nf(*b, 2)\nf(1, *b)\n", []),
    "before a star": ("def f(x, *rest): ...\nf(1, *b)\n", ["1"]),
    "behind two stars": ("def f(x): ...\nf(**b)\n", []),
    "for a keyword alone": ("def f(*rest, x): ...\nf(1, 2, x=3)\n", ["3"]),
    "for a parameter by position alone": ("def f(x, /): ...\nf(1)\n", ["1"]),
    "to a process": (PROCESS + "def f(a, x): ...\nProcess(target=f, args=(1, 2))\n", ["2"]),
    "to a thread": (PROCESS + "def f(a, x): ...\nThread(target=f, args=(1, 2))\n", ["2"]),
    "to processes": (PROCESS + "def f(rank, x): ...\nspawn(f, args=(2,), nprocs=2)\n", ["2"]),
    "to processes by keyword": (PROCESS + "def f(rank, x): ...\nspawn(fn=f, args=(2,))\n", ["2"]),
    "to a process, behind a star": (PROCESS + "def f(a, x): ...\nProcess(target=f, args=(*b, 2))\n", []),
    "to a process that runs another": (PROCESS + "def f(x): ...\ndef g(x): ...\nProcess(target=g, args=(1,))\n", []),
}
MAKES = "class T:\n    def __init__(self, x): ...\n"
# By case: a file, and the calls that enter `T.__init__`; with more to come where it is not known what else does.
MAKERS = {
    "the class": (MAKES + "T(1)\n", ["T(1)"], False),
    "a class that derives": (MAKES + "class U(T): ...\nU(1)\n", ["U(1)"], False),
    "a class that derives, with its own": (
        MAKES + "class U(T):\n    def __init__(self):\n        super().__init__(2)\nU()\n",
        ["super().__init__(2)"],
        False,
    ),
    "a class method": (MAKES + "    @classmethod\n    def make(cls):\n        return cls(1)\n", ["cls(1)"], False),
    "the type of an object": (MAKES + "    def again(self):\n        return type(self)(1)\n", ["type(self)(1)"], False),
    "the class of an object": (
        MAKES + "    def again(self):\n        return self.__class__(1)\n",
        ["self.__class__(1)"],
        False,
    ),
    "a class method of one that derives": (
        MAKES + "class U(T):\n    @classmethod\n    def make(cls):\n        return cls(1)\n",
        ["cls(1)"],
        False,
    ),
    "another class": (MAKES + "class U: ...\nU()\n", [], False),
    "a computed name": (MAKES + "globals()[name](1)\n", ["globals()[name](1)"], True),
    "a base of what is made by type": (MAKES + "U = type('U', (T,), {})\nU(1)\n", ["U(1)"], True),
}
OPERATORS = "__getitem__ __len__ __iter__ __enter__ __add__".split()


@pytest.mark.parametrize("case", BOUND)
def test_bound(case: str) -> None:
    text, expected = BOUND[case]
    script = load(text)
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "f")
    call = next(each for each in script.find(ast.Call) if any(_is_one(part) for part in each.args))
    assert is_bound(script, function, script, call) == expected


def _is_one(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value == 1


@pytest.mark.parametrize("case", MADE)
def test_bound_constructors(case: str) -> None:
    text, expected = MADE[case]
    script = load(text)
    function = next(script.find(ast.FunctionDef))
    call = next(each for each in script.find(ast.Call) if any(_is_one(part) for part in each.args))
    assert is_bound(script, function, script, call) == expected


@pytest.mark.parametrize("case", PASSED)
def test_arguments(case: str) -> None:
    text, expected = PASSED[case]
    script = load(text)
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "f")
    assert [other.source(each) for other, each in arguments_for(script, function, "x")] == expected


@pytest.mark.parametrize("case", MAKERS)
def test_constructors(case: str) -> None:
    text, expected, more = MAKERS[case]
    script = load(text)
    callers = script.callers(next(script.find(ast.FunctionDef)))
    assert [other.source(call) for other, call in callers] == expected
    assert (callers.missing is not None) == more


@pytest.mark.parametrize("name", OPERATORS)
def test_what_operators_call_has_callers_that_are_not_seen(name: str) -> None:
    script = load(f"class T:\n    def {name}(self, x=None): ...\nT().{name}(1)\n")
    callers = script.callers(next(script.find(ast.FunctionDef)))
    assert len(callers) == 1
    assert callers.missing == f"Python calls `{name}` by itself"


def test_what_has_no_name_has_callers_that_are_not_seen() -> None:
    script = load("f = lambda x: x\nf(1)\n")
    assert script.callers(next(script.find(ast.Lambda))).missing is not None


def test_another_file_passes_it(tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("def f(a, x): ...\n")
    (tmp_path / "main.py").write_text("from lib import f as run\nimport lib\nrun(1, 2)\nlib.f(1, x=3)\n")
    (tmp_path / "other.py").write_text("def f(a, x): ...\nf(1, 4)\n")
    path = tmp_path / "lib.py"
    script = load(path.read_text(), path, Project(sorted(tmp_path.glob("*.py"))))
    found = arguments_for(script, next(script.find(ast.FunctionDef)), "x")
    assert [other.source(each) for other, each in found] == ["2", "3"]


NET = "import torch\nimport matplotlib.pyplot as plt\nclass Net(torch.nn.Module):\n    def forward(self, x): ...\n"
# By case: a file with a call of something unknown, and whether that may be a call of the model.
UNKNOWN_CALLS = {
    "a method of a tensor": ("def g(x):\n    return x.size(0)\n", False),
    "a method that no tensor has": ("def g(x):\n    return x.model(0)\n", True),
    "a name that an object is given": ("def g(x):\n    return x.size(0)\nbox.size = Net()\n", True),
    "a name that a class has": ("class Box:\n    size = Net()\ndef g(x):\n    return x.size(0)\n", True),
    "a name in a text": ("def g(x):\n    return x.size(0)\nsetattr(box, 'size', Net())\n", True),
    "a name that a call is given": ("def g(x):\n    return x.size(0)\nbox = Box(size=Net())\n", True),
    "a name of torch's arguments": ("def g(x, d):\n    return torch.sum(x, dim=d).dim()\n", False),
    "of what a library made": ("fig = plt.figure(figsize=(4, 4))\nax = fig.add_subplot(1)\nax.matshow(1)\n", False),
    "of a library's object with the model": ("fig = plt.figure()\nfig.model = Net()\nfig.model(1)\n", True),
    "of a library's function that got the model": ("box = plt.figure(Net())\nbox.model(1)\n", True),
    "of a container of a library": ("import queue\nq = queue.Queue()\nq.get()(1)\n", True),
}


@pytest.mark.parametrize("case", UNKNOWN_CALLS)
def test_unknown_calls(case: str) -> None:
    text, may_be = UNKNOWN_CALLS[case]
    script = load(NET + text, Path("main.py"), Project())
    forward = next(each for each in script.find(ast.FunctionDef) if each.name == "forward")
    assert (script.callers(forward).missing is not None) is may_be
