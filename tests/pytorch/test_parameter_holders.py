"""Which objects have parameters, or may have some."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import Script, load
from autoaccel.pytorch.parameter_holders import has_parameters


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("nn.Linear(2, 2)", True),
        ("nn.ReLU()", False),
        ("nn.Parameter(rows)", True),
        ("torch.optim.SGD(ps, lr=1)", True),
        ("nn.Sequential(nn.Flatten(), nn.ReLU())", False),
        ("nn.Sequential(nn.Flatten(), nn.Linear(2, 2))", True),
        ("nn.Sequential(*parts)", True),
        ("nn.Sequential()", True),
        ("Plain()", False),
        ("Deep()", True),
        ("Holds(make())", True),
        ("Derived()", True),
        ("rows", False),
        ("3", False),
    ],
)
def test_has_parameters(expression: str, expected: bool) -> None:
    head = """\
import torch
from torch import nn
rows = torch.ones(4)
from lib import Strange
class Plain(nn.Module):
    def forward(self, x):
        return x
class Deep(nn.Module):
    def __init__(self):
        self.parts = [nn.Linear(2, 2)]
class Holds(nn.Module):
    def __init__(self, part):
        self.part = part
    def forward(self, x):
        return self.part(x)
class Derived(Strange, nn.Module):
    pass
"""
    script = load(f"{head}seen({expression})\n")
    assert any(has_parameters(value) for value in script.values(seen(script))) is expected


def seen(script: Script) -> ast.expr:
    return next(each.args[0] for each in script.find(ast.Call) if script.source(each.func) == "seen")
