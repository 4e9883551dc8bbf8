"""What functions store for later, and what of it may carry a graph."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.kept_state import is_layer_weight, may_carry_graph, reads_of_computed_weights, stored_values

HEAD = """\
import logging
import numpy as np
import torch
import torch.nn.functional as F
from elsewhere import Base, unknown
from torch import nn
net = nn.Linear(2, 2)
log = logging.getLogger()
KEPT = []
TABLE = {}
"""


def method(body: str) -> tuple[Script, ast.FunctionDef]:
    """A method `f(self, x, out)` of a class of which not all is known."""
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    script = load(f"{HEAD}class A(Base):\n    def f(self, x, out):\n{lines}")
    function = next(each for each in script.find(ast.FunctionDef) if each.name == "f")
    return script, function


# By case: the body of a method, and the values that it stores where they outlive it and that may carry a graph.
STORED: dict[str, tuple[str, list[str]]] = {
    "nothing": ("return net(x)", []),
    "a local name": ("y = net(x)\nreturn y", []),
    "an attribute": ("self.kept = net(x)", ["net(x)"]),
    "with an annotation": ("self.kept: torch.Tensor = net(x)", ["net(x)"]),
    "an attribute that is declared": ("self.kept: torch.Tensor", []),
    "several attributes": ("self.a = self.b = F.relu(self.w)", ["F.relu(self.w)"]),
    "one of two": ("self.kept, y = net(x), 1", ["net(x), 1"]),
    "the rest": ("y, *self.kept = net(x)", ["net(x)"]),
    "a global name": ("global LAST\nLAST = net(x)", ["net(x)"]),
    "added to a global name": ("global LAST\nLAST += net(x)", ["net(x)"]),
    "a name of the function around": ("y = 0\ndef g():\n    nonlocal y\n    y = net(x)\ng()", []),
    "added up": ("self.total += net(x).sum()", ["net(x).sum()"]),
    "added up as numbers": ("self.total += net(x).sum().item()", []),
    "counted": ("self.count += 1", []),
    "what it was given": ("self.last = x", []),
    "computed from what it was given": ("self.last = F.relu(x) * 2", []),
    "a list of the module": ("KEPT.append(net(x))", ["net(x)"]),
    "a list of the object": ("self.kept.append(net(x))", ["net(x)"]),
    "an element of the object": ("self.kept[0]['a'].append(net(x))", ["net(x)"]),
    "by keyword": ("TABLE.update(last=net(x))", ["net(x)"]),
    "an item of a table": ("TABLE['a'] = net(x)", ["net(x)"]),
    "an item of what it was given": ("out['a'] = net(x)", ["net(x)"]),
    "an item of its own list": ("y = {}\ny['a'] = net(x)\nreturn y", []),
    "an item of an item of its own": ("y = {'a': {}}\ny['a']['b'] = net(x)\nreturn y", []),
    "an item of its own tensor": ("y = torch.zeros(3)\ny[0] = net(x)\nreturn y", []),
    "its own list": ("y = []\ny.append(net(x))\nreturn y", []),
    "another name of a list that stays": ("y = self.kept\ny.append(net(x))", ["net(x)"]),
    "another name of a list of the module": ("y = KEPT\ny.append(net(x))", ["net(x)"]),
    "lists of the object": ("for y in self.kept:\n    y.append(net(x))", ["net(x)"]),
    "an item of another name": ("y = self.kept\ny['a'] = net(x)", ["net(x)"]),
    "an object that is made out of sight": ("y = unknown()\ny.last = net(x)", ["net(x)"]),
    "a buffer": ("net.register_buffer('last', net(x))", ["net(x)"]),
    "written into a tensor": ("self.kept = torch.zeros(3)\nself.kept.add_(net(x))", ["net(x)"]),
    "by setattr": ("setattr(self, 'kept', net(x))", ["net(x)"]),
    "by setattr of what it was given": ("setattr(self, 'kept', x)", []),
    "shown": ("print(net(x))\nlog.info(net(x))\nself.writer.add_scalar('a', net(x))", []),
    "run by a layer": ("self.layer = nn.Linear(2, 2)\nself.layer(net(x))", []),
    "in a function that it makes": ("def g():\n    self.kept = net(x)\nreturn g", []),
}


@pytest.mark.parametrize("case", STORED)
def test_stored_values(case: str) -> None:
    body, expected = STORED[case]
    script, function = method(body)
    assert [script.source(each) for each in stored_values(script, function)] == expected


# By case: what comes before, an expression, and whether it may have a graph that is not of what the method is given.
GRAPHS = {
    "a number": ("", "1", False),
    "what it is given": ("", "x", False),
    "computed of it": ("", "(x + 1).mean() / 2", False),
    "a function of it": ("", "F.relu(x)", False),
    "a part of it": ("", "x[0]", False),
    "an attribute of it": ("", "x.last", False),
    "its shape": ("", "self.w.shape", False),
    "an attribute of the object": ("", "self.w", True),
    "of another object": ("y = unknown()", "y.w", True),
    "detached": ("", "self.w.detach()", False),
    "a number of it": ("", "self.w.item()", False),
    "its length": ("", "len(self.w)", False),
    "as text": ("", "f'{self.w}'", False),
    "compared": ("", "self.w > 0", False),
    "negated": ("", "not self.w", False),
    "with a sign": ("", "-self.w", True),
    "a function to be called later": ("", "lambda: self.w", False),
    "an array": ("", "np.mean(self.w)", False),
    "zeros": ("", "torch.zeros(3)", False),
    "indices": ("", "torch.argmax(self.w)", False),
    "stacked": ("", "torch.stack([x, self.w])", True),
    "by keyword": ("", "F.linear(x, weight=self.w)", True),
    "a forward pass": ("", "net(x)", True),
    "a layer of the object": ("", "self.layer(x)", True),
    "out of sight": ("", "unknown(x)", True),
    "a function that is given": ("", "out(x)", True),
    "an argument of a method": ("", "x.matmul(self.w)", True),
    "a named argument of a method": ("", "x.matmul(other=self.w)", True),
    "a method out of sight": ("", "self.weights()", True),
    "a method of the base out of sight": ("", "super().weights()", True),
    "looked up": ("", "getattr(self, 'w')", True),
    "looked up in what it is given": ("", "getattr(x, 'w')", False),
    "one of two": ("", "x if out else self.w", True),
    "or": ("", "x or self.w", True),
    "a product": ("", "x @ self.w", True),
    "listed": ("", "[x, self.w]", True),
    "in a table": ("", "{'a': x, 'b': self.w}", True),
    "in a table of numbers": ("", "{'a': 1}", False),
    "elements": ("", "[y for y in self.parts]", True),
    "elements of what it is given": ("", "[y for y in x]", False),
    "values by name": ("", "{k: self.w[k] for k in x}", True),
    "assigned": ("y = self.w", "y * 2", True),
    "assigned a number": ("y = 3", "y", False),
    "assigned in one branch": ("y = x\nif out:\n    y = self.w", "y", True),
    "added to": ("y = self.w\ny += 1", "y", True),
    "added": ("y = x\ny += self.w", "y", True),
    "unpacked": ("y, z = self.parts", "y", True),
    "of a loop": ("for y in self.parts:\n    pass", "y", True),
    "of a context": ("with unknown() as y:\n    pass", "y", True),
    "named where it is used": ("", "(y := self.w)", True),
    "from itself": ("y = x\nfor z in x:\n    y = y + z", "y", False),
    "awaited": ("", "(yield)", True),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_may_carry_graph(case: str) -> None:
    before, expression, expected = GRAPHS[case]
    script, function = method(f"{before}\nseen({expression})".lstrip("\n"))
    call = script.within(function, ast.Expr)[-1].value
    assert isinstance(call, ast.Call)
    assert may_carry_graph(script, call.args[0], set()) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("net.weight", True),
        ("net.bias", True),
        ("nn.LSTM(2, 2).weight_hh_l0", True),
        ("nn.Sequential(net)[0].weight", True),
        ("net.in_features", False),
        ("net.weights", False),
        ("log.weight", False),
        ("unknown.weight", False),
    ],
)
def test_layer_weights(expression: str, expected: bool) -> None:
    script = load(f"{HEAD}{expression}\n")
    statement = script.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Attribute)
    assert is_layer_weight(script, statement.value) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("print(net.weight)\n", [], id="plain weights"),
        pytest.param("nn.utils.spectral_norm(net)\nprint(net.weight)\n", ["net.weight"], id="by a function of torch"),
        pytest.param(
            "from torch.nn.utils import weight_norm as wn\nwn(net)\nw = net.weight\n", ["net.weight"], id="imported"
        ),
        pytest.param(
            "from torch.nn.utils import prune\nprune.l1_unstructured(net, 'weight')\nw = x.weight\n",
            ["x.weight"],
            id="of what is not known",
        ),
        pytest.param("nn.utils.spectral_norm(net)\nprint(net.bias)\n", [], id="what is not computed"),
        pytest.param("nn.utils.spectral_norm(net)\ngetattr(net, n)\n", ["getattr(net, n)"], id="by a computed name"),
    ],
)
def test_reads_of_computed_weights(text: str, expected: list[str]) -> None:
    script = load(HEAD + text)
    assert [file.source(read) for file, read in reads_of_computed_weights(script)] == expected


def test_parametrizations_that_are_kept() -> None:
    text = "from torch.nn.utils import parametrize\nwith parametrize.cached():\n    net(x)\n"
    with pytest.raises(Incomplete, match="kept"):
        [*reads_of_computed_weights(load(HEAD + text))]
