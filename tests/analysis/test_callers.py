"""Who calls a function, and whether these are all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, call_sites, load
from autoaccel.analysis.call_values import returned

ALL = {
    "a plain call": ("def f(x): ...\nf(1)\n", 1),
    "a method on an instance": ("class T:\n    def f(self): ...\nt = T()\nt.f()\n", 1),
    "a method of the same object": ("class T:\n    def f(self): ...\n    def g(self):\n        self.f()\n", 1),
    "an attribute of it": ("def f(x): ...\nf(1)\nprint(f.__name__)\n", 1),
    "the method of another class": (
        "class T:\n    def f(self): ...\nclass U:\n    def f(self): ...\nT().f()\nU().f()\n",
        1,
    ),
    "a method of a library's object": ("import torch\nclass T:\n    def to(self): ...\ntorch.zeros(2).to('cpu')\n", 0),
    "a process of its own": ("from torch.multiprocessing import spawn\ndef f(rank): ...\nspawn(f, nprocs=2)\n", 0),
    "recursion": ("def f(x):\n    return f(x - 1)\nf(3)\n", 2),
    "wrapped by a function of the project": (
        "def t(g):\n    def run(*a, **k):\n        return g(*a, **k)\n    return run\n@t\ndef f(x): ...\nf(1)\n",
        1,
    ),
    "wrapped by torch": ("import torch\n@torch.no_grad()\ndef f(x): ...\nf(1)\n", 1),
    "beside a table of names that is read": (
        "def f(x): ...\nf(1)\nsettings = [k for k, v in globals().items() if isinstance(v, int)]\n",
        1,
    ),
    "passed to a function": ("def f(x): ...\ndef g(step):\n    step(1)\ng(f)\n", 1),
    "passed by name": (
        "def f(x): ...\ndef g(n, step=None):\n    if step is not None:\n        step(1)\ng(2, step=f)\n",
        1,
    ),
    "passed on and on": (
        (
            "def f(x): ...\ndef g(step):\n    h(2, step)\n    print(step.__name__)\n"
            "def h(n, run):\n    run(1)\n    run(2)\ng(f)\n"
        ),
        2,
    ),
    "passed on in a circle": (
        "def f(x): ...\ndef g(step, n):\n    if n:\n        g(step, n - 1)\n    step(1)\ng(f, 3)\n",
        1,
    ),
    "passed to a class": (
        "def f(x): ...\nclass T:\n    def __init__(self, step):\n        self.x = [step(n) for n in range(3)]\nT(f)\n",
        1,
    ),
    "passed to a method": (
        (
            "def f(x): ...\nclass T:\n    def run(self, step):\n        return step(1)\n"
            "    def go(self):\n        self.run(f)\n"
        ),
        1,
    ),
    "passed to a function within which others call it": (
        "def f(x): ...\ndef g(step):\n    def h():\n        step(1)\n    h()\ng(f)\n",
        1,
    ),
    "passed as a bound method": (
        "def go(step):\n    step(1)\nclass T:\n    def f(self, x): ...\n    def g(self):\n        go(self.f)\n",
        1,
    ),
    "passed to a function that evaluates": (
        "def f(x): ...\ndef g(step, net):\n    net.eval()\n    step(1)\ng(f, 2)\n",
        1,
    ),
    "bound to a local name": ("def f(x): ...\ndef g():\n    step = f\n    step(1)\n", 1),
    "a default argument": ("def f(x): ...\ndef g(step=f):\n    step(1)\n", 1),
    "a function named as a method of unknown objects": ("def f(x): ...\ndef g(unknown):\n    unknown.f(1)\nf(1)\n", 1),
}
REGISTER = "R = {}\ndef register(name):\n    def add(g):\n        R[name] = g\n        return g\n    return add\n"
MORE = {
    "registered by its decorator": (f"{REGISTER}@register('f')\ndef f(x): ...\nf(1)\n", "@register('f')"),
    "registered by a library": ("import lib\n@lib.register\ndef f(x): ...\nf(1)\n", "@lib.register"),
    "called by its decorator": (
        "def run(g):\n    g(1)\n    return g\n@run\ndef f(x): ...\nf(2)\n",
        "`@run` may hand it to others",
    ),
    "out of a table of names": ("def f(x): ...\nf(1)\nt = globals()\nt[n](2)\n", "may be a call of it"),
    "out of a table that is handed on": ("def f(x): ...\nf(1)\nrun(globals())\n", "may be a call of it"),
    "by a function that gives a table": ("def f(x): ...\nf(1)\nt = globals\n", "may be a call of it"),
    "handed to a function": ("def f(x): ...\nprint(map(f, [1]))\nf(1)\n", "handed on in line 2"),
    "bound to another name": ("def f(x): ...\ng = f\ng(1)\n", "handed on in line 2"),
    "stored in a registry": ("def f(x): ...\nREGISTRY = {'f': f}\n", "handed on in line 2"),
    "a default argument that is kept": ("def f(x): ...\ndef g(step=f):\n    keep(step)\n", "handed on in line 2"),
    "an argument that is kept": (
        "def f(x): ...\nclass T:\n    def __init__(self, step):\n        self.step = step\nT(f)\n",
        "handed on in line 5",
    ),
    "an argument that is returned": ("def f(x): ...\ndef g(step):\n    return step\ng(f)(1)\n", "handed on in line 4"),
    "an argument in a list": ("def f(x): ...\ndef g(step):\n    return [step]\ng(f)\n", "handed on in line 4"),
    "an argument among others": ("def f(x): ...\ndef g(*steps):\n    steps[0](1)\ng(f)\n", "handed on in line 4"),
    "an argument behind a star": ("def f(x): ...\ndef g(a, b):\n    b(1)\ng(*n, f)\n", "handed on in line 4"),
    "an argument of what is wrapped by a function that sees it": (
        """def t(g):
    def run(*a):
        a[0](2)
        return g(*a)
    return run
