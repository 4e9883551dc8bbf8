"""Values that surely carry no graph; of all others it is said that they may."""

from __future__ import annotations

import ast

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.detached_values import may_carry

HEAD = """\
import torch
import numpy as np
from torch import nn
from lib import thing
net = nn.Linear(2, 2)
a = torch.ones(2)
leaf = torch.ones(2, requires_grad=True)
"""

FREE = {
    "a number": "x = 1",
    "what was made": "x = torch.zeros(3) * a",
    "a comparison": "x = net(a) > 0",
    "counted": "x = net(a).eq(a).float().sum(0)",
    "taken out": "x = net(a).item() + float(net(a))",
    "detached": "x = net(a).detach().view(-1)[0]",
    "its data": "x = net(a).data.topk(2)[0].mean()",
    "an array": "x = np.mean(net(a).tolist())",
    "returned": "def f(t):\n    return t.argmax(1)\nx = f(net(a))",
    "returned without gradients": "@torch.no_grad()\ndef f(t):\n    return net(t)\nx = f(a)",
    "listed": "r = []\nfor k in (1, 2):\n    c = net(a).ge(k).float()\n    r.append(c.mul_(2.0))\nx = r[0]",
    "given": "def f(v):\n    global x\n    x = v * 2\nf(1.0)\nf(net(a).item())",
    "an attribute": "class M:\n    def __init__(self):\n        self.s = 0\n"
    "    def add(self, v):\n        self.s += v\n"
    "    def get(self):\n        global x\n        x = self.s / 2\nM().add(net(a).eq(1).sum())",
}
CARRYING = {
    "computed by a model": "x = net(a)",
    "a leaf": "x = leaf",
    "made to be a leaf": "b = torch.ones(2)\nb.requires_grad_()\nx = b * 2",
    "a parameter": "x = nn.Parameter(a)",
    "a weight": "x = net.weight",
    "not seen": "x = thing()",
    "a method of what is not seen": "x = thing().eq(1)",
    "returned": "def f(t):\n    return t, t.argmax(1)\nx = f(net(a))[0]",
    "returned by what is decorated": "@thing\ndef f(t):\n    return t.eq(1)\nx = f(a)",
    "listed": "r = []\nr.append(net(a))\nx = r[0]",
    "put in by another name": "r = []\nq = r\nq.append(net(a))\nx = r[0]",
    "put in elsewhere": "r = []\ndef f(q):\n    q.append(net(a))\nf(r)\nx = r[0]",
    "added in place": "x = torch.zeros(2)\nx.add_(net(a))\nx = x * 1",
    "added in place to a view": "b = torch.zeros(2)\nb.view(-1).add_(net(a))\nx = b * 1",
    "added in place by another name": "b = torch.zeros(2)\nc = b[:1]\nc.add_(net(a))\nx = b * 1",
    "written to": "b = torch.zeros(2)\nb[0] = net(a).sum()\nx = b * 1",
    "given by one of two": "def f(v):\n    global x\n    x = v * 2\nf(1.0)\nf(net(a).sum())",
    "given by whoever": "def f(v):\n    global x\n    x = v * 2\nthing(f)",
    "run by a library": "from torch.utils.checkpoint import checkpoint\nx = checkpoint(net, a)",
    "loaded": "x = torch.load('x.pt')",
    "an attribute": "class M:\n    def __init__(self):\n        self.s = 0\n"
    "    def add(self, v):\n        self.s += v\n"
    "    def get(self):\n        global x\n        x = self.s / 2\nM().add(net(a).sum())",
    "an attribute from outside": "class M:\n    def __init__(self):\n        self.s = 0\n"
    "    def get(self):\n        global x\n        x = self.s / 2\nm = M()\nm.s = net(a).sum()",
    "an attribute in place": "class M:\n    def __init__(self):\n        self.s = torch.zeros(2)\n"
    "    def get(self):\n        global x\n        x = self.s / 2\nm = M()\nm.s.add_(net(a))",
    "an attribute of computed name": "class M:\n    def __init__(self, name):\n        self.s = 0\n"
    "        setattr(self, name, net(a))\n    def get(self):\n        global x\n        x = self.s / 2",
    "a list of an attribute": "class M:\n    def __init__(self):\n        self.s = []\n    def add(self, v):\n"
    "        self.s.append(v)\n    def get(self):\n        global x\n        x = self.s[0] / 2",
}


def carries(text: str) -> bool:
    script = load(HEAD + text + "\n")
    values = [each.value for each in script.find(ast.Assign) if ast.unparse(each.targets[0]) == "x"]
    return may_carry(script, values[-1])


@pytest.mark.parametrize("case", FREE)
def test_surely_without(case: str) -> None:
    assert not carries(FREE[case])


@pytest.mark.parametrize("case", CARRYING)
def test_may_carry(case: str) -> None:
    assert carries(CARRYING[case])
