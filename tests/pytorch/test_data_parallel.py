"""Where models are replicated, and where it is only asked whether they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.analysis import Project, load
from autoaccel.pytorch.data_parallel import replicated, replicated_on_any_machine

HEAD = """import mmcv.parallel
import torch
import torch_geometric.nn
from torch import nn
from torch.nn import parallel
"""
FORWARD = "class Net(nn.Module):\n    def forward(self, x):\n"
DECORATED = "class Net(nn.Module):\n    @autocast\n    def forward(self, x):\n"


@pytest.mark.parametrize(
    "line",
    [
        "model = nn.DataParallel(model)",
        "model = parallel.DataParallel(model, [0, 1])",
        "model = torch.nn.parallel.data_parallel.DataParallel(model)",
        "output = parallel.data_parallel(model, x, range(2))",
        "outputs = parallel.parallel_apply(copies, xs)",
        "wrap = nn.DataParallel if several else nn.Identity",
        "class Wrapped(nn.DataParallel): pass",
        "model = torch_geometric.nn.DataParallel(model)",
        "model = mmcv.parallel.MMDataParallel(model)",
        "def unused():\n    return nn.DataParallel(model)",
    ],
)
def test_replicated(line: str) -> None:
    assert replicated([load(f"{HEAD}{line}\n")]) is not None


@pytest.mark.parametrize(
    "line",
    [
        "model = nn.parallel.DistributedDataParallel(model)",
        "model = torch.nn.parallel.distributed.DistributedDataParallel(model)",
        "model = mmcv.parallel.MMDistributedDataParallel(model)",
        "inner = model.module if isinstance(model, nn.DataParallel) else model",
        "inner = model.module if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)) else model",
        "inner = model.module if type(model) is nn.DataParallel else model",
        "def save(model: nn.Module | nn.DataParallel) -> nn.DataParallel | None: pass",
        "class DataParallel: pass\nmodel = DataParallel()",
    ],
)
def test_not_replicated(line: str) -> None:
    assert replicated([load(f"{HEAD}{line}\n")]) is None


@pytest.mark.parametrize(
    ("line", "anyhow"),
    [
        ("model = nn.DataParallel(model)", False),
        ("if several:\n    model = nn.DataParallel(model).to(device)", False),
        ("model = nn.DataParallel(model, device_ids=args.devices)", False),
        ("model = nn.DataParallel(model, device_ids=[0])", False),
        ("class Trainer:\n    def __init__(self, net):\n        self.net = nn.DataParallel(net)", False),
        (f"{FORWARD}        if self.count > 1: return parallel.data_parallel(self.net, x, range(self.count))", False),
        (f"{FORWARD}        if self.count > 1: return nn.parallel.data_parallel(self.net, x, range(2))", True),
        (f"{FORWARD}        return parallel.data_parallel(self.net, x, range(self.count))", True),
        (f"from torch.nn.parallel import data_parallel as dp\n{FORWARD}        if self.n: dp(self.net, x)", True),
        (f"{DECORATED}        if self.n: parallel.data_parallel(self.net, x)", True),
        ("def run(net, x):\n    if several: return parallel.data_parallel(net, x)", True),
        ("model = nn.DataParallel(model, [0, 1])", True),
        ("model = nn.DataParallel(model, device_ids=(0, 1))", True),
        ("for fold in folds:\n    model = nn.DataParallel(model)", True),
        ("class Net(nn.Module):\n    def __init__(self, net):\n        self.net = nn.DataParallel(net)", True),
        ("student, teacher = map(nn.DataParallel, models)", True),
        ("class Wrapped(nn.DataParallel): pass", True),
        ("model = mmcv.parallel.MMDataParallel(model)", True),
        ("output = parallel.data_parallel(model, x, range(2))", True),
    ],
)
def test_replicated_on_any_machine(line: str, anyhow: bool) -> None:
    """The runtime sees to torch's own wrapper where the number of devices is that of the machine."""
    assert (replicated_on_any_machine([load(f"{HEAD}{line}\n")]) is not None) is anyhow


def test_by_a_function_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "devices.py").write_text(
        "from torch import nn\n\n"
        "def wrapped(model):\n    return nn.DataParallel(model)\n\n"
        "def moved(model):\n    return model\n"
    )
    for name, imported, expected in (
        ("wrapped", "import devices", True),
        ("moved", "import devices", False),
        ("wrapped", "from devices import *", True),
    ):
        path = tmp_path / f"{name}.py"
        function = name if "*" in imported else f"devices.{name}"
        path.write_text(f"{imported}\n\ndef main(model):\n    return {function}(model)\n")
        project = Project([path])
        script = project.script(path)
        assert script is not None
        assert (replicated([script]) is not None) is expected
