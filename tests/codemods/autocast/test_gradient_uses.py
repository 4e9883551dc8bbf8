"""Names of which gradients surely are taken."""

from __future__ import annotations

import pytest

from autoaccel.analysis.script import load
from autoaccel_codemods.autocast.gradient_uses import is_differentiated


@pytest.mark.parametrize(
    ("use", "taken"),
    [
        ("v.backward()", True),
        ("nn.MSELoss()(v, y)", True),
        ("F.mse_loss(v, y)", True),
        ("F.mse_loss(y, v)", False),
        ("F.relu(v)", False),
        ("print(v)", False),
        ("criterion(v, y)", False),
    ],
)
def test_uses(use: str, taken: bool) -> None:
    script = load(f"import torch.nn.functional as F\nfrom torch import nn\nv = make()\n{use}\n")
    [definition] = script.module_scope.definitions["v"]
    assert is_differentiated(script, definition) is taken