def f(x): ...
@t
def g(step):
    step(1)
g(f)
""",
        "handed on in line 10",
    ),
    "an argument of what is decorated": (
        "def f(x): ...\n@unknown\ndef g(step):\n    step(1)\ng(f)\n",
        "handed on in line 5",
    ),
    "an argument that is read as one of all names": (
        "def f(x): ...\ndef g(step):\n    keep(locals())\n    step(1)\ng(f)\n",
        "handed on in line 5",
    ),
    "an argument of what makes its objects itself": (
        "def f(x): ...\nclass T:\n    def __new__(cls, step): ...\n    def __init__(self, step): ...\nT(f)\n",
        "handed on in line 5",
    ),
    "an argument of one of two functions": (
        "def f(x): ...\ndef g(step):\n    step(1)\nrun = g if n else unknown\nrun(f)\n",
        "handed on in line 5",
    ),
    "an argument that is wrapped": (
        "def f(x): ...\ndef g(step):\n    step = wrap(step)\n    step(1)\ng(f)\n",
        "handed on in line 5",
    ),
    "a hook": ("import torch\ndef f(*a): ...\ntorch.nn.Linear(1, 1).register_forward_hook(f)\n", "handed on in line 3"),
    "a bound method": (
        "class T:\n    def f(self): ...\n    def g(self, run):\n        run(self.f)\n",
        "handed on in line 4",
    ),
    "a method of an unknown object": (
        "class T:\n    def f(self): ...\ndef g(unknown):\n    unknown.f()\n",
        "`unknown.f` in line 4 may be a call of it",
    ),
}


@pytest.mark.parametrize("case", ALL)
def test_these_are_all(case: str) -> None:
    text, calls = ALL[case]
    script = load(text)
    function = next(each for each in script.find(ast.FunctionDef) if each.name in ("f", "to"))
    callers = script.callers(function)
    assert (len(callers), callers.missing) == (calls, None)


@pytest.mark.parametrize("case", MORE)
def test_there_may_be_more(case: str) -> None:
    text, reason = MORE[case]
    script = load(text)
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "f")
    assert reason in (script.callers(function).missing or "surely all")


@pytest.mark.parametrize(
    ("text", "calls", "reason"),
    [
        ("T(1)\n", 1, None),
        ("T(1)\nprint(isinstance(t, T), type(t) is T)\n", 1, None),
        ("def g(t: T) -> list[T]: ...\nT(1)\n", 1, None),
        ("try:\n    T(1)\nexcept (T, ValueError):\n    pass\n", 1, None),
        ("import torch\ntorch.serialization.add_safe_globals([T])\nT(1)\n", 1, None),
        ("KINDS = {'t': T}\nT(1)\nKINDS[n](2)\n", 2, "handed on"),
        ("U = T\nU(1)\n", 1, None),
        ("U = T\nKINDS = [U]\nKINDS[0](1)\n", 1, "handed on"),
        ("def g():\n    U = T\n    return U(1)\n", 1, None),
        ("def g(made):\n    return made(2) if made.kind else None\ng(T)\n", 1, None),
        (
            (
                "class N:\n    def __init__(self, t):\n        self.parts = self.build(t)\n"
                "    def build(self, t):\n        return [t(each) for each in range(2)]\nN(T)\n"
            ),
            1,
            None,
        ),
        ("class U(T):\n    pass\ndef g(made):\n    return made(2)\ng(U)\n", 1, None),
        ("class U(T):\n    pass\nrun(U)\nU(1)\n", 1, "handed on"),
        ("class U(T):\n    def __init__(self):\n        super().__init__(1)\nrun(U)\nU()\n", 1, None),
        ("run(T)\nT(1)\n", 1, "handed on"),
        ("def g(made=T):\n    return made(2)\nT(1)\n", 2, None),
        ("globals()[n](2)\nT(1)\n", 2, "may be a call of it"),
        ("object.__subclasses__()\nT(1)\n", 1, "may be a call of it"),
    ],
)
def test_who_makes_objects(text: str, calls: int, reason: str | None) -> None:
    script = load("class T:\n    def __init__(self, x): ...\n" + text)
    callers = script.callers(next(script.find(ast.FunctionDef)))
    assert len(callers) == calls
    assert callers.missing is None if reason is None else reason in (callers.missing or "")


def test_another_file_hands_it_on(tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("def f(x): ...\n")
    (tmp_path / "main.py").write_text("import lib\nlib.f(2)\nrun = lib.f\n")
    script = load((tmp_path / "lib.py").read_text(), tmp_path / "lib.py", Project(sorted(tmp_path.glob("*.py"))))
    callers = script.callers(next(script.find(ast.FunctionDef)))
    assert len(callers) == 1
    assert callers.missing == "it is handed on in line 3 of main.py, and may be called by whoever gets it"


def test_functions_that_call_each_other_have_the_same_callers_whoever_is_asked_first() -> None:
    text = (
        "import torch\ndef a(x, n):\n    return b(x, n - 1)\n"
        "def b(x, n):\n    return a(x.sum(), n) if n else x\na(torch.ones(2), 3)\n"
    )
    answers = []
    for order in ("ab", "ba"):
        script = load(text)
        functions = {each.name: each for each in script.find(ast.FunctionDef)}
        found = {
            name: [(call.lineno, call.col_offset) for _, call in script.callers(functions[name])] for name in order
        }
        kinds = {name: returned(script, functions[name]) for name in order}
        answers.append((sorted(found.items()), [[value.kind for value in kinds[name]] for name in "ab"]))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("use", "handed_out"),
    [
        ("scaled(2)", False),
        ("print(scaled(2))", False),
        ("run(scaled)", True),
        ("TABLE = {'scaled': scaled}", True),
        ("other = scaled", True),
        ("register(key)(scaled)", True),
        ("globals()[name](2)", True),
        ("Net().scaled", False),
    ],
)
def test_functions_that_are_values(use: str, handed_out: bool) -> None:
    script = load(f"def scaled(sample):\n    return 2 * sample\n\n{use}\n")
    assert call_sites.handed_out(script, script.tree.body[0]) is handed_out  # type: ignore[arg-type]


def test_registered_functions_are_values() -> None:
    script = load("@registry.register\ndef scaled(sample):\n    return 2 * sample\n")
    assert call_sites.handed_out(script, script.tree.body[0])  # type: ignore[arg-type]


NET = """\
from torch import nn
class Net(nn.Module):
    def forward(self, x): ...
