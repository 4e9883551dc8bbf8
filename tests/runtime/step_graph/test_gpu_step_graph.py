"""Captured steps on a CUDA device. `pytest -m gpu`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime.step_graph import step_controller

pytestmark = pytest.mark.gpu


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4)).cuda()


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    def train_step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    return train_step


def train(step: Callable[..., torch.Tensor], steps: int) -> list[float]:
    torch.cuda.manual_seed(1)
    losses = []
    for number in range(steps):
        generator = torch.Generator().manual_seed(number)
        size = 10 if number % 20 == 19 else 64
        images, labels = torch.randn(size, 16, generator=generator), torch.randint(0, 4, (size,), generator=generator)
        losses.append(step(images.cuda(), labels.cuda()).item())
    return losses


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "off")
    monkeypatch.setattr(
        step_controller, "note", lambda topic, decision: lines.append(f"{decision.value}: {decision.reason}")
    )
    return lines


@pytest.mark.parametrize(
    ("make", "settings"),
    [(torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}), (torch.optim.Adam, {"lr": 1e-3, "fused": True})],
)
def test_it_trains_bit_for_bit_the_same(told: list[str], make: Any, settings: dict[str, Any]) -> None:
    plain = network()
    model = copy.deepcopy(plain)
    want = train(step_of(plain, optimizer := make(plain.parameters(), **settings)), 300)
    assert optimizer.state
    optimizer = make(model.parameters(), **settings)
    assert train(accel.step(model, optimizer)(step_of(model, optimizer)), 300) == want
    for one, other in zip(model.state_dict().values(), plain.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert told[-1].startswith("a graph")


def test_a_script_that_keeps_its_last_results(told: list[str]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 169, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    @accel.step(model, optimizer)
    def train_step(images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        optimizer.zero_grad()
        outputs = model(images)
        loss = nn.functional.cross_entropy(outputs, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return outputs, loss

    images, labels = torch.randn(64, 1, 28, 28, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
    for _ in range(300):
        outputs, loss = train_step(images, labels)
    assert not outputs.requires_grad
    assert loss.item() < 0.1
    assert told[-1].startswith(("a graph", "False: ")), told
    assert any(line.startswith("trying") for line in told), told


def test_what_cannot_be_captured_runs_on(told: list[str]) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inner = step_of(model, optimizer)

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = inner(images, labels)
        return loss if loss.item() > 0 else -loss

    assert len(train(accel.step(model, optimizer)(train_step), 50)) == 50
    assert told[-1] == "False: it reads values on the host"


def adversaries(device: str) -> tuple[nn.Module, nn.Module, torch.optim.Optimizer, torch.optim.Optimizer]:
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16)).to(device)
    discriminator = nn.Sequential(nn.Linear(16, 64), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(64, 1)).to(device)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, fused=True)
    return generator, discriminator, g_optimizer, torch.optim.SGD(discriminator.parameters(), lr=1e-2, momentum=0.9)


def train_adversaries(
    trained: tuple[Any, ...], wrap: Callable[[Any], Any], device: str
) -> tuple[list[float], list[torch.Tensor]]:
    """Losses, and all that was trained. The discriminator's gradients are read where the generator's pass left them."""
    generator, discriminator, g_optimizer, d_optimizer = trained

    def train_step(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        g_optimizer.zero_grad()
        made = generator(torch.randn(len(images), 8, device=device))
        g_loss = nn.functional.softplus(-discriminator(made)).mean()
        g_loss.backward()  # type: ignore[no-untyped-call]
        g_optimizer.step()
        norm = nn.utils.clip_grad_norm_(discriminator.parameters(), 1.0)
        d_optimizer.zero_grad()
        real, false = discriminator(images), discriminator(made.detach())
        d_loss = nn.functional.softplus(-real).mean() + nn.functional.softplus(false).mean() + 0.01 * norm
        d_loss.backward()  # type: ignore[no-untyped-call]
        d_optimizer.step()
        return g_loss, d_loss

    step = wrap(train_step)
    torch.manual_seed(1)
    losses: list[float] = []
    for number in range(300):
        batch = torch.randn(64, 16, generator=torch.Generator().manual_seed(number)).to(device)
        g_loss, d_loss = step(batch)
        losses += [g_loss.item(), d_loss.item()]
        _ = [torch.full((64 * each,), 1e9, device=device) for each in range(1, 18)]  # takes what was freed
    states = [each for model in (generator, discriminator) for each in model.state_dict().values()]
    return losses, states


def test_several_optimizers(told: list[str]) -> None:
    plain = train_adversaries(adversaries("cuda"), lambda step: step, "cuda")
    trained = adversaries("cuda")
    losses, states = train_adversaries(trained, accel.step(*trained), "cuda")
    assert losses == plain[0]
    assert all(map(torch.equal, states, plain[1]))
    assert told[-1].startswith("a graph")
