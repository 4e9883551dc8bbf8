"""Kinds of values: from constructors, annotations, call sites, returns and use; unknown wherever they disagree."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from autoaccel.analysis import Kind, Project, Script, load
from autoaccel.pytorch.loader_loops import loader_loops, transfers

HEAD = """\
import torch
import torch.nn as nn
import torch.optim as optim
import numpy as np
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("pe", torch.zeros(3))

    def forward(self, x):
        return self.fc(x)

"""


def kind_at_end(text: str) -> Kind | None:
    """The kind of the expression on the last line."""
    script = load(HEAD + text)
    last = script.tree.body[-1]
    while not isinstance(last, ast.Expr):
        last = last.body[-1]  # type: ignore[attr-defined]
    return script.kind(last.value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("Net()\n", Kind.MODULE, id="project class"),
        pytest.param("Net().to('cuda').train()\n", Kind.MODULE, id="methods that return the module"),
        pytest.param("nn.DataParallel(Net())\n", Kind.MODULE, id="wrapped"),
        pytest.param("Net().fc\n", Kind.MODULE, id="submodule"),
        pytest.param("nn.CrossEntropyLoss()\n", Kind.LOSS_FUNCTION, id="loss"),
        pytest.param("optim.SGD(Net().parameters(), lr=1)\n", Kind.OPTIMIZER, id="optimizer"),
        pytest.param("o = optim.Adam([])\noptim.lr_scheduler.StepLR(o, 1)\n", Kind.SCHEDULER, id="scheduler"),
        pytest.param("DataLoader(TensorDataset())\n", Kind.LOADER, id="loader"),
        pytest.param("torch.device('cuda')\n", Kind.DEVICE, id="device"),
        pytest.param("torch.zeros(1).device\n", Kind.DEVICE, id="device of a tensor"),
        pytest.param("torch.float32\n", Kind.DTYPE, id="dtype"),
        pytest.param("np.zeros(3) / 255.0\n", Kind.ARRAY, id="array arithmetic"),
        pytest.param("torch.zeros(2).numpy()\n", Kind.ARRAY, id="tensor to array"),
        pytest.param("np.random.beta(0.2, 0.2)\n", Kind.NUMBER, id="a number is drawn"),
        pytest.param("np.random.beta(0.2, 0.2, 5)\n", Kind.ARRAY, id="several numbers are drawn"),
        pytest.param("np.random.uniform(0, 1, size=shape)\n", Kind.ARRAY, id="several numbers are drawn by name"),
        pytest.param("np.random.normal(means, 1.0)\n", None, id="as many are drawn as there are means"),
        pytest.param("torch.zeros(2).sum().item() + 1\n", Kind.NUMBER, id="number"),
        pytest.param(
            "x = torch.zeros(2)\nfor i in range(3):\n    x = x.view(2)\nx\n", Kind.TENSOR, id="carried round a loop"
        ),
        pytest.param("m = Net()\nm = 3\nm\n", Kind.NUMBER, id="rebound: the last binding"),
        pytest.param("m = Net()\nif c:\n    m = 3\nm\n", None, id="two kinds are none"),
        pytest.param("m = None\nif c:\n    m = Net()\nm\n", Kind.MODULE, id="None as a default"),
        pytest.param(
            "m = Net()\nif c:\n    m = torch.load('f')\nm\n", Kind.MODULE, id="a checkpoint is what was there before"
        ),
        pytest.param("m = unknown()\nm\n", None, id="unknown"),
        pytest.param("l = {k: DataLoader(d) for k in 'ab'}\nl['a']\n", Kind.LOADER, id="dict of loaders"),
        pytest.param("l = {'a': Net(), 'b': 1}\nl['a']\n", Kind.MODULE, id="dict by key"),
        pytest.param(
            "def get():\n    return Net(), DataLoader([])\nm, l = get()\nl\n", Kind.LOADER, id="returned tuple"
        ),
        pytest.param("xs = []\nxs.append(Net())\nxs[0]\n", Kind.MODULE, id="appended"),
        pytest.param("xs, ys = [], []\nys.append(Net())\nys[0]\n", Kind.MODULE, id="appended to an unpacked list"),
        pytest.param("unknown().cpu().numpy()\n", Kind.ARRAY, id="numpy of the unknown"),
        pytest.param("np.zeros(3) > 1\n", Kind.ARRAY, id="compared array"),
        pytest.param("np.zeros(3) is None\n", Kind.BOOL, id="identity of an array"),
        pytest.param("np.zeros(3) > unknown()\n", None, id="compared with the unknown"),
        pytest.param("for x, y in DataLoader([]):\n    x\n", Kind.BATCH, id="batch"),
        pytest.param(
            "for x, y in DataLoader([]):\n    x = x.cuda()\n    x\n", Kind.TENSOR, id="a moved batch is a tensor"
        ),
    ],
)
def test_kinds(text: str, kind: Kind | None) -> None:
    assert kind_at_end(text) == kind


def name_kind(script: Script, name: str, line: int) -> Kind | None:
    return next(script.kind(node) for node in script.find(ast.Name) if node.id == name and node.lineno == line)


def test_recursive_definitions_end() -> None:
    script = load(
        "def f(n):\n    return f(n - 1)\ndef g(a):\n    return h(a)\ndef h(a):\n    return g(a)\nx = f(3)\ny = g(x)\n"
    )
    assert [script.kind(node) for node in script.find(ast.Call)] == [None] * 5


@pytest.fixture
def project(tmp_path: Path) -> Project:
    files = {
        "main.py": "import models\nfrom engine import train\nfrom data import *\n"
        "import torch.optim as optim\nnet = models.Net()\nopt = optim.SGD(net.parameters())\ntrain(net, loader, opt)\n",
        "models.py": HEAD,
        "data.py": "from torch.utils.data import DataLoader\nloader = DataLoader([])\n",
        "engine.py": "def train(net, batches, optimizer):\n    for x, y in batches:\n"
        "        net(x.cuda())\n        optimizer.step()\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return Project([tmp_path / name for name in files])


def test_across_files(project: Project) -> None:
    engine = project.script(project.files[3])
    assert engine is not None
    assert name_kind(engine, "net", 3) is Kind.MODULE
    assert name_kind(engine, "optimizer", 4) is Kind.OPTIMIZER
    (loop,) = loader_loops(engine)
    assert loop.known
    ((script, call),) = engine.creations(loop.loader)
    assert script.path is not None and script.path.name == "data.py" and call.lineno == 2
    assert [transfer.path for transfer in transfers(engine)] == [(0,)]


def test_text_in_memory_hides_the_disk(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text("def f(x):\n    return 1\n")
    project = Project(texts={tmp_path / "engine.py": "def f(x):\n    return 'text'\n"})
    script = load("from engine import f\nf(1)\n", tmp_path / "main.py", project)
    assert script.kind(next(script.find(ast.Call))) is Kind.STRING


def test_a_broken_neighbour_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text("def f(:\n")
    script = load("from engine import f\nf(1)\n", tmp_path / "main.py")
    assert script.kind(next(script.find(ast.Call))) is None


def test_pipes_and_large_files_beside_a_script_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "large.py").write_text("from main import f\nf(1)\n" + "#" * 500_000)
    script = load("def f(x):\n    return x\n", tmp_path / "main.py")
    function = next(script.find(ast.FunctionDef))
    assert script.callers(function).seen == ()


def test_every_file_of_a_large_project_is_understood(tmp_path: Path) -> None:
    for number in range(70):
        (tmp_path / f"model{number}.py").write_text(HEAD)
        (tmp_path / f"main{number}.py").write_text(f"from model{number} import Net\nnet = Net()\nnet\n")
    project = Project()
    kinds = set()
    for number in range(70):
        path = tmp_path / f"main{number}.py"
        script = load(path.read_text(), path, project)
        kinds.add(name_kind(script, "net", 3))
    assert kinds == {Kind.MODULE}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("total = accel.total()\ntotal += torch.ones(())\ntotal", Kind.NUMBER),
        ("for i in range(3):\n    total += torch.ones(())\ntotal / 2", Kind.NUMBER),
        ("total = accel.total()\ntotal /= 2\ntotal += torch.ones(())\ntotal", Kind.TENSOR),
        ("total -= torch.ones(())\ntotal", Kind.TENSOR),
        ("accel.item(torch.ones(())) * 3", Kind.NUMBER),
        ("total = 0\ntotal += torch.ones(())\ntotal", Kind.TENSOR),
    ],
)
def test_a_running_total_stays_a_number(text: str, kind: Kind) -> None:
    start = "from autoaccel import runtime as accel\ntotal, n = accel.total(0.0), 0\n"
    assert kind_at_end(start + text) is kind
