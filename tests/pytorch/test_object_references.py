"""Everywhere that an object may turn up, and where that cannot be told."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.object_references import (
    all_callers,
    attribute_reads,
    classes_of,
    connected_files,
    importing_files,
    possible_classes,
    property_name,
)


def load_files(folder: Path, files: dict[str, str], bounds: Bounds | None = None) -> Script:
    """The script `main.py` among others."""
    for name, text in files.items():
        (folder / name).write_text(text)
    paths = [folder / name for name in files]
    return load(files["main.py"], folder / "main.py", Project(paths, bounds=bounds))


def class_named(script: Script, name: str) -> ast.ClassDef:
    return next(each for each in script.find(ast.ClassDef) if each.name == name)


def function_named(script: Script, name: str) -> ast.FunctionDef:
    return next(each for each in script.find(ast.FunctionDef) if each.name == name)


def names(files: tuple[Script, ...]) -> list[str]:
    return sorted(each.path.stem for each in files if each.path is not None)


FILES = {
    "main.py": "import used\ndef train(loss):\n    loss.backward()\n",
    "used.py": "import torch\n",
    "user.py": "import main\n",
    "its_user.py": "import user\n",
    "beside.py": "import used\n",
    "apart.py": "import torch\n",
}


def test_connected_files(tmp_path: Path) -> None:
    script = load_files(tmp_path, FILES)
    assert names(connected_files(script)) == ["beside", "its_user", "main", "used", "user"]
    assert names(importing_files(script)) == ["its_user", "main", "user"]


@pytest.mark.parametrize("most", [0, 1, 2])
def test_more_files_than_are_looked_at(tmp_path: Path, most: int) -> None:
    script = load_files(tmp_path, FILES, Bounds(graph_files=most))
    with pytest.raises(Incomplete):
        connected_files(script)
    with pytest.raises(Incomplete):
        importing_files(script)


def test_no_more_files_than_are_looked_at(tmp_path: Path) -> None:
    script = load_files(tmp_path, FILES, Bounds(graph_files=3))
    assert names(importing_files(script)) == ["its_user", "main", "user"]
    with pytest.raises(Incomplete):
        connected_files(script)


CLASSES = """\
import torch
from elsewhere import Strange, unknown
class A: ...
class B(A): ...
class C: ...
class M(torch.nn.Module): ...
class S(Strange): ...
a, b, c = A(), B(), C()
"""

# By case: an expression, and the classes that it may be of, with their bases; None where it may be anything.
POSSIBLE: dict[str, tuple[str, list[str] | None]] = {
    "an object": ("A()", ["A"]),
    "of a derived class": ("B()", ["A", "B"]),
    "a name": ("c", ["C"]),
    "one of two": ("a if unknown else c", ["A", "C"]),
    "or None": ("a if unknown else None", ["A"]),
    "or something else": ("a if unknown else unknown()", None),
    "a model": ("M()", ["M"]),
    "of a base out of sight": ("S()", ["S"]),
    "a number": ("3", []),
    "a tensor": ("torch.zeros(3)", []),
    "a list": ("[a]", []),
    "an element": ("[a][0]", ["A"]),
    "None, which is set later": ("None", None),
    "a function out of sight": ("unknown()", None),
    "a name out of sight": ("nowhere", None),
    "a model of a library": ("torch.nn.Linear(1, 1)", None),
}


@pytest.mark.parametrize("case", POSSIBLE)
def test_possible_classes(case: str) -> None:
    expression, expected = POSSIBLE[case]
    script = load(f"{CLASSES}print({expression})\n")
    call = script.tree.body[-1].value  # type: ignore[attr-defined]
    found = possible_classes(script, call.args[0])
    assert (None if found is None else sorted(each.name for each in found)) == expected


@pytest.mark.parametrize(("name", "expected"), [("A", ["A"]), ("B", ["A", "B"]), ("S", ["S"])])
def test_classes_of(name: str, expected: list[str]) -> None:
    script = load(CLASSES)
    assert sorted(each.name for each in classes_of(script, class_named(script, name))) == expected


# By case: code, and the reads in it that may be of the attribute `v` of an object of class `A`, if it is not called.
READS = {
    "of the object": ("print(a.v)", ["a.v"]),
    "of a derived class": ("print(b.v)", ["b.v"]),
    "of another class": ("print(c.v)", []),
    "of what is not known": ("print(unknown().v, nowhere.v)", ["unknown().v", "nowhere.v"]),
    "of a number": ("n = 3\nprint(n.v)", []),
    "of a module of a library": ("print(torch.v)", []),
    "another attribute": ("print(a.w)", []),
    "stored": ("a.v = 1", []),
    "called": ("a.v()", []),
    "a part of it": ("a.v.w.x()", ["a.v"]),
    "all of them": ("print(a.__dict__)", ["a.__dict__"]),
    "by name": ("print(getattr(a, 'v'))", ["getattr(a, 'v')"]),
    "by another name": ("print(getattr(a, 'w'))", []),
    "by a computed name": ("print(getattr(a, n))", ["getattr(a, n)"]),
    "by vars": ("print(vars(a))", ["vars(a)"]),
    "by a getter": ("from operator import attrgetter\nget = attrgetter('v')", ["attrgetter('v')"]),
    "in a function": ("def f(self):\n    return self.v", ["self.v"]),
    "in a method": ("class D(A):\n    def f(self):\n        return self.v", ["self.v"]),
    "in a method of another class": ("class D:\n    def f(self):\n        return self.v", []),
}


@pytest.mark.parametrize("case", READS)
def test_attribute_reads(case: str) -> None:
    text, expected = READS[case]
    script = load(f"{CLASSES}{text}\n")
    found = attribute_reads(script, classes_of(script, class_named(script, "A")), "v", called=False)
    assert [file.source(read) for file, read in found] == expected


def test_attribute_reads_that_are_called() -> None:
    script = load(f"{CLASSES}a.v()\nc.v()\n")
    classes = classes_of(script, class_named(script, "A"))
    assert [file.source(read) for file, read in attribute_reads(script, classes, "v", called=True)] == ["a.v"]


def test_attribute_reads_of_any_object() -> None:
    script = load(f"{CLASSES}print(a.v, c.v, torch.v)\n")
    assert [file.source(read) for file, read in attribute_reads(script, None, "v", called=False)] == ["a.v", "c.v"]


def test_attribute_reads_of_other_files(tmp_path: Path) -> None:
    files = {"main.py": CLASSES, "user.py": "from main import a, c\nprint(a.v, c.v)\n", "apart.py": "print(a.v)\n"}
    script = load_files(tmp_path, files)
    found = attribute_reads(script, classes_of(script, class_named(script, "A")), "v", called=False)
    assert [(*names((file,)), file.source(read)) for file, read in found] == [("user", "a.v")]


def test_attribute_reads_of_modules(tmp_path: Path) -> None:
    looks = "import own\nprint(own.v, own.__dict__, getattr(own, n), vars(own), vars(unknown()))\n"
    script = load_files(tmp_path, {"main.py": f"{CLASSES}{looks}", "own.py": "v = 1\n"})
    for classes, expected in (
        (classes_of(script, class_named(script, "A")), ["vars(unknown())"]),
        (frozenset(), ["vars(unknown())"]),
        (None, ["own.v", "own.__dict__", "getattr(own, n)", "vars(own)", "vars(unknown())"]),
    ):
        found = attribute_reads(script, classes, "v", called=False)
        assert [file.source(read) for file, read in found if file is script] == expected


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [
        ("@property", "f"),
        ("@cached_property", "f"),
        ("@functools.cached_property", "f"),
        ("@staticmethod", None),
        ("@f.setter", None),
        ("", None),
    ],
)
def test_property_name(decorator: str, expected: str | None) -> None:
    script = load(f"{decorator}\ndef f(self): ...\n")
    assert property_name(function_named(script, "f")) == expected


def test_a_lambda_is_no_property() -> None:
    [function] = load("f = lambda self: 1\n").find(ast.Lambda)
    assert property_name(function) is None


HEAD = "import torch\nfrom elsewhere import Strange, register, unknown\n"

# By case: a script with a function `f`, and the calls of it where these surely are all, else None.
CALLS: dict[str, tuple[str, list[str] | None]] = {
    "one": ("def f(x): ...\nf(1)\n", ["f(1)"]),
    "two": ("def f(x): ...\nf(1)\ndef g():\n    return f(2)\n", ["f(1)", "f(2)"]),
    "none": ("def f(x): ...\n", None),
    "under another name": ("def f(x): ...\ng = f\nf(1)\ng(2)\n", None),
    "handed on": ("def f(x): ...\nf(1)\nrun(f)\n", None),
    "in a table": ("def f(x): ...\nf(1)\nT = {'f': f}\n", None),
    "by a computed name": ("def f(x): ...\nf(1)\nglobals()[name](2)\n", None),
    "without gradients": ("@torch.no_grad()\ndef f(x): ...\nf(1)\n", ["f(1)"]),
    "registered": ("@register\ndef f(x): ...\nf(1)\n", None),
    "cached": ("import functools\n@functools.cache\ndef f(x): ...\nf(1)\n", None),
    "a method": ("class A:\n    def f(self): ...\nA().f()\n", ["A().f()"]),
    "a static method": ("class A:\n    @staticmethod\n    def f(): ...\nA.f()\n", ["A.f()"]),
    "of an object that is not known": ("class A:\n    def f(self): ...\nunknown().f()\n", None),
    "of another class": (
        "class A:\n    def f(self): ...\nclass B:\n    def f(self): ...\nA().f()\nB().f()\n",
        ["A().f()"],
    ),
    "of a derived class": ("class A:\n    def f(self): ...\nclass B(A): ...\nB().f()\n", ["B().f()"]),
    "of the base": (
        "class A:\n    def f(self): ...\n    def g(self):\n        self.f()\nclass B(A):\n    def f(self): ...\n",
        ["self.f()"],
    ),
    "a method that is handed on": ("class A:\n    def f(self): ...\nA().f()\nrun(A().f)\n", None),
    "of a base out of sight": ("class A(Strange):\n    def f(self): ...\nA().f()\n", None),
    "of a model": ("class A(torch.nn.Module):\n    def f(self): ...\nA().f()\n", ["A().f()"]),
}


@pytest.mark.parametrize("case", CALLS)
def test_all_callers(case: str) -> None:
    text, expected = CALLS[case]
    script = load(HEAD + text)
    function = function_named(script, "f")
    try:
        found = [file.source(call) for file, call in all_callers(script, function)]
    except Incomplete:
        assert expected is None
    else:
        assert found == expected


def test_callers_of_a_constructor() -> None:
    script = load("class A:\n    def __init__(self): ...\nclass B(A): ...\nA()\nB()\n")
    assert [file.source(call) for file, call in all_callers(script, function_named(script, "__init__"))] == [
        "A()",
        "B()",
    ]


def test_nobody_knows_who_calls_an_operator() -> None:
    script = load("class A:\n    def __add__(self, x): ...\nA() + 1\nA().__add__(1)\n")
    with pytest.raises(Incomplete):
        all_callers(script, function_named(script, "__add__"))


def test_nobody_knows_who_calls_a_lambda() -> None:
    script = load("f = lambda: 1\nf()\n")
    [function] = script.find(ast.Lambda)
    with pytest.raises(Incomplete):
        all_callers(script, function)


def test_callers_in_other_files(tmp_path: Path) -> None:
    files = {"main.py": "def f(x): ...\n", "user.py": "from main import f as g\ng(1)\n", "apart.py": "f(2)\n"}
    script = load_files(tmp_path, files)
    found = all_callers(script, function_named(script, "f"))
    assert [(*names((file,)), file.source(call)) for file, call in found] == [("user", "g(1)")]
