"""What is kept of the files that a script writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.measure.observing.run_record import Written
from tests.measure.observing.scripts import Observe

SCRIPT = """
import os
from pathlib import Path
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
with open("log.csv", "w") as file:
    file.write("step,loss\\n1,0.5\\n")
with open("last.pt", "wb") as file:
    torch.save({"model": model, "groups": optimizer.state_dict()["param_groups"], "seen": [1, 0.5, 10**400]}, file)
torch.save(model.state_dict(), "new.tmp")
os.replace("new.tmp", "new.pt")
with open("picture", "wb") as file:
    file.write(bytes(range(256)))
with open("gone", "w") as file:
    file.write("x")
os.remove("gone")
os.makedirs("new/logs")
torch.save(model.state_dict(), Path("new") / "best.pt")
with open("new/logs/all.csv", "w") as file:
    file.write("1,0.5\\n")
os.rename("new", "runs")
"""


@pytest.fixture
def written(observe: Observe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Written]:
    monkeypatch.chdir(tmp_path)
    record = observe(SCRIPT, protected=(str(tmp_path.resolve()),))
    assert record.failure is None, record.failure
    return {Path(each.path).relative_to(tmp_path.resolve()).as_posix(): each for each in record.written}


def test_texts_by_their_lines(written: dict[str, Written]) -> None:
    log = written["log.csv"]
    assert log.is_text
    assert log.contents == ("step,loss", "1,0.5")
    assert log.where.endswith("train.py:10")


def test_checkpoints_by_what_they_hold(written: dict[str, Written]) -> None:
    last = written["last.pt"]
    assert last.holds[:2] == ("model.weight: torch.float32 of 1 x 2", "model.bias: torch.float32 of 1")
    assert "groups[0].lr: float" in last.holds
    assert len(last.contents) == len(last.holds)
    assert written["new.pt"].contents == last.contents[:2]


def test_others_by_their_bytes(written: dict[str, Written]) -> None:
    assert not written["picture"].is_text
    assert len(written["picture"].contents) == 1
    assert written["gone"].contents == ()
    assert written["gone"].is_gone
    assert not written["picture"].is_gone


def test_a_folder_that_is_moved(written: dict[str, Written]) -> None:
    assert written["runs/best.pt"].contents == written["new.pt"].contents
    assert written["runs/logs/all.csv"].contents == ("1,0.5",)
    assert written["new/best.pt"].is_gone


def test_what_may_be_rounded_in_a_checkpoint(written: dict[str, Written]) -> None:
    last = written["last.pt"]
    names = [each.name for each in last.numbers]
    assert names[:3] == [*last.holds[:2], "groups[0].lr: float"]
    assert last.numbers[2].norm == pytest.approx(0.1)
    assert "seen: list" in last.holds
    assert {"groups[0].params: list", "seen: list"}.isdisjoint(names)
    assert last.numbers[0].digest == last.contents[0]
