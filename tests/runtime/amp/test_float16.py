"""float16 is tried like bfloat16, with its scaler, and given up where its range does not do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime.amp import autocast_controller, precision
from autoaccel.runtime.environment import Decision
from autoaccel.runtime.trial import decision_cache
from autoaccel.runtime.trial.ab_trial import TrialState
from tests.runtime.amp.test_autocast_controller import LOW, USUAL, Scripted, forget


@pytest.fixture(autouse=True)
def like_a_t4(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU whose low precision is float16."""
    monkeypatch.setattr(precision, "_by_hardware", lambda device: Decision(torch.float16, "as if"))


def told(monkeypatch: pytest.MonkeyPatch, ways: list[bool], end: TrialState) -> list[Scripted]:
    made: list[Scripted] = []

    def new(place: torch.device) -> Any:
        made.append(Scripted(list(ways), end))
        return made[-1]

    monkeypatch.setattr(autocast_controller, "new_trial", new)
    return made


class NanInFloat16(nn.Module):
    """As cuDNN's convolutions are on some cards."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float("nan") if x.dtype is torch.float16 else x


def train(steps: int, middle: type[nn.Module] = nn.Identity) -> tuple[list[float], list[tuple[bool, bool]], nn.Module]:
    """The losses, whether each step was in float16 and was scaled, and the model."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), middle(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = accel.grad_scaler(optimizer)
    losses, seen = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        with accel.autocast("cpu"):
            low = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.float16
            loss = model(torch.randn(4, 8)).float().square().mean()
        scaled = scaler.scale(loss)
        seen.append((low, scaled is not loss))
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, seen, model


def test_it_is_tried_and_scaled_where_it_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, [USUAL, USUAL, LOW, LOW, USUAL, LOW], TrialState.REJECTED)
    losses, seen, _ = train(12)
    assert [low for low, _ in seen] == [False, False, False, True, True, False, True, *[False] * 5]
    assert all(scaled is low for low, scaled in seen)
    monkeypatch.setenv("AUTOACCEL_DISABLE", "amp")
    forget(monkeypatch)
    assert losses == pytest.approx(train(12)[0], rel=1e-2)


def test_it_is_scaled_for_good_where_it_is_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, [USUAL], TrialState.ADOPTED)
    _, seen, _ = train(12)
    assert seen[-9:] == [(True, True)] * 9


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    program = tmp_path / "train.py"
    program.write_text("")
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "on")
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path / "cache"))
    yield
    decision_cache._digest.cache_clear()


@pytest.mark.parametrize("asked", [False, True])
def test_steps_that_overflow_all_the_time_are_in_float32(
    monkeypatch: pytest.MonkeyPatch, memory: None, asked: bool
) -> None:
    """Their optimizer is not stepped: nothing would be learned, and nobody would be told."""
    if asked:
        monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "float16")
    told(monkeypatch, [USUAL], TrialState.ADOPTED)
    with pytest.warns(RuntimeWarning, match="float16 overflowed in 8 steps in a row") as caught:
        losses, seen, model = train(60, NanInFloat16)
    assert len(caught) == 1
    assert sum(low for low, _ in seen) == 8
    assert not any(low or scaled for low, scaled in seen[11:])
    assert losses[-1] < 0.1
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    if not asked:  # what was found out is remembered
        forget(monkeypatch)
        autocast_controller._overflowed.clear()
        assert not any(low or scaled for low, scaled in train(10, NanInFloat16)[1])


def test_overflows_count_where_each_optimizer_makes_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for each task of few-shot learning: no scaler of its own would see eight in a row."""
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "float16")
    with pytest.warns(RuntimeWarning, match="float16 overflowed in 8 steps in a row"):
        runs = [train(3, NanInFloat16)[1] for _ in range(5)]
    assert sum(low for seen in runs for low, _ in seen) == 8
    assert not any(scaled for _, scaled in runs[-1])


def test_an_overflow_now_and_then_is_what_the_scaler_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "float16")
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = accel.grad_scaler(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(48):
            optimizer.zero_grad()
            bad = step % 8 and step < 24
            scaler.scale(parameter.sum() * (float("inf") if bad else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert autocast_controller.bears_float16("cpu")


def test_what_does_not_fit_its_range_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = told(monkeypatch, [LOW] * 3, TrialState.ADOPTED)
    for _ in range(3):
        with accel.autocast("cpu", fp16=False):
            assert not torch.is_autocast_enabled("cpu")
    assert not trials
