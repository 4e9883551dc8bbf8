"""Whether a tensor surely has no graph, and whether somebody could tell it from another over the same memory."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.pytorch.tensor_origins import Origin, origin

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
cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
"""

EXPRESSIONS = {
    "torch.zeros(2)": Origin.NEW,
    "torch.zeros(2, requires_grad=True)": Origin.UNKNOWN,
    "torch.zeros(2, requires_grad=False)": Origin.NEW,
    "torch.zeros(2, **options)": Origin.UNKNOWN,
    "torch.add(x, x, out=weight)": Origin.UNKNOWN,
    "torch.from_numpy(array)": Origin.NEW,
    "torch.randn(2).cuda().view(2, 1)": Origin.NEW,
    "torch.randn(2).requires_grad_()": Origin.UNKNOWN,
    "torch.LongTensor([1, 2])": Origin.NEW,
    "torch.LongTensor(elsewhere)": Origin.NEW,
    "torch.cuda.ByteTensor(elsewhere)": Origin.NEW,
    "torch.FloatTensor(elsewhere)": Origin.UNKNOWN,
    "torch.FloatTensor(np.random.RandomState(0).rand(2))": Origin.NEW,
    "torch.FloatTensor(np.random.RandomState(0).rand(2) + array)": Origin.NEW,
    "torch.FloatTensor(np.random.RandomState(0).rand(2) + elsewhere)": Origin.UNKNOWN,
    "torch.FloatTensor(elsewhere.astype(float) < 1)": Origin.NEW,
    "torch.FloatTensor(elsewhere.rand(2))": Origin.UNKNOWN,
    "torch.FloatTensor(elsewhere.clone())": Origin.UNKNOWN,
    "torch.FloatTensor(2, 3).fill_(1.0)": Origin.NEW,
    "torch.FloatTensor(2, 3).fill_(weight[0])": Origin.UNKNOWN,
    "torch.Tensor(x)": Origin.SHARED,
    "torch.Tensor(x * weight)": Origin.UNKNOWN,
    "Tensor(array)": Origin.NEW,
    "Tensor(*x.shape)": Origin.NEW,
    "x": Origin.SHARED,
    "x.float()": Origin.SHARED,
    "x.long()": Origin.SHARED,
    "x.type_as(weight)": Origin.SHARED,
    "net(x).to(torch.long)": Origin.SHARED,
    "net(x).to(dtype=torch.int32)": Origin.SHARED,
    "net(x).type(torch.cuda.LongTensor)": Origin.SHARED,
    "net(x).to(torch.float64)": Origin.UNKNOWN,
    "net(x).type(Tensor)": Origin.UNKNOWN,
    "torch.as_tensor(elsewhere, dtype=torch.long)": Origin.SHARED,
    "torch.as_tensor(elsewhere, dtype=torch.half)": Origin.UNKNOWN,
    "x.add(weight)": Origin.UNKNOWN,
    "x[0]": Origin.SHARED,
    "x + 1": Origin.NEW,
    "-x": Origin.NEW,
    "x * weight": Origin.UNKNOWN,
    "x > weight": Origin.NEW,
    "weight": Origin.UNKNOWN,
    "weight.data": Origin.NEW,
    "weight.detach()": Origin.NEW,
    "weight.T": Origin.UNKNOWN,
    "weight[0]": Origin.UNKNOWN,
    "x[elsewhere]": Origin.SHARED,
    "net(x)": Origin.UNKNOWN,
    "net(x).argmax(1)": Origin.SHARED,
    "net.weight": Origin.UNKNOWN,
    "torch.cat([x, x + 1])": Origin.SHARED,
    "torch.cat([x, weight])": Origin.UNKNOWN,
    "torch.stack([torch.from_numpy(each) for each in elsewhere])": Origin.SHARED,
    "torch.stack([net(each) for each in elsewhere])": Origin.UNKNOWN,
    "torch.argmax(weight)": Origin.NEW,
    "Variable(weight)": Origin.NEW,
    "Variable(x, requires_grad=True)": Origin.UNKNOWN,
    "Variable(x, True)": Origin.UNKNOWN,
    "x if cuda else weight": Origin.UNKNOWN,
    "x if cuda else x + 1": Origin.SHARED,
    "elsewhere.sample(x)": Origin.UNKNOWN,
    "unknown": Origin.UNKNOWN,
}


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS.items())
def test_expressions(text: str, expected: Origin) -> None:
    assert last_origin(text) is expected


