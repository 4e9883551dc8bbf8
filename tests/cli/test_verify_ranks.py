"""`verify --ranks` with scripts that really run: processes are forked, and meet over gloo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from autoaccel.cli.main import cli
from autoaccel.measure import launching
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from tests.measure.forking import Forking, ForkingRanks

pytestmark = pytest.mark.slow

Run = Callable[..., Result]

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

print("it begins")
{seed}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y = torch.randn(27, 6), torch.randint(0, 3, (27,))
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {{epoch}}: {{loss.item()}}")
{end}
"""
SEED, SAVE = "torch.manual_seed(0)", 'torch.save(model.state_dict(), "net.pt")'
SAME = "train.py trains the same by 1 and 2 processes, with 3 changes.\n"


@pytest.fixture
def run(
    forking: Forking, forking_ranks: ForkingRanks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """`run(text)` verifies a text by two processes."""

    def observe(request: Request, *, environment: Mapping[str, str], folder: Path, **_: Any) -> RunRecord:
        return forking.run(request, environment, folder)

    def observe_ranks(
        request: Request, count: int, *, environment: Mapping[str, str], folder: Path, **_: Any
    ) -> tuple[RunRecord, ...]:
        return forking_ranks.run(request, environment, folder, count)

    def verify(text: str, *options: str) -> Result:
        (tmp_path / "train.py").write_text(text, encoding="utf-8")
        return CliRunner().invoke(cli, ["verify", "--ranks", "2", *options, "train.py"])

    monkeypatch.undo()  # the sample rules
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launching, "observe", observe)
    monkeypatch.setattr(launching, "observe_ranks", observe_ranks)
    return verify


def test_the_same(run: Run, tmp_path: Path) -> None:
    result = run(SCRIPT.format(seed=SEED, end=SAVE))
    assert result.exit_code == 0, result.output
    assert SAME in result.stdout
    assert "AA801 distribute  3 changes  equivalent  same  by one process bit for bit, by 2 within " in result.stdout
    assert "Note: the first 1 line of what is printed come from every process, before they join.\n" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_without_a_seed(run: Run) -> None:
    """Each process has random numbers of its own until they join."""
    result = run(SCRIPT.format(seed="", end=SAVE))
    assert (result.exit_code, SAME in result.stdout) == (0, True), result.output


def test_in_single_precision_where_the_script_fails_of_double(run: Run) -> None:
    result = run(SCRIPT.format(seed=SEED, end=SAVE + "\nassert loss.dtype == torch.float32"))
    assert (result.exit_code, SAME in result.stdout) == (0, True), result.output
    assert "it does not run in float64 (AssertionError: " in result.stdout


def test_a_script_that_wants_a_device(run: Run) -> None:
    chosen = 'device("cuda" if torch.cuda.is_available() else "cpu")'
    result = run(SCRIPT.format(seed=SEED, end=SAVE).replace(chosen, 'device("cuda")'))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: train.py:")
    assert result.stderr.endswith(" (ranks are compared on the CPU)\n")


DISTRIBUTED = (
    SCRIPT.replace("import torch\n", "import torch\nfrom autoaccel import runtime as accel\n", 1)
    .replace('device("cuda" if torch.cuda.is_available() else "cpu")', 'device("cpu")')
    .replace("optimizer = ", "accel.device(device)\naccel.distribute(model)\noptimizer = ")
)


def test_what_is_distributed_already(run: Run) -> None:
    result = run(DISTRIBUTED.format(seed=SEED, end="accel." + SAVE.removeprefix("torch.")))
    assert (result.exit_code, SAME in result.stdout) == (0, True), result.output


def test_parameters_that_are_spread(run: Run) -> None:
    result = run(SCRIPT.format(seed=SEED, end=SAVE), "--shard")
    assert (result.exit_code, SAME in result.stdout) == (0, True), result.output
    assert "AA804 distribute-sharded  3 changes  equivalent  same  by one process bit for bit, by 2 " in result.stdout


def test_what_one_process_has_of_parameters_that_are_spread_is_not_all(run: Run) -> None:
    text = DISTRIBUTED.replace("accel.distribute(model)", "accel.distribute(model, shard=True)")
    of_a_part = "p.to_local() if hasattr(p, 'to_local') else p for p in model.parameters()"
    text = text.replace(
        "        optimizer.zero_grad",
        f"        loss += sum(p.pow(2).sum() for p in ({of_a_part}))\n{' ' * 8}optimizer.zero_grad",
    )
    result = run(text.format(seed=SEED, end=""), "--shard")
    assert result.exit_code == 1, result.output
    assert "by 2 processes" in result.stdout


def test_a_file_of_each_process_is_told_with_its_line(run: Run) -> None:
    result = run(DISTRIBUTED.format(seed=SEED, end=SAVE))
    assert result.exit_code == 1, result.output
    assert "train.py:24: net.pt is written by ranks 0 and 1, by 2 processes\n" in result.stdout
    assert "train.py does not train the same by 1 and 2 processes, and no change is to blame.\n" in result.stdout


def test_a_process_that_does_something_else_is_told(run: Run) -> None:
    """What hangs on the process is the script's own, so no change is to blame."""
    other = "import os\nif os.environ.get('RANK') == '1': optimizer.param_groups[0]['lr'] = 1.0\nfor epoch"
    result = run(DISTRIBUTED.replace("for epoch", other, 1).format(seed=SEED, end=""))
    assert result.exit_code == 1, result.output
    assert "optimizer group 1's lr: 1.0 instead of 0.01 on rank 1, by 2 processes" in result.stdout


def test_a_script_that_ends_with_a_status_of_its_own(run: Run) -> None:
    """Who starts several processes takes that for a failure."""
    result = run(SCRIPT.format(seed=SEED, end="raise SystemExit(3)"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("train.py: ended with exit status 3\n")
