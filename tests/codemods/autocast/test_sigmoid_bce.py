"""Sigmoids that make probabilities for a binary cross-entropy."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel_codemods.autocast.sigmoid_bce import sigmoid_arguments

HEAD = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Sigmoid()
        self.fc = nn.Linear(2, 2)
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("return torch.sigmoid(self.fc(x))", ["self.fc(x)"], id="function"),
        pytest.param("return self.fc(x).sigmoid()", ["self.fc(x)"], id="method"),
        pytest.param("return self.act(self.fc(x))", ["self.fc(x)"], id="module"),
        pytest.param("y = self.act(x)\n        return y.view(-1), x", ["x"], id="named, in another shape, in a tuple"),
        pytest.param("return torch.clamp(torch.sigmoid(x), 1e-6)", ["x"], id="clamped"),
        pytest.param("return 1 - torch.sigmoid(x)", ["x"], id="complement"),
        pytest.param("return {'p': torch.sigmoid(x)}", ["x"], id="dictionary"),
        pytest.param("return torch.sigmoid(self.fc(x).float())", [], id="in float32 already"),
        pytest.param("return x * torch.sigmoid(x)", [], id="gate"),
        pytest.param("g = torch.sigmoid(x)\n        return g * self.fc(x)", [], id="named gate"),
        pytest.param("self.last = torch.sigmoid(x)\n        return x", [], id="kept"),
        pytest.param("return self.fc(torch.sigmoid(x))", [], id="activation of a layer"),
    ],
)
def test_sigmoids_of_a_model(body: str, expected: list[str]) -> None:
    script = load(f"{HEAD}    def forward(self, x):\n        {body}\n")
    forward = next(each for each in script.find(ast.FunctionDef) if each.name == "forward")
    assert [script.source(each) for each in sigmoid_arguments([(script, forward)], script)] == expected


def test_the_training_step_itself_needs_no_return() -> None:
    script = load("import torch\np = torch.sigmoid(model(x))\n")
    assert [script.source(each) for each in sigmoid_arguments([(script, script.tree.body[1])], script)] == ["model(x)"]
    assert not [*sigmoid_arguments([(script, script.tree.body[1])], load("import torch\n"))]
