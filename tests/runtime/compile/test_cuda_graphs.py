"""Captured graphs write to the same memory again: what the script gets must be its own. Without a device, by a fake."""

from __future__ import annotations

import collections
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel.runtime.compile import cuda_graphs, eager_fallback
from autoaccel.runtime.compile.cuda_graphs import GraphedCall, UnfitError

Pair = collections.namedtuple("Pair", ["one", "two"])


pytestmark = pytest.mark.usefixtures("fresh_graphs")


class Replayed(torch.autograd.Function):
    """A forward and a backward pass that write to where they wrote before."""

    @staticmethod
    def forward(ctx: Any, memory: Memory, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.memory = memory
        return memory.written("output", x * weight)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, torch.Tensor, torch.Tensor]:
        x, weight = ctx.saved_tensors
        memory: Memory = ctx.memory
        at_x = memory.written("x", gradients[0] * weight)
        return None, at_x, memory.written("weight", (gradients[0] * x).sum(0))


class Memory:
    """Where one graph writes."""

    def __init__(self) -> None:
        self._places: dict[str, torch.Tensor] = {}

    def written(self, name: str, value: torch.Tensor) -> torch.Tensor:
        if name not in self._places:
            self._places[name] = torch.empty_like(value)
        return self._places[name].copy_(value).detach()


class Scales(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


@pytest.fixture
def replaying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling replaces a module's call by one whose results are overwritten."""
    replay: Any = Replayed.apply
    memory = Memory()

    def compiled(call: Callable[..., Any], backend: Any) -> Callable[..., Any]:
        assert backend == "cudagraphs"
        return lambda x: replay(memory, x, call.__self__.weight)  # type: ignore[attr-defined]

    monkeypatch.setattr(torch, "compile", compiled)


def test_the_fake_overwrites(replaying: None) -> None:
    module = Scales()
    call: Any = torch.compile(module.forward, backend="cudagraphs")
    first = call(torch.ones(1, 2))
    call(torch.zeros(1, 2))
    assert first.tolist() == [[0.0, 0.0]]


def test_outputs_are_the_scripts_own(replaying: None) -> None:
    module = Scales()
    call = GraphedCall(module.forward, module)
    kept = [call(torch.full((1, 2), float(number))).detach() for number in range(3)]
    assert [each.tolist() for each in kept] == [[[0.0, 0.0]], [[1.0, 2.0]], [[2.0, 4.0]]]


def test_gradients_are_the_scripts_own(replaying: None) -> None:
    """Of parameters: kept, accumulated; of inputs: kept."""
    module, plain = Scales(), Scales()
    call = GraphedCall(module.forward, module)
    found: list[list[Any]] = []
    for run in (call, plain):
        weight = module.weight if run is call else plain.weight
        inputs = [torch.full((3, 2), float(number), requires_grad=True) for number in range(3)]
        kept = []
        for x in inputs:  # accumulated over three passes
            run(x).square().sum().backward()
            kept.append(weight.grad)
        first = torch.autograd.grad(run(inputs[1]).sum(), weight)[0]
        run(inputs[2]).sum().backward()
        weight.grad = None
        run(inputs[2]).sum().backward()
        found.append([[x.grad for x in inputs], kept, first, weight.grad])
    assert str(found[0]) == str(found[1])


def test_nothing_is_left_on_the_parameters(replaying: None) -> None:
    module = Scales()
    before = pickle.dumps(module)
    call = GraphedCall(module.forward, module)
    call(torch.ones(1, 2))
    assert pickle.dumps(module) == before
    copy.deepcopy(module)
    call.close()
    assert not module.weight._backward_hooks


@pytest.mark.parametrize(
    "result",
    [
        lambda x: (x, [x, None, 3]),
        lambda x: {"a": x, "b": (x, "text")},
        lambda x: Pair(x, 1.5),
    ],
)
def test_nested_outputs(monkeypatch: pytest.MonkeyPatch, result: Callable[[torch.Tensor], Any]) -> None:
    monkeypatch.setattr(torch, "compile", lambda call, backend: call)
    x = torch.ones(2)
    got, want = GraphedCall(result, nn.ReLU())(x), result(x)
    x.zero_()
    assert str(got) == str(result(torch.ones(2)))
    assert type(got) is type(want)


class Holder:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def test_unknown_outputs_are_refused_and_the_attempt_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda call, backend: call)
    with pytest.raises(UnfitError, match="Holder"):
        GraphedCall(Holder, nn.ReLU())(torch.ones(1))
    module = Scales()
    attempt = eager_fallback.EagerFallback("Scales", Holder, lambda backend: GraphedCall(Holder, module))
    assert attempt.prepare("cudagraphs")
    with pytest.warns(RuntimeWarning, match="runs eagerly.*Holder|Scales is not compiled"):
        assert isinstance(attempt.run((torch.ones(1),), {}), Holder)
    assert attempt.given_up
    assert not module.weight._backward_hooks


def test_whatever_fails_later_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def once(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        if len(calls) > 1:
            raise RuntimeError("capture failed")
        return x

    monkeypatch.setattr(torch, "compile", lambda call, backend: call)
    attempt = eager_fallback.EagerFallback("ReLU", nn.ReLU(), lambda backend: GraphedCall(once, nn.ReLU()))
    attempt.prepare("cudagraphs")
    assert attempt.run((torch.ones(1),), {}).tolist() == [1.0]
    with pytest.warns(RuntimeWarning, match="capture failed"):
        assert attempt.run((-torch.ones(1),), {}).tolist() == [0.0]
    assert attempt.given_up


class Keeps(nn.Module):
    """Keeps a result for later, as recurrent layers and hand-written GAN models do."""

    def __init__(self) -> None:
        super().__init__()
        self.state: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = x + 1
        return x * 2


def test_modules_that_keep_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda call, backend: call)
    module = Keeps()
    with pytest.raises(UnfitError, match="keeps tensors"):
        GraphedCall(module.forward, nn.Sequential(module))(torch.ones(1))


def test_it_trains_as_the_module_does_when_really_traced() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    module = copy.deepcopy(plain)
    call = GraphedCall(lambda x: module(x), module, backend="aot_eager")
    for run, trained in ((call, module), (plain, plain)):
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        for step in range(3):
            x = torch.full((4, 3), float(step)) + torch.arange(4.0)[:, None]
            optimizer.zero_grad()
            run(x).square().sum().backward()
            optimizer.step()
    for mine, theirs in zip(module.state_dict().values(), plain.state_dict().values(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize(("value", "on"), [("on", True), ("1", True), ("", False), ("off", False)])
def test_only_on_demand(monkeypatch: pytest.MonkeyPatch, value: str, on: bool) -> None:
    monkeypatch.setenv("AUTOACCEL_CUDA_GRAPHS", value)
    assert cuda_graphs.wanted() is on
