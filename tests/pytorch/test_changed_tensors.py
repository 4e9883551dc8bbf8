"""Whether a tensor that a name may hold is changed itself, so that it can be told from another over the same memory."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, Script, load
from autoaccel.dataflow.bounds import Bounds
from autoaccel.pytorch.changed_tensors import is_changed, is_changed_batch

HEAD = """\
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset
net = nn.Linear(2, 2)
weight = nn.Parameter(torch.ones(2))
x = torch.ones(2)
array = np.ones(2)
"""

METER = (
    "class Meter:\n    def __init__(self, start):\n        self.total = {start}\n"
    "    def add(self, value):\n        self.total += value\n"
)
OVER = "for (b,) in DataLoader(TensorDataset(x)):\n    "
CHANGES = {
    "a leaf": "y.requires_grad_()",
    "a leaf by its attribute": "y.requires_grad = True",
    "a leaf by another name": "z = y\nz.requires_grad_()",
    "a leaf by the name it has": "x.requires_grad_()",
    "a leaf in a function": "def learn(t):\n    t.requires_grad = True\nlearn(y)",
    "a leaf, of a wrapper": "Variable(y).requires_grad_()",
    "a leaf, of what a function hands back": "def same(t):\n    return t\nsame(y).requires_grad_()",
    "a leaf in a list": "for each in [y]:\n    each.requires_grad_()",
    "a leaf by setattr": "setattr(y, 'requires_grad', True)",
    "all that are handed over": "list(map(torch.Tensor.requires_grad_, [y]))",
    "by a method that is kept": "learn = y.requires_grad_\nlearn()",
    "its shape": "y.unsqueeze_(0)",
    "its memory": "y.data = array",
    "its memory by a method": "y.set_(torch.ones(4))",
    "written to": "y[0] = weight[0]",
    "written to, decimals": "y[0] = torch.FloatTensor(weight)",
    "written to by a method": "y.mul_(weight)",
    "written to by a method of a type": "torch.FloatTensor(y).mul_(weight)",
    "written to by an operator": "y *= weight",
    "a view that is written to": "y.view(2, 1).mul_(weight)",
    "a batch that is a leaf is written to it": OVER + "b.requires_grad_()\n    y.copy_(b)",
    "a batch of parameters is written to it": "for (b,) in DataLoader(TensorDataset(weight)):\n    y.copy_(b)",
    "a batch and a parameter are written to it": OVER + "y.addcmul_(b, weight)",
    "what is computed of a batch is written to it": OVER + "y.copy_(options.scale * b)",
    "a batch that was written to is written to it": OVER + "b.mul_(weight)\n    y.copy_(b)",
    "added to by item of the project": "class A:\n    def item(self): return weight\ny += options.a.item()",
    "compared": "print(y is z)",
    "its hook": "y.register_hook(print)",
    "added to as an attribute": METER.format(start="start") + "Meter(y).add(weight)",
    "added to as an attribute that others store": METER.format(start=0) + "m = Meter(0)\nm.total = y\nm.add(weight)",
    "added to as an attribute of any name": METER.format(start=0) + "setattr(Meter(0), options.name, y)",
    "added to as an attribute of something": "options.total += weight",
    "written to, of a copy of its own kind": (
        "class Box:\n    def copy(self):\n        return y\nz = options.box.copy()\nz[0] = weight[0]"
    ),
    "written to, of something": "z = options.box()\nz[0] = weight[0]",
}
HARMLESS = {
    "numbers": "y.fill_(1.0)",
    "numbers by an operator": "y += 1",
    "numbers by an index": "y[0] = 1.0",
    "whole numbers by an index": "y[0] = torch.LongTensor(options.numbers)",
    "whole numbers of a tensor by an index": "y[0] = x.long()",
    "to whole numbers": "torch.LongTensor(y).fill_(options.number)",
    "to sizes": "torch.FloatTensor(y.shape[0]).fill_(options.number)",
    "its repetition": "z = y.repeat(2)\nz[0] = weight[0]",
    "another": "z = torch.ones(2)\nz.requires_grad_()",
    "what is computed of it": "(y * 2).requires_grad_()",
    "what is computed of it by a name": "z = y * 2\nz.requires_grad_()",
    "its copy": "y.clone().requires_grad_()",
    "its detached memory": "y.detach().requires_grad_()",
    "parameters": "for each in net.parameters():\n    each.requires_grad = False",
    "a model": "net.requires_grad_(False)",
    "nothing": "print(y is None)",
    "a loss": "loss = 0\nloss += nn.functional.mse_loss(net(y), y)",
    "read": "print(y.requires_grad, y.data, y.shape)",
    "a batch": OVER + "y.copy_(b)",
    "a sum of numbers in something": "options.total += options.loss.item()",
    "a sum in an attribute": METER.format(start=0) + "Meter(0).add(weight)\nMeter(0).add(options.loss)",
    "an entry of something": "for group in options.groups:\n    group['rate'] = options.rate",
    "a copy of an array": "def flip(a):\n    a = a.copy()\n    a[0] = options.first\n    return a",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_itself(change: str) -> None:
    assert is_last_changed(load(f"{HEAD}y = x\n{change}\nx, y\n"))


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_not_changed_itself(change: str) -> None:
    assert not is_last_changed(load(f"{HEAD}y = x\n{change}\nx, y\n"))


def is_last_changed(script: Script) -> bool:
    """Of the names that stand on the last line."""
    definitions = [each for name in script.within(script.tree.body[-1], ast.Name) for each in script.definitions(name)]
    assert definitions
    return any(is_changed(script, each) for each in definitions)


@pytest.mark.parametrize("changed", [True, False])
def test_batches(changed: bool) -> None:
    change = "batch.requires_grad_()" if changed else "batch.mul_(2)"
    script = load(f"{HEAD}for (batch,) in DataLoader(TensorDataset(x)):\n    print(batch)\n    {change}\n")
    [call] = [each for each in script.find(ast.Call) if script.source(each) == "print(batch)"]
    [value] = script.values(call.args[0])
    assert is_changed_batch(script, value) is changed


def test_changes_in_other_files(tmp_path: Path) -> None:
    (tmp_path / "learn.py").write_text("def learn(t):\n    t.requires_grad_()\n")
    path = tmp_path / "main.py"
    text = f"{HEAD}from learn import learn\nlearn(x)\nx\n"
    path.write_text(text)
    files = [path, tmp_path / "learn.py"]
    assert is_last_changed(load(text, path, Project(files)))
    assert is_last_changed(load(text, path, Project(files, bounds=Bounds(related=0, mentioning=0))))