"""
LOSS = "class Loss:\n    def __init__(self, size):\n        self.size = size\n"
USE = "def use(query):\n    return query.size(0)\nNet()(1)\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LOSS + "N = 3\nLoss(size=N)\n" + USE, None),
        (LOSS + "Loss(size=Net())\n" + USE, "`query.size` in line 9 may be a call of it"),
        (LOSS + "Loss(size=unknown)\n" + USE, "`query.size` in line 9 may be a call of it"),
        ("import numpy as np\nnp.ones(size=(2, 3))\n" + USE, None),
        ("make(size=Net())\n" + USE, "may be a call of it"),
        ("def use(target):\n    target.index_fill_(0, 1, 0.0)\nNet()(1)\n", None),
        ("def use(o):\n    o.optimizer.zero_grad()\nNet()(1)\n", None),
        ("def use(o):\n    o.optimizer.zero_grad()\no.zero_grad = Net()\nNet()(1)\n", "`o.optimizer.zero_grad` in"),
        ("def use(o):\n    o.run()\nNet()(1)\n", "`o.run` in line 5 may be a call of it"),
        ("device = 'cuda' if ready else 'cpu'\ndef use(o):\n    o.cpu()\nNet()(1)\n", None),
        ("import torch\nwhere = torch.device('cpu')\ndef use(o):\n    o.cpu()\nNet()(1)\n", None),
        ("loss = nn.MSELoss(reduction='mean')\ndef use(o):\n    o.mean()\nNet()(1)\n", None),
        ("def use(rng):\n    rng.randrange(3)\nNet()(1)\n", None),
        ("def use(rng):\n    rng.choice(3)\no.choice = Net()\nNet()(1)\n", "`rng.choice` in line 5"),
        ("table = {'cpu': Net()}\ndef use(o):\n    o.cpu()\n", "`o.cpu` in line 6 may be a call of it"),
        ("setattr(o, 'mean' if ready else 'max', Net())\ndef use(o):\n    o.mean()\n", "`o.mean` in line 6"),
        ("parts = nn.Sequential(dict([('mean', Net())]))\ndef use(o):\n    o.mean()\n", "may be a call of it"),
    ],
)
def test_methods_that_no_model_has_in_its_place(text: str, reason: str | None) -> None:
    script = load(NET + text)
    callers = script.callers(next(script.find(ast.FunctionDef)))
    assert len(callers) == 1 or "Net()(1)" not in text
    assert callers.missing is None if reason is None else reason in (callers.missing or "")


def test_a_file_that_another_one_tells_of_is_named(tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("def f(x): ...\nrun = f\n")
    (tmp_path / "main.py").write_text("import lib\nlib.f(2)\n")
    files = Project(sorted(tmp_path.glob("*.py")))
    lib = load((tmp_path / "lib.py").read_text(), tmp_path / "lib.py", files)
    reason = lib.callers(next(lib.find(ast.FunctionDef))).missing or ""
    assert reason == "it is handed on in line 2 of lib.py, and may be called by whoever gets it"
