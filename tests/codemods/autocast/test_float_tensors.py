"""Which expressions surely are one tensor with decimals."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis.script import load
from autoaccel_codemods.autocast.float_tensors import content
from autoaccel_codemods.autocast.tensor_content import Content

SOURCE = """
import torch
from torch import nn
from torch.distributions import Categorical, Normal
from elsewhere import build, Unknown

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.blocks = nn.ModuleList([nn.Linear(3, 3)])
        self.kept = None

    def forward(self, x):
        out = self.fc(x)
        self.kept = out
        return out, out.max(1)[1], {"p": out.softmax(1), "i": out.argmax(1)}

net, other = Net(), Unknown()
out, tags, parts = net(torch.rand(2, 4))
found, codes = other(out)
rows = []
for i in range(3):
    rows.append(out)
mixed = out if i else tags
total = 0
for row in rows:
    total += row
QUESTION
"""


def content_of(expression: str) -> Content:
    script = load(SOURCE.replace("QUESTION", expression))
    asked = script.tree.body[-1]
    assert isinstance(asked, ast.Expr)
    return content(script, asked.value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("out", Content.FLOATING),
        ("out[:, 1] - out[:, 0]", Content.FLOATING),
        ("rows[0]", Content.FLOATING),
        ("parts['p']", Content.FLOATING),
        ("tags / 2", Content.FLOATING),
        ("net.kept.detach()", Content.FLOATING),
        ("net.kept", Content.OPTIONAL),
        ("tags", Content.WHOLE),
        ("parts['i']", Content.WHOLE),
        ("tags + 1", Content.WHOLE),
        ("out > 0", Content.WHOLE),
        ("out.shape[0]", Content.WHOLE),
        ("rows", Content.STRUCTURE),
        ("(out, tags)", Content.STRUCTURE),
        ("codes", Content.UNKNOWN),
        ("mixed", Content.UNKNOWN),
        ("total", Content.UNKNOWN),
        ("build(out)", Content.UNKNOWN),
    ],
)
def test_content(expression: str, expected: Content) -> None:
    assert content_of(expression) is expected
