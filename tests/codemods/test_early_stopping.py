"""A rewritten script trains as it did up to the epoch in which it stops, and ends with the weights of the best one."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from autoaccel.config import configure
from autoaccel.rewriting import engine
from autoaccel.rewriting.engine import Result

SCRIPT = """
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(80, 20), torch.randint(0, 2, (80,))
train_loader = DataLoader(TensorDataset(x[:40], y[:40]), batch_size=10, shuffle=True)
val_loader = DataLoader(TensorDataset(x[40:], y[40:]), batch_size=10)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
states, figures = [], []
{before}
for epoch in range(30):
    model.train()
    for features, labels in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
    model.eval()
    val_loss, val_correct = 0.0, 0
    with torch.no_grad():
        for features, labels in val_loader:
            output = model(features)
            val_loss += nn.functional.cross_entropy(output, labels).item()
            val_correct += (output.argmax(1) == labels).sum().item()
    {figure}
    figures.append({name})
    states.append(copy.deepcopy(model.state_dict()))
"""
LOSS = {"before": "", "figure": "val_loss /= len(val_loader)", "name": "val_loss"}


def rewritten(text: str, **given: Any) -> Result:
    rules = configure(Path(), isolated=True, overrides={"select": ("AA605",), **given}).rules
    result = engine.rewrite(text, None, rules)
    assert not result.errors
    return result


def run(text: str, folder: Path) -> dict[str, Any]:
    path = folder / "train.py"
    path.write_text(text)
    return runpy.run_path(str(path))


@pytest.mark.parametrize(
    ("script", "given", "best"),
    [
        pytest.param(LOSS, {}, min, id="loss"),
        pytest.param(LOSS, {"set": {"patience": "3"}}, min, id="other patience"),
        pytest.param(LOSS | {"figure": "val_accuracy = val_correct / 40", "name": "val_accuracy"},
                     {"set": {"direction": "max"}}, max, id="accuracy, where that is asked for"),
        pytest.param(LOSS | {"before": "from tqdm import tqdm"}, {"set": {"patience": 40}}, min, id="never"),
    ],
)  # fmt: skip
def test_trains_up_to_there(tmp_path: Path, script: dict[str, str], given: dict[str, Any], best: Any) -> None:
    text = SCRIPT.format(**script)
    result = rewritten(text, **given)
    assert result.changed
    before, after = run(text, tmp_path), run(result.after, tmp_path)
    figures, patience = before["figures"], int(given.get("set", {}).get("patience", 5))
    epochs = len(after["figures"])
    assert figures[:epochs] == after["figures"]
    index = after["figures"].index(best(after["figures"]))
    waits = [i - max(j for j in range(i + 1) if figures[j] == best(figures[: j + 1])) for i in range(30)]
    first = [figures.index(best(figures[: i + 1])) for i in range(30)]
    expected = next((i + 1 for i in range(30) if i - first[i] >= patience), 30)
    assert (epochs < 30) == (patience < 30) and epochs == expected, waits
    state = after["model"].state_dict()
    assert all(torch.equal(state[key], value) for key, value in before["states"][index].items())
    assert index < epochs - 1


def test_switched_off_it_is_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SCRIPT.format(**LOSS)
    monkeypatch.setenv("AUTOACCEL_DISABLE", "all")
    before, after = run(text, tmp_path), run(rewritten(text).after, tmp_path)
    assert after["figures"] == before["figures"]
    state = after["model"].state_dict()
    assert all(torch.equal(state[key], value) for key, value in before["model"].state_dict().items())


@pytest.mark.parametrize(
    ("name", "direction", "said"),
    [
        ("val_loss", "max", "not to be maximal: `val_loss`"),
        ("val_acc", "min", "not to be minimal: `val_acc`"),
        ("val_score", None, "nothing says whether small or large is better of `val_score`"),
        ("val_score", "max", None),
        ("valAcc", None, None),
        ("dev_f1", None, None),
        ("val_map", "max", None),
    ],
)
def test_direction(name: str, direction: str | None, said: str | None) -> None:
    text = f"""
import torch
from torch import nn

x = torch.randn(8, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    {name} = model(x).sum().item()
    print({name})
"""
    result = rewritten(text, **({} if direction is None else {"set": {"direction": direction}}))
    if said is None:
        larger = "" if direction is None and "loss" in name else ', direction="max"'
        assert f"accel.early_stopping(model, patience=5{larger})" in result.after
        assert f"if stopper({name}):" in result.after
    else:
        assert not result.changed
        assert any(said in each.message for each in result.skipped)