def last_origin(text: str) -> Origin:
    """That of the expression which the last line of a script is."""
    script = load(f"{HEAD}{text}\n")
    statement = script.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    return origin(script, statement.value)


OPTION = "p.add_argument('--n', {})\no = p.parse_args()\n"
NAMES = {
    "one of two": ("if cuda:\n    y = x\nelse:\n    y = net(x)\ny", Origin.UNKNOWN),
    "moved": ("y = x\nif cuda:\n    y = y.cuda()\ny", Origin.SHARED),
    "in a loop": ("y = x\nfor _ in range(3):\n    y = y + 1\ny", Origin.SHARED),
    "in a loop, of a model": ("y = x\nfor _ in range(3):\n    y = net(y)\ny", Origin.UNKNOWN),
    "unpacked": ("y, z = x, weight\ny", Origin.SHARED),
    "unpacked, the other": ("y, z = x, weight\nz", Origin.UNKNOWN),
    "returned": ("def f():\n    return torch.ones(2)\nf()", Origin.NEW),
    "returned as it was given": ("def f(t):\n    return t.cuda()\nf(x)", Origin.SHARED),
    "given by another call": ("def f(t):\n    return t.cuda()\nf(weight)\nf(x)", Origin.UNKNOWN),
    "returned at times": ("def f():\n    if cuda:\n        return\n    return torch.ones(2)\nf()", Origin.UNKNOWN),
    "given by a sequence": ("def f(t=x):\n    return t.cuda()\nf(*[weight])", Origin.UNKNOWN),
    "given by default": ("def f(t=x):\n    return t.cuda()\nf()", Origin.SHARED),
    "decorated": ("@cached\ndef f():\n    return torch.ones(2)\nf()", Origin.UNKNOWN),
    "yielded": ("def f():\n    yield weight\n    return x\nf()", Origin.UNKNOWN),
    "of an option": (OPTION.format("type=int") + "torch.FloatTensor(o.n).fill_(1.0)", Origin.NEW),
    "of an option of any type": (OPTION.format("type=f") + "torch.FloatTensor(o.n)", Origin.UNKNOWN),
    "of an option of any default": (OPTION.format("default=weight") + "torch.FloatTensor(o.n)", Origin.UNKNOWN),
    "of an option that is stored": (OPTION.format("type=int") + "o.n = weight\ntorch.FloatTensor(o.n)", Origin.UNKNOWN),
    "of another option": (OPTION.format("type=int") + "torch.FloatTensor(o.m)", Origin.UNKNOWN),
    "of an option of something": (OPTION.format("type=int") + "torch.FloatTensor(other.n)", Origin.UNKNOWN),
    "a part": ("def f():\n    return x, net(x)\ny, z = f()\ny", Origin.SHARED),
    "a part, the other": ("def f():\n    return x, net(x)\ny, z = f()\nz", Origin.UNKNOWN),
    "a part of a part": ("def f():\n    return x, (x, net(x))\n_, (y, z) = f()\ny", Origin.SHARED),
    "a part, handed on": ("def g():\n    return x, 1\ndef f():\n    return g()\ny, z = f()\ny", Origin.SHARED),
    "a part, at times": (
        "def f():\n    if cuda:\n        return net(x), 0\n    return x, 0\ny, z = f()\ny",
        Origin.UNKNOWN,
    ),
    "a part of something": ("def f():\n    return both\ny, z = f()\ny", Origin.UNKNOWN),
    "a part of itself": ("def f():\n    return f()\ny, z = f()\ny", Origin.SHARED),
    "a part, with a star": ("def f():\n    return *both, x\ny, z = f()\ny", Origin.UNKNOWN),
    "a part that is changed": ("def f():\n    return x, 0\ny, z = f()\ny.requires_grad_()\ny", Origin.UNKNOWN),
    "added to": ("y = torch.zeros(2)\ny += 1\ny", Origin.UNKNOWN),
    "changed itself": ("y = x\ny.requires_grad_()\ny", Origin.UNKNOWN),
    "sorted": ("y, z = x.sort(0)\ny", Origin.SHARED),
    "sorted, of a model": ("y, z = net(x).sort(0)\ny", Origin.UNKNOWN),
    "sorted, the places": ("y, z = net(x).sort(0)\nz", Origin.SHARED),
    "split": ("y, z = x.split(1)\nz", Origin.UNKNOWN),
}


