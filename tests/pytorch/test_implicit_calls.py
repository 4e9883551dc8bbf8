"""Functions that run without being called by their name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.analysis.name_lookups import hands_on_names
from autoaccel.pytorch.implicit_calls import (
    IMPLICIT_CALLS,
    hooks,
    implicit_callees,
    is_property,
    is_protocol,
    properties,
    sets,
)

HEAD = """\
import functools
import torch
from torch import nn
from elsewhere import unknown
net = nn.Linear(2, 2)
class A:
    def __init__(self): ...
    @property
    def size(self): ...
    @functools.cached_property
    def cost(self): ...
    def plain(self): ...
    def __getitem__(self, index): ...
    def __enter__(self): ...
    def __exit__(self, *args): ...
class Rows:
    def __iter__(self): ...
    def __next__(self): ...
class Derived(Rows): ...
class Gauge:
    def __float__(self): ...
    def __len__(self): ...
    def __contains__(self, x): ...
    def __str__(self): ...
class Key:
    def __hash__(self): ...
class Options:
    def __getattr__(self, name): ...
class Sum:
    def __add__(self, other): ...
    def plain(self): ...
def wrap(function): ...
"""

# By case: the body of a function, and the functions that it runs without calling them.
CALLEES: dict[str, tuple[str, list[str]]] = {
    "what hashes a key": ("return {1: 2}[Key()]", ["__hash__"]),
    "nothing": ("return 1", []),
    "a property": ("return A().size", ["size"]),
    "a cached one": ("return A().cost", ["cost"]),
    "a property of what is not known": ("return unknown().size", ["size"]),
    "a name of none": ("return unknown().plain", []),
    "a property that is stored": ("A().size = 1", []),
    "a method": ("return A().plain", []),
    "a property of another class": ("return Rows().size", []),
    "an element": ("return A()[0]", ["__getitem__"]),
    "an element of a list": ("return [1][0]", []),
    "an element that is stored": ("A()[0] = 1", []),
    "a loop": ("for x in Rows():\n    pass", ["__iter__", "__next__"]),
    "a loop over elements": ("for x in A():\n    pass", ["__getitem__"]),
    "a loop that counts": ("for i, x in enumerate(Rows()):\n    pass", ["__iter__", "__next__"]),
    "a loop over two": ("for x, y in zip(A(), Rows()):\n    pass", ["__getitem__", "__iter__", "__next__"]),
    "a comprehension": ("return [x for x in Rows()]", ["__iter__", "__next__"]),
    "inherited": ("for x in Derived():\n    pass", ["__iter__", "__next__"]),
    "a range": ("for x in range(3):\n    pass", []),
    "a context": ("with A() as x:\n    pass", ["__enter__", "__exit__"]),
    "a context of torch": ("with torch.no_grad():\n    pass", []),
    "a sum": ("return Sum() + 1", ["__add__"]),
    "a sum on the right": ("return 1 + Sum()", ["__add__"]),
    "a running sum": ("total = Sum()\ntotal += 1", ["__add__"]),
    "a sum of numbers": ("return 1 + 2", []),
    "one of two": ("return (A() if unknown else Rows())[0]", ["__getitem__"]),
    "a builtin for numbers": ("return float(Gauge())", ["__float__"]),
    "a builtin for sizes": ("return len(Gauge())", ["__len__"]),
    "a builtin that iterates": ("return sum(Rows())", ["__iter__", "__next__"]),
    "a builtin that prints": ("print(1, Gauge())", ["__str__"]),
    "a builtin for types": ("return isinstance(Gauge(), A)", []),
    "a text": ("return f'{Gauge()}'", ["__str__"]),
    "a condition": ("return 1 if Gauge() else 2", ["__len__"]),
    "one of two conditions": ("return unknown and Gauge()", ["__len__"]),
    "a comparison": ("return 1 in Gauge()", ["__contains__"]),
    "several targets": ("x, y = Rows()", ["__iter__", "__next__"]),
    "one target": ("x = Rows()", []),
    "any attribute": ("return Options().size", ["__getattr__"]),
    "a decorator": ("@wrap\ndef g(): ...", ["wrap"]),
    "a decorator with arguments": ("@wrap(1)\ndef g(): ...", ["wrap"]),
    "a decorator of a library": ("@functools.wraps(wrap)\ndef g(): ...", []),
}


@pytest.mark.parametrize("case", CALLEES)
def test_implicit_callees(case: str) -> None:
    body, expected = CALLEES[case]
    script = load(HEAD + "def f():\n" + "".join(f"    {line}\n" for line in body.split("\n")))
    function = script.tree.body[-1]
    nodes = [each for each in script.within(function, ast.AST) if isinstance(each, IMPLICIT_CALLS)]
    found = {each.name for node in nodes for _, each in implicit_callees(script, node)}
    assert sorted(found) == expected


SETTER = """\
class A:
    @property
    def size(self): ...
    @size.setter
    def size(self, size): ...
class B: ...
class C:
    def __setattr__(self, name, value): ...
