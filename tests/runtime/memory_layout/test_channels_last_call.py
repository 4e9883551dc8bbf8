"""`accel.channels_last`: pictures laid out otherwise while a model works, and nobody who could tell."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.amp import autocast_controller
from autoaccel.runtime.compile import compile_controller
from autoaccel.runtime.memory_layout import channels_last_call
from autoaccel.runtime.memory_layout.channels_last_call import settled
from autoaccel.runtime.memory_layout.memory_format import to_channels_last
from autoaccel.runtime.optim import fused_step
from autoaccel.runtime.trial.ab_trial import TrialPolicy
from autoaccel.runtime.trial.clocks import HostClock


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_CHANNELS_LAST", "on")


class Net(nn.Module):
    """Two convolutions and a linear layer; `between` is what happens to the pictures in between."""

    def __init__(self, between: Callable[[Tensor], Tensor] | None = None, side: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 4, 3, padding=1), nn.Linear(4, 2)
        self.between = between
        self.layouts: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.first(x)))
        with torch._C.DisableTorchFunction():
            self.layouts.append(x.is_contiguous(memory_format=torch.channels_last))
        if self.between is not None:
            x = self.between(x)
        result: Tensor = self.last(self.second(x).mean((2, 3)))
        return result


def pictures(count: int = 2, side: int = 5) -> Tensor:
    return torch.randn(count, 3, side, side)


def train(model: nn.Module, steps: int = 3, side: int = 5, rate: float = 0.1) -> list[Tensor]:
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(pictures(side=side)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *(each.detach().clone() for each in model.state_dict().values())]


def unchanged(model: nn.Module) -> nn.Module:
    return model


def near(one: list[Tensor], two: list[Tensor]) -> None:
    for each, other in zip(one, two, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-4, atol=1e-5)


def is_laid_out(model: nn.Module) -> bool:
    return model._compiled_call_impl is not None


@pytest.mark.usefixtures("at_once")
def test_it_trains_as_before_with_pictures_laid_out_otherwise() -> None:
    plain, model = Net(), accel.channels_last(Net())
    near(train(model), train(plain))
    assert plain.layouts == [False] * 3
    assert model.layouts == [False, True, True]  # the first one is looked at


@pytest.mark.usefixtures("at_once")
def test_nothing_of_the_model_is_laid_out_otherwise() -> None:
    plain, model = Net(), accel.channels_last(Net())
    train(plain)
    train(model)
    for one, two in zip(plain.parameters(), model.parameters(), strict=True):
        assert one.stride() == two.stride()
        assert one.grad is not None
        assert two.grad is not None
        assert one.grad.stride() == two.grad.stride()
    for each in model.state_dict().values():
        assert each.is_contiguous()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("on", [False, True])
def test_fused_optimizers_go_on(monkeypatch: pytest.MonkeyPatch, on: bool) -> None:
    monkeypatch.setenv("AUTOACCEL_FUSED", "on")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 1, 1), nn.Conv2d(1, 4, 1), nn.ConvTranspose2d(4, 1, 2))
    if on:
        accel.channels_last(model)
    optimizer = accel.optimizer(torch.optim.Adam(model.parameters()))
    for _ in range(4):
        optimizer.zero_grad()
        model(pictures()).square().mean().backward()
        optimizer.step()
    assert fused_step.is_fused(optimizer)
    assert is_laid_out(model) is on


@pytest.mark.usefixtures("at_once")
def test_what_goes_in_and_comes_out_lies_as_before() -> None:
    class Masks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inner, self.one = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 1, 3)

        def forward(self, x: Tensor) -> Any:
            return self.inner(x), {"one": self.one(x), "none": None}, [self.inner(x).mean(1)]

    plain, model = Masks(), accel.channels_last(Masks())
    for _ in range(2):
        x, y = (pictures().requires_grad_() for _ in range(2))
        before = x.detach().clone()
        expected, found = plain(y), model(x)
        assert found[0].stride() == expected[0].stride()
        assert found[1]["one"].stride() == expected[1]["one"].stride()
        assert found[1]["none"] is None
        assert found[2][0].stride() == expected[2][0].stride()
        (given,) = torch.autograd.grad(found[0].sum() + found[1]["one"].sum(), x)
        (wanted,) = torch.autograd.grad(expected[0].sum() + expected[1]["one"].sum(), y)
        assert given.stride() == wanted.stride()
        assert x.stride() == y.stride()
        assert x.equal(before)
    assert is_laid_out(model)


@given(st.lists(st.sampled_from([0, 1, 1, 2, 3]), min_size=4, max_size=4), st.booleans())
def test_copies_have_the_strides_even_where_both_layouts_are_one(shape: list[int], graph: bool) -> None:
    x = torch.randn(shape, requires_grad=graph)
    y = to_channels_last(x)
    assert y.equal(x)
    assert y.stride() == (shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1])
    if graph:
        (y * 2).sum().backward()
        assert x.grad is not None
        assert x.grad.equal(torch.full_like(x, 2))


# ------------------------------------------------------------ who would notice


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(_ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view(-1).view(gradient.shape) * 2


def views(x: Tensor) -> Tensor:
    return x.view(x.size(0), -1).view(x.shape)


def reads_strides(x: Tensor) -> Tensor:
    return x * (1 if x.stride(1) == 25 else 2)


def asks(x: Tensor) -> Tensor:
    return x if x.is_contiguous() else x * 2


def goes_through_memory(x: Tensor) -> Tensor:
    return x.as_strided(x.shape, (200, 25, 5, 1))


def leaves_for_numpy(x: Tensor) -> Tensor:
    return x * float(x.detach().numpy().strides[1] == 100)


def writes_to_a_reshaped_view(x: Tensor) -> Tensor:
    x = x + 1
    flat = x.reshape(x.size(0), -1)
    flat.mul_(2)
    return x


def follows_gradients(x: Tensor) -> Tensor:
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient.view(-1).view(gradient.shape))  # type: ignore[no-untyped-call]
    return x


def computes_again(x: Tensor) -> Tensor:
    again: Tensor = checkpoint(lambda each: each * 2, x, use_reentrant=False)
    return again


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "between",
    [
        views,
        reads_strides,
        asks,
        goes_through_memory,
        leaves_for_numpy,
        writes_to_a_reshaped_view,
        follows_gradients,
        computes_again,
        Doubled.apply,
    ],
)
def test_who_would_notice_never_sees_another_layout(between: Callable[[Tensor], Tensor]) -> None:
    plain, model = Net(between), accel.channels_last(Net(between))
    for one, two in zip(train(model), train(plain), strict=True):
        assert one.equal(two)
    assert model.layouts == [False] * 3
    assert not is_laid_out(model)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("between", [views, reads_strides, asks, goes_through_memory, leaves_for_numpy])
def test_who_notices_later_sees_the_plain_layout(between: Callable[[Tensor], Tensor]) -> None:
    """From the second step on, when the first one has shown nothing: no error, and the plain script's values."""

    def later() -> Callable[[Tensor], Tensor]:
        calls = []

        def run(x: Tensor) -> Tensor:
            calls.append(1)
            return between(x) if len(calls) > 1 else x

        return run

    plain, model = Net(later()), accel.channels_last(Net(later()))
    near(train(model), train(plain))
    assert model.layouts == [False, True, False]
    assert not is_laid_out(model)


