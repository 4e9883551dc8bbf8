"""What `missing-eval` reports; it changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.edits import Tier
from autoaccel.rewriting import engine, registry

REPORTED = (Path(__file__).parents[2] / "fixtures" / "missing-eval" / "noop_only_reported.py").read_text("utf-8")
RULES = [rule for rule in registry.rules() if rule.code == "AA502"]
BODY = "nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU())"


def reported(text: str) -> list[str]:
    findings = engine.analyse(text, None, RULES, tier=Tier.OPT_IN).findings
    return [each.message for each in findings]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        (BODY, "nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1))"),
        (BODY, "nn.ModuleList([nn.Dropout(0.1)])[0]"),
        (BODY, "Block()\n\n\nclass Block(nn.Module):\n    def __init__(self):\n        self.drop = nn.Dropout2d()"),
        ("model = Net()", "model = nn.Sequential(Net(), nn.Linear(2, 2))"),
        ("with torch.no_grad():", "for mode in [torch.inference_mode()]:\n      with torch.inference_mode():"),
        ("    model.train()\n", ""),
    ],
)
def test_reported(before: str, after: str) -> None:
    (message,) = reported(REPORTED.replace(before, after) if before else REPORTED)
    assert message.startswith("`model` runs in training mode: its ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BODY, "nn.Linear(8, 16)"),
        ("import torch\n", "import torch\nfrom models import Net\n"),  # and no class of that name, see below
        ("    correct = 0\n", "    model.eval()\n    correct = 0\n"),
        ("model.train()", "model.train(epoch < 2)"),
        ("model.train()", "model.training = False"),
        ("model.train()", "getattr(model, mode)()"),
        ("model.train()", "model.apply(lambda each: each.eval())"),
        ("with torch.no_grad():", "if True:"),
    ],
)
def test_left_alone(before: str, after: str) -> None:
    text = REPORTED.replace(before, after)
    if "models import" in after:
        text = text[: text.index("class Net")] + text[text.index("data = ") :]
    assert reported(text) == []
