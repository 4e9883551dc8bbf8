"""Two versions that round otherwise: figures, files and states that may, and those that no rounding makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.measure.verifying.two_versions import Compare, reasons

FIGURES = """
import os
import torch
from pathlib import Path
from torch import nn

torch.manual_seed(38)
x, y = torch.randn(60, 4), torch.randn(60, 1)
model, best, seen = nn.Linear(4, 1), None, []
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(6):
    loss = nn.functional.mse_loss(model(x), y)
    seen.append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if best is None and torch.randn(()) > 0:
        best = {name: each.clone() for name, each in model.state_dict().items()}
with torch.no_grad():
    error = (model(x) - y).square().mean().item()
if best is not None:
    model.load_state_dict(best)
os.makedirs("runs", exist_ok=True)
torch.save({"model": model.state_dict(), "groups": optimizer.state_dict(), "error": error, "seen": seen}, "runs/net.pt")
with open("rows.csv", "w") as file:
    file.write(f"step,seen\\n3,{seen[3]}\\n6,{error}\\n")
print(f"error {error:.4f}")
"""
LOSS = "nn.functional.mse_loss(model(x), y)\n"
ROUNDED = "(model(x) - y).mul(3).square().sum() / 540\n"
SEEN = "    seen.append(loss.item())"
SAVED = '"runs/net.pt")'
# a type by its name, so that it does not run in float64
SINGLE = ("    optimizer.zero_grad()", "    assert loss.dtype == getattr(torch, 'float32')\n    optimizer.zero_grad()")


def files(tmp_path: Path) -> tuple[str]:
    return (str(tmp_path.resolve()),)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (".square().mean().item()", ".square().sum().item() / 60", "the same but for rounding"),
        (SAVED, 'Path("runs/net.pt"))', "bit for bit"),
        (SAVED, '"runs/net.tmp")\nos.replace("runs/net.tmp", "runs/net.pt")', "bit for bit"),
        ("lr=0.1)", "lr=0.1, foreach=False)", "bit for bit"),
        (LOSS, ROUNDED, "the same but for rounding"),
    ],
)
def test_what_is_the_same(compare: Compare, tmp_path: Path, old: str, new: str, why: str) -> None:
    report = compare(FIGURES, (old, new), protected=files(tmp_path))
    assert reasons(report) == []
    assert [each.reason for each in report.outcomes] == [why]


@pytest.mark.parametrize("beside", [[], [(LOSS, ROUNDED)]], ids=["alone", "beside a rounding"])
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("3,{seen[3]}", "3,{seen[3] * 1.001}", "rows.csv: written "),
        ('"model": model.s', '"model": optimizer.s', "runs/net.pt: `model.weight: torch.float32 of 1 x 4` is not "),
        (": model.state_dict()", ": {k: 2 * v for k, v in model.state_dict().items()}", "runs/net.pt: `model.weight"),
        (SAVED, '"runs/net.tmp")', "runs/net.pt is not written"),
        ("{error:.4f}", "{error * 1.01:.4f}", "printed 'error "),
        # of the numbers that are drawn in float64 none leads there
        ("{name: each.clone() for name, each in model.state_dict().items()}", "model.state_dict()", "parameter model."),
    ],
)
def test_what_no_rounding_does(
    compare: Compare, tmp_path: Path, beside: list[tuple[str, str]], old: str, new: str, why: str
) -> None:
    (found,) = reasons(compare(FIGURES, *beside, (old, new), protected=files(tmp_path)))
    assert found.startswith(why)


@pytest.mark.parametrize("single", [[], [SINGLE]], ids=["in float64", "in float32"])
@pytest.mark.parametrize(("times", "same"), [("", True), (" * 1.001", False)])
def test_in_one_hunk(compare: Compare, tmp_path: Path, single: list[tuple[str, str]], times: str, same: bool) -> None:
    """What rounds is judged by its files, too."""
    text = FIGURES
    for old, new in single:
        text = text.replace(old, new)
    both = (f"    loss = {LOSS}{SEEN}", f"    loss = {ROUNDED}{SEEN[:-1]}{times})")
    report = compare(text, both, protected=files(tmp_path))
    assert report.same is same, reasons(report)


def test_what_is_undone_elsewhere_is_no_difference(compare: Compare) -> None:
    text = FIGURES.replace("print(f", "percent = error\nos.getcwd()\nos.getpid()\nprint(f")
    text = text.replace("{error:", "{percent:")
    other = ("percent = error", "percent = error * 100"), ("{percent:.4f}", "{percent / 100:.4f}")
    report = compare(text, (LOSS, ROUNDED), *other)
    assert report.same, reasons(report)


def test_what_cannot_run_without_what_rounds_is_judged_with_it(compare: Compare) -> None:
    """A file tells the two hunks that they belong together, which no name does."""
    text = FIGURES.replace("print(f", "os.getcwd()\nerror = error + len(os.listdir('runs')) * 0\nprint(f")
    both = (f"    loss = {LOSS}", f"    loss = {ROUNDED}    os.makedirs('runs/logs', exist_ok=True)\n")

    def figure(times: str) -> tuple[str, str]:
        return "len(os.listdir('runs')) * 0", f"len(os.listdir('runs/logs')){times}"

    assert compare(text, both, figure("")).same
    (found,) = reasons(compare(text, both, figure(" + 0.1")))
    assert found.startswith("printed 'error ")