@pytest.mark.usefixtures("at_once")
def test_the_scripts_own_error_is_its_own() -> None:
    def refuses(x: Tensor) -> Tensor:
        return x @ torch.ones(7, 7)

    for model in (Net(refuses), accel.channels_last(Net(refuses))):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            model(pictures())


@pytest.mark.usefixtures("at_once")
def test_arguments_that_are_changed_or_given_back() -> None:
    class Centred(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.sub_(1.0))

    class Same(Net):
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            return x

    for kind in (Centred, Same):
        model = accel.channels_last(kind())
        for _ in range(2):
            model(pictures())
        assert not is_laid_out(model)


@pytest.mark.usefixtures("at_once")
def test_a_view_where_both_layouts_are_one() -> None:
    """`x.view(x.size(0), -1)` after pooling to one pixel."""

    class Pooled(Net):
        def forward(self, x: Tensor) -> Tensor:
            x = functional.adaptive_avg_pool2d(self.second(self.first(x)), 1)
            result: Tensor = self.last(x.view(x.size(0), -1))
            return result

    model = accel.channels_last(Pooled())
    near(train(model), train(Pooled()))
    assert is_laid_out(model)


# ------------------------------------------------------------ what is left alone


def own_layout() -> Any:
    return Net().to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def with_hook() -> nn.Module:
    model = Net()
    model.first.register_forward_hook(lambda *_: None)
    return model