@pytest.mark.parametrize(("text", "expected"), NAMES.values(), ids=NAMES)
def test_names(text: str, expected: Origin) -> None:
    assert last_origin(text) is expected


BATCHES = {
    "of tensors": ("DataLoader(TensorDataset(torch.ones(4, 2)))", Origin.SHARED),
    "of a parameter": ("DataLoader(TensorDataset(weight))", Origin.UNKNOWN),
    "of what a model computes": ("DataLoader(TensorDataset(net(torch.ones(4, 2))))", Origin.UNKNOWN),
    "of leaves": ("DataLoader(TensorDataset(torch.ones(4, 2, requires_grad=True)))", Origin.UNKNOWN),
    "collated by a model": ("DataLoader(TensorDataset(x), collate_fn=lambda s: net(torch.stack(s)))", Origin.UNKNOWN),
    "of one or the other": ("DataLoader(TensorDataset(x)) if cuda else elsewhere()", Origin.UNKNOWN),
    "of settings out of sight": ("DataLoader(**settings())", Origin.UNKNOWN),
}


@pytest.mark.parametrize(("loader", "expected"), BATCHES.values(), ids=BATCHES)
def test_batches(loader: str, expected: Origin) -> None:
    script = load(f"{HEAD}for (batch,) in {loader}:\n    print(batch)\n")
    [call] = [each for each in script.find(ast.Call) if script.source(each) == "print(batch)"]
    assert origin(script, call.args[0]) is expected


def test_the_first_batch() -> None:
    assert last_origin("batch = next(iter(DataLoader(TensorDataset(x))))\nbatch[0]") is Origin.SHARED


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("iter(DataLoader(TensorDataset(x)))", Origin.SHARED),
        ("iter(DataLoader(TensorDataset(weight)))", Origin.UNKNOWN),
        ("iter(elsewhere(x))", Origin.UNKNOWN),
        ("iter(DataLoader(TensorDataset(x))) if cuda else iter(elsewhere(x))", Origin.UNKNOWN),
        ("iter(DataLoader(TensorDataset(x))) if cuda else iter(DataLoader(TensorDataset(weight)))", Origin.UNKNOWN),
    ],
)
def test_a_batch_of_an_iterator(made: str, expected: Origin) -> None:
    assert last_origin(f"batches = {made}\n(batch,) = next(batches)\nbatch") is expected


def test_names_bound_by_other_files(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import main\nmain.x = main.net(main.x)\n")
    path = tmp_path / "main.py"
    text = f"{HEAD}def f():\n    print(x)\n"
    path.write_text(text)
    script = load(text, path, Project([path, tmp_path / "other.py"]))
    [call] = [each for each in script.find(ast.Call) if script.source(each) == "print(x)"]
    assert origin(script, call.args[0]) is Origin.UNKNOWN
