"""Switches, the log, and what importing the runtime costs."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import autoaccel.runtime
from autoaccel import runtime as accel
from autoaccel.runtime import environment, machine_decisions
from tests.measure.forking import Forking

ROOT = Path(__file__).parents[2]


def run(program: str, path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(path), **variables}
    return subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=path, check=True, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("", set()),
        ("all", environment.FEATURES),
        ("amp", {"amp"}),
        (" AMP , compile,", {"amp", "compile"}),
        ("prefetch,workers,pin", {"prefetch", "workers", "pin"}),
        ("resident", {"resident"}),
    ],
)
def test_disable(monkeypatch: pytest.MonkeyPatch, text: str, off: set[str]) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", text)
    assert {feature for feature in environment.FEATURES if environment.disabled(feature)} == off


def test_unknown_names_are_warned_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "amp,turbo")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [environment.disabled("amp") for _ in range(3)] == [True] * 3
        assert not environment.disabled("pin")
    known = (
        "all, amp, binary_cross_entropy, channels_last, compile, cudnn_benchmark, early_stopping, fused, graphs, "
        "heap, matmul_precision, max_pool2d, normalize, pin, prefetch, resident, total, workers"
    )
    assert [str(warning.message) for warning in caught] == [
        f"autoaccel: AUTOACCEL_DISABLE: unknown turbo; known are {known}"
    ]


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_nothing_is_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTOACCEL_PREFETCH_DEPTH", "deep")
    assert [environment.whole_number("PREFETCH_DEPTH") for _ in range(2)] == [None, None]
    assert capsys.readouterr().err == "autoaccel: AUTOACCEL_PREFETCH_DEPTH='deep' is not a whole number: ignored\n"


def test_every_decision_is_logged_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    accel.pin_memory()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    monkeypatch.setenv("AUTOACCEL_DISABLE", "all")
    for _ in range(3):
        accel.pin_memory()
        accel.num_workers()
        accel.prefetch([])
        accel.compile(nn.Linear(1, 1))
        with accel.autocast("cpu"):
            pass
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "autoaccel: pin_memory: off (AUTOACCEL_DISABLE)",
        "autoaccel: num_workers: 0 (AUTOACCEL_DISABLE)",
        "autoaccel: heap: off (AUTOACCEL_DISABLE)",
        "autoaccel: prefetch list: 0 (AUTOACCEL_DISABLE)",
        "autoaccel: compile: off (AUTOACCEL_DISABLE)",
        "autoaccel: amp on cpu: off (AUTOACCEL_DISABLE)",
    ]


def test_without_a_console_nothing_is_logged_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_LOG", "info")
    closed = io.StringIO()
    closed.close()
    for console in (None, closed):
        monkeypatch.setattr(sys, "stderr", console)
        environment.note(f"console {console}", environment.Decision(True, "nobody sees it"))


def test_with_everything_disabled_the_script_is_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(rewritten: bool) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(model.parameters())
        data = torch.utils.data.TensorDataset(torch.randn(12, 4))
        losses = []
        if not rewritten:
            loader = torch.utils.data.DataLoader(data, batch_size=5, shuffle=True)
            for _ in range(2):
                for (x,) in loader:
                    optimizer.zero_grad()
                    loss = model(x).square().mean()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
            return losses
        accel.compile(model)
        scaler = accel.grad_scaler(optimizer)
        loader = torch.utils.data.DataLoader(
            data,
            batch_size=5,
            shuffle=True,
            num_workers=accel.num_workers(),
            pin_memory=accel.pin_memory(),
            persistent_workers=accel.num_workers() > 0,
        )
        for _ in range(2):
            for (x,) in accel.prefetch(loader, "cpu"):
                optimizer.zero_grad()
                with accel.autocast("cpu"):
                    loss = model(x).square().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.item())
        return losses

    monkeypatch.setenv("AUTOACCEL_DISABLE", "all")
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "fp16")
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "eager")
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", "1")
    assert train(True) == train(False)


def test_decisions_can_be_written_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    found = accel.decisions()
    assert json.loads(json.dumps(found)) == {name: list(pair) for name, pair in found.items()}
    assert found.keys() == {
        *("device", "amp", "grad_scaler", "compile", "cuda_graphs", "prefetch", "resident"),
        *("num_workers", "pin_memory", "heap", "remember", "fused"),
        *("channels_last", "matmul_precision", "cudnn_benchmark"),
    }
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "fp16")
    assert accel.decisions()["amp"] == ("float16", "AUTOACCEL_AMP_DTYPE")
    assert accel.decisions()["grad_scaler"][0] is True
    monkeypatch.setenv("AUTOACCEL_DISABLE", "all")
    off = {name: value for name, (value, reason) in accel.decisions().items() if name not in ("device", "remember")}
    assert not any(off.values())


def test_what_is_measured_is_named_as_what_it_may_become(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        machine_decisions, "precision", lambda place: environment.Decision(torch.bfloat16, "it has units")
    )
    assert accel.decisions()["amp"] == ("bfloat16", "where it is measured to be faster; it has units")
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "bf16")
    assert accel.decisions()["amp"] == ("bfloat16", "it has units")
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "on")
    assert str(accel.decisions()["remember"][0]).startswith(str(tmp_path))
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "off")
    assert accel.decisions()["remember"] == (False, "AUTOACCEL_REMEMBER")
    assert accel.decisions()["resident"][0] is True
    monkeypatch.setenv("AUTOACCEL_DISABLE", "resident")
    assert accel.decisions()["resident"] == (False, "AUTOACCEL_DISABLE")


def test_importing_costs_next_to_nothing_beyond_torch() -> None:
    """Neither the tool's own dependencies nor torch's compiler may come along."""
    program = (
        "import torch, sys; before = set(sys.modules); from autoaccel import runtime as accel;"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('autoaccel.runtime')))"
    )
    new = set(run(program, ROOT).stdout.split())
    assert new <= {"autoaccel", "array"}


def test_vendored_beside_a_script_it_works_alone(tmp_path: Path) -> None:
    shutil.copytree(Path(autoaccel.runtime.__file__).parent, tmp_path / "autoaccel_runtime")
    program = (
        "import sys, autoaccel_runtime as accel;"
        "accel.prefetch([]); accel.num_workers(); accel.pin_memory(); accel.decisions();"
        "assert 'autoaccel' not in sys.modules"
    )
    run(program, tmp_path)


def test_it_says_nothing_unless_asked(forking: Forking, tmp_path: Path) -> None:
    program = "from autoaccel import runtime as a; a.num_workers(); a.prefetch([]); a.autocast(); a.decisions()"
    quiet = run(program, ROOT)
    assert (quiet.stdout, quiet.stderr) == ("", "")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "AUTOACCEL_LOG": "info"}
    told = forking.python(["-c", program], tmp_path, variables)
    assert (told.returncode, told.stdout) == (0, "")
    assert "autoaccel: num_workers: " in told.stderr
