"""Cells of a rewritten notebook run as those of the original do: from the top, again, and in any order."""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import random
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from autoaccel import notebooks
from autoaccel.cli.main import cli
from autoaccel.notebooks.cells import split

CELLS = (
    "%matplotlib inline\nimport torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset",
    (
        "torch.manual_seed(0)\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "x = torch.randn(96, 6)\ny = (x.sum(dim=1) > 0).long()"
    ),
    "loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)",
    "model = nn.Sequential(nn.Linear(6, 256), nn.ReLU(), nn.Linear(256, 2))\nmodel.to(device);",
    "criterion = nn.CrossEntropyLoss()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
    "total = 0.0",
    (
        "%%time\nfor epoch in range(2):\n    for xb, yb in loader:\n        xb, yb = xb.to(device), yb.to(device)\n"
        "        optimizer.zero_grad()\n        loss = criterion(model(xb), yb)\n        loss.backward()\n"
        "        optimizer.step()\n        total += loss.item()\n    print(epoch, total, loss.item())"
    ),
    (
        "model.eval()\ncorrect = 0\nfor xb, yb in loader:\n    found = model(xb.to(device)).argmax(dim=1)\n"
        "    correct += (found == yb.to(device)).sum().item()\nprint(correct, total)\nmodel.train();"
    ),
    "noise = torch.zeros(3).to(device) + len(loader)\nprint(noise, xb.shape, loss.item())",
)


def run(path: Path, order: list[int]) -> list[tuple[str, str]]:
    """What each cell prints, and the exception that ends it."""
    programs = [code for _, code in split(notebooks.read(path).text)[1:]]
    module = ModuleType("__main__")
    vars(module)["get_ipython"] = lambda *_: None
    said = []
    for turn, index in enumerate(order):
        name = f"<{path.name} {turn}>"
        linecache.cache[name] = (len(programs[index]), None, programs[index].splitlines(keepends=True), name)
        error = ""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                exec(compile(programs[index], name, "exec"), vars(module))
            except Exception as raised:
                error = repr(raised)
        said.append((out.getvalue(), error))
    return said


@pytest.mark.parametrize("seed", range(3))
def test_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("AUTOACCEL_DISABLE", "amp,compile,workers")
    listed = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": code} for code in CELLS]
    path, fast = tmp_path / "n.ipynb", tmp_path / "fast.ipynb"
    path.write_text(json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    result = CliRunner().invoke(cli, ["rewrite", "--isolated", "-o", str(fast), str(path)])
    assert result.exit_code == 0
    for word in ("accel.total(", "accel.prefetch(", "scaler.step(", "accel.compile(", "torch.no_grad()"):
        assert word in fast.read_text(), result.stderr

    first, again = list(range(len(CELLS))), list(range(len(CELLS)))
    random.Random(seed).shuffle(again)
    order = [*first, *(again if seed else first), 6, 6, 8, 4, 6]
    assert run(fast, order) == run(path, order)
