"""Which expressions surely are one tensor with decimals."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis.script import load
from autoaccel_codemods.autocast.float_tensors import Content, content

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


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("out", Content.FLOATING),
        ("out.detach().cpu()", Content.FLOATING),
        ("out[:, 1] - out[:, 0]", Content.FLOATING),
        ("torch.stack(rows)", Content.FLOATING),
        ("torch.cat([out, out])", Content.FLOATING),
        ("rows[0]", Content.FLOATING),
        ("parts['p']", Content.FLOATING),
        ("tags / 2", Content.FLOATING),
        ("tags.float()", Content.FLOATING),
        ("out.topk(2)[0]", Content.FLOATING),
        ("net.blocks[0](out)", Content.FLOATING),
        ("Normal(out, 1).sample()", Content.FLOATING),
        ("net.kept.detach()", Content.FLOATING),
        ("net.kept", Content.OPTIONAL),
        ("tags", Content.WHOLE),
        ("parts['i']", Content.WHOLE),
        ("tags + 1", Content.WHOLE),
        ("tags.unique().cpu()", Content.WHOLE),
        ("out > 0", Content.WHOLE),
        ("(out > 0).sum(1)", Content.WHOLE),
        ("out.sort(1)[1]", Content.WHOLE),
        ("out.topk(2).indices", Content.WHOLE),
        ("Categorical(logits=out).sample()", Content.WHOLE),
        ("out.long()", Content.WHOLE),
        ("out.shape[0]", Content.WHOLE),
        ("torch.where(out)", Content.WHOLE),
        ("rows", Content.STRUCTURE),
        ("(out, tags)", Content.STRUCTURE),
        ("out.max(1)", Content.STRUCTURE),
        ("codes", Content.UNKNOWN),
        ("torch.where(out > 0, out, 0)", Content.FLOATING),
        ("out.to(torch.int64)", Content.UNKNOWN),
        ("mixed", Content.UNKNOWN),
        ("total", Content.UNKNOWN),
        ("build(out)", Content.UNKNOWN),
        ("torch.arange(3)", Content.UNKNOWN),
    ],
)
def test_content(expression: str, expected: Content) -> None:
    script = load(SOURCE.replace("QUESTION", expression))
    asked = script.tree.body[-1]
    assert isinstance(asked, ast.Expr)
    assert content(script, asked.value) is expected
