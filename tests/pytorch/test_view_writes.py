"""Which writes into tensors torch refuses where these are views that were made without gradients."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis.script import load
from autoaccel.pytorch.view_writes import RegionCode, writes_into_kept

_HEAD = "import torch\nfrom torch import nn\nmodel = nn.Linear(2, 2)\nx = torch.ones(2)\n"


@pytest.mark.parametrize(
    ("region", "write", "expected"),
    [
        ("seen = kept[0]", "t[0] = model(x)", True),
        ("seen = kept[0]", "t.add_(model(x))", True),
        ("seen = kept.view(-1)", "t += model(x)", True),
        ("seen = kept.squeeze(1)", "t.mul_(0.9).add_(0.1 * model(x))", False),  # of another expression than `t`
        ("seen = kept[0]", "t.add_(x)", False),
        ("seen = kept[0]", "t += 1", False),
        ("seen = kept[0]", "t[0] = 0.0", False),
        ("seen = kept[0]", "t = t + model(x)", False),
        ("seen = model(x)", "t += model(x)", False),
        ("seen = kept[0]", "with torch.no_grad():\n    t += model(x)", False),
    ],
)
def test_is_written_later(region: str, write: str, expected: bool) -> None:
    script = load(f"{_HEAD}t = kept = torch.zeros(2, 2)\n{region}\n{write}\n")
    [statement] = [each for each in script.find(ast.Assign) if script.source(each) == region]
    code = RegionCode(script, [statement])
    names = [each for each in script.find(ast.Name) if each.id == "t" and each.lineno > statement.lineno]
    assert any(code.is_written_later(script, each) for each in names) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("class A:\n    def f(self):\n        self.queue[0] = model(x)", True),
        ("class A:\n    def f(self):\n        self.queue += model(x)", True),
        ("kept = torch.zeros(2)\ndef f():\n    kept[0] = model(x)", True),
        ("class A:\n    def f(self):\n        self.queue[0] = 1", False),
        ("def f():\n    kept = torch.zeros(2)\n    kept[0] = model(x)", False),
    ],
)
def test_writes_into_kept(code: str, expected: bool) -> None:
    assert writes_into_kept(load(f"{_HEAD}{code}\n")) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(x):\n    return model(x)", False),
        ("def f(x):\n    x.clamp_(min=0)\n    return model(x)", True),
        ("def f(x):\n    x[x < 0] = 0\n    return model(x)", True),
        ("relu = nn.ReLU(inplace=True)\ndef f(x):\n    return relu(x)", True),
        ("def f(x):\n    return model(x)\ndef g(x):\n    x.clamp_(min=0)", False),
    ],
)
def test_writes_in_place(code: str, expected: bool) -> None:
    script = load(f"{_HEAD}{code}\n")
    assert RegionCode(script, [next(script.find(ast.FunctionDef))]).writes_in_place is expected
