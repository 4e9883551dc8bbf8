"""How many parameters a model has: never fewer than it makes, and None where something is out of sight."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.model_size import multiplies, parameters, parameters_of

# By case: what makes the model; its parameters at most. Those of known size are made by torch, too, and counted.
BEGINS = "import sys\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
NET = "class Net(nn.Module):\n    def __init__(self{given}):\n        super().__init__()\n{made}\n"
FORWARD = "    def forward(self, x):\n        return {result}\n"


def net(made: str, given: str = "", result: str = "x", call: str = "Net()") -> str:
    lines = "\n".join("        " + line for line in made.split("\n"))
    return NET.format(given=given, made=lines) + FORWARD.format(result=result) + f"model = {call}\n"


KNOWN = {
    "a layer": "model = nn.Linear(20, 1)",
    "a layer without bias": "model = nn.Linear(20, 3, bias=False)",
    "by keywords": "model = nn.Linear(out_features=3, in_features=7)",
    "by names": "n, m = 4, 5\nmodel = nn.Linear(n, n * m)",
    "a sequence": "model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 1), nn.Sigmoid())",
    "sequences within": "model = nn.Sequential(nn.Sequential(nn.Linear(8, 6)), nn.Linear(6, 1))",
    "an embedding": "model = nn.Embedding(100, 16)",
    "norms": "model = nn.Sequential(nn.BatchNorm1d(7), nn.LayerNorm(7))",
    "an RNN": "model = nn.RNN(7, 5)",
    "a deep LSTM": "model = nn.LSTM(input_size=7, hidden_size=5, num_layers=3)",
    "an LSTM of both directions": "model = nn.LSTM(7, 5, bidirectional=True)",
    "a deep GRU of both directions": "model = nn.GRU(30, 5, 2, bidirectional=True)",
    "cells": "model = nn.ModuleList([nn.RNNCell(3, 4), nn.GRUCell(3, 4), nn.LSTMCell(3, 4)])",
    "a class": net("self.a = nn.Linear(8, 6)\nself.b = nn.Linear(6, 1)", result="self.b(torch.tanh(self.a(x)))"),
    "a class without parameters": net("self.n = 3"),
    "given sizes": net("self.n = n\nself.a = nn.Linear(n, m)", ", n, m=4", "self.a(x)", "Net(9)"),
    "given by name": net("self.a = nn.Linear(n, m)", ", n, m=4", "self.a(x)", "Net(m=2, n=9)"),
    "parameters": net("self.w = nn.Parameter(torch.randn(3, 4))\nself.b = nn.Parameter(torch.zeros([4]))"),
    "containers in a class": net("self.a = nn.Sequential(nn.Linear(4, 5), nn.ReLU())", result="self.a(x)"),
    "classes within": "class Part(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
    "        self.a = nn.Linear(n, 3)\n" + net("self.p = Part(n)", ", n", "self.p(x)", "Net(5)"),
    "an attribute named as a product": net("self.linear = nn.Linear(4, 5)", result="self.linear(x)"),
    "initialised": net("self.a = nn.Linear(4, 5)\nnn.init.zeros_(self.a.weight)"),
}
UNKNOWN = {
    "an unknown width": "model = nn.Linear(8, int(sys.argv[1]))",
    "unpacked": "model = nn.Linear(*sizes)",
    "unpacked layers": "model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(1000)])",
    "a convolution": "model = nn.Conv2d(3, 8, 3)",
    "attention": "model = nn.MultiheadAttention(8, 2)",
    "projections": "model = nn.LSTM(7, 5, proj_size=2)",
    "of another library": "import torchvision\nmodel = torchvision.models.resnet18()",
    "a layer made in a loop": net("for i in range(9):\n    self.add_module(str(i), nn.Linear(8, 8))"),
    "many layers": net("self.a = nn.ModuleList([nn.Linear(8, 8) for _ in range(999)])"),
    "a given layer": net("self.a = body", ", body", "self.a(x)", "Net(read())"),
    "given layers": net("self.a = nn.Sequential(*bodies)", ", bodies", "self.a(x)", "Net(read())"),
    "an unknown call": net("self.a = make(8, 8)"),
    "a layer made by another method": net("self.build()").replace(
        "    def forward", "    def build(self):\n        self.a = nn.Linear(9000, 9000)\n\n    def forward"
    ),
    "unknown parameters": net("self.w = nn.Parameter(table)"),
    "given sizes that are not seen": net("self.a = nn.Linear(n, 4)", ", n", "self.a(x)", "Net(**options)"),
    "a product of activations": net("self.a = nn.Linear(4, 4)", result="self.a(x) @ x.t()"),
    "a functional convolution": net("self.a = nn.Linear(4, 4)", result="F.conv2d(self.a(x), w)"),
    "a derived class": net("self.a = nn.Linear(4, 4)").replace("nn.Module", "Base"),
    "of another base": net("self.a = nn.Linear(4, 4)").replace("nn.Module", "nn.Transformer"),
    "replaced from outside": net("self.a = nn.Linear(4, 4)") + "model.a = nn.Linear(9000, 9000)",
    "a container that grows": "model = nn.Sequential()\nmodel.add_module('0', nn.Linear(9000, 9000))",
    "a list that grows": "model = nn.ModuleList([nn.Linear(8, 8)])\nmodel.append(nn.Linear(9000, 9000))",
    "within itself": net("self.a = Net()"),
}


def size(text: str) -> int | None:
    script = load(BEGINS + text)
    made = next(each for each in script.find(ast.Assign) if script.source(each.targets[0]) == "model")
    return parameters_of(script.values(made.value))


@pytest.mark.parametrize("text", KNOWN.values(), ids=KNOWN.keys())
def test_known(text: str) -> None:
    made: dict[str, object] = {}
    exec(BEGINS + text, made)  # torch itself says how many there are
    count = sum(each.numel() for each in made["model"].parameters())  # type: ignore[attr-defined]
    found = size(text)
    assert found is not None
    assert count <= found <= 2 * count


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_unknown(text: str) -> None:
    assert size(text) is None


def test_the_largest_of_several() -> None:
    text = "if sys.argv:\n    net = nn.Linear(2, 2)\nelse:\n    net = nn.Linear(20, 2)\nmodel = net\n"
    assert size(text) == 42
    assert size(text.replace("20", "int(input())")) is None


def test_what_is_no_model_has_no_size() -> None:
    script = load("import torch\nx = torch.zeros(3)\n")
    assert not any(map(parameters, script.values(script.tree.body[1].value)))  # type: ignore[attr-defined]
    assert parameters_of(()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a @ b", True),
        ("torch.bmm(a, b)", True),
        ("a.matmul(b)", True),
        ("F.linear(a, b)", True),
        ("torch.tanh(a) * b", False),
        ("nn.Linear(3, 3)", False),
    ],
)
def test_products(text: str, expected: bool) -> None:
    script = load(BEGINS + text)
    assert multiplies([(script, script.tree)]) is expected