def compiled() -> nn.Module:
    model = Net()
    model.compile(backend="eager")
    return model


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("make", [own_layout, with_hook])
def test_what_is_left_alone(make: Callable[[], nn.Module]) -> None:
    model = accel.channels_last(make())
    plain = make()
    for one, two in zip(train(model), train(plain), strict=True):
        assert one.equal(two)
    assert model.layouts == plain.layouts


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "make",
    [compiled, lambda: torch.compile(Net(), backend="eager"), lambda: nn.Linear(2, 2), lambda: nn.Conv1d(2, 2, 1)],
)
def test_what_has_nothing_to_lay_out(make: Callable[[], Any]) -> None:
    model = make()
    before = model._compiled_call_impl
    assert accel.channels_last(model) is model
    assert model._compiled_call_impl is before


@pytest.mark.usefixtures("at_once")
def test_hooks_that_come_later() -> None:
    model = accel.channels_last(Net())
    train(model, 2)
    model.second.register_forward_hook(lambda *_: None)
    model(pictures())
    assert model.layouts == [False, True, False]


@pytest.mark.usefixtures("at_once")
def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "channels_last")
    assert not is_laid_out(accel.channels_last(Net()))


@pytest.mark.usefixtures("at_once")
def test_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    train(model := accel.channels_last(Net()))
    assert not any(model.layouts)


@pytest.mark.usefixtures("at_once")
def test_deterministic_algorithms() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        train(model := accel.channels_last(Net()))
    finally:
        torch.use_deterministic_algorithms(False)
    assert not any(model.layouts)


@pytest.mark.usefixtures("at_once")
def test_the_same_results_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    train(model := accel.channels_last(Net()))
    assert not any(model.layouts)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each)), lambda each: saved_and_loaded(each)]
)
def test_copies_are_plain_models(copied: Callable[[Any], Any]) -> None:
    model = accel.channels_last(Net())
    train(model)
    other = copied(model)
    assert not is_laid_out(other)
    near(train(other), train(model))


