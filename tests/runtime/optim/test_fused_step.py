"""`accel.optimizer`: the fused kernel where it is faster, the same to within rounding, the same checkpoints."""

from __future__ import annotations

import copy
import importlib
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime.amp import autocast_controller
from autoaccel.runtime.optim import fused_step, kernel_fit
from autoaccel.runtime.optim.fused_step import attached, is_fused, settled
from autoaccel.runtime.trial.ab_trial import ABTrial, TrialPolicy, TrialState

HOOKS: Any = importlib.import_module("torch.optim.optimizer")
ADAMS = (torch.optim.Adam, torch.optim.AdamW)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_FUSED", "on")


def network(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4, **options), nn.ReLU(), nn.Linear(4, 2, **options))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> list[torch.Tensor]:
    torch.manual_seed(1)
    for _ in range(steps):
        parameter = next(model.parameters())
        x = torch.randn(5, 6, dtype=parameter.dtype)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [each.detach().clone() for each in model.parameters()]


def unchanged(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    return optimizer


def near(one: list[torch.Tensor], two: list[torch.Tensor]) -> None:
    for each, other in zip(one, two, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-5, atol=1e-6)


@given(
    st.sampled_from(ADAMS),
    st.fixed_dictionaries(
        {
            "lr": st.sampled_from([1e-3, 0.1]),
            "amsgrad": st.booleans(),
            "maximize": st.booleans(),
            "weight_decay": st.sampled_from([0.0, 0.1]),
            "eps": st.sampled_from([1e-8, 1e-3]),
        }
    ),
    st.integers(1, 5),
)
def test_it_trains_as_the_default(kind: Any, options: dict[str, Any], steps: int) -> None:
    with pytest.MonkeyPatch.context() as context:
        context.setenv("AUTOACCEL_FUSED", "on")
        plain, ours = network(), network()
        expected = train(plain, kind(plain.parameters(), **options), steps)
        optimizer = accel.optimizer(kind(ours.parameters(), **options))
        near(train(ours, optimizer, steps), expected)
        assert is_fused(optimizer)


def transposed(parameter: nn.Parameter) -> None:
    assert parameter.grad is not None
    parameter.grad = parameter.grad.t().contiguous().t()


def expanded(parameter: nn.Parameter) -> None:
    assert parameter.grad is not None
    parameter.grad = parameter.grad[:1, :1].expand(parameter.shape)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("change", [transposed, expanded])
@pytest.mark.parametrize("before", [0, 2])
def test_gradients_that_the_kernel_would_misread(change: Callable[[nn.Parameter], None], before: int) -> None:
    """torch 2.13's kernel for the CPU takes all strides to be the same, and computes nonsense if they are not."""
    results = []
    for wrap in (unchanged, accel.optimizer):
        model = network()
        optimizer = wrap(torch.optim.Adam(model.parameters(), lr=0.1))
        train(model, optimizer, before)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(5, 6)).square().mean().backward()
            change(model[0].weight)  # type: ignore[index]
            optimizer.step()
        results.append([each.detach() for each in model.parameters()])
    near(results[1], results[0])
    assert not is_fused(optimizer)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("layout", ["channels last", "transposed", "sliced"])
def test_parameters_laid_out_otherwise(layout: str) -> None:
    def made() -> nn.Parameter:
        torch.manual_seed(0)
        match layout:
            case "channels last":
                return nn.Parameter(torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))
            case "transposed":
                return nn.Parameter(torch.randn(3, 4).t())
            case _:
                return nn.Parameter(torch.randn(4, 8)[:, ::2])

    results = []
    for wrap in (unchanged, accel.optimizer):
        parameter = made()
        optimizer = wrap(torch.optim.Adam([parameter], lr=0.1))
        for step in range(4):
            optimizer.zero_grad()
            (parameter * torch.arange(parameter.numel()).view(parameter.shape) + step).square().sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        results.append(parameter.detach())
    torch.testing.assert_close(*results)


@pytest.mark.usefixtures("at_once")
def test_dense_parameters_in_another_layout_are_updated_by_the_kernel() -> None:
    model = nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(1, 3, 4, 4)).square().sum().backward()
        optimizer.step()
    assert is_fused(optimizer)


@pytest.mark.usefixtures("at_once")
def test_strides_of_single_values_say_nothing() -> None:
    """Convolutions over single pixels give gradients of their weights such strides, of pictures channels last."""
    results = []
    for wrap in (unchanged, accel.optimizer):
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(2, 3, 1, 1))
        optimizer = wrap(torch.optim.Adam([weight], lr=0.1))
        for _ in range(3):
            weight.grad = torch.arange(6.0).as_strided((2, 3, 1, 1), (3, 1, 3, 3))
            optimizer.step()
        results.append(weight.detach())
    torch.testing.assert_close(*results)
    assert is_fused(optimizer)


