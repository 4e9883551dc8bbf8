"""Binary cross-entropy of sigmoids that come close to one: low precision must train what float32 trains."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from autoaccel.rewriting import engine  # noqa: E402
from autoaccel.runtime import environment  # noqa: E402
from autoaccel.runtime.amp import autocast, autocast_controller  # noqa: E402
from autoaccel_codemods import autocast as autocast_rule  # noqa: E402

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cpu")


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64))

    def forward(self, x):
        return torch.sigmoid(self.decoder(self.encoder(x)))


model = AutoEncoder().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
images = (torch.rand(6, 64) > 0.7).float() * (253 / 255)
losses = []
for step in range(300):
    optimizer.zero_grad()
    pixels = model(images)
    loss = F.binary_cross_entropy(pixels, images, reduction="sum")
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


@pytest.fixture(autouse=True)
def nothing_was_tried_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests in this process have decided precisions, met overflows and been warned of them."""
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "off")
    monkeypatch.setattr(autocast_controller, "_controllers", {})
    monkeypatch.setattr(autocast_controller, "_overflowed", set())
    autocast._candidate.cache_clear()
    environment.warn_once.cache_clear()


def trained(text: str) -> float:
    names: dict[str, Any] = {}
    exec(compile(text, "script", "exec"), names)
    return float(names["losses"][-1])


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_low_precision_reaches_the_same_loss(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    result = engine.rewrite(SCRIPT, None, [autocast_rule.RULE])
    assert result.applied
    expected = trained(SCRIPT)
    monkeypatch.setenv("AUTOACCEL_DISABLE", "all")
    assert trained(result.after) == expected
    monkeypatch.delenv("AUTOACCEL_DISABLE")
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", dtype)
    assert trained(result.after) == pytest.approx(expected, rel=0.1)
    # with the upcast after the sigmoid it does not; float16 overflows there until the runtime gives it up
    wrong = result.after.replace("(x)).float())", "(x))).float()")
    if dtype == "fp16":
        with pytest.warns(RuntimeWarning, match="float16 overflowed in 8 steps in a row"):
            trained(wrong)
    else:
        assert trained(wrong) > 2 * expected
