"""When code runs: within a loop, or after a call, through whatever leads to it. What is not known may run any time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.analysis.files import Files
from autoaccel.dataflow.bounds import Bounds
from autoaccel.pytorch.execution_order import extents_of, in_body, runs_after, runs_within

# By case: a script with one loop over `loader` and one call of `here`; whether the call may run in the loop's body.
WITHIN = {
    "in its body": ("for x in loader:\n    here()", True),
    "in a loop in its body": ("for x in loader:\n    for y in x:\n        here()", True),
    "in its header": ("for x in loader(here()):\n    pass", False),
    "in its else": ("for x in loader:\n    pass\nelse:\n    here()", False),
    "above it": ("here()\nfor x in loader:\n    pass", False),
    "below it": ("for x in loader:\n    pass\nhere()", False),
    "around it": ("for epoch in range(2):\n    here()\n    for x in loader:\n        pass", False),
    "a function that it calls": ("def f():\n    here()\nfor x in loader:\n    f()", True),
    "a function that is called below it": ("def f():\n    here()\nfor x in loader:\n    pass\nf()", False),
    "a function that nobody calls": ("def f():\n    here()\nfor x in loader:\n    pass", False),
    "through several functions": (
        "def a():\n    here()\ndef b():\n    a()\ndef c():\n    b()\nfor x in loader:\n    c()",
        True,
    ),
    "functions that call each other": (
        "def a(n):\n    here()\n    b(n)\ndef b(n):\n    a(n)\nfor x in loader:\n    pass\na(3)",
        False,
    ),
    "a method": ("class A:\n    def f(self):\n        here()\na = A()\nfor x in loader:\n    a.f()", True),
    "a method of the same object": (
        "class A:\n    def f(self):\n        here()\n    def g(self):\n        for x in loader:\n            self.f()",
        True,
    ),
    "a method under a made-up name of that kind": (
        (
            "class A:\n    def __init__(self):\n        self.__read__()\n    def __read__(self):\n        here()\n"
            "a = A()\nfor x in loader:\n    pass"
        ),
        False,
    ),
    "a method under such a name, called by it": (
        "class A:\n    def __read__(self):\n        here()\na = A()\nfor x in loader:\n    a.__read__()",
        True,
    ),
    "a method under such a name, which nobody is seen to call": (
        "class A:\n    def __read__(self):\n        here()\nfor x in loader:\n    pass",
        True,
    ),
    "a method under such a name, of a decorated class": (
        (
            "@define\nclass A:\n    def __init__(self):\n        self.__read__()\n"
            "    def __read__(self):\n        here()\na = A()\nfor x in loader:\n    pass"
        ),
        True,
    ),
    "a method under such a name, of a library's class": (
        (
            "import wx\nclass A(wx.Frame):\n    def __init__(self):\n        self.__read__()\n"
            "    def __read__(self):\n        here()\na = A()\nfor x in loader:\n    pass"
        ),
        True,
    ),
    "a method that Python calls, and the program too": (
        (
            "class A:\n    def __init__(self):\n        self.__len__()\n    def __len__(self):\n        here()\n"
            "a = A()\nfor x in loader:\n    pass"
        ),
        True,
    ),
    "a method that libraries call, and the program too": (
        (
            "class A:\n    def __init__(self):\n        self.__array__()\n    def __array__(self):\n        here()\n"
            "a = A()\nfor x in loader:\n    pass"
        ),
        True,
    ),
    "a method that loaders call, and the program too": (
        (
            "class A(Dataset):\n    def __init__(self):\n        self.__getitems__([0])\n"
            "    def __getitems__(self, rows):\n        here()\na = A()\nfor x in loader:\n    pass"
        ),
        True,
    ),
    "a method that may be overridden by it": (
        (
            "class A:\n    def f(self):\n        pass\n    def g(self):\n        for x in loader:\n            self.f()"
            "\nclass B(A):\n    def f(self):\n        here()"
        ),
        True,
    ),
    "a method of something unknown": (
        "class A:\n    def f(self):\n        here()\ndef fit(a):\n    for x in loader:\n        a.f()",
        True,
    ),
    "a method of something unknown that is handed over": (
        "class A:\n    def f(self):\n        here()\ndef fit(a):\n    use(a.f)\n    for x in loader:\n        pass",
        True,
    ),
    "a method that an attrgetter reads": (
        "class A:\n    def f(self):\n        here()\nuse(attrgetter('f')(A()))\nfor x in loader:\n    pass",
        True,
    ),
    "a method that an attrgetter reads later": (
        "class A:\n    def f(self):\n        here()\nget = attrgetter('of.f')\nuse(get)\nfor x in loader:\n    pass",
        True,
    ),
    "another member that an attrgetter reads": (
        "class A:\n    def f(self):\n        here()\nuse(attrgetter('g')(A()))\nfor x in loader:\n    pass",
        False,
    ),
    "a method that a special method reads": (
        "class A:\n    def f(self):\n        here()\nuse(A().__getattribute__('f'))\nfor x in loader:\n    pass",
        True,
    ),
    "a method that a special method of object reads": (
        "class A:\n    def f(self):\n        here()\nuse(object.__getattribute__(a, 'f'))\nfor x in loader:\n    pass",
        True,
    ),
    "a function of a module that is imported when the program runs": (
        "import importlib\ndef f():\n    here()\nuse(importlib.import_module(name).f)\nfor x in loader:\n    pass",
        True,
    ),
    "a function of the name of an attribute": (
        "def f():\n    here()\nuse(thing.f)\nfor x in loader:\n    pass",
        False,
    ),
    "a function that its decorator keeps": (
        (
            "KEPT = {}\ndef register(g):\n    KEPT[g.__name__] = g\n    return g\n@register\ndef f():\n    here()\n"
            "use(KEPT['f'])\nfor x in loader:\n    pass"
        ),
        True,
    ),
    "a function that its decorator hands back": (
        "def same(g):\n    return g\n@same\ndef f():\n    here()\nfor x in loader:\n    pass",
        False,
    ),
    "a method of a loader's dataset that is handed over": (
        (
            "class A(Dataset):\n    def f(self):\n        here()\ndata = DataLoader(A())\n"
            "use(data.dataset.f)\nfor x in loader:\n    pass"
        ),
        True,
    ),
    "another method that is handed over": (
        "class A:\n    def f(self):\n        here()\ndef fit(a):\n    use(a.g)\n    for x in loader:\n        pass",
        False,
    ),
    "a method of its name of another class that is handed over": (
        (
            "class A:\n    def f(self):\n        here()\nclass B:\n    def f(self):\n        pass\n"
            "use(B().f)\nfor x in loader:\n    pass"
        ),
        False,
    ),
    "an attribute of its name that is only asked": (
        (
            "class A:\n    def f(self):\n        here()\ndef fit(a):\n    if a.f:\n        pass\n"
            "    for x in loader:\n        pass"
        ),
        False,
    ),
    "a method of something unknown, by another name below it": (
        (
            "class A:\n    def f(self):\n        here()\ndef fit(a):\n    g = a.f\n    for x in loader:\n        pass\n"
            "    g()"
        ),
        False,
    ),
    "a method of something unknown, by another name": (
        "class A:\n    def f(self):\n        here()\ndef fit(a):\n    g = a.f\n    for x in loader:\n        g()",
        True,
    ),
    "a method that is looked up and called below it": (
        (
            "class A:\n    def f(self):\n        here()\ndef fit(a, n):\n    g = getattr(a, n)\n"
            "    for x in loader:\n        pass\n    g()"
        ),
        False,
    ),
    "a method that is looked up and called by another name": (
        (
            "class A:\n    def f(self):\n        here()\ndef fit(a, n):\n    g = getattr(a, n)\n"
            "    for x in loader:\n        g()"
        ),
        True,
    ),
    "a method that is looked up and handed over": (
        (
            "class A:\n    def f(self):\n        here()\ndef fit(a):\n    use(getattr(a, 'f'))\n"
            "    for x in loader:\n        pass"
        ),
        True,
    ),
    "another method of something unknown": (
        "class A:\n    def f(self):\n        here()\ndef fit(a):\n    for x in loader:\n        a.g()",
        False,
    ),
    "a constructor": ("class A:\n    def __init__(self):\n        here()\nfor x in loader:\n    A()", True),
    "a constructor of an object made before": (
        "class A:\n    def __init__(self):\n        here()\na = A()\nfor x in loader:\n    print(a)",
        False,
    ),
    "a method that a library may call": (
        "class A(logging.Handler):\n    def emit(self, record):\n        here()\nfor x in loader:\n    pass",
        True,
    ),
    "a method of a library's class that is called above": (
        "class A(logging.Handler):\n    def f(self):\n        here()\nA().f()\nfor x in loader:\n    pass",
        False,
    ),
    "a method that a library's class has no use for": (
        "class A(Dataset):\n    def f(self):\n        here()\nfor x in loader:\n    pass",
        False,
    ),
    "a part of a sequence": (
        "class A(nn.Module):\n    def forward(self, x):\n        here()\nnn.Sequential(A())\nfor x in loader:\n    x",
        True,
    ),
    "where something is printed to": (
        "class A:\n    def write(self, text):\n        here()\nfor x in loader:\n    print(x, file=A())",
        True,
    ),
    "another constructor": (
        "class A:\n    def __new__(cls):\n        here()\nfor x in loader:\n    A()",
        True,
    ),
    "another constructor, of an object made before": (
        "class A:\n    def __post_init__(self):\n        here()\nA()\nfor x in loader:\n    pass",
        False,
    ),
    "another constructor, of a derived class": (
        "class A:\n    def __post_init__(self):\n        here()\nclass B(A): ...\nfor x in loader:\n    B()",
        True,
    ),
    "an object that is called": (
        "class A:\n    def __call__(self):\n        here()\na = A()\nfor x in loader:\n    a()",
        True,
    ),
    "a forward pass": (
        "class A(nn.Module):\n    def forward(self, x):\n        here()\nnet = A()\nfor x in loader:\n    net(x)",
        True,
    ),
    "a hook": ("def f(*a):\n    here()\nnet.register_forward_hook(f)\nfor x in loader:\n    pass", True),
    "a thread": ("def f():\n    here()\nThread(target=f).start()\nfor x in loader:\n    pass", True),
    "out of a table": ("def f():\n    here()\ntable = {'f': f}\nfor x in loader:\n    table[x]()", True),
    "given some arguments": ("def f(n):\n    here()\ng = partial(f, 1)\nfor x in loader:\n    g()", True),
    "a lambda, whose callers have no name to go by": ("f = lambda: here()\nfor x in loader:\n    pass", True),
    "handed over by the function that holds the loop": (
        "def fit():\n    here()\n    for x in loader:\n        pass\nspawn(fit)",
        False,
    ),
    "wrapped around what it calls": (
        (
            "def wrap(f):\n    def inner(*a):\n        here()\n        return f(*a)\n    return inner\n"
            "@wrap\ndef step(x):\n    pass\nfor x in loader:\n    step(x)"
        ),
        True,
    ),
    "a property": (
        "class A:\n    @property\n    def p(self):\n        here()\na = A()\nfor x in loader:\n    print(a.p)",
        True,
    ),
    "an item": (
        "class A:\n    def __getitem__(self, i):\n        here()\na = A()\nfor x in loader:\n    print(a[0])",
        True,
    ),
    "a length": (
        "class A:\n    def __len__(self):\n        here()\na = A()\nfor x in loader:\n    print(len(a))",
        True,
    ),
    "a context": (
        "class A:\n    def __enter__(self):\n        here()\na = A()\nfor x in loader:\n    with a:\n        pass",
        True,
    ),
    "a generator that it advances": (
        "def g():\n    while True:\n        here()\n        yield 1\nit = g()\nfor x in loader:\n    next(it)",
        True,
    ),
    "a generator that another loop reads": (
        "def g():\n    here()\n    yield 1\nfor y in g():\n    pass\nfor x in loader:\n    pass",
        False,
    ),
    "the loop is part of an object that is read beside it": (
        "class A:\n    def __iter__(self):\n        for x in loader:\n            yield x\nfor y in A():\n    here()",
        True,
    ),
    "the loop is part of a generator that is read beside it": (
        "def g():\n    for x in loader:\n        yield x\nfor y in g():\n    here()",
        True,
    ),
    "below the loop that reads the generator": (
        "def g():\n    for x in loader:\n        yield x\nfor y in g():\n    pass\nhere()",
        False,
    ),
}


def place(script: Script, name: str = "here") -> ast.Call:
    return next(each for each in script.find(ast.Call) if script.source(each.func) == name)


def loop(script: Script) -> ast.For:
    return next(each for each in script.find(ast.For) if "loader" in script.source(each.iter))


def files(folder: Path, **texts: str) -> dict[str, Script]:
    paths = {name: folder / f"{name}.py" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name])
    project = Project(Files([*paths.values()]))
    found = {name: project.script(path) for name, path in paths.items()}
    return {name: script for name, script in found.items() if script is not None}


@pytest.mark.parametrize("case", WITHIN)
def test_runs_within(case: str) -> None:
    text, expected = WITHIN[case]
    script = load(f"import logging\nfrom torch import nn\nfrom torch.utils.data import DataLoader, Dataset\n{text}\n")
    assert runs_within(script, place(script), script, loop(script)) is expected


HELPERS = "def f():\n    here()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("from helpers import f\nfor x in loader:\n    f()\n", True, id="imported"),
        pytest.param("from helpers import f as g\nfor x in loader:\n    g()\n", True, id="under another name"),
        pytest.param("import helpers\nfor x in loader:\n    helpers.f()\n", True, id="of a module"),
        pytest.param("from helpers import *\nfor x in loader:\n    f()\n", True, id="by a star"),
        pytest.param("from helpers import f\nfor x in loader:\n    pass\nf()\n", False, id="called below"),
        pytest.param("from helpers import f\ng = [f]\nfor x in loader:\n    g[0]()\n", True, id="kept in a list"),
    ],
)
def test_functions_of_other_files(tmp_path: Path, text: str, expected: bool) -> None:
    found = files(tmp_path, helpers=HELPERS, main=text)
    main, helpers = found["main"], found["helpers"]
    assert runs_within(helpers, place(helpers), main, loop(main)) is expected


def test_code_that_makes_batches_runs_when_they_are_asked_for() -> None:
    script = load("def collate(x):\n    here()\nuse(collate)\nfor x in loader:\n    pass\n")
    [function] = script.find(ast.FunctionDef)
    assert runs_within(script, place(script), script, loop(script))
    assert not runs_within(script, place(script), script, loop(script), [function])


def test_files_that_are_not_looked_at_may_call_it(tmp_path: Path) -> None:
    text = "def f():\n    here()\nfor x in loader:\n    pass\n"
    path, other = tmp_path / "main.py", tmp_path / "other.py"
    path.write_text(text)
    other.write_text("import main\nmain.f()\n")
    for bounds, expected in ((Bounds(), False), (Bounds(loaded=0, loaded_elsewhere=0), True)):
        script = load(text, path, Project(Files([path, other]), bounds=bounds))
        assert runs_within(script, place(script), script, loop(script)) is expected


# By case: a script with one call of `make` and one of `here`; whether `here` may run once `make` has.
AFTER = {
    "below it": ("make()\nhere()", True),
    "above it": ("here()\nmake()", False),
    "both in a loop that goes around": ("for e in range(2):\n    here()\n    make()", False),
    "in a loop below it": ("make()\nfor e in range(2):\n    here()", True),
    "in a function that is called below it": ("def f():\n    here()\nmake()\nf()", True),
    "in a function that is called above it": ("def f():\n    here()\nf()\nmake()", False),
    "in a function that nobody calls": ("def f():\n    here()\nmake()", False),
    "in a function that calls another": ("def f():\n    here()\ndef g():\n    f()\nmake()\ng()", True),
    "in the function that makes it": ("def f():\n    here()\n    make()\nf()", False),
    "in the caller of the function that makes it": ("def f():\n    make()\nf()\nhere()", True),
    "between passes over what a function has made": (
        "def f():\n    return make()\ndef fit():\n    it = f()\n    for e in range(2):\n        here()\nfit()",
        True,
    ),
    "before it is made by a function": ("def f():\n    return make()\nhere()\nf()", False),
    "in a method that Python calls": ("class A:\n    def __enter__(self):\n        here()\nmake()\nuse(A())", True),
    "in a property": ("class A:\n    @property\n    def p(self):\n        here()\na = A()\nmake()\nprint(a.p)", True),
    "in a property that is read before": (
        "class A:\n    @property\n    def p(self):\n        here()\na = A()\nprint(a.p)\nmake()",
        False,
    ),
    "in what it is given": ("make(\n    here()\n)", False),
    "in what it is given in a loop": ("for e in range(2):\n    it = make(here())", False),
    "in a generator that it is given": ("make(here() for e in range(2))", True),
    "beside it": ("it = make(), here()", True),
    "in a lambda that it is given": ("make(lambda: here())", True),
    "in a lambda": ("f = lambda: here()\nmake()", True),
    "in a method of something unknown": (
        "class A:\n    def f(self):\n        here()\ndef g(a):\n    make()\n    a.f()",
        True,
    ),
    "in a function that is handed over": ("def f():\n    here()\nmake()\ncall(f)", True),
}


@pytest.mark.parametrize("case", AFTER)
def test_runs_after(case: str) -> None:
    text, expected = AFTER[case]
    script = load(text + "\n")
    assert runs_after(script, place(script), script, place(script, "make")) is expected


def test_modules_of_other_files_may_run_later(tmp_path: Path) -> None:
    found = files(tmp_path, main="import other\nmake()\n", other="here()\n")
    assert runs_after(found["other"], place(found["other"]), found["main"], place(found["main"], "make"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("for x in loader:\n    pass\n", [1]),
        ("def f():\n    for x in loader:\n        pass\nfor y in f():\n    pass\n", [2]),
        ("def f():\n    for x in loader:\n        yield x\nfor y in f():\n    pass\n", [2, 4]),
        (
            (
                "def f():\n    for x in loader:\n        yield x\ndef g():\n    for y in f():\n        yield y\n"
                "for z in g():\n    pass\n"
            ),
            [2, 5, 7],
        ),
        ("def f():\n    for x in loader:\n        yield x\ndef g():\n    it = f()\n", [2, 4]),
    ],
    ids=["no generator", "a function", "a generator", "a generator of a generator", "kept by a function"],
)
def test_extents(text: str, lines: list[int]) -> None:
    script = load(text)
    assert [getattr(each, "lineno", 0) for _, each in extents_of(script, loop(script))] == lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for x in loader:\n    here()\n", True),
        ("for a[here()] in loader:\n    pass\n", True),
        ("for x in loader(here()):\n    pass\n", False),
        ("for x in loader:\n    pass\nelse:\n    here()\n", False),
        ("async def f():\n    async for x in loader:\n        here()\n", True),
        ("[here() for x in loader]\n", True),
        ("[x for x in loader if here()]\n", True),
        ("[x for x in loader(here())]\n", False),
        ("while loader:\n    here()\n", True),
    ],
)
def test_in_body(text: str, expected: bool) -> None:
    script = load(text)
    outer = next(iter(script.find(ast.For, ast.AsyncFor, ast.comprehension, ast.While)))
    assert in_body(script, place(script), outer) is expected