@pytest.mark.usefixtures("at_once")
def test_a_layout_that_changes_between_steps() -> None:
    results = []
    for wrap in (unchanged, accel.optimizer):
        torch.manual_seed(0)
        model = nn.Conv2d(3, 4, 2)
        optimizer = wrap(torch.optim.Adam(model.parameters(), lr=0.1))
        for step in range(4):
            if step == 2:
                model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            optimizer.zero_grad()
            model(torch.ones(1, 3, 4, 4) * step).square().sum().backward()
            optimizer.step()
        results.append(model.weight.detach())
    torch.testing.assert_close(*results)


def replaced(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model[0].weight.data = model[0].weight.data.t().contiguous().t()  # type: ignore[index]


def turned(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    moment = optimizer.state[model[0].weight]["exp_avg"]  # type: ignore[index]
    moment.data = moment.data.t().contiguous().t()


def reset(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    moment = optimizer.state[model[0].weight]["exp_avg"]  # type: ignore[index]
    optimizer.state[model[0].weight]["exp_avg"] = torch.zeros_like(moment.t().contiguous().t())  # type: ignore[index]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("change", [replaced, turned, reset])
def test_tensors_that_are_laid_out_anew_between_steps(
    change: Callable[[nn.Module, torch.optim.Optimizer], None],
) -> None:
    results = []
    for wrap in (unchanged, accel.optimizer):
        model = network()
        optimizer = wrap(torch.optim.Adam(model.parameters(), lr=0.1))
        train(model, optimizer)
        change(model, optimizer)
        results.append(train(model, optimizer))
    near(*results)
    assert not is_fused(optimizer)


@pytest.mark.usefixtures("at_once")
def test_parameters_that_grow_are_refused_as_by_default() -> None:
    """torch 2.13's kernel writes as many values of the state as the parameter has: past its end."""
    model = nn.Linear(6, 4, bias=False)
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    for _ in range(2):
        model.weight.grad = torch.ones(4, 6)
        optimizer.step()
    model.weight.data, model.weight.grad = torch.ones(8, 6), None
    model.weight.grad = torch.ones(8, 6)
    with pytest.raises(RuntimeError, match="size"):
        optimizer.step()


@pytest.mark.usefixtures("at_once")
def test_gradients_that_are_there_now_and_then() -> None:
    results = []
    for wrap in (unchanged, accel.optimizer):
        model = network()
        optimizer = wrap(torch.optim.Adam(model.parameters(), lr=0.1))
        for step in range(8):
            optimizer.zero_grad()
            (model[0](torch.ones(5, 6)) if step % 3 else model(torch.ones(5, 6))).square().mean().backward()  # type: ignore[index]
            optimizer.step()
        results.append([each.detach() for each in model.parameters()])
    near(*results)
    assert is_fused(optimizer)


@pytest.mark.usefixtures("at_once")
def test_sparse_gradients_are_refused_as_by_default() -> None:
    weight = nn.Parameter(torch.ones(4, 2))
    optimizer = accel.optimizer(torch.optim.Adam([weight]))
    weight.grad = torch.ones(4, 2)
    optimizer.step()
    weight.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (4, 2), check_invariants=True)
    with pytest.raises(RuntimeError, match="sparse gradients"):
        optimizer.step()


@pytest.mark.usefixtures("at_once")
def test_what_is_known_to_fit_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Mock(wraps=kernel_fit._problem)
    monkeypatch.setattr(kernel_fit, "_problem", look)
    model = network()
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    train(model, optimizer, 6)
    assert look.call_count == 2  # before the first step there is no state
    saved = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(saved)
    train(model, optimizer)
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
    train(model, optimizer)
    assert look.call_count == 4


@pytest.mark.usefixtures("at_once")
def test_checkpoints_are_the_plain_scripts() -> None:
    plain, ours = network(), network()
    theirs, optimizer = torch.optim.Adam(plain.parameters()), accel.optimizer(torch.optim.Adam(ours.parameters()))
    train(plain, theirs)
    train(ours, optimizer)
    assert is_fused(optimizer)
    assert optimizer.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]
    assert is_fused(optimizer)
    for one, two in zip(optimizer.state_dict()["state"].values(), theirs.state_dict()["state"].values(), strict=True):
        assert one.keys() == two.keys()
        assert one["step"].equal(two["step"])
        assert one["step"].dtype == two["step"].dtype


@pytest.mark.usefixtures("at_once")
def test_who_prints_it_reads_nothing_of_the_kernel() -> None:
    model = network()
    plain, optimizer = torch.optim.Adam(model.parameters()), accel.optimizer(torch.optim.Adam(model.parameters()))
    train(model, optimizer)
    assert is_fused(optimizer)
    assert repr(optimizer) == repr(plain)
    assert optimizer.param_groups == plain.param_groups
    assert not is_fused(copy.deepcopy(optimizer))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("chosen", [True, False])
def test_what_the_script_chooses_stays(chosen: bool, steps: int) -> None:
    model = network()
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    train(model, optimizer, steps)
    optimizer.param_groups[0]["fused"] = chosen
    train(model, optimizer)
    assert optimizer.param_groups[0]["fused"] is chosen
    assert optimizer.state_dict()["param_groups"][0]["fused"] is chosen


@pytest.mark.usefixtures("at_once")
def test_a_closure_may_lay_out_gradients_otherwise() -> None:
    def trained(made: Callable[[torch.optim.Optimizer], torch.optim.Optimizer]) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Conv2d(3, 8, 3)
        optimizer = made(torch.optim.Adam(model.parameters(), lr=0.1))

        def closure() -> float:
            optimizer.zero_grad()
            loss = model(torch.ones(2, 3, 8, 8)).square().mean()
            loss.backward()
            assert model.weight.grad is not None
            model.weight.grad = model.weight.grad.contiguous(memory_format=torch.channels_last)
            return float(loss)

        for _ in range(4):
            optimizer.step(closure)
        return model.weight.detach()

    assert torch.equal(trained(unchanged), trained(accel.optimizer))


@pytest.mark.usefixtures("at_once")
def test_after_a_step_that_fails_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    with monkeypatch.context() as broken, pytest.raises(RuntimeError, match="no luck"):
        broken.setattr(torch.optim.Adam, "_init_group", lambda *_: (_ for _ in ()).throw(RuntimeError("no luck")))
        train(model, optimizer, 1)
    train(model, optimizer)
    assert is_fused(optimizer)
    assert optimizer.param_groups[0]["fused"] is None


@pytest.mark.usefixtures("at_once")
def test_training_goes_on_from_a_checkpoint() -> None:
    expected = train(plain := network(), torch.optim.Adam(plain.parameters()), 6)
    for first in (torch.optim.Adam, lambda parameters: accel.optimizer(torch.optim.Adam(parameters))):
        for second in (torch.optim.Adam, lambda parameters: accel.optimizer(torch.optim.Adam(parameters))):
            model = network()
            torch.manual_seed(1)
            batches = [torch.randn(5, 6) for _ in range(6)]
            optimizer = first(model.parameters())
            for number, batch in enumerate(batches):
                if number == 3:
                    saved = copy.deepcopy(optimizer.state_dict())
                    optimizer = second(model.parameters())
                    optimizer.load_state_dict(saved)
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
            near([each.detach() for each in model.parameters()], expected)


@pytest.mark.usefixtures("at_once")
def test_changes_are_counted() -> None:
    """Autograd refuses to go back through what has changed since; the kernel itself counts nothing."""
    model = network()
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    train(model, optimizer)
    before = [each._version for each in model.parameters()]
    loss = model(torch.ones(5, 6)).square().mean()
    loss.backward(retain_graph=True)
    optimizer.step()
    assert all(each._version > was for each, was in zip(model.parameters(), before, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def chosen() -> torch.optim.Optimizer:
    return torch.optim.Adam(network().parameters(), foreach=True)


def double() -> torch.optim.Optimizer:
    return torch.optim.Adam(network(dtype=torch.float64).parameters())


def own() -> torch.optim.Optimizer:
    class Own(torch.optim.Adam):
        pass

    return Own(network().parameters())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "make",
    [
        chosen,
        double,
        own,
        lambda: torch.optim.SGD(network().parameters()),
        lambda: torch.optim.Adam(network().parameters(), lr=torch.tensor(0.1)),
    ],
)
def test_what_is_left_alone(make: Callable[[], torch.optim.Optimizer]) -> None:
    optimizer = accel.optimizer(make())
    for each in optimizer.param_groups[0]["params"]:
        each.grad = torch.ones_like(each)
    optimizer.step()
    assert not is_fused(optimizer)


@pytest.mark.usefixtures("at_once")
def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "fused")
    optimizer = accel.optimizer(torch.optim.Adam(network().parameters()))
    assert not optimizer._optimizer_step_pre_hooks


@pytest.mark.usefixtures("at_once")
def test_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    train(model := network(), optimizer := accel.optimizer(torch.optim.Adam(model.parameters())))
    assert not is_fused(optimizer)


@pytest.mark.usefixtures("at_once")
def test_deterministic_algorithms() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        train(model := network(), optimizer := accel.optimizer(torch.optim.Adam(model.parameters())))
    finally:
        torch.use_deterministic_algorithms(False)
    assert not is_fused(optimizer)


@pytest.mark.parametrize(("wish", "fused"), [("", False), ("on", True)])
def test_runs_that_are_to_repeat_themselves_try_nothing(
    monkeypatch: pytest.MonkeyPatch, wish: str, fused: bool
) -> None:
    """On a CPU the default stays, if nobody wishes otherwise."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setenv("AUTOACCEL_FUSED", wish)
    train(model := network(), optimizer := accel.optimizer(torch.optim.Adam(model.parameters())), steps=1)
    assert settled()
    assert is_fused(optimizer) is fused


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_go_on(copied: Callable[[Any], Any]) -> None:
    model = network()
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    train(model, optimizer)
    both = copied((model, optimizer))
    near(train(*both), train(model, optimizer))


@pytest.mark.usefixtures("at_once")
def test_groups_that_are_added() -> None:
    results = []
    for wrap in (unchanged, accel.optimizer):
        model = network()
        optimizer = wrap(torch.optim.Adam(model[2].parameters(), lr=0.1))  # type: ignore[index]
        train(model, optimizer)
        optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.2})  # type: ignore[index]
        results.append(train(model, optimizer))
    near(*results)


@pytest.mark.usefixtures("at_once")
def test_within_a_compiled_step() -> None:
    results = []
    for wrap in (unchanged, accel.optimizer):
        model = network()
        optimizer = wrap(torch.optim.Adam(model.parameters()))
        step = torch.compile(optimizer.step, backend="eager")
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(5, 6)).square().mean().backward()
            step()
        results.append([each.detach() for each in model.parameters()])
    near(*results)


# ------------------------------------------------------------ the trial


class Kernels:
    """A clock in which both kernels take as long as is said."""

    def __init__(self, fused: float, default: float) -> None:
        self.optimizer: Any = None
        self._fused = fused
        self._default = default
        self._spent = 0.0

    def begin(self) -> None: ...

    def end(self) -> None:
        self._spent += self._fused if is_fused(self.optimizer) else self._default

    def mark(self) -> float:
        return self._spent

    def seconds(self, start: float, end: float) -> float:
        return end - start


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[nn.Module, torch.optim.Optimizer]]:
    monkeypatch.setattr(fused_step, "_tried", weakref.WeakSet())

    def make(fused: float, default: float = 2e-3) -> tuple[nn.Module, torch.optim.Optimizer]:
        clock = Kernels(fused, default)
        monkeypatch.setattr(fused_step, "UpdateClock", lambda: clock)
        model = network()
        clock.optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
        return model, clock.optimizer

    return make


def test_the_faster_kernel_is_kept(kernels: Callable[..., Any]) -> None:
    model, optimizer = kernels(1e-3)
    train(model, optimizer, 1)
    assert not is_fused(optimizer)
    train(model, optimizer, 80)
    assert is_fused(optimizer)


@pytest.mark.parametrize("fused", [2e-3, 4e-3])
def test_a_kernel_that_is_not_faster(kernels: Callable[..., Any], fused: float) -> None:
    model, optimizer = kernels(fused)
    train(model, optimizer, 200)
    assert not is_fused(optimizer)
    assert settled()


@pytest.mark.parametrize("alone", [True, False])
def test_whole_steps_are_not_tried_while_precisions_are_but_updates_are(
    kernels: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    monkeypatch.setattr(autocast_controller, "settled", lambda: False)
    model, optimizer = kernels(1e-3)
    train(model, optimizer, 1)
    assert settled()
    attached[optimizer].is_timed_by_itself = alone
    assert settled() is alone
    train(model, optimizer, 80)
    assert is_fused(optimizer) is alone


def test_long_updates_are_made_by_the_kernel_after_a_few(kernels: Callable[..., Any]) -> None:
    model, optimizer = kernels(1e-3, default=0.1)
    train(model, optimizer, 16)
    assert is_fused(optimizer)


class Steps:
    """A clock for whole steps: what does not belong to the update takes as long as is said."""

    def __init__(self, updates: Any, rest: float) -> None:
        self.rest = rest
        self.steps = 0
        self._updates = updates

    def mark(self) -> float:
        return float(self._updates.mark() + self.rest * self.steps)

    def seconds(self, start: float, end: float) -> float:
        return end - start


@pytest.mark.parametrize("begins", range(0, 16, 3))
@pytest.mark.parametrize("several", [False, True])
def test_what_it_saves_is_nobody_elses_gain(kernels: Callable[..., Any], begins: int, several: bool) -> None:
    """Another trial, of something that makes no difference, over steps that become twice as fast by the kernel."""
    model, optimizer = kernels(1e-3, default=9e-3)
    if several:  # whose trial is not of whole steps either
        second = kernels(1e-3, default=9e-3)
        train(second[0], second[1], 3)
    clock = Steps(attached[optimizer]._update_clock, rest=4e-3)
    other = ABTrial(clock, TrialPolicy(seconds=0.0, iterations=8, fewest=8))
    for step in range(200):
        if step >= begins:
            other.next_iteration()
        train(model, optimizer, 1)
        clock.steps += 1
    assert is_fused(optimizer)
    assert other.state is TrialState.REJECTED
    assert other.ratio == pytest.approx(1.0)


def test_short_runs_are_never_touched(kernels: Callable[..., Any]) -> None:
    model, optimizer = kernels(1e-3)
    seen = []
    for _ in range(8):
        train(model, optimizer, 1)
        seen.append(is_fused(optimizer))
    assert not any(seen)


def test_a_closure_is_not_timed(kernels: Callable[..., Any]) -> None:
    model, optimizer = kernels(1e-3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(torch.ones(5, 6)).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(80):
        optimizer.step(closure)
    assert not is_fused(optimizer)
    assert settled()


def flags_as_numbers(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.param_groups[0]["amsgrad"] = 0


def numpy_rate(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.param_groups[0]["lr"] = np.array(0.1)


def later_hook(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    def transpose(*_: Any) -> None:
        transposed(model[0].weight)  # type: ignore[index]

    optimizer.register_step_pre_hook(transpose)


def moments_in_place(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    moments = optimizer.state[model[0].weight]["exp_avg"]  # type: ignore[index]
    moments.data = moments.t().contiguous().t()


def gradient_of_one_number(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    def reduce(*_: Any) -> None:
        weight = model[0].weight  # type: ignore[index]
        weight.grad.data = weight.grad.mean(0, keepdim=True)

    HOOKS.register_optimizer_step_pre_hook(reduce)


@pytest.fixture
def no_hooks_of_all() -> Iterator[None]:
    yield
    HOOKS._global_optimizer_pre_hooks.clear()


@pytest.mark.usefixtures("at_once", "no_hooks_of_all")
@pytest.mark.parametrize("change", [flags_as_numbers, numpy_rate, later_hook, moments_in_place, gradient_of_one_number])
def test_what_the_kernel_would_refuse_or_misread_is_the_defaults(change: Any) -> None:
    results = []
    for wrap in (unchanged, accel.optimizer):
        model = network()
        optimizer = wrap(torch.optim.Adam(model.parameters(), lr=0.1))
        train(model, optimizer, 2)
        change(model, optimizer)
        results.append(train(model, optimizer, 2))
        HOOKS._global_optimizer_pre_hooks.clear()
    near(results[1], results[0])
    assert not is_fused(optimizer)


@pytest.mark.usefixtures("at_once")
def test_states_that_are_touched_before_the_first_step() -> None:
    results = []
    for wrap in (unchanged, accel.optimizer):
        model = network()
        optimizer = wrap(torch.optim.Adam(model.parameters(), lr=0.1))
        for each in model.parameters():
            assert optimizer.state[each] == {}
        train(model, optimizer, 2)
        moments = optimizer.state[model[0].weight]  # type: ignore[index]
        moments["exp_avg"] = moments["exp_avg"].t().contiguous().t()
        results.append(train(model, optimizer, 2))
    near(results[1], results[0])


@pytest.mark.usefixtures("at_once")
def test_gradients_that_are_negated_when_they_are_read() -> None:
    results = []
    for wrap in (unchanged, accel.optimizer):
        real, imaginary = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(0.5))
        optimizer = wrap(torch.optim.Adam([real, imaginary], lr=0.1))
        for _ in range(3):
            optimizer.zero_grad()
            torch.autograd.backward((torch.complex(real, imaginary).conj() - (1 + 2j)).abs().square())
            optimizer.step()
        results.append([real.detach(), imaginary.detach()])
    near(results[1], results[0])


def test_layers_without_a_size_yet() -> None:
    model = nn.ModuleList([nn.Linear(2, 2), nn.LazyLinear(3)])
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    model[0](torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert not is_fused(optimizer)