def saved_and_loaded(model: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    assert b"autoaccel" not in file.getvalue()
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.usefixtures("at_once")
def test_what_data_parallel_wraps_is_laid_out() -> None:
    wrapped = nn.DataParallel(Net())
    assert accel.channels_last(wrapped) is wrapped
    train(wrapped)
    assert is_laid_out(wrapped.module)


@pytest.mark.usefixtures("at_once")
def test_replicas_run_with_their_own_weights() -> None:
    model = accel.channels_last(Net().eval())
    model(pictures())
    replica = model._replicate_for_data_parallel()  # type: ignore[no-untyped-call]
    replica.last = nn.Linear(4, 2)
    found: list[Tensor] = []
    x = pictures()
    thread = threading.Thread(target=lambda: found.append(replica(x)))
    thread.start()
    thread.join()
    assert found[0].equal(replica._call_impl(x))
    assert not found[0].equal(model._call_impl(x))  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("at_once")
def test_tied_parameters_and_models_within_models() -> None:
    class Twice(nn.Module):
        def __init__(self, wrap: Callable[[Any], Any]) -> None:
            super().__init__()
            self.inner = wrap(Net())
            self.again = nn.Conv2d(3, 8, 3, padding=1)
            self.again.weight = self.inner.first.weight

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.inner(x) + self.again(x).mean((1, 2, 3)).unsqueeze(1)
            return result

    near(train(accel.channels_last(Twice(accel.channels_last))), train(Twice(lambda each: each)))


@pytest.mark.usefixtures("at_once")
def test_varying_shapes() -> None:
    plain, model = Net(), accel.channels_last(Net())
    torch.manual_seed(0)
    for side in [*range(3, 30), *range(3, 30)]:
        x = pictures(side=side)
        near([model(x)], [plain(x)])
    assert model.layouts == [False] * 27 + [True] * 16 + [False] * 11


@pytest.mark.usefixtures("at_once")
def test_evaluation_follows() -> None:
    plain, model = Net(), accel.channels_last(Net())
    near(train(model), train(plain))
    for each in (plain, model):
        each.eval()
    with torch.no_grad():
        for _ in range(3):
            x = pictures()
            near([model(x)], [plain(x)])
    assert model.layouts == [False, True, True, False, True, True]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("compiled_first", [False, True])
def test_beneath_a_compiled_model(monkeypatch: pytest.MonkeyPatch, compiled_first: bool) -> None:
    monkeypatch.setenv("AUTOACCEL_COMPILE_MODE", "eager")
    verbs: list[Any] = [accel.compile, accel.channels_last]
    model = Net()
    for verb in verbs if compiled_first else reversed(verbs):
        verb(model)
    near(train(model), train(Net()))
    assert not any(model.layouts)  # compiled code has layouts of its own


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("compiled_first", [False, True])
def test_beneath_a_model_that_is_not_compiled_yet(compiled_first: bool) -> None:
    verbs: list[Any] = [accel.compile, accel.channels_last]
    model = Net()
    for verb in verbs if compiled_first else reversed(verbs):
        verb(model)
    near(train(model), train(Net()))
    assert model.layouts == [False, True, True]
    near(train(copy.deepcopy(model)), train(model))


# ------------------------------------------------------------ the trial


class Layouts:
    """A clock in which a step takes two milliseconds in the plain layout, and as long as is said in the other one."""

    def __init__(self, other: float) -> None:
        self.model: Any = None
        self._other = other
        self._counted = 0
        self._spent = 0.0

    def mark(self) -> float:
        for laid_out in self.model.layouts[self._counted :]:
            self._spent += self._other if laid_out else 2e-3
        self._counted = len(self.model.layouts)
        return self._spent

    def seconds(self, start: float, end: float) -> float:
        return end - start


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Net]:
    monkeypatch.setattr(channels_last_call, "_tried", [])
    monkeypatch.setattr(channels_last_call, "POLICY", TrialPolicy(seconds=0.02, iterations=16, share=0.1))

    def make(other: float) -> Net:
        clock = Layouts(other)
        monkeypatch.setattr(channels_last_call, "clock_of", lambda _: clock)
        clock.model = accel.channels_last(Net())
        made: Net = clock.model
        return made

    return make


def test_the_faster_layout_is_kept(tried: Callable[[float], Net]) -> None:
    model = tried(1e-3)
    train(model, 1)
    assert not settled()
    train(model, 80)
    assert settled()
    assert all(model.layouts[-20:])


def test_it_is_tried_while_compiling_only_watches(
    tried: Callable[[float], Net], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_controller, "renew_estimates", renewed := Mock())
    model = accel.compile(tried(1e-3))
    train(model, 80)
    assert all(model.layouts[-20:])
    renewed.assert_called_once()  # what steps took before says nothing of what compiling saves now


@pytest.mark.parametrize("other", [2e-3, 4e-3])
def test_a_layout_that_is_not_faster(tried: Callable[[float], Net], other: float) -> None:
    model = tried(other)
    train(model, 200)
    assert settled()
    assert not any(model.layouts[-20:])
    assert not is_laid_out(model)


