"""Evaluation passes: found, covered, or left alone with a reason."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.evaluation_passes import evaluations, evaluations_with_backward

HEAD = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader([])
"""
OFFSET = HEAD.count("\n")


def passes(text: str) -> list[tuple[int, str]]:
    """Line (after the head) and verdict of every pass."""
    found = evaluations(load(HEAD + text))
    return [(each.node.lineno - OFFSET, "covered" if each.covered else each.problem or "open") for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "def test():\n    model.eval()\n    for x, y in loader:\n        print(model(x))\ntest()\n",
            [(1, "open")],
            id="function",
        ),
        pytest.param(
            "def test():\n    model.eval()\n    with torch.no_grad():\n"
            "        for x, y in loader:\n            print(model(x))\n",
            [(1, "covered")],
            id="covered",
        ),
        pytest.param(
            "def validate():\n    def run():\n        with torch.no_grad():\n            model(x)\n"
            "    model.eval()\n    run()\n",
            [(1, "covered")],
            id="covered in the function that it calls",
        ),
        pytest.param(
            "@torch.no_grad()\ndef test():\n    model.eval()\n    model(x)\n", [(1 + 1, "covered")], id="decorated"
        ),
        pytest.param(
            "def linear_probe():\n    model.eval()\n    for x, y in loader:\n"
            "        model(x).sum().backward()\n        optimizer.step()\n",
            [],
            id="eval mode while training",
        ),
        pytest.param(
            "def train():\n    model(x).sum().backward()\n"
            "def eval_linear():\n    model.eval()\n    for e in range(3):\n        train()\n",
            [],
            id="trains through a callee",
        ),
        pytest.param(
            "def test_loss():\n    return model(x).sum()\nloss = test_loss()\nloss.backward()\n",
            [(1, "its result may reach a backward pass")],
            id="returns a loss that is trained on",
        ),
        pytest.param(
            "for e in range(3):\n    model.train()\n    for x, y in loader:\n        model(x).sum().backward()\n"
            "    model.eval()\n    for x, y in loader:\n        print(model(x).sum().item())\n",
            [(6, "open")],
            id="the evaluating half of an epoch",
        ),
        pytest.param(
            "for e in range(3):\n    for x, y in loader:\n        model(x).sum().backward()\nprint(model(x))\n",
            [(4, "open")],
            id="trying the model out after training",
        ),
        pytest.param(
            "def predict(x):\n    return model(x)\n",
            [(1, "nothing shows that it is never part of a training step")],
            id="unknown callers",
        ),
        pytest.param(
            "def test():\n    net = nn.Linear(2, 2)\n    print(net(torch.ones(2)).size())\ntest()\n",
            [],
            id="a fresh model tried out",
        ),
        pytest.param(
            "def test():\n    net = nn.Linear(2, 2)\n    net.load_state_dict(s)\n"
            "    print(net(torch.ones(2)))\ntest()\n",
            [(1, "open")],
            id="a loaded model tried out",
        ),
        pytest.param(
            "def test_attack():\n    model.eval()\n    for x, y in loader:\n"
            "        x.requires_grad = True\n        model(x).sum()\n        x.grad\n",
            [(1, "it needs gradients itself")],
            id="adversarial examples",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def test(self, x):\n        return model(x)\n", [], id="a method of a model"
        ),
    ],
)
def test_passes(text: str, expected: list[tuple[int, str]]) -> None:
    assert passes(text) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("model.eval()\n    model(x).sum().backward()", True, id="saliency"),
        pytest.param("net.eval()\n    net(x).sum().backward()", True, id="of what may be a model"),
        pytest.param("self.kept = deepcopy(model).eval()\n    x.requires_grad_()", False, id="runs no model"),
        pytest.param("model.eval()\n    model(x).sum().backward()\n    optimizer.step()", False, id="trains"),
        pytest.param("model.eval()\n    x.requires_grad_(False)\n    model(x)", False, id="needs none"),
    ],
)
def test_evaluations_with_backward(body: str, expected: bool) -> None:
    script = load(HEAD + f"def look(self, net, x):\n    {body}\n")
    assert bool(list(evaluations_with_backward(script))) is expected
