"""Steps of several optimizers: a generator and the discriminator that it is trained against."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.step_graph.training_state import TrainingState
from tests.runtime.accelerator import Accelerator, Machine, install

Step = Callable[..., Any]

STEP = """
def train_step(images, noise):
    count(None)
    {before}
    optimizer_g.zero_grad()
    made = generator(noise)
    g_loss = criterion(discriminator(made), torch.ones(6, 1))
    g_loss.backward()
    {between}
    optimizer_g.step()
    optimizer_d.zero_grad()
    real = criterion(discriminator(images), torch.ones(6, 1))
    fake = criterion(discriminator(made.detach()), torch.zeros(6, 1))
    d_loss = (real + fake) / 2 {more}
    d_loss.backward()
    optimizer_d.step()
    {behind}
    return g_loss, d_loss, made
"""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """A CUDA device whose memory is the host's; eager steps take a second, replays a tenth."""
    monkeypatch.setattr(devices, "module_device", lambda module: torch.device("cuda"))
    return install(Machine(), monkeypatch)


class Gan:
    """All that one training run has."""

    def __init__(self, edits: dict[str, str], make: Callable[..., Any] | None = None) -> None:
        torch.manual_seed(0)
        self.generator = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
        self.discriminator: Any = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
        self.optimizer_g: Any = torch.optim.SGD(self.generator.parameters(), lr=0.1, momentum=0.9)
        self.optimizer_d: Any = torch.optim.SGD(self.discriminator.parameters(), lr=0.05)
        if make is not None:
            self.optimizer_g, self.optimizer_d = make(self.generator, self.discriminator)
        self.ran: list[None] = []
        library: dict[str, Any] = {"__name__": "torch.unseen", "work": self.ran.append}
        exec("def count(*values): return work(*values)", library)
        known: dict[str, Any] = {
            **vars(self), "count": library["count"], "criterion": nn.functional.binary_cross_entropy_with_logits,
            "torch": torch, "nn": nn, "__name__": "script",
        }  # fmt: skip
        exec(STEP.format(**{"before": "", "between": "", "more": "", "behind": "", **edits}), known)
        self.step: Step = known["train_step"]
        self.trained = (self.generator, self.discriminator, self.optimizer_g, self.optimizer_d)

    def state(self) -> Iterator[Any]:
        """All that a step may change."""
        for model in (self.generator, self.discriminator):
            yield from model.state_dict().values()
            yield from (each.grad for each in model.parameters())
        for optimizer in (self.optimizer_g, self.optimizer_d):
            yield copy.deepcopy(optimizer.state_dict())


class Both:
    """The same script twice: plain, and with the step decorated. After each step all of both has to be the same."""

    def __init__(self, fake: Accelerator, make: Callable[..., Any] | None = None, **edits: str) -> None:
        self.fake = fake
        self.scripts = [Gan(edits, make), Gan(edits, make)]
        self.step: Step = accel.step(*self.scripts[0].trained)(self.scripts[0].step)
        self.replayed: list[bool] = []

    def train(self, steps: int, each: Callable[[int, Gan], None] | None = None) -> list[bool]:
        """Returns of each step so far whether it was replayed. `each` is called of both before every step."""
        for _ in range(steps):
            number = len(self.replayed)
            for script in self.scripts:
                if each is not None:
                    each(number, script)
            numbers = torch.Generator().manual_seed(number)
            batch = torch.randn(6, 4, generator=numbers), torch.randn(6, 3, generator=numbers)
            before, ran = self.fake.replays, len(self.scripts[0].ran)
            got = self.step(*batch)
            self.replayed.append((self.fake.replays, len(self.scripts[0].ran)) == (before + 1, ran))
            self.fake.queued = self.fake.done = self.fake.queued + (0.1 if self.replayed[-1] else 1.0)
            assert same([*got], [*self.scripts[1].step(*batch)])
            assert same([*self.scripts[0].state()], [*self.scripts[1].state()])
        return self.replayed


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


def test_both_are_trained_the_same(device: Accelerator) -> None:
    replayed = Both(device).train(80)
    assert not any(replayed[:7])
    assert all(replayed[-20:])


def fused(generator: nn.Module, discriminator: nn.Module) -> tuple[Any, Any]:
    return (
        torch.optim.Adam(generator.parameters(), lr=0.01, fused=True),
        torch.optim.AdamW(discriminator.parameters(), lr=0.01, fused=True),
    )


def test_with_fused_kernels(device: Accelerator) -> None:
    assert all(Both(device, fused).train(80)[-20:])


def test_not_where_one_of_them_is_not_capturable(device: Accelerator) -> None:
    def make(generator: nn.Module, discriminator: nn.Module) -> tuple[Any, Any]:
        return fused(generator, discriminator)[0], torch.optim.Adam(discriminator.parameters(), lr=0.01)

    Both(device, make).train(40)
    assert device.replays == 0


def sharing(generator: nn.Module, discriminator: Any) -> tuple[Any, Any]:
    shared = [*generator.parameters(), *discriminator[0].parameters()]
    return torch.optim.SGD(shared, lr=0.1, momentum=0.9), torch.optim.SGD(discriminator.parameters(), lr=0.1)


def test_parameters_that_both_of_them_train(device: Accelerator) -> None:
    assert all(Both(device, sharing).train(80)[-20:])


