"""Attributes of project classes: what methods, bases and the class body assign to them."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Kind, load
from autoaccel.pytorch.loader_loops import loader_loops
from tests.analysis.test_value_inference import HEAD, kind_at_end

CLASS = "class A:\n    net = Net()\n    def __init__(self):\n        self.x = 1\n    def f(self): return 1\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("A().net\n", Kind.MODULE, id="of the class body"),
        pytest.param("A().x\n", Kind.NUMBER, id="of a method"),
        pytest.param("A().f\n", Kind.FUNCTION, id="a method"),
        pytest.param("A.net\n", Kind.MODULE, id="of the class itself"),
        pytest.param("A().other\n", None, id="assigned nowhere"),
        pytest.param("a = A()\na.x = Net()\na.x\n", None, id="assigned from outside, too"),
        pytest.param("a = A()\na.x += 1.5\na.x\n", Kind.NUMBER, id="added to"),
        pytest.param("a = A()\nfor a.y in [1]: pass\na.y\n", Kind.NUMBER, id="the target of a loop"),
        pytest.param("a = A()\nsetattr(a, name, 1)\na.net\n", None, id="by a name that is computed"),
        pytest.param("class B(A): pass\nB().net\n", Kind.MODULE, id="inherited"),
        pytest.param("class B(A):\n    net = 1\nB().net\n", Kind.NUMBER, id="hidden by a class that derives"),
        pytest.param("class C: net = 1\nclass B(C, A): pass\nB().net\n", Kind.NUMBER, id="the first of two bases"),
    ],
)
def test_kinds(text: str, kind: Kind | None) -> None:
    assert kind_at_end(CLASS + text) == kind


def test_trainer_attributes() -> None:
    script = load(
        HEAD
        + "class Trainer:\n"
        + "    def __init__(self, model, loader):\n"
        + "        self.model = model\n"
        + "        self.loader = loader\n"
        + "    def fit(self):\n"
        + "        for x, y in self.loader:\n"
        + "            self.model(x)\n"
        + "Trainer(Net(), DataLoader([])).fit()\n"
    )
    attributes = {
        node.attr: script.kind(node) for node in script.find(ast.Attribute) if node.attr in ("model", "loader")
    }
    assert attributes == {"model": Kind.MODULE, "loader": Kind.LOADER}
    assert [loop.known for loop in loader_loops(script)] == [True]


def test_inherited_attributes() -> None:
    script = load(
        HEAD
        + "class A:\n    def __init__(self):\n        self.net = Net()\n"
        + "class B(A):\n    def f(self):\n        self.net\n"
    )
    node = [each for each in script.find(ast.Attribute) if each.attr == "net"][-1]
    assert script.kind(node) is Kind.MODULE
