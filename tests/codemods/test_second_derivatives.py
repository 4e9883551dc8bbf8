"""Which models lie between outputs and inputs of a gradient that is differentiated again."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.dataflow.abstract_values import Kind
from autoaccel_codemods.compile.second_derivatives import differentiated_again, is_among

MODELS = """
import torch
from torch import nn
from torch.autograd import grad

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        return self.body(x)

    def residual(self, x):
        u = self(x)
        return torch.autograd.grad(u.sum(), x, create_graph=True)[0] + u

class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return self.net(x)

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)
"""
PLAIN = MODELS.replace(", create_graph=True", "").replace("torch.autograd.grad(u.sum(), x)", "[x]")
PENALTY = "def penalty(d, real):\n    y = d(real)\n    return grad(y, real, create_graph=True)\n"
OF_OUTPUTS = "def penalty(y, x):\n    return grad(y, x, create_graph=True)\n"


def among(text: str) -> str | None:
    """The names `a`, `b` … of the models that are among them; None where they cannot be told."""
    script = load(text, None)
    nodes = differentiated_again(script)
    if nodes is None:
        return None
    names = sorted({each for each in script.find(ast.Name) if len(each.id) == 1}, key=lambda each: each.id)
    held = {
        each.id
        for each in names
        for value in script.values(each)
        if value.kind is Kind.MODULE and is_among(value, nodes)
    }
    return "".join(sorted(held))


@pytest.mark.parametrize(
    ("text", "models"),
    [
        # the method of a model: whatever is of its class, or holds one
        (MODELS + "a = Net()\nb = Other()\nc = Whole()\nloss = a.residual(x)", "ac"),
        # a critic, and what makes its pictures
        ("a = Net()\nb = Other()\nz = b(noise)\ny = a(z)\ngrad(y, z, create_graph=True)", "a"),
        ("a = Net()\nb = Other()\ny = a(b(z))\ngrad(y.sum(), z, create_graph=True)", "ab"),
        ("a = Whole()\nb = Other()\ny = a(z).mean() + 1\ngrad(outputs=y, inputs=[z], create_graph=True)", "a"),
        (f"{PENALTY}a = Net()\nb = Other()\npenalty(a, x)\nb(x)", "ad"),
        # made by the caller, by a function, by a method
        (f"{OF_OUTPUTS}a = Net()\nb = Other()\nt = torch.rand(2)\npenalty(a(t), t)", "a"),
        ("def energy(x):\n    return a(x).sum()\na = Net()\nb = Other()\ngrad(energy(t), t, create_graph=True)", "a"),
        ("a = Net()\nb = Other()\ny = b(x)\ny = a(y) if y else y\ny.sum().backward(create_graph=True)", None),
        ("x = torch.ones(3, 2)\na = Net()\nb = Other()\ny = b(x)\na(x)\ny.sum().backward(create_graph=True)", "b"),
        ("x = torch.ones(3, 2)\na = Net()\na(x).sum().backward(create_graph=False)", ""),
        # gradients without a graph of their own
        ("a = Net()\ngrad(a(z).sum(), z)", ""),
        ("a = Net()\ngrad(a(z), [z], torch.ones(2), True)", ""),
        ("a = Net()\ngrad(a(z).sum(), z, retain_graph=True, create_graph=False)", ""),
        ("a = Net()\ngrad(a(z), z, None, None, True)", "a"),
        ("a = Net()\ngrad(a(z).sum(), z, **options)", "a"),
        ("a = Net()\ngrad(a(z).sum(), z, create_graph=order > 1)", "a"),
        ("a = Net()\ngrad(a(z), z, batch, is_grads_batched=True)", "a"),
        # not seen
        ("class T:\n    def step(self, x):\n        return grad(self.y, x, create_graph=True)\na = Net()", None),
        ("import lib\na = Net()\nb = Other()\ny = lib.run(a, z) + b(z)\ngrad(y, z, create_graph=True)", "ab"),
        ("def f(run, x):\n    return grad(run(x), x, create_graph=True)\na = Net()", None),
        ("a = Net()\ngrad(*everything, create_graph=True)", None),
    ],
)
def test_models_between(text: str, models: str | None) -> None:
    assert among(text if text.startswith(MODELS) else PLAIN + text) == models
