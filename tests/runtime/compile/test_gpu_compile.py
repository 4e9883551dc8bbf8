"""Compiling on a CUDA device, by policy, with Inductor and with CUDA graphs. `pytest -m gpu`."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime.compile import compile_controller, compile_cost, compile_target, cuda_graphs, in_place_compile
from autoaccel.runtime.compile.step_timer import StepTimer
from autoaccel.runtime.trial.clocks import clock_of

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


def graphed(module: nn.Module) -> cuda_graphs.GraphedCall:
    return cuda_graphs.GraphedCall(in_place_compile._own_call(module), module)


def batch(number: int) -> torch.Tensor:
    torch.manual_seed(number)
    return torch.randn(64, 16, device="cuda")


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_outputs_and_gradients_stay_what_they_were() -> None:
    plain = critic()
    module = copy.deepcopy(plain)
    call = graphed(module)
    outputs, wanted = [], []
    for number in range(8):
        outputs.append(call(batch(number)))
        outputs[-1].square().mean().backward()
        wanted.append(plain(batch(number)))
        wanted[-1].square().mean().backward()  # gradients accumulate over all passes
    close(outputs, wanted)
    close([each.grad for each in module.parameters()], [each.grad for each in plain.parameters()])
    close(list(module.buffers()), list(plain.buffers()))


@pytest.mark.parametrize("joint", [False, True])
def test_real_and_fake_then_backward(joint: bool) -> None:
    """The steps of a GAN, with one backward pass for both batches and with one for each."""

    def train(discriminate: Any, discriminator: nn.Module, generate: Any, generator: nn.Module) -> list[float]:
        d_steps = torch.optim.SGD(discriminator.parameters(), lr=0.05)
        g_steps = torch.optim.SGD(generator.parameters(), lr=0.05)
        losses = []
        for number in range(6):
            fake = generate(batch(100 + number))
            d_steps.zero_grad()
            real, wrong = discriminate(batch(number)), discriminate(fake.detach())
            if joint:
                (wrong.mean() - real.mean()).backward()
            else:
                (-real.mean()).backward()
                wrong.mean().backward()
            d_steps.step()
            g_steps.zero_grad()
            loss = -discriminate(fake).mean()
            loss.backward()
            g_steps.step()
            losses.append(loss.item())
        return losses

    torch.manual_seed(1)
    generator = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)).cuda()
    mine, theirs = (critic(), copy.deepcopy(generator)), (critic(), generator)
    found = train(graphed(mine[0]), mine[0], graphed(mine[1]), mine[1])
    assert found == pytest.approx(train(theirs[0], theirs[0], theirs[1], theirs[1]), rel=1e-3, abs=1e-5)


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


@pytest.mark.parametrize("wish", ["", "on"])
def test_by_policy_it_trains_the_same_whatever_is_decided(
    soon: None, told: list[str], monkeypatch: pytest.MonkeyPatch, wish: str
) -> None:
    monkeypatch.setenv("AUTOACCEL_CUDA_GRAPHS", wish)
    want = train(critic(), 200)
    assert train(accel.compile(critic()), 200) == pytest.approx(want, rel=1e-2, abs=1e-4)
    assert any(line.startswith("trying") for line in told)
    assert told[-1].startswith(("True: compiled in", "False: reverted"))


def test_a_reverted_module_is_plain_again(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_controller, "POLICY", dataclasses.replace(compile_controller.POLICY, gain=1e6))
    module = accel.compile(critic())
    train(module, 200)
    assert module._compiled_call_impl is None
    assert not any(parameter._backward_hooks for parameter in module.parameters())


def test_small_work_is_bound_by_launches_and_large_work_is_not() -> None:
    place = torch.device("cuda")
    small, large = torch.randn(8, 8, device="cuda"), torch.randn(8192, 8192, device="cuda")
    bound = []
    for x in (small, large):
        watch = StepTimer(clock_of(place))
        for _ in range(20):
            watch.call("x", lambda x=x: [x @ x for _ in range(20)])  # type: ignore[misc]
            torch.cuda.synchronize()
            watch.end_iteration(0.1)
        bound.append(watch.launch_bound())
    assert bound == [True, False]