class D(A): ...
"""


@pytest.mark.parametrize(
    ("owner", "name", "expected"),
    [
        ("A()", "size", True),
        ("D()", "size", True),
        ("A()", "cost", False),
        ("B()", "size", False),
        ("C()", "anything", True),
        ("nowhere()", "size", True),
        ("nowhere()", "cost", False),
        ("3", "size", False),
    ],
)
def test_sets(owner: str, name: str, expected: bool) -> None:
    script = load(f"{SETTER}print({owner})\n")
    call = next(each for each in script.find(ast.Call) if script.source(each.func) == "print")
    assert sets(script, call.args[0], name) is expected


def test_sets_by_a_class_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "classes.py").write_text(SETTER)
    path, text = tmp_path / "main.py", "import classes\nprint(nowhere())\nprint(classes.B())\n"
    path.write_text(text)
    script = load(text, path, Project([*tmp_path.glob("*.py")]))
    given = [each.args[0] for each in script.find(ast.Call) if script.source(each.func) == "print"]
    assert [sets(script, each, "size") for each in given] == [True, False]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("show(**locals())", True),
        ("show(vars())", True),
        ("show(vars(x))", False),
        ("print('{x}'.format(**locals()))", False),
        ("show(x)", False),
        ("def g():\n        show(locals())", False),
    ],
)
def test_hands_on_names(call: str, expected: bool) -> None:
    script = load(f"def f(x):\n    {call}\n")
    assert hands_on_names(script, script.tree.body[0]) is expected
    assert not hands_on_names(script, script.tree)


def test_a_module_hands_on_its_names() -> None:
    script = load("run(**locals())\n")
    assert hands_on_names(script, script.tree)


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [
        ("@property", True),
        ("@cached_property", True),
        ("@functools.cached_property", True),
        ("@lazy_property", True),
        ("@staticmethod", False),
        ("@size.setter", False),
        ("", False),
    ],
)
def test_is_property(decorator: str, expected: bool) -> None:
    [function] = load(f"{decorator}\ndef f(self): ...\n").find(ast.FunctionDef)
    assert is_property(function) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("__add__", True),
        ("__getitem__", True),
        ("__exit__", True),
        ("__init__", False),
        ("__call__", False),
        ("_private", False),
        ("__mangled", False),
        ("forward", False),
    ],
)
def test_is_protocol(name: str, expected: bool) -> None:
    [function] = load(f"def {name}(self): ...\n").find(ast.FunctionDef)
    assert is_protocol(function) is expected


@pytest.mark.parametrize(
    ("read", "expected"),
    [("A().size", ["size"]), ("A().plain", []), ("unknown().size", []), ("net", []), ("A()", [])],
)
def test_properties(read: str, expected: list[str]) -> None:
    script = load(f"{HEAD}print({read})\n")
    call = next(each for each in script.find(ast.Call) if script.source(each.func) == "print")
    assert [function.name for _, function in properties(script, call.args[0])] == expected


def described(script: Script, hook: ast.AST) -> str:
    return hook.name if isinstance(hook, ast.FunctionDef) else script.source(hook)


# By case: code, and the hooks in it; the method that registers one, where it is not known.
HOOKS: dict[str, tuple[str, list[str]]] = {
    "none": ("net.register_buffer('a', hook)", []),
    "a function": ("net.register_forward_hook(hook)", ["hook"]),
    "by keyword": ("net.register_forward_hook(hook=hook)", ["hook"]),
    "a lambda": ("net.register_forward_hook(lambda m, i, o: o)", ["lambda m, i, o: o"]),
    "of inputs": ("net.register_forward_pre_hook(hook)", ["hook"]),
    "of the inputs of all modules": ("nn.modules.module.register_module_forward_pre_hook(hook)", ["hook"]),
    "a method": ("net.register_forward_hook(Keep().hook)", ["hook"]),
    "of all modules": ("torch.nn.modules.module.register_module_forward_hook(hook)", ["hook"]),
    "of whatever module": ("nowhere.register_forward_hook(hook)", ["hook"]),
    "out of sight": ("net.register_forward_hook(nowhere)", ["net.register_forward_hook"]),
    "made by a function": ("net.register_forward_hook(unknown(1))", ["net.register_forward_hook"]),
    "one of two": ("net.register_forward_hook(hook if x else nowhere)", ["hook", "net.register_forward_hook"]),
    "an object": ("net.register_forward_hook(Keep())", ["net.register_forward_hook"]),
    "registered by another name": ("add = net.register_forward_hook\nadd(hook)", ["net.register_forward_hook"]),
    "looked up": ("getattr(net, 'register_forward_hook')(hook)", ["hook"]),
    "of gradients": ("net.register_full_backward_hook(hook)", []),
}


@pytest.mark.parametrize("case", HOOKS)
def test_hooks(case: str) -> None:
    text, expected = HOOKS[case]
    own = (
        "def hook(m, i, o): ...\nclass Keep:\n    def hook(self, m, i, o): ...\n    def __call__(self, m, i, o): ...\n"
    )
    assert [described(file, each) for file, each in hooks(load(f"{HEAD}{own}{text}\n"))] == expected


def test_hooks_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def hook(m, i, o): ...\ndef watch(net):\n    net.register_forward_hook(hook)\n")
    path, text = tmp_path / "main.py", "import model\n"
    path.write_text(text)
    script = load(text, path, Project([*tmp_path.glob("*.py")]))
    assert [described(file, each) for file, each in hooks(script)] == ["hook"]
