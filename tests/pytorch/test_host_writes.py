"""Whether a batch may be written to while it is copied: through other names, functions and files, and out of sight."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.analysis.files import Files
from autoaccel.dataflow.abstract_values import UNKNOWN
from autoaccel.dataflow.bounds import Bounds
from autoaccel.dataflow.completeness import Incomplete
from autoaccel.pytorch.host_memory import memory
from autoaccel.pytorch.host_writes import changed_after
from autoaccel.pytorch.loader_loops import transfers

HEAD = """\
import numpy as np
import torch
from torch.utils.data import DataLoader
device = torch.device("cuda")
loader = DataLoader([(1, 2)])
"""
LOOP = "for x, y in loader:\n"

# By case: what stands above the loop, its body with one move, and whether the host may write to `x` behind the move.
CHANGED = {
    "nothing else": ("", "a = x.to(device)", False),
    "another name for it": ("", "b = x\na = x.to(device)\nb.add_(1)", True),
    "a view": ("", "b = x.view(-1)\na = x.to(device)\nb[0] = 1", True),
    "a view by a function": ("", "b = torch.squeeze(x)\na = x.to(device)\nb.add_(1)", True),
    "a view in the shape of another": ("", "b = x.reshape_as(y)\na = x.to(device)\nb.add_(1)", True),
    "a view by another function": ("", "b = torch.unflatten(x, 1, (2, 2))\na = x.to(device)\nb.add_(1)", True),
    "a part": ("", "b = x[0]\na = x.to(device)\nb.add_(1)", True),
    "rows of it": ("", "a = x.to(device)\nfor row in x:\n    row.add_(1)", True),
    "the array of it": ("", "b = x.numpy()\na = x.to(device)\nnp.random.shuffle(b)", True),
    "a tensor of the array of it": ("", "b = torch.from_numpy(x.numpy())\na = x.to(device)\nb.add_(1)", True),
    "a copy of it": ("", "b = x.clone()\na = x.to(device)\nb.add_(1)", False),
    "a sum": ("", "b = x + 1\na = x.to(device)\nb.add_(1)", False),
    "what may be itself": ("", "b = x.contiguous()\na = x.to(device)\nb.add_(1)", True),
    "itself or a copy": ("", "b = x if t else x.clone()\na = x.to(device)\nb.add_(1)", True),
    "what was moved": ("", "a = x.to(device)\na.add_(1)", False),
    "the name, which is the copy by then": ("", "x = x.to(device)\nx.add_(1)", False),
    "the name, which is the copy wherever there is one": ("", "if t:\n    x = x.cuda()\nx.add_(1)", False),
    "the name, which is one of two copies": ("", "if t:\n    x, y = x.cuda(), y\nx[0] = 1", False),
    "another name beside a copy": ("", "b = x\nif t:\n    x = x.cuda()\nb.add_(1)", True),
    "the name, bound to it again": ("", "b = x\nif t:\n    x = x.cuda()\n    x = b\nx.add_(1)", True),
    "the name, bound to something else sometimes": (
        "",
        "b = x\nif t:\n    x = x.cuda()\nelif b:\n    x = b\nx.add_(1)",
        True,
    ),
    "the name, bound to another one of it behind the copy": (
        "",
        "b = x\nif t:\n    x = x.cuda()\nif y:\n    x = b\nx.add_(1)",
        True,
    ),
    "the name, wrapped whether it is the copy or not": (
        "",
        "if t:\n    x = x.cuda().detach()\nelse:\n    x = x.detach()\nx.add_(1)",
        False,
    ),
    "the name, added to by then": ("", "if t:\n    x = x.cuda()\nx += 1\nx.add_(1)", False),
    "in a function that is given what is the copy by then": (
        "parts = torch.nn.ModuleList([torch.nn.ReLU(True)])\ndef f(a):\n    a = parts[0](a)\n    a.add_(1)\n",
        "if t:\n    x = x.cuda()\nf(x)",
        False,
    ),
    "in a function that is given it by another name": (
        "parts = torch.nn.ModuleList([torch.nn.ReLU(True)])\ndef f(a):\n    a = parts[0](a)\n    a.add_(1)\n",
        "b = x\nif t:\n    x = x.cuda()\nf(b)",
        True,
    ),
    "above the move": ("", "x.add_(1)\na = x.to(device)", False),
    "above the move, in a loop around both": ("", "for k in range(2):\n    x.add_(1)\n    a = x.to(device)", True),
    "in one branch": ("", "a = x.to(device)\nif t:\n    x.zero_()", True),
    "in a function": ("def f(t):\n    t.add_(1)\n", "a = x.to(device)\nf(x)", True),
    "in a function by keyword": ("def f(*, t):\n    t.add_(1)\n", "a = x.to(device)\nf(t=x)", True),
    "in a function that calls another": (
        "def g(t):\n    t.add_(1)\ndef f(t):\n    g(t)\n",
        "a = x.to(device)\nf(x)",
        True,
    ),
    "in a function above the move": ("def f(t):\n    t.add_(1)\n", "f(x)\na = x.to(device)", False),
    "in a function that gets the other part": ("def f(t):\n    t.add_(1)\n", "a = x.to(device)\nf(y)", False),
    "in a function that gets the copy": ("def f(t):\n    t.add_(1)\n", "a = x.to(device)\nf(a)", False),
    "in a function that only reads": ("def f(t):\n    return t.mean()\n", "a = x.to(device)\nf(x)", False),
    "what a function gives back": ("def f(t):\n    return t\n", "a = x.to(device)\nf(x).add_(1)", True),
    "what a function makes of it": ("def f(t):\n    return t + 1\n", "a = x.to(device)\nf(x).add_(1)", False),
    "the move is in a function": ("def f(t):\n    return t.to(device)\n", "a = f(x)\nx.add_(1)", True),
    "the move is in a function that is called below": (
        "def f(t):\n    return t.to(device)\n",
        "x.add_(1)\nf(x)",
        False,
    ),
    "by an object that keeps it": (
        "class A:\n    def keep(self, t):\n        self.t = t\n    def clear(self):\n        self.t.zero_()\nk = A()\n",
        "k.keep(x)\na = x.to(device)\nk.clear()",
        True,
    ),
    "by a list that keeps it": ("kept = []\n", "kept.append(x)\na = x.to(device)\nkept[-1].zero_()", True),
    "by a list that keeps the other part": ("kept = []\n", "kept.append(y)\na = x.to(device)\nprint(kept)", False),
    "code that is not seen": ("from lib import f\n", "a = x.to(device)\nf(x)", True),
    "code that is not seen, with its array": ("import lib\n", "a = x.to(device)\nlib.f(x.numpy())", True),
    "code that is not seen, of what was moved": ("from lib import f\n", "a = x.to(device)\nf(a)", False),
    "code that is not seen, above": ("from lib import f\n", "f(x)\na = x.to(device)", False),
    "a library that only reads": ("import matplotlib.pyplot as plt\n", "a = x.to(device)\nplt.imshow(x[0])", False),
    "an operator": ("import operator\n", "a = x.to(device)\noperator.iadd(x, 1)", True),
    "an operator that makes a sum": ("import operator\n", "a = x.to(device)\noperator.add(x, 1)", False),
    "an operator for an item": ("from operator import setitem\n", "a = x.to(device)\nsetitem(x, 0, 1)", True),
    "an operator's method": ("", "a = x.to(device)\nx.__iadd__(1)", True),
    "positional `out`": ("", "b = x.numpy()\na = x.to(device)\nnp.add(b, 1, b)", True),
    "no positional `out`": ("", "b = x.numpy()\na = x.to(device)\nnp.clip(b, 0, 1)", False),
    "a layer in place": ("relu = torch.nn.ReLU(inplace=True)\n", "a = x.to(device)\nrelu(x)", True),
    "a layer in place, by position": ("", "a = x.to(device)\ntorch.nn.ReLU(True)(x)", True),
    "a layer that is not": ("relu = torch.nn.ReLU()\n", "a = x.to(device)\nrelu(x)", False),
    "a layer in place that comes first": (
        "net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU(True))\n",
        "a = x.to(device)\nnet(x)",
        True,
    ),
    "a layer in place that comes later": (
        "net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(True))\n",
        "a = x.to(device)\nnet(x)",
        False,
    ),
    "a function in place, by position": ("", "a = x.to(device)\ntorch.nn.functional.relu(x, True)", True),
    "a function that trains": ("", "a = x.to(device)\ntorch.nn.functional.dropout(x, 0.5, True)", False),
    "its buffer": ("", "m = memoryview(x.numpy())\na = x.to(device)\nm[0] = m[1]", True),
    "its elements": ("", "a = x.to(device)\nx.numpy().flat[0] = 1", True),
    "what a library makes of it": (
        "import lib\n",
        "v = lib.rearrange(x, 'a b -> b a')\na = x.to(device)\nv[0] = 1",
        True,
    ),
    "shuffled by a generator": ("rng = np.random.default_rng()\n", "a = x.to(device)\nrng.shuffle(x.numpy())", True),
    "a method that was kept": ("", "f = x.add_\na = x.to(device)\nf(1)", True),
    "a method by its name": ("", "a = x.to(device)\ngetattr(x, 'add_')(1)", True),
    "a reading method by its name": ("", "a = x.to(device)\ngetattr(x, 'mean')()", False),
    "mapped by what is not seen": ("from lib import f\n", "a = x.to(device)\nlist(map(f, [x]))", True),
    "a method of something unknown": ("from lib import thing\nt = thing()\n", "a = x.to(device)\nt.absorb(x)", True),
    "a method of something unknown, above": (
        "from lib import thing\nt = thing()\n",
        "t.see(x.mean())\na = x.to(device)",
        False,
    ),
    "an argument that is unknown": ("def fit(f):\n    pass\n", "a = x.to(device)\nhook(x)", True),
    "with `out=`": ("", "a = x.to(device)\ntorch.mul(y, 2, out=x)", True),
    "with `out=` of a view": ("", "v = x[0]\na = x.to(device)\ntorch.mul(y, 2, out=v)", True),
    "an item assigned to by a slice": ("", "a = x.to(device)\nx[:, 0] = 0", True),
    "an item that is read": ("", "a = x.to(device)\nprint(x[:, 0])", False),
    "filled by a library": ("", "a = x.to(device)\nnp.copyto(x.numpy(), 0)", True),
    "with `inplace=`": ("", "a = x.to(device)\ntorch.nn.functional.relu(x, inplace=True)", True),
    "with `inplace=` that may be so": ("", "a = x.to(device)\ntorch.nn.functional.relu(x, inplace=t)", True),
    "with `inplace=` that is not": ("", "a = x.to(device)\ntorch.nn.functional.relu(x, inplace=False)", False),
    "by a library's function that says so": ("from lib import mix_\n", "a = x.to(device)\nmix_(x)", True),
    "by a method of the class": ("", "a = x.to(device)\ntorch.Tensor.add_(x, 1)", True),
    "by a forward pass": (
        "class N(torch.nn.Module):\n    def forward(self, t):\n        return t.add_(1)\nnet = N()\n",
        "a = x.to(device)\nnet(x)",
        True,
    ),
    "by a function of several": (
        "def f(*ts):\n    for t in ts:\n        t.zero_()\n",
        "a = x.to(device)\nf(y, x)",
        True,
    ),
    "by a function of keywords": ("def f(**ts):\n    ts['x'].zero_()\n", "a = x.to(device)\nf(x=x)", True),
    "a piece": ("", "a = x.to(device)\nc, d = x.split(2)\nd.zero_()", True),
    "in a dictionary": ("", "a = x.to(device)\nb = {'k': x}\nb['k'].zero_()", True),
    "its memory": ("", "a = x.to(device)\nx.data.fill_(0)", True),
    "its gradient flag": ("", "a = x.to(device)\nx.requires_grad_()", False),
    "deleted": ("", "a = x.to(device)\ndel x", False),
    "counted": ("n = 0\n", "a = x.to(device)\nn += len(x)", False),
}


@pytest.mark.parametrize("case", CHANGED)
def test_changed_after(case: str) -> None:
    above, body, expected = CHANGED[case]
    script = load(HEAD + above + LOOP + "".join(f"    {line}\n" for line in body.split("\n")))
    [transfer] = transfers(script)
    assert (changed_after(script, transfer) is not None) is expected


KEPT = HEAD + "import store\n" + LOOP + "    store.kept.append(x)\n    a = x.to(device)\n"


@pytest.mark.parametrize(
    ("other", "bounds", "expected"),
    [
        ("kept = []\n", Bounds(), False),
        ("kept = []\ndef clear():\n    for each in kept:\n        each.zero_()\n", Bounds(), True),
        ("kept = []\n", Bounds(related_characters=0, loaded=0, loaded_elsewhere=0), True),
    ],
    ids=["that leaves it alone", "that changes it", "that is not looked at"],
)
def test_kept_by_another_file(tmp_path: Path, other: str, bounds: Bounds, expected: bool) -> None:
    paths = [tmp_path / "main.py", tmp_path / "store.py"]
    for path, text in zip(paths, (KEPT, other), strict=True):
        path.write_text(text)
    script = load(KEPT, paths[0], Project(Files(paths), bounds=bounds))
    try:
        [transfer] = transfers(script)
        changed = changed_after(script, transfer) is not None
    except Incomplete:
        changed = True
    assert changed is expected


@pytest.mark.parametrize(
    ("expression", "paths", "unknown"),
    [
        ("x", [(0,)], False),
        ("x[0]", [(0,)], False),
        ("x.view(-1)", [(0,)], False),
        ("x.float()", [(0,)], False),
        ("x.numpy()", [(0,)], False),
        ("torch.from_numpy(x.numpy())", [(0,)], False),
        ("torch.transpose(x, 0, 1)", [(0,)], False),
        ("x if t else y", [(0,), (1,)], False),
        ("[x, y]", [(0,), (1,)], False),
        ("x.clone()", [], False),
        ("x * 2", [], False),
        ("x.to(device)", [], False),
        ("x.mean()", [], False),
        ("torch.zeros(3)", [], False),
        ("3", [], False),
        ("make()", [], True),
        ("x if t else make()", [(0,)], True),
    ],
)
def test_memory(expression: str, paths: list[tuple[int, ...]], unknown: bool) -> None:
    script = load(f"{HEAD}{LOOP}    seen({expression})\n")
    [call] = [each for each in script.find(ast.Call) if script.source(each.func) == "seen"]
    found = list(memory(script, call.args[0]))
    assert sorted({each.path[:1] for each in found if each is not UNKNOWN}) == paths
    assert any(each is UNKNOWN for each in found) is unknown