def test_a_model_that_is_moved_is_tried_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps are timed by the clock of the device on which they are made."""
    places: list[torch.device] = []

    def clock_of(place: torch.device) -> HostClock:
        places.append(place)
        return HostClock()

    model = accel.channels_last(Net())
    monkeypatch.setattr(channels_last_call, "clock_of", clock_of)
    train(model, 1)
    place = torch.device("cpu", 0)
    monkeypatch.setattr(devices, "module_device", lambda _: place)
    train(model, 2, side=6)
    assert places == [torch.device("cpu"), place]


def test_nothing_is_tried_while_precisions_are(tried: Callable[[float], Net], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autocast_controller, "settled", lambda: False)
    model = tried(1e-3)
    train(model, 80)
    assert not any(model.layouts)


def test_short_runs_are_never_touched(tried: Callable[[float], Net]) -> None:
    model = tried(1e-3)
    train(model, 12)
    assert not any(model.layouts)


def test_one_after_the_other(tried: Callable[[float], Net]) -> None:
    first, second = tried(1e-3), Net()
    accel.channels_last(second)
    train(first, 1)
    train(second, 80)
    assert not any(second.layouts)


def test_what_was_decided_is_remembered(
    tried: Callable[[float], Net], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "on")
    monkeypatch.setenv("AUTOACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("sys.argv", [__file__])
    train(tried(1e-3), 80)
    again = tried(1e-3)
    train(again, 3)
    assert again.layouts == [False, True, True]
    unfit = accel.channels_last(Net(views))
    train(unfit, 3)
    assert unfit.layouts == [False] * 3


# ------------------------------------------------------------ whatever stands between convolutions

STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: functional.relu(x + 0, inplace=True),
    "leaky": lambda x: functional.leaky_relu(x + 0),
    "pool": lambda x: functional.max_pool2d(x, 3, 1, 1),
    "average": lambda x: functional.avg_pool2d(x, 3, 1, 1),
    "interpolate": lambda x: functional.interpolate(x, scale_factor=2)[:, :, ::2, ::2],
    "norm": lambda x: functional.group_norm(x, 2),
    "layer norm": lambda x: functional.layer_norm(x, x.shape[1:]),
    "softmax": lambda x: x.softmax(1),
    "sort": lambda x: x.sort(1).values,
    "cat": lambda x: torch.cat([x, x.flip(1)], 1)[:, ::2],
    "chunk": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "shuffle": lambda x: functional.pixel_unshuffle(functional.pixel_shuffle(x, 2), 2),
    "tokens": lambda x: x.flatten(2).transpose(1, 2).relu().transpose(1, 2).reshape(x.shape),
    "view": lambda x: x.view(x.shape[0], -1).view(x.shape),
    "view of channels": lambda x: x.view(x.shape[0], 2, -1, *x.shape[2:]).transpose(1, 2).reshape(x.shape),
    "view of pixels": lambda x: x.view(*x.shape[:2], -1).softmax(2).view(x.shape),
    "contiguous": lambda x: x.contiguous().view(-1).view(x.shape),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "permuted": lambda x: (
        x.permute(0, 2, 3, 1).contiguous().view(-1, x.shape[1]).view(x.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
    ),
    "attention": lambda x: torch.einsum("nchw,ndhw->ncd", x, x).softmax(-1).mean((1, 2))[:, None, None, None] * x,
    "squeeze": lambda x: x * x.mean((2, 3)).view(*x.shape[:2], 1, 1).sigmoid(),
    "written": lambda x: (x + 0).index_fill_(1, torch.tensor([0]), 0.5),
    "written by a mask": lambda x: (x + 0).masked_fill_(x > 1, 1.0),
    "written through a view": lambda x: writes_to_a_reshaped_view(x),
    "strided": lambda x: x.as_strided(x.shape, x.stride()),
    "cumsum": lambda x: x.cumsum(1),
    "detached": lambda x: x - x.detach().numpy().mean(),
}


def trained_or_refused(model: nn.Module) -> list[Tensor] | str:
    try:
        return train(model, side=6, rate=1e-3)
    except RuntimeError as refusal:
        return str(refusal)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=4))
def test_any_network_trains_as_before(names: list[str]) -> None:
    def between(x: Tensor) -> Tensor:
        for name in names:
            x = STEPS[name](x)
        return x

    with pytest.MonkeyPatch.context() as context:
        context.setenv("AUTOACCEL_CHANNELS_LAST", "on")
        plain, laid_out = (trained_or_refused(wrap(Net(between))) for wrap in (unchanged, accel.channels_last))
    if isinstance(plain, str):  # `cat`, then `view`: torch refuses it in any layout
        assert laid_out == plain
    else:
        assert not isinstance(laid_out, str), laid_out
        near(plain, laid_out)
