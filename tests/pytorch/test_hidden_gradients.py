"""Code that needs gradients and that an evaluation may enter out of sight."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.hidden_gradients import needs_gradients

HEAD = """\
import torch
from torch import nn
net = nn.Linear(2, 2)
def attack(x):
    return x - torch.autograd.grad(net(x).sum(), x)[0]
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("def f(g, x):\n    return g(net(x))\n", False, id="nothing needs them elsewhere"),
        pytest.param("T = [attack]\ndef f(g, x):\n    return g(net(x))\n", True, id="callable that is handed over"),
        pytest.param("T = [lambda x: attack(x)]\ndef f(n, x):\n    return T[n](net(x))\n", True, id="lambda"),
        pytest.param("T = [attack]\ndef f(x):\n    return len(net(x))\n", False, id="calls only what is known"),
        pytest.param("T = [attack]\ndef f(x):\n    return [net(each) for each in x]\n", True, id="unknown iterable"),
        pytest.param("T = [attack]\ndef f(x):\n    return [net(each) for each in range(3)]\n", False, id="range"),
        pytest.param("def f(x):\n    return list(map(attack, [net(x)]))\n", True, id="mapped"),
        pytest.param(
            "class A:\n    def go(self, x):\n        return attack(x)\ndef f(a, x):\n    return net(a.go(x))\n",
            True,
            id="method by its name",
        ),
        pytest.param(
            "class A:\n    def go(self, x):\n        return attack(x)\ndef f(a, x):\n    return net(a.on(x))\n",
            False,
            id="method of another name",
        ),
        pytest.param(
            "class A:\n    def __getattr__(self, a):\n        return attack(a)\ndef f(a, x):\n    return net(a.x)\n",
            True,
            id="attribute made when read",
        ),
        pytest.param(
            "@register('a')\ndef g(x):\n    return attack(x)\ndef f(h, x):\n    h(net(x))\n", True, id="registered"
        ),
        pytest.param(
            "def g(x):\n    return attack(x)\ndef f(name, x):\n    return globals()[name](net(x))\n", True, id="globals"
        ),
        pytest.param(
            "def closure():\n    attack(1)\noptimizer.step(closure)\ndef f(g, x):\n    return g(net(x))\n",
            False,
            id="closure of an optimizer",
        ),
        pytest.param(
            "def main():\n    attack(1)\n    f(len, 2)\nrun(main)\ndef f(g, x):\n    return g(net(x))\n",
            False,
            id="what calls the evaluation",
        ),
        pytest.param(
            "import torchattacks\nnet = torchattacks.PGD(net)\ndef f(a, x):\n    return a(x)\n", True, id="library"
        ),
        pytest.param("import strange\ndef f(x):\n    return strange.explain(net, x)\n", True, id="model given away"),
        pytest.param("import timm\ndef f(x):\n    return timm.explain(net, x)\n", False, id="known library"),
    ],
)
def test_needs_gradients(text: str, expected: bool) -> None:
    script = load(HEAD + text)
    [function] = [each for each in script.find(ast.FunctionDef) if each.name == "f"]
    assert (needs_gradients(script, [function], function) is not None) is expected
