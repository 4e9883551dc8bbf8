"""The code that makes samples: whether it uses a device."""

from __future__ import annotations

import pytest

from autoaccel.analysis import load
from autoaccel.pytorch.loader_calls import loader_calls
from autoaccel.pytorch.sample_code import uses_device

IMPORTS = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
"""
BATCH = """class Batch:
    def __init__(self, x):
        self.x = x
    def to(self, device):
        return Batch(self.x.to(device))
"""


NET = """class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.size, self.bias = 8, torch.nn.Parameter(torch.zeros(8))
"""


@pytest.mark.parametrize(
    ("text", "expression", "device"),
    [
        ("x = torch.randn(3)", "TensorDataset(x)", False),
        ("x = torch.randn(3).cuda()", "TensorDataset(x)", True),
        ("x = torch.randn(3)\nx = x.to('cuda')", "TensorDataset(x)", True),
        ("x = torch.randn(3).to(torch.float64)", "TensorDataset(x)", False),
        ("x = torch.zeros(3, device='cpu')", "TensorDataset(x)", False),
        ("d = torch.device('cuda')\ndef make():\n    return TensorDataset(torch.zeros(3, device=d))", "make()", True),
        ("x = torch.randn(3).cuda()", "TensorDataset(x.cpu())", False),
        ("x = torch.randn(3).cuda()", "TensorDataset(x.cpu()[:2], x[:2].cpu())", False),
        ("x = torch.randn(3).cuda()", "TensorDataset(x.cpu(), x)", True),
        ("x = torch.randn(3).cuda()", "TensorDataset(x.cpu().cuda())", True),
        ("x = torch.randn(3).cuda()", "list(zip(x.tolist(), x.cpu().numpy()))", False),
        ("net = torch.nn.Linear(3, 3).cuda()", "TensorDataset(net.cpu().weight)", True),
        ("x = torch.randn(3).cuda()", "[lambda: x.cpu()]", True),
        ("x = load().cuda()", "TensorDataset(x.cpu())", True),
        # what is put in by functions that get it, or by its name
        ("def fill(to):\n    to.append(torch.ones(3).cuda())\nx = []\nfill(x)", "list(x)", True),
        ("def fill(n, *, to):\n    to[n] = torch.ones(3).cuda()\nx = {}\nfill(1, to=x)", "x", True),
        (
            "def fill(to):\n    put(to)\ndef put(rows):\n    rows.append(torch.ones(3).cuda())\nx = []\nfill(x)",
            "x",
            True,
        ),
        ("def fill():\n    x.append(torch.ones(3).cuda())\nx = []\nfill()", "x", True),
        ("def fill(to):\n    to.append(torch.ones(3).cuda().cpu())\nx = []\nfill(x)", "x", False),
        # numbers and texts of what lies on a device
        (f"{NET}net = Net().cuda()", "range(net.size)", False),
        (f"{NET}net = Net().cuda()\nsize = net.size", "range(size)", False),
        (f"{NET}net = Net().cuda()", "[net.bias]", True),
        (f"{NET}net = Net().cuda()", "[lambda: net.cuda().size]", True),
        (f"{NET}net = Net().cuda()\nnet.size = torch.ones(3).cuda()", "[net.size]", True),
        # methods count where something may call them
        (f"{BATCH}def make():\n    return Batch(torch.zeros(3))", "make()", False),
        (f"{BATCH}def make():\n    return Batch(torch.zeros(3)).to('cuda')", "make()", True),
        (f"{BATCH}def make():\n    return getattr(Batch(torch.zeros(3)), way)()", "make()", True),
        (f"import lib\n{BATCH}def make():\n    return lib.pack(Batch(1))", "make()", True),
        (f"import lib\n{BATCH.replace(':', '(lib.Movable):', 1)}def make():\n    return Batch(1)", "make()", True),
        (f"import lib\n@lib.moving\n{BATCH}def make():\n    return Batch(1)", "make()", True),
    ],
)
def test_uses_device(text: str, expression: str, device: bool) -> None:
    script = load(f"{IMPORTS}{text}\nDataLoader({expression})\n")
    (made,) = loader_calls(script)
    assert uses_device(script, made.settings["dataset"]) is device


ROWS = "class Rows(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        return torch.zeros(3)\n"


@pytest.mark.parametrize(
    "text",
    [
        "def f(b):\n    return torch.zeros(3, device=b[0].cuda().device)",
        "def f(b, o=read()):\n    return torch.zeros(3, device=o.device)",
        "def f(b):\n    return torch.zeros(3, device=options.device)",
        "def f(b):\n    return torch.zeros(3, device=read(b).device)",
        "def f(b):\n    b = b or options\n    return torch.zeros(3, device=b.device)",
        "def f(b):\n    return pad(b, o)\ndef pad(x, y):\n    return torch.ones(3, device=y.device)",
        "def pad(x):\n    return torch.ones(3, device=x.device)\ndef f(b):\n    return [*map(pad, b)]",
        "class F:\n    def __call__(self, b):\n        return torch.ones(3, device=self.device)\nf = F()",
    ],
)
def test_the_device_of_samples(text: str) -> None:
    script = load(f"{IMPORTS}from options import options, o, read\n{ROWS}{text}\nDataLoader(Rows(), collate_fn=f)\n")
    (made,) = loader_calls(script)
    assert uses_device(script, made.settings["collate_fn"])
