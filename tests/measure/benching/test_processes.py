"""One benchmark in earnest, of a script that takes no time: everything that is played elsewhere, through processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autoaccel.measure import fork_server, launching
from autoaccel.measure.benching.contenders import Observed, Processes
from autoaccel.measure.observing import turns
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import FAILED

REPOSITORY = Path(__file__).resolve().parents[3]

TRAIN = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1000)
parser.add_argument("--fail-at", type=int)
arguments = parser.parse_args()
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=8, shuffle=True)
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(arguments.epochs):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        if arguments.fail_at is not None and epoch == arguments.fail_at:
            raise RuntimeError("no luck")
        loss.backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    (folder / "train.py").write_text(TRAIN)
    return folder


@pytest.fixture(scope="module")
def report(folder: Path) -> Any:
    """What `autoaccel bench` says of it."""
    paths = os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "codemods")))
    command = [sys.executable, "-m", "autoaccel", "bench", "train.py", "--time", "0.1", "--steps", "60", "--json", "-"]
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_all_contenders_make_the_same_steps(report: Any) -> None:
    columns = report["columns"]
    assert [each["name"] for each in columns] == ["original", "again", "rewritten"]
    assert [each["total_steps"] for each in columns] == [60, 60, 60]
    assert [step for step, _ in columns[0]["losses"]] == list(range(1, 61))
    assert columns[0]["losses"] == columns[1]["losses"]


@pytest.mark.slow
def test_figures_are_there(report: Any) -> None:
    for each in report["columns"]:
        assert each["steps"] == len(each["step_times"]) > 0
        assert min(each["step_times"]) > 0
        assert 0 < each["first_step_seconds"] < each["total_seconds"]
        assert 0 < each["loader_share"] < 1
        assert each["samples_per_second"]["median"] > 0
        assert each["host_memory"] > 10**7
    assert report["columns"][2]["changes"] > 0
    assert {each["topic"] for each in report["columns"][2]["decisions"]} >= {"prefetch TensorDataset[64]"}
    assert report["machine"]["torch"]


@pytest.mark.slow
def test_nothing_is_left(report: Any, folder: Path) -> None:
    assert [each.name for each in folder.iterdir()] == ["train.py"]


@pytest.fixture
def contender(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Observed:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    request = Request("train.py", ("--fail-at", "1"), root=str(folder))
    start = partial(launching.Started, python=sys.executable, environment={}, folder=folder)
    return Observed("original", request, start, timeout=60)


def test_turns(contender: Observed) -> None:
    """It stands still between turns, goes on where it was, and tells how it failed."""
    with contender:
        first = contender.start()
        assert (first.state, len(first.times)) == (turns.WAITING, 1)
        assert contender._run is not None and contender._run._process is not None
        assert state(contender._run._process.pid) == "T"
        second = contender.run(3)
        assert [step for step, _ in second.losses] == [2, 3, 4]
        assert second.samples == 24
        last = contender.run(100)
        assert (last.state, len(last.times)) == (FAILED, 4)
        assert last.failure is not None
        assert (last.failure.kind, last.failure.message) == ("RuntimeError", "no luck")
        record = contender.end()
        assert record is not None
        assert record.steps == 8


@pytest.mark.skipif(not fork_server._POSSIBLE, reason="processes are not forked here")
def test_a_fork_is_as_old_as_its_server(folder: Path) -> None:
    asked = Request("train.py", root=str(folder))
    with Processes(sys.executable, folder, 60).contender("original", asked) as contender:
        first = contender.start()
        (server,) = fork_server._servers.values()
        assert contender._run is not None and contender._run.is_forked
        assert server.ready is not None and first.seconds > server.ready
        assert len(contender.run(3).times) == 3
    fork_server.close()


def test_one_that_is_killed(contender: Observed) -> None:
    with contender:
        contender.start()
        assert contender._run is not None and contender._run._process is not None
        os.kill(contender._run._process.pid, signal.SIGKILL)
        lost = contender.run(5)
        assert lost.failure is not None
        assert lost.failure.kind == "signal"


def state(process: int) -> str:
    """As the kernel says it, once it has come to it."""
    for _ in range(100):
        found = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        if found == "T":
            break
        time.sleep(0.02)
    return found
