"""So many batches make the step of one that is so many times as large: in float64, up to rounding."""

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
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

{precision}
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y = torch.randn({samples}, 6), torch.randint(0, 3, ({samples},))
loader = DataLoader(TensorDataset(x, y), batch_size={batch}, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = {optimizer}
{setup}
losses, rates, totals = [], [], []
for epoch in range(3):
    total = 0.0
    {header}
        features, labels = features.to(device), labels.to(device)
        {clear}
        loss = criterion(model(features), labels)
        {update}
        losses.append(loss.item())
        total += loss.item()
        rates.append(optimizer.param_groups[0]["lr"])
    totals.append(total / len(loader))
    {after}
"""
PLAIN = {
    "precision": "torch.set_default_dtype(torch.float64)",
    "optimizer": "torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)",
    "setup": "",
    "header": "for features, labels in loader:",
    "clear": "optimizer.zero_grad()",
    "update": "loss.backward()\n        optimizer.step()",
    "after": "",
}
ADAM = {"optimizer": "torch.optim.AdamW(model.parameters(), lr=0.01)"}
CLIPPED = {
    "header": "for i, (features, labels) in enumerate(loader, 1):",
    "clear": "",
    "update": "loss.backward()\n        nn.utils.clip_grad_norm_(model.parameters(), 0.05)\n        optimizer.step()\n"
    "        optimizer.zero_grad()",
}
SCHEDULED = {
    "setup": "decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)\n"
    "halves = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)",
    "update": "loss.backward()\n        optimizer.step()\n        decay.step()",
    "after": "halves.step()",
}
SCALED = {
    "setup": "scaler = torch.amp.GradScaler('cpu', init_scale=256.0, growth_interval=2)",
    "update": "scaler.scale(loss).backward()\n        scaler.unscale_(optimizer)\n"
    "        nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n"
    "        scaler.step(optimizer)\n        scaler.update()",
}


def script(batch: int, samples: int = 112, /, **changes: str) -> str:
    return SCRIPT.format(batch=batch, samples=samples, **PLAIN | changes)


def rewritten(text: str, number: int | None = 4, **given: Any) -> Result:
    options = {"select": ("AA604",), **({} if number is None else {"set": {"accumulate": number}}), **given}
    result = engine.rewrite(text, None, configure(Path(), isolated=True, overrides=options).rules)
    assert not result.errors
    return result


def run(text: str, folder: Path) -> dict[str, Any]:
    path = folder / "train.py"
    path.write_text(text)
    dtype = torch.get_default_dtype()
    try:
        return runpy.run_path(str(path))
    finally:
        torch.set_default_dtype(dtype)


@pytest.mark.parametrize(
    ("changes", "samples", "number"),
    [
        pytest.param({}, 128, 4, id="plain"),
        pytest.param({}, 112, 4, id="shorter last window"),
        pytest.param({}, 24, 4, id="no whole window"),
        pytest.param({}, 112, 2, id="pairs"),
        pytest.param({}, 112, 3, id="thirds"),
        pytest.param(ADAM, 112, 4, id="adam"),
        pytest.param(CLIPPED, 112, 4, id="clipped, and cleared at the end"),
        pytest.param(SCHEDULED, 112, 4, id="schedules"),
        pytest.param(SCALED, 112, 4, id="scaler"),
    ],
)
def test_it_is_the_larger_batch(tmp_path: Path, changes: dict[str, str], samples: int, number: int) -> None:
    """The sampler draws the same order, whatever the size of a batch; no batch norm, no dropout."""
    small = script(8, samples, **changes)
    after = run(rewritten(small, number).after, tmp_path)
    larger = run(script(8 * number, samples, **changes), tmp_path)
    steps = -(-samples // (8 * number))
    assert len(larger["losses"]) == 3 * steps and len(after["losses"]) == 3 * samples // 8
    means = []
    for epoch in range(3):
        mine = after["losses"][epoch * samples // 8 : (epoch + 1) * samples // 8]
        windows = [mine[start : start + number] for start in range(0, len(mine), number)]
        means += [sum(window) / len(window) for window in windows]
    assert means == pytest.approx(larger["losses"], rel=1e-12)
    for mine, theirs in zip(after["model"].parameters(), larger["model"].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-13)
    assert after["rates"][-1] == pytest.approx(larger["rates"][-1])
    if "scaler" in after:
        assert after["scaler"].get_scale() == larger["scaler"].get_scale() > 256
    unlike = run(small, tmp_path)
    assert unlike["losses"] != pytest.approx(after["losses"], rel=1e-6), "the script would do the same by itself"


OTHERS: tuple[dict[str, str], ...] = ({}, ADAM, CLIPPED, SCHEDULED)


@pytest.mark.parametrize("changes", OTHERS, ids=["plain", "adam", "clipped", "scheduled"])
@pytest.mark.parametrize("later", [False, True], ids=["together", "on what others wrote"])
@pytest.mark.parametrize(
    "environment",
    [
        {"AUTOACCEL_DISABLE": "all"},
        {"AUTOACCEL_DISABLE": "amp,compile,workers,fused"},
        {"AUTOACCEL_DISABLE": "compile,workers,fused", "AUTOACCEL_GRAD_SCALER": "on", "AUTOACCEL_AMP_DTYPE": "float32"},
    ],
    ids=["switched off", "float32", "scaled"],
)
@pytest.mark.usefixtures("whatever_it_gains")
def test_with_all_other_rules_it_trains_as_it_does_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], later: bool, environment: dict[str, str]
) -> None:
    """Gradient scaling, prefetching, totals, optimizers: before or after. Powers of two scale without rounding."""
    for name, value in (*environment.items(), ("AUTOACCEL_REMEMBER", "off")):
        monkeypatch.setenv(name, value)
    text = script(8, **changes | {"precision": ""})
    alone = rewritten(text).after
    if later:
        # A captured step is a function, which stays one.
        others = rewritten(text, None, select=("ALL",), ignore=("AA403",)).after
        together = rewritten(others).after
    else:
        together = rewritten(text, select=("ALL", "AA604")).after
        again = rewritten(together, select=("ALL", "AA604"))
        assert not again.changed
    for part in (
        "accel.grad_scaler(",
        "accel.prefetch(loader, device)",
        "scaler.step(optimizer)",
        "accel.compile(model",
    ):
        assert part in together
    assert "% 4 == 0 or " in together
    before, after = run(alone, tmp_path), run(together, tmp_path)
    assert after["losses"] == before["losses"]
    assert after["totals"] == before["totals"] and after["rates"] == before["rates"]
    assert all(map(torch.equal, after["model"].parameters(), before["model"].parameters()))


def test_others_know_of_the_steps_that_there_will_be() -> None:
    """`steps=` would be four times as many; and a captured step is of a single batch."""
    text = script(8, update="loss.backward()\n        optimizer.step()")
    assert "accel.compile(model, steps=3 * len(loader))" in rewritten(text, None, select=("AA401",)).after
    both = rewritten(text, select=("AA401", "AA403", "AA604"))
    assert "accel.compile(model)" in both.after
    assert "accel.step" not in both.after
    assert any(each.code == "AA403" for each in both.skipped)


def test_a_captured_step_is_left_alone() -> None:
    text = script(8, update="loss.backward()\n        optimizer.step()").replace(
        "        losses.append(loss.item())\n", ""
    )
    lifted = rewritten(text, None, select=("AA403",)).after
    assert "@accel.step" in lifted
    result = rewritten(lifted)
    assert not result.changed
    assert [each.message for each in result.skipped] == ["its backward pass does not stand in a loop over a loader"]


def test_how_many_is_four_unless_it_is_set() -> None:
    text = script(8)
    assert rewritten(text, None).after == rewritten(text, 4).after != rewritten(text, 5).after


def test_early_stopping_beside_it(tmp_path: Path) -> None:
    text = script(8, after="model.eval()\n    val_loss = criterion(model(x), y).item()\n    model.train()")
    result = rewritten(text, select=("AA604", "AA605"))
    assert "if stopper(val_loss):" in result.after and "% 4 == 0" in result.after
    assert len(run(result.after, tmp_path)["losses"]) == 3 * 14
    assert not rewritten(result.after, select=("AA604", "AA605")).changed


@pytest.mark.parametrize(
    ("loss", "taken"),
    [
        ("criterion(model(x), y)", True),
        ("criterion(model(x), y).to(torch.float64) / 2", True),
        ("2 * criterion(model(x), y) - 0.5", True),
        ("weight * model(x).abs().mean()", True),
        ("torch.mean(model(x))", True),
        ("criterion(model(x), y) if weight else model(x).mean()", True),
        ("nn.functional.kl_div(model(x), y, reduction='batchmean')", True),
        ("helper(model(x), y)[0]", False),
        ("model(x).sum()", False),
        ("torch.sum(model(x)) / len(x)", False),
        ("criterion(model(x), y) + model(x).pow(2).sum()", False),
        ("nn.functional.mse_loss(model(x), y, reduction='sum')", False),
        ("nn.functional.mse_loss(model(x), y, size_average=False)", False),
        ("nn.functional.mse_loss(model(x), y, **options)", False),
        ("nn.CrossEntropyLoss(reduction=mode)(model(x), y)", False),
        ("outside(model(x), y)", False),
        ("model(x).loss", False),
        ("sum([criterion(model(x), y)])", False),
    ],
)
def test_losses(loss: str, taken: bool) -> None:
    """A sum, and what may be one, is not divided."""
    text = f"""
import torch
from torch import nn
from elsewhere import options, mode, outside

def helper(output, y):
    return output.sum(), y

def train(loader, weight=2.0):
    criterion = nn.CrossEntropyLoss()
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = {loss}
        loss.backward()
        optimizer.step()
    return len(loader)
"""
    result = rewritten(text)
    assert result.changed == taken
    assert taken or "nothing shows that line" in result.skipped[0].message
