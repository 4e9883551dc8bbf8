"""What `host-sync` writes gives the same numbers as what was there, of the same types, wherever the sum is read."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from autoaccel.rewriting import engine, registry
from autoaccel.runtime import running_total

FIXTURES = Path(__file__).parents[2] / "fixtures" / "host-sync"
Names = dict[str, Callable[..., Any]]


@pytest.fixture(params=["at once", "kept"], autouse=True)
def _kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "kept":
        monkeypatch.setattr(running_total, "ACCUMULATING", frozenset({"cpu"}))


def outcomes(case: str, run: Callable[[Names], Iterator[object]], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the fixture gives before and after, by what is printed and by what comes back."""
    found = []
    for version in ("in", "out"):
        torch.manual_seed(0)
        results = [repr(each) for each in run(runpy.run_path(str(FIXTURES / f"{case}.{version}.py")))]
        found.append("\n".join([*results, capsys.readouterr().out]))
    return found


def test_reads(capsys: pytest.CaptureFixture[str]) -> None:
    def step(batch: torch.Tensor) -> torch.Tensor:
        return (batch * 1.1).sum()

    def run(names: Names) -> Iterator[object]:
        data = [torch.randn(5, requires_grad=True) for _ in range(6)]
        yield names["deleted"](step, data, print)
        for some in (data, []):
            yield names["followed"](step, some)
            yield [list(names["yielded"](step, some, quick)) for quick in (False, True)]
        for unknown in (2.5, True, torch.tensor([1.0, 2.0]), np.float32(3), np.arange(1, 4), Fraction(1, 2)):
            yield names["out_of"](unknown, step, data)

    before, after = outcomes("reads", run, capsys)
    assert after == before


def test_training(capsys: pytest.CaptureFixture[str]) -> None:
    def run(names: Names) -> Iterator[object]:
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = [(torch.randn(7, 4), torch.randint(0, 3, (7,))) for _ in range(220)]
        yield names["train"](model, data, optimizer, torch.device("cpu"), 1)
        yield names["evaluate"](model, data, torch.device("cpu"))

    before, after = outcomes("training", run, capsys)
    assert after == before
    assert "1 199: " in before


def test_at_module_level(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = outcomes("module_level", lambda names: iter([names["best"]]), capsys)
    assert after == before


def test_starts_that_names_share(capsys: pytest.CaptureFixture[str]) -> None:
    def step(batch: torch.Tensor) -> torch.Tensor:
        return (batch * 1.1).sum()

    def run(names: Names) -> Iterator[object]:
        data = [torch.randn(5) for _ in range(6)]
        for some in (data, []):
            yield [type(each) for each in (*names["both"](step, some), *names["Meter"]().kept(step, some))]
            yield names["both"](step, some)
            yield names["Meter"]().kept(step, some)
        yield names["one"](step, data)
        yield names["of_each_epoch"](step, data)

    before, after = outcomes("shared_start", run, capsys)
    assert after == before


TRAINING = """
import numpy as np
import torch
from torch import nn
from autoaccel import runtime as accel

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model, criterion = nn.Linear(4, 3).to(device), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=8)
for epoch in range(3):
    total, scaled = {start}, {start}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss{read}
        scaled += {item} * len(x)
    kept.append(np.log(total / len(loader)) + np.log(scaled / 64))

def evaluate():
    model.eval()
    total = {start}
    for x, y in loader:
        total += criterion(model(x.to(device)), y.to(device)){read}
    return total / len(loader)

kept.append(evaluate())
"""


def test_other_rules_find_the_same_afterwards() -> None:
    """What joins a total leaves neither graph nor precision behind: AA301 and AA501 go on, in whichever order."""
    others = [rule for rule in registry.rules() if rule.code != "AA603" and not rule.opt_in]
    found = []
    for start, read, item in [("0", ".item()", "loss.item()"), ("accel.total()", "", "accel.item(loss)")]:
        text = TRAINING.replace("{start}", start).replace("{read}", read).replace("{item}", item)
        analysis = engine.analyse(text, None, others)
        found.append([(each.rule.code, each.node.lineno) for each in analysis.findings])  # type: ignore[attr-defined]
    assert found[0] == found[1]
    assert {"AA103", "AA202", "AA301", "AA501"} <= {code for code, _ in found[0]}
