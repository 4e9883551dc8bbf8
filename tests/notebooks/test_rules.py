"""What rules leave alone in notebooks, and do in scripts: others may look between cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoaccel.cli.main import cli

IMPORTS = (
    "import torch\nfrom torch import nn\nfrom torch.autograd import Variable\nfrom torch.utils.data import DataLoader"
)
DATA = (
    "from torchvision import datasets, transforms\n"
    "data = datasets.MNIST('data', transform=transforms.ToTensor())\nloader = DataLoader(data, batch_size=64)"
)
MODEL = "model = nn.Linear(784, 10).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
TRAIN = (
    "for epoch in range(3):\n    for x, y in loader:\n        x, y = x.cuda(), y.cuda()\n"
    "        x = Variable(x)\n        optimizer.zero_grad()\n"
    "        loss = nn.functional.cross_entropy(model(x.flatten(1)), y)\n"
    "        loss.backward()\n        optimizer.step()"
)
CELLS = (IMPORTS, DATA, MODEL, TRAIN)


def rewritten(folder: Path, name: str, data: str) -> tuple[str, str]:
    (folder / name).write_text(data)
    result = CliRunner().invoke(cli, ["rewrite", "--isolated", str(folder / name)])
    assert result.exit_code == 0, result.output
    return (folder / name).read_text(), result.stderr


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ("persistent_workers=", "persistent workers would not see what other cells change of the dataset"),
        ("def train_step(", "cells of a notebook may look at what the step binds"),
    ],
)
def test_left_alone(tmp_path: Path, new: str, reason: str) -> None:
    text, said = rewritten(tmp_path, "n.py", "\n\n".join(CELLS) + "\n")
    assert new in text, said
    listed = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": each} for each in CELLS]
    text, said = rewritten(tmp_path, "n.ipynb", json.dumps({"cells": listed, "metadata": {}, "nbformat": 4}))
    assert new not in text
    assert reason in said


def test_imports_stay(tmp_path: Path) -> None:
    text, said = rewritten(tmp_path, "n.py", "\n\n".join(CELLS) + "\n")
    assert "Variable" not in text, said
    listed = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": each} for each in CELLS]
    text, said = rewritten(tmp_path, "n.ipynb", json.dumps({"cells": listed, "metadata": {}, "nbformat": 4}))
    assert "Variable(" not in text
    assert "import Variable" in text
    assert "cells that are yet to be written may use it" in said