# ---------------------------------------------------------------- gradients that pass leave in one another's models


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({"between": "nn.utils.clip_grad_norm_(discriminator.parameters(), 0.1)"}, id="clipped in between"),
        pytest.param({"between": "optimizer_d.step()"}, id="updated by them in between"),
        pytest.param({"before": "nn.utils.clip_grad_norm_(discriminator.parameters(), 0.1)"}, id="clipped before"),
        pytest.param({"behind": "optimizer_d.zero_grad()"}, id="cleared at the end"),
        pytest.param({"behind": "optimizer_d.zero_grad(set_to_none=False)"}, id="made zero at the end"),
        pytest.param({"before": "optimizer_d.zero_grad()"}, id="cleared at the beginning"),
        pytest.param({"before": "optimizer_d.zero_grad(set_to_none=False)"}, id="made zero at the beginning"),
        pytest.param({"behind": "discriminator.zero_grad(); generator.zero_grad()"}, id="cleared by the models"),
        pytest.param({"between": "g_loss = g_loss * discriminator[0].weight.grad.sum()"}, id="read in between"),
    ],
)
def test_gradients_of_the_other_pass(device: Accelerator, edits: dict[str, str]) -> None:
    assert all(Both(device, None, **edits).train(80)[-20:])


def test_gradients_that_are_left_and_cleared_by_the_script(device: Accelerator) -> None:
    """Now and then, between steps."""

    def each(number: int, script: Gan) -> None:
        if number % 7 == 0:
            script.discriminator.zero_grad()

    both = Both(device, between="nn.utils.clip_grad_norm_(discriminator.parameters(), 0.1)")
    both.train(40)
    both.train(40, each)


def test_gradients_that_a_replay_adds_to_stay_alive(device: Accelerator) -> None:
    """The step clears them, and nobody else has them: their memory would be another tensor's."""
    found: list[weakref.ref[torch.Tensor]] = []

    def each(number: int, script: Gan) -> None:
        if number == 5 and script is both.scripts[0]:  # the step that is captured
            found.extend(weakref.ref(parameter.grad) for parameter in script.discriminator.parameters())

    both = Both(device)
    assert all(both.train(80, each)[-20:])
    assert len(found) == 6
    assert all(each() is not None for each in found)


def test_a_frozen_discriminator_in_between(device: Accelerator) -> None:
    freeze = "discriminator.requires_grad_(False)"
    both = Both(device, before=freeze, between="discriminator.requires_grad_(True)")
    assert all(both.train(80)[-20:])


def test_a_discriminator_that_is_frozen_at_the_end(device: Accelerator) -> None:
    both = Both(device, between="discriminator.requires_grad_(True)", behind="discriminator.requires_grad_(False)")
    both.train(80)


def test_a_penalty_of_gradients(device: Accelerator) -> None:
    """A pass within the pass, whose own graph is differentiated."""
    both = Both(
        device,
        between="mixed = ((images + made.detach()) / 2).requires_grad_(True)",
        more="+ torch.autograd.grad(discriminator(mixed).sum(), mixed, create_graph=True)[0].norm()",
    )
    assert all(both.train(80)[-20:])


def test_a_graph_that_two_passes_go_through(device: Accelerator) -> None:
    both = Both(device, before="torch.relu(discriminator(images)).sum().backward(retain_graph=True)")
    assert all(both.train(80)[-20:])


# ---------------------------------------------------------------- what happens between the steps


def halve_one(script: Gan) -> None:
    script.optimizer_d.param_groups[0]["lr"] /= 2


def evaluate_one(script: Gan) -> None:
    script.discriminator.eval()


def freeze_one(script: Gan) -> None:
    script.discriminator[0].requires_grad_(False)


def load_one(script: Gan) -> None:
    script.optimizer_g.load_state_dict(copy.deepcopy(script.optimizer_g.state_dict()))


def replace_momentum(script: Gan) -> None:
    for each in script.optimizer_g.state.values():
        each["momentum_buffer"] = each["momentum_buffer"] * 2


@pytest.mark.parametrize("event", [halve_one, evaluate_one, freeze_one, load_one, replace_momentum])
def test_an_event_at_one_of_the_two(device: Accelerator, event: Callable[[Gan], None]) -> None:
    both = Both(device)
    assert all(both.train(80)[-20:])

    def each(number: int, script: Gan) -> None:
        if number == 90:
            event(script)

    both.train(40, each)
    assert not both.replayed[90]
    assert both.replayed[-1]


def test_hooks_of_the_second_optimizer(device: Accelerator) -> None:
    both = Both(device)
    for script in both.scripts:
        script.optimizer_d.register_step_post_hook(lambda *_: None)
    both.train(40)
    assert device.replays == 0


def test_a_state_that_one_optimizer_takes_from_the_other(device: Accelerator) -> None:
    """One has more, the other fewer: the sum stays."""
    both = Both(device, sharing)
    assert all(both.train(80)[-20:])

    def each(number: int, script: Gan) -> None:
        if number == 90:
            shared = script.discriminator[0].weight
            script.optimizer_d.state[shared] = script.optimizer_g.state.pop(shared)

    both.train(40, each)
    assert not both.replayed[90]


def test_the_state_of_a_step_is_that_of_all_models_and_optimizers() -> None:
    script = Gan({})
    script.step(torch.ones(6, 4), torch.ones(6, 3))
    state = TrainingState((script.generator, script.discriminator), (script.optimizer_g, script.optimizer_d))
    held = {id(each) for each in state.tensors()}
    for model in (script.generator, script.discriminator):
        assert {id(each) for each in (*model.parameters(), *model.buffers())} <= held
    assert {id(each["momentum_buffer"]) for each in script.optimizer_g.state.values()} <= held
