"""What the elements of containers of modules are."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.pytorch.module_containers import forwards, held, modules

HEAD = """\
import torch
from collections import OrderedDict
from torch import nn
from elsewhere import make, Strange
class A(nn.Module):
    def forward(self, x): ...
class B(nn.Module):
    def forward(self, x): ...
class Derived(A): ...
def function(x): ...
"""


def called(init: str, forward: str, behind: str = "") -> tuple[Script, ast.expr]:
    """What is called in `run(…(x))` of a model with this constructor and forward pass."""

    def lines(body: str) -> str:
        return "".join(f"        {line}\n" for line in body.split("\n"))

    script = load(
        f"{HEAD}class Net(nn.Module):\n    def __init__(self, given):\n{lines(init)}"
        f"    def forward(self, x):\n{lines(forward)}{behind}"
    )
    run = next(each for each in script.find(ast.Call) if script.source(each.func) == "run")
    [call] = run.args
    assert isinstance(call, ast.Call)
    return script, call.func


TABLE = "self.parts = nn.ModuleDict(dict(e=nn.Embedding(2, 2), h=nn.ModuleList([A() for _ in range(3)])))"
IN_TABLE = "for layer in self.parts.h:\n    run(layer(x))"
LOOP = "for layer in self.layers:\n    run(layer(x))"

# By case: the constructor, the forward pass, and the classes whose forward `run(…(x))` enters; none if not certain.
FORWARDS: dict[str, tuple[str, str, list[str]]] = {
    "an attribute": ("self.a = A()", "run(self.a(x))", ["A"]),
    "an inherited forward": ("self.a = Derived()", "run(self.a(x))", ["A"]),
    "one of two": ("self.a = A() if given else B()", "run(self.a(x))", ["A", "B"]),
    "one of a library": ("self.a = nn.Linear(2, 2)", "run(self.a(x))", []),
    "one out of sight": ("self.a = make()", "run(self.a(x))", []),
    "one of two out of sight": ("self.a = A() if given else make()", "run(self.a(x))", []),
    "of a base out of sight": ("self.a = given", "run(self.a(x))", []),
    "a loop": ("self.layers = nn.ModuleList([A() for _ in range(3)])", LOOP, ["A"]),
    "a loop over several": ("self.layers = nn.ModuleList([A(), B()])", LOOP, ["A", "B"]),
    "one of a library among them": ("self.layers = nn.ModuleList([A(), nn.Linear(2, 2)])", LOOP, []),
    "one out of sight among them": ("self.layers = nn.ModuleList([A(), make()])", LOOP, []),
    "spread": ("self.layers = nn.ModuleList([A(), *given])", LOOP, []),
    "given": ("self.layers = nn.ModuleList(given)", LOOP, []),
    "made out of sight": ("self.layers = make()", LOOP, []),
    "of a table": ("self.parts = nn.ModuleDict(dict(a=A(), b=B()))", "run(self.parts.a(x))", ["A"]),
    "of a table written out": ("self.parts = nn.ModuleDict({'a': A(), 'b': B()})", "run(self.parts.b(x))", ["B"]),
    "a loop over a list in a table": (TABLE, IN_TABLE, ["A"]),
    "a list in a table that is added to": (TABLE, f"self.parts.h.append(B())\n{IN_TABLE}", ["A", "B"]),
    "a list in a table that is changed": (TABLE, f"self.parts.h[0] = B()\n{IN_TABLE}", []),
    "a table whose entry is set": (TABLE, f"self.parts['h'] = x\n{IN_TABLE}", []),
    "a table whose entry is set by its name": (TABLE, f"self.parts.h = x\n{IN_TABLE}", []),
    "a table that is added to": (f"{TABLE}\nself.parts.update(given)", IN_TABLE, []),
    "a table that others know": (f"{TABLE}\nmake(self.parts)", IN_TABLE, []),
    "a table under another name": (f"{TABLE}\nparts = self.parts\nparts.update(given)", IN_TABLE, []),
    "a table out of sight": ("self.parts = nn.ModuleDict(given)", IN_TABLE, []),
    "a table of which a part is out of sight": ("self.parts = nn.ModuleDict(dict(given, h=[A()]))", IN_TABLE, []),
    "a table that lacks it": ("self.parts = nn.ModuleDict(dict(a=A()))", IN_TABLE, []),
    "one of two tables": (f"{TABLE}\nif given:\n    self.parts = nn.ModuleDict(dict(h=[B()]))", IN_TABLE, ["A", "B"]),
    "a table or something else": (f"{TABLE}\nif given:\n    self.parts = make()", IN_TABLE, []),
    "in a sequence": ("self.layers = nn.Sequential([A()])", LOOP, ["A"]),
    "in a list": ("self.layers = [A(), A()]", LOOP, ["A"]),
    "by a name": ("layers = [A()]\nself.layers = nn.ModuleList(layers)", LOOP, ["A"]),
    "by a name that is added to": (
        "layers = [A()]\nlayers.append(B())\nself.layers = nn.ModuleList(layers)",
        LOOP,
        ["A", "B"],
    ),
    "a generator": ("self.layers = nn.ModuleList(A() for _ in range(3))", LOOP, ["A"]),
    "an element": ("self.layers = nn.ModuleList([A(), A()])", "run(self.layers[0](x))", ["A"]),
    "a part": ("self.layers = nn.ModuleList([A(), A()])", "for y in self.layers[1:]:\n    run(y(x))", ["A"]),
    "counted": ("self.layers = nn.ModuleList([A()])", "for i, y in enumerate(self.layers):\n    run(y(x))", ["A"]),
    "shuffled out of sight": ("self.layers = nn.ModuleList([A()])", "for y in make(self.layers):\n    run(y(x))", []),
    "in a table": ("self.layers = nn.ModuleDict({'a': A(), 'b': B()})", "run(self.layers['a'](x))", ["A", "B"]),
    "values of a table": (
        "self.layers = nn.ModuleDict({'a': A()})",
        "for y in self.layers.values():\n    run(y(x))",
        ["A"],
    ),
    "added": ("self.layers = nn.ModuleList()\nfor i in given:\n    self.layers.append(A())", LOOP, ["A"]),
    "others added": ("self.layers = nn.ModuleList([A()])\nself.layers.append(B())", LOOP, ["A", "B"]),
    "others added out of sight": ("self.layers = nn.ModuleList([A()])\nself.layers.append(given)", LOOP, []),
    "extended": ("self.layers = nn.ModuleList([A()])\nself.layers.extend(given)", LOOP, []),
    "inserted": ("self.layers = nn.ModuleList([A()])\nself.layers.insert(0, B())", LOOP, []),
    "summed": ("self.layers = nn.ModuleList([A()])\nself.layers += [B()]", LOOP, []),
    "replaced": ("self.layers = nn.ModuleList([A()])\nself.layers[0] = B()", LOOP, []),
    "updated": ("self.layers = nn.ModuleDict({'a': A()})\nself.layers.update(given)", "run(self.layers['a'](x))", []),
    "bound twice": ("self.layers = nn.ModuleList([A()])\nself.layers = nn.ModuleList([B()])", LOOP, ["A", "B"]),
    "never bound": ("pass", LOOP, []),
    "empty": ("self.layers = nn.ModuleList()", LOOP, []),
    "a function": ("pass", "run(function(x))", ["function"]),
}


def entered(script: Script, function: ast.expr) -> list[str]:
    """The functions, or the classes of the methods."""
    found = []
    for file, each in forwards(script, function):
        cls = file.parent(each)
        found.append(cls.name if isinstance(cls, ast.ClassDef) else each.name)
    return found


@pytest.mark.parametrize("case", FORWARDS)
def test_forwards(case: str) -> None:
    init, forward, expected = FORWARDS[case]
    assert sorted(entered(*called(init, forward))) == expected


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param("net = Net(1)\nnet.layers.append(B())\n", id="from outside"),
        pytest.param("net = Net(1)\nnet.layers[0] = B()\n", id="replaced from outside"),
        pytest.param(
            "class More(Net):\n    def __init__(self):\n        super().__init__(1)\n        self.layers.append(B())\n",
            id="by a derived class",
        ),
        pytest.param("net = Net(1)\nnet.layers = nn.ModuleList([B()])\n", id="stored from outside"),
        pytest.param("def grow(net):\n    net.layers.append(B())\n", id="of what is not known"),
    ],
)
def test_containers_that_others_change(behind: str) -> None:
    found = entered(*called("self.layers = nn.ModuleList([A()])", LOOP, behind))
    assert sorted(found) in ([], ["A", "B"])


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param("net = Net(1)\nprint(net.layers, len(net.layers))\n", id="read"),
        pytest.param(
            "class Other(nn.Module):\n    def __init__(self):\n        self.layers = nn.ModuleList()\n"
            "        self.layers.append(B())\n",
            id="of another class",
        ),
        pytest.param("layers = []\nlayers.append(B())\n", id="a name"),
    ],
)
def test_containers_that_others_leave_alone(behind: str) -> None:
    assert entered(*called("self.layers = nn.ModuleList([A()])", LOOP, behind)) == ["A"]


def test_modules_of_a_loop() -> None:
    script, function = called("self.layers = nn.ModuleList([A(), make(), nn.Linear(2, 2)])", LOOP)
    found = modules(script, function)
    assert [each.cls.node.name if each.cls is not None else each.kind.value for each in found] == [
        "A",
        "unknown",
        "module",
    ]


# By case: a library's module, and what it is made of.
HELD: dict[str, tuple[str, list[str]]] = {
    "its arguments": ("nn.Sequential(A(), B())", ["A", "B"]),
    "by keyword": ("nn.TransformerEncoder(encoder_layer=A(), num_layers=3)", ["A", "number"]),
    "a list": ("nn.ModuleList([A(), B()])", ["A", "B"]),
    "a comprehension": ("nn.ModuleList([A() for _ in range(3)])", ["A"]),
    "a table": ("nn.ModuleDict({'a': A()})", ["A"]),
    "spread": ("nn.Sequential(*[A(), B()])", ["A", "B"]),
    "a module of modules": ("nn.Sequential(nn.Sequential(A()), B())", ["A", "B"]),
    "spread out of sight": ("nn.Sequential(*make())", ["unknown"]),
    "out of sight": ("nn.Sequential(A(), make())", ["A", "unknown"]),
    "numbers": ("nn.Linear(2, 3)", ["number", "number"]),
}


@pytest.mark.parametrize("case", HELD)
def test_held(case: str) -> None:
    made, expected = HELD[case]
    script = load(f"{HEAD}print({made})\n")
    call = script.tree.body[-1].value  # type: ignore[attr-defined]
    [value] = script.values(call.args[0])
    assert [each.cls.node.name if each.cls is not None else each.kind.value for each in held(value)] == expected
