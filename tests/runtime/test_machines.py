"""What is decided on each machine, held against the page that says so; and what asking may not do to a machine."""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.amp import autocast_controller, precision
from autoaccel.runtime.amp.precision import is_tried
from tests.runtime.accelerator import MACHINES, Machine, install

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "runtime.md"
UPDATE = bool(os.environ.get("AUTOACCEL_UPDATE"))
COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "precision": lambda found: f"{found['amp'][0]}, tried" if found["amp"][0] else "float32",
    "gradients": lambda found: "scaled while float16 is in force" if found["grad_scaler"][0] else "as they are",
    "compiling": lambda found: "if it pays" if found["compile"][0] else f"no: {found['compile'][1]}",
    "whole steps": lambda found: "graphs, if faster" if found["cuda_graphs"][0] else "no",
    "ahead of the loop": lambda found: f"{found['prefetch'][0]} batch" if found["prefetch"][0] else "nothing",
    "workers": lambda found: f"up to {found['num_workers'][0]}" if found["num_workers"][0] else "none",
    "pinned": lambda found: "yes" if found["pin_memory"][0] else "no",
}


def row(name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is compiled without Triton
        found = accel.decisions()
    assert found["device"][0] == MACHINES[name].kind
    return f"| {name} | {' | '.join(each(found) for each in COLUMNS.values())} |"


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_decided_on_a_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(MACHINES[name], monkeypatch)
    line, text = row(name), PAGE.read_text(encoding="utf-8")
    if UPDATE and re.search(f"^\\| {re.escape(name)} \\|", text, re.MULTILINE):
        PAGE.write_text(re.sub(f"^\\| {re.escape(name)} \\|.*$", line, text, flags=re.MULTILINE), encoding="utf-8")
    assert line in PAGE.read_text(encoding="utf-8")


def test_the_page_names_these_machines_and_columns() -> None:
    table = PAGE.read_text(encoding="utf-8").split("\n## Machines\n")[1].split("\n\n")[1].splitlines()
    assert table[0] == f"| machine | {' | '.join(COLUMNS)} |"
    assert [line.split(" | ")[0].removeprefix("| ") for line in table[2:]] == list(MACHINES)


def test_there_is_one_door() -> None:
    """What the runtime asks of an accelerator goes through `devices`: a stand-in stands behind it."""
    other = re.compile(r"torch\.(cuda|xpu|mps|accelerator|get_device_module)\b")
    for path in (ROOT / "autoaccel" / "runtime").rglob("*.py"):
        code = re.sub(r'""".*?"""|#.*', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert path.name == "devices.py" or not other.search(code), path


# ---------------------------------------------------------------- a script that names no device


def test_a_script_on_the_cpu_wakes_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA would take its memory, seconds of time, and the ability to fork."""
    monkeypatch.setattr(precision, "_cpu_computes_bfloat16", lambda: False)
    fake = install(Machine(), monkeypatch)
    model = accel.compile(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = accel.grad_scaler(optimizer)
    loader = DataLoader(TensorDataset(torch.ones(16, 3)), num_workers=accel.num_workers() and 0)
    for (x,) in accel.in_memory(loader):
        with accel.autocast():
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert accel.pin_memory() is True  # as far as one can know when a loader is made
    assert accel.num_workers() == 4
    assert not fake.woken
    assert "cuda" not in autocast_controller._controllers


def test_a_script_that_uses_the_accelerator_need_not_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(Machine(), monkeypatch)
    fake.woken = True
    accel.autocast()
    assert "cuda" in autocast_controller._controllers


def test_a_region_in_compiled_code_names_no_device(fresh_graphs: None) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with accel.autocast():
            return x @ x

    torch.compile(step, backend="eager", fullgraph=True)(torch.ones(2, 2))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("V100", "float16"), ("T4", "float16"), ("GTX 1660", None), ("RTX 3060", "bfloat16"), ("GTX 1080", None)],
)
def test_which_cards_try_what(monkeypatch: pytest.MonkeyPatch, name: str, expected: str | None) -> None:
    install(MACHINES[name], monkeypatch)
    found = precision.precision(torch.device("cuda"))
    assert found.value is (getattr(torch, expected) if expected else None)
    assert is_tried(found) is bool(expected)


# ---------------------------------------------------------------- a first step that tries all kernels


@pytest.mark.parametrize("benchmark", [False, True])
def test_a_slow_first_low_step_waits_until_it_may_be_lost(monkeypatch: pytest.MonkeyPatch, benchmark: bool) -> None:
    """cuDNN tries all kernels in the first step of each precision; 3 s of it are not spent in a run of 4."""
    fake = install(Machine(), monkeypatch)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", benchmark)
    monkeypatch.setattr(time, "monotonic", lambda: fake.queued)
    controller = autocast_controller.AutocastController(torch.device("cuda"), precision.by_capability(8, 0))
    frame = sys._getframe()
    low_before, low_at = False, []
    for number in range(12_000):
        low = controller.dtype(frame) is torch.bfloat16
        slow = number == 0 or (low and not low_before)
        fake.queued += 3.0 if slow else 0.02
        fake.done = fake.queued
        if low and not low_before:
            low_at.append(fake.queued)
        low_before = low_before or low
        controller.optimizer_stepped()
    assert low_at[0] > 3.0 / 0.02 if benchmark else low_at[0] < 10.0


# ---------------------------------------------------------------- while a graph is captured


def test_nothing_is_asked_of_a_device_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions and clocks in a captured step make no events and read nothing."""
    fake = install(Machine(), monkeypatch)
    controller = autocast_controller.AutocastController(torch.device("cuda"), precision.by_capability(8, 0))
    frame = sys._getframe()
    for number in range(200):
        with fake.capture():
            assert controller.dtype(frame) is None
        fake.queued = fake.done = fake.queued + 0.05
        if number % 2:
            controller.optimizer_stepped()


def test_a_device_without_a_number_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(MACHINES["two A100"], monkeypatch)
    fake.current = 1
    assert devices.numbered(torch.device("cuda")) == torch.device("cuda", 1)
    assert devices.numbered(torch.device("cuda", 0)) == torch.device("cuda", 0)
