"""What `jit` takes out of a script, and that the script trains as it did."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from autoaccel.edits import Tier
from autoaccel.rewriting import engine, registry

EXAMPLE = (Path(__file__).parents[2] / "fixtures" / "jit" / "example.in.py").read_text("utf-8")
MADE = "model = torch.jit.script(Net().to(device))\n"
RULES = [rule for rule in registry.rules() if rule.code == "AA402"]


def found(before: str, after: str) -> tuple[list[str], list[str]]:
    text = EXAMPLE.replace(before, after) if before else EXAMPLE
    assert not before or text != EXAMPLE
    analysis = engine.analyse(text, None, RULES, tier=Tier.NUMERICS)
    return [each.message for each in analysis.findings], [each.reason for each in analysis.skipped]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        (MADE, f"{MADE}mirror = model\n"),  # one object under two names, before as after
        (MADE, f"{MADE}model.train()\n"),
        (MADE, f"{MADE}copied = torch.save(model.state_dict(), 'start.pt')\n"),
        (MADE, "net = 1\nmodel = torch.jit.script(nn.Sequential(nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 2)))\n"),
    ],
)
def test_taken_out(before: str, after: str) -> None:
    assert found(before, after) == (["`model` is compiled by TorchScript"], [])


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (MADE, f"{MADE}print(type(model))\n", "`type` may see that it is scripted"),
        (MADE, f"{MADE}print(model.code)\n", "`code` is asked of a scripted model"),
        (MADE, f"{MADE}text = '%s' % model.original_name\n", "`original_name` is asked of a scripted model"),
        (MADE, f"{MADE}frozen = torch.jit.freeze(model)\n", "the project uses more of TorchScript than this"),
        (MADE, f"{MADE}from torch.jit import script, save\n", "the project uses more of TorchScript than this"),
        (MADE, f"{MADE}same = isinstance(model, torch.jit.ScriptModule)\n", "the project uses more"),
        (MADE, f"for _ in range(2):\n    {MADE}", "a condition decides whether it is scripted"),
        (MADE, f"model = other = {MADE.partition('= ')[2]}", "what is scripted is not visible here"),
        (
            MADE,
            "class Held:\n    net = Net()\n\n\nmodel = torch.jit.script(Held.net)\n",
            "another name beside this one",
        ),
        (MADE, f"torch.autograd.set_detect_anomaly(True)\n{MADE}", "anomaly detection"),
    ],
)
def test_left_alone(before: str, after: str, reason: str) -> None:
    findings, skipped = found(before, after)
    assert not findings
    assert len(skipped) == 1 and reason in skipped[0]


def test_trains_the_same(tmp_path: Path) -> None:
    weights = []
    for name, text in (("before", EXAMPLE), ("after", engine.rewrite(EXAMPLE, None, RULES).after)):
        path = tmp_path / f"{name}.py"
        path.write_text("import torch\ntorch.manual_seed(0)\n" + text, "utf-8")
        scope = runpy.run_path(str(path))
        assert isinstance(scope["model"], torch.jit.ScriptModule) is (name == "before")
        weights.append(scope["model"].state_dict())
    torch.testing.assert_close(weights[1], weights[0])
