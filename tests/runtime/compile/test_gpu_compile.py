"""Compiling on a CUDA device, by policy. `pytest -m gpu`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime.compile import compile_controller, compile_cost, compile_target

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def exact_and_fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "off")
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    yield
    torch.compiler.reset()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling pays at once, and it is nobody else's turn."""
    monkeypatch.setattr(compile_controller, "_budget", compile_target.SharedBudget())
    monkeypatch.setattr(compile_controller, "_SOONEST", 0.0)
    monkeypatch.setattr(compile_cost, "worth", lambda run, cost, prior: compile_cost.CostDecision(True, "it pays"))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(
        compile_controller, "note", lambda topic, decision: lines.append(f"{decision.value}: {decision.reason}")
    )
    return lines


def critic() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(16, 32), nn.BatchNorm1d(32), nn.LeakyReLU(0.2), nn.Linear(32, 1)]
    return nn.Sequential(*layers).cuda()


def batch(number: int) -> torch.Tensor:
    torch.manual_seed(number)
    return torch.randn(64, 16, device="cuda")


def train(module: nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for number in range(steps):
        optimizer.zero_grad()
        loss = module(batch(number)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_by_policy_it_trains_the_same_whatever_is_decided(soon: None, told: list[str]) -> None:
    want = train(critic(), 1000)
    assert train(accel.compile(critic()), 1000) == pytest.approx(want, rel=1e-2, abs=1e-4)
    assert any(line.startswith("trying") for line in told)
    assert told[-1].startswith(("True: compiled in", "False: reverted"))


def test_a_reverted_module_is_plain_again(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_controller, "POLICY", dataclasses.replace(compile_controller.POLICY, gain=1e6))
    module = accel.compile(critic())
    train(module, 200)
    assert module._compiled_call_impl is None
    assert not any(parameter._backward_hooks for parameter in module.parameters())
