"""Mixed precision: what each device gets, and a scaler that changes nothing where nothing needs scaling."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from autoaccel import runtime as accel
from autoaccel.runtime.amp import autocast_controller, precision


@pytest.fixture
def fp16(monkeypatch: pytest.MonkeyPatch) -> None:
    """float16 is never chosen on a CPU by itself; forced, the whole scaler can be tested there."""
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "fp16")


def model_and_optimizer(**options: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, **options)


# ---------------------------------------------------------------- autocast


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [
        ((6, 1), None),
        ((7, 0), torch.float16),
        ((7, 5), torch.float16),
        ((8, 0), torch.bfloat16),
        ((9, 0), torch.bfloat16),
    ],
)
def test_precision_by_compute_capability(capability: tuple[int, int], dtype: torch.dtype | None) -> None:
    assert precision.by_capability(*capability).value is dtype


@pytest.mark.parametrize("computes", [True, False])
def test_the_cpu_needs_the_units(monkeypatch: pytest.MonkeyPatch, computes: bool) -> None:
    monkeypatch.setattr(precision, "_cpu_computes_bfloat16", lambda: computes)
    assert precision.precision(torch.device("cpu")).value is (torch.bfloat16 if computes else None)
    with accel.autocast("cpu"):
        assert not torch.is_autocast_enabled("cpu")  # bfloat16 is not tried before some steps were done without
    assert autocast_controller.settled() is not computes


@pytest.mark.parametrize("device", ["mps", "meta", "cuda", torch.device("cuda", 1)])
def test_off_where_there_is_no_such_device_or_no_gain(device: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a machine without CUDA")
    with accel.autocast(device):
        assert not torch.is_autocast_enabled("cuda")
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("name", "dtype"), [("bf16", torch.bfloat16), ("FLOAT16", torch.float16), ("bfloat16", torch.bfloat16)]
)
@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), torch.zeros(1)])
def test_the_environment_chooses_the_dtype(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: torch.dtype, device: Any
) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", name)
    with accel.autocast(device):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is dtype


def test_off_is_nothing_and_not_a_disabled_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "off")
    with torch.autocast("cpu", dtype=torch.bfloat16), accel.autocast("cpu"):
        assert torch.is_autocast_enabled("cpu")


def test_regions_nest_and_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "bf16")
    for _ in range(2):
        with accel.autocast("cpu"), accel.autocast("cpu"):
            assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_enabled("cpu")


def test_padded_sequences_are_evaluated_in_a_region_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "bfloat16")
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    padded = torch.tensor([[False, False, True], [False, True, True]])
    before = torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad(), accel.autocast("cpu"):
        result = encoder(torch.ones(2, 3, 16), src_key_padding_mask=padded)
    assert result.isfinite().all()
    assert torch.backends.mha.get_fastpath_enabled() is before


def test_an_unknown_dtype_is_ignored_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "int3")
    monkeypatch.setattr(precision, "_cpu_computes_bfloat16", lambda: False)
    with pytest.warns(RuntimeWarning, match="int3"), accel.autocast("cpu"):
        assert not torch.is_autocast_enabled("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accel.autocast("cpu")


def test_an_unknown_dtype_leaves_the_trial_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "int4")
    monkeypatch.setattr(precision, "_cpu_computes_bfloat16", lambda: True)
    with pytest.warns(RuntimeWarning, match="int4"), accel.autocast("cpu"):
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("computes", [True, False])
def test_what_the_hardware_has_may_be_asked_for(monkeypatch: pytest.MonkeyPatch, computes: bool) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "hardware")
    monkeypatch.setattr(precision, "_cpu_computes_bfloat16", lambda: computes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with accel.autocast("cpu"):  # at the first region, so without a trial
            assert torch.is_autocast_enabled("cpu") is computes


@pytest.mark.parametrize("value", ["amp", "all", "compile, AMP"])
def test_disabled(monkeypatch: pytest.MonkeyPatch, fp16: None, value: str) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", value)
    with accel.autocast("cpu"):
        assert not torch.is_autocast_enabled("cpu")
    assert not accel.grad_scaler(model_and_optimizer()[1]).is_enabled()


def test_the_region_costs_compiled_code_no_graph_break(monkeypatch: pytest.MonkeyPatch, fresh_graphs: None) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "bf16")

    def step(x: torch.Tensor) -> torch.Tensor:
        with accel.autocast("cpu"):
            return x @ x

    compiled = torch.compile(step, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2, 2)).dtype is torch.bfloat16


# ---------------------------------------------------------------- which scaler


def test_the_same_optimizers_get_the_same_scaler() -> None:
    (_, a), (_, b) = model_and_optimizer(), model_and_optimizer()
    assert accel.grad_scaler(a) is accel.grad_scaler(a)
    assert accel.grad_scaler(a) is not accel.grad_scaler(b)
    both = accel.grad_scaler(a, b)
    assert both is accel.grad_scaler(b, a)
    assert both is accel.grad_scaler([b, a]) is accel.grad_scaler({"g": a, "d": b}) is accel.grad_scaler((a,), b)
    assert both is not accel.grad_scaler(a)
    assert isinstance(both, torch.amp.GradScaler)


def test_nothing_is_kept_alive(fp16: None) -> None:
    (_, a), (_, b) = model_and_optimizer(), model_and_optimizer()
    gone: list[weakref.ref[Any]] = [weakref.ref(a), weakref.ref(b), weakref.ref(accel.grad_scaler(a, b))]
    del a, b
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


def test_a_dead_optimizer_does_not_lend_its_scaler(fp16: None) -> None:
    _, a = model_and_optimizer()
    _, b = model_and_optimizer()
    first = accel.grad_scaler(a, b)
    del b
    gc.collect()
    _, c = model_and_optimizer()
    assert accel.grad_scaler(a, c) is not first


def test_inactive_by_default_on_a_cpu() -> None:
    _, optimizer = model_and_optimizer()
    assert not accel.grad_scaler(optimizer).is_enabled()
    assert not accel.grad_scaler().is_enabled()


def test_activity_is_settled_at_the_first_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """An optimizer may be made before its parameters move to the device that wants scaling."""
    _, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    assert not scaler.is_enabled()
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "fp16")
    assert float(scaler.scale(torch.tensor(1.0))) == 2.0**16
    assert scaler.is_enabled()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scaling_may_be_asked_for_in_any_precision(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", dtype)
    assert accel.decisions()["grad_scaler"] == (False, "needed for float16 only")
    monkeypatch.setenv("AUTOACCEL_GRAD_SCALER", " On ")
    assert accel.grad_scaler(model_and_optimizer()[1]).is_enabled()
    assert accel.decisions()["grad_scaler"] == (True, "AUTOACCEL_GRAD_SCALER")
    monkeypatch.setenv("AUTOACCEL_DISABLE", "amp")
    assert not accel.grad_scaler(model_and_optimizer()[1]).is_enabled()


def test_scaling_cannot_be_asked_for_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "float16")
    monkeypatch.setenv("AUTOACCEL_GRAD_SCALER", "off")
    with pytest.warns(RuntimeWarning, match="AUTOACCEL_GRAD_SCALER='off' is not 'on'"):
        assert accel.grad_scaler(model_and_optimizer()[1]).is_enabled()


# ---------------------------------------------------------------- what the scaler does


def train(scaled: bool, clip: bool, **options: Any) -> tuple[list[float], list[torch.Tensor]]:
    model, optimizer = model_and_optimizer(**options)
    scaler = accel.grad_scaler(optimizer)
    losses = []
    for _ in range(5):
        x = torch.randn(16, 6)
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        if scaled:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if clip:
            if scaled:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        if scaled:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(
    "active", [{}, {"AUTOACCEL_AMP_DTYPE": "fp16"}, {"AUTOACCEL_GRAD_SCALER": "on"}], ids=["off", "fp16", "on"]
)
@pytest.mark.parametrize("options", [{}, {"fused": True}], ids=["plain", "fused"])
def test_the_scaled_loop_is_the_plain_loop_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, clip: bool, active: dict[str, str], options: dict[str, Any]
) -> None:
    """Inactive it does nothing; active on float32 gradients it multiplies and divides by a power of two."""
    want = train(False, clip, **options)
    for name, value in active.items():
        monkeypatch.setenv(name, value)
    losses, parameters = train(True, clip, **options)
    assert losses == want[0]
    assert all(torch.equal(got, expected) for got, expected in zip(parameters, want[1], strict=True))


def test_inactive_is_transparent() -> None:
    model, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    losses = [torch.tensor(1.0), torch.tensor(2.0)]
    assert scaler.scale(losses) is losses
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}
    scaler.load_state_dict({"scale": 3.0})
    scaler.load_state_dict({})
    scaler.unscale_(optimizer)
    scaler.update()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(torch.ones(1, 6)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    assert scaler.step(optimizer, closure) is not None
    assert scaler.step(optimizer, closure=closure) is not None


def test_lists_and_tuples_of_losses(fp16: None) -> None:
    scaler = accel.grad_scaler(model_and_optimizer()[1])
    scaled = scaler.scale([torch.tensor(1.0), (torch.tensor(2.0),)])
    assert isinstance(scaled, list)
    assert float(scaled[1][0]) == 2.0**17


def test_an_optimizer_without_gradients_steps_like_a_plain_one(fp16: None) -> None:
    (model, used), (_, idle) = model_and_optimizer(), model_and_optimizer()
    scaler = accel.grad_scaler(used, idle)
    for _ in range(3):
        scaler.scale(model(torch.ones(1, 6)).sum()).backward()
        scaler.unscale_(idle)
        scaler.step(idle)
        scaler.step(used)
        scaler.update()
        used.zero_grad()
    scaler.unscale_(idle)
    scaler.step(idle)
    scaler.update()  # nothing stepped that had a gradient
    scaler.unscale_(idle)


def test_steps_before_anything_was_scaled_pass_through(fp16: None) -> None:
    model, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    model(torch.ones(1, 6)).sum().backward()
    before = model[0].weight.detach().clone()  # type: ignore[index]
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, model[0].weight)  # type: ignore[index]


def test_two_updates_in_one_iteration(fp16: None) -> None:
    """Adversarial: the discriminator steps, then the generator, whose backward reaches the discriminator."""
    (generator, g), (discriminator, d) = model_and_optimizer(), model_and_optimizer()
    scaler = accel.grad_scaler(g, d)
    for _ in range(3):
        d.zero_grad()
        scaler.scale(discriminator(torch.ones(2, 6)).sum()).backward()
        scaler.step(d)
        scaler.update()
        g.zero_grad()
        scaler.scale(generator(torch.ones(2, 6)).sum() + discriminator(torch.ones(2, 6)).sum()).backward()
        scaler.step(g)
        scaler.update()
    assert scaler.get_scale() == 2.0**16


def test_an_overflow_skips_the_step_and_lowers_the_scale(fp16: None) -> None:
    model, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    before = copy.deepcopy(model.state_dict())
    scaler.scale(model(torch.full((1, 6), float("inf"))).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**15
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("active", [False, True])
def test_a_step_may_be_left_out_after_a_look_at_its_gradients(monkeypatch: pytest.MonkeyPatch, active: bool) -> None:
    """`if not torch.isfinite(norm): continue` comes between `unscale_` and `step`, and skips `update` too."""
    if active:
        monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "fp16")
    model, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    norms = []
    for x in (torch.full((1, 6), float("inf")), torch.ones(1, 6), torch.ones(1, 6)):
        optimizer.zero_grad()
        scaler.scale(model(x).sum()).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1e9).item())
    assert norms[1] == norms[2]
    assert norms[1] < 100
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == (2.0**15 if active else 1.0)  # the overflow has lowered it


def test_steps_left_out_of_optimizers_that_share_a_scaler(fp16: None) -> None:
    """All gradients of the next batch are divided by the scale that they have; the overflow lowers it once."""
    (one, a), (other, b), (_, idle) = model_and_optimizer(), model_and_optimizer(), model_and_optimizer()
    scaler = accel.grad_scaler(a, b, idle)
    for x in (torch.full((1, 6), float("inf")), torch.ones(1, 6)):
        a.zero_grad()
        b.zero_grad()
        scaler.scale(one(x).sum() + other(x).sum()).backward()
        for optimizer in (idle, a, b):
            scaler.unscale_(optimizer)
    one[0].weight.grad.sub_(other[0].weight.grad)  # type: ignore[index]
    assert not one[0].weight.grad.any()  # type: ignore[index]
    for optimizer in (a, b):
        scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**15


def test_unscaling_twice_is_an_error(fp16: None) -> None:
    model, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    scaler.scale(model(torch.ones(1, 6)).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)


def test_a_closure_with_scaled_gradients_is_an_error(fp16: None) -> None:
    model, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    scaler.scale(model(torch.ones(1, 6)).sum()).backward()
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, lambda: torch.tensor(0.0))
    with pytest.raises(RuntimeError, match=r"[Cc]losure"):
        scaler.step(optimizer, closure=lambda: torch.tensor(0.0))


def test_the_scale_goes_on_where_the_last_optimizer_of_such_parameters_left_it(fp16: None) -> None:
    """An optimizer for each client or fold: a few steps each, of which none is lost to a scale that was too high."""
    model, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale(model(torch.full((1, 6), 1e38)).sum()).backward()  # overflows
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2.0**13
    for restored in (False, True):
        new = torch.optim.SGD(model.parameters(), lr=0.1)
        again = accel.grad_scaler(new)
        if restored:
            again.load_state_dict({**scaler.state_dict(), "scale": 4.0})
        again.scale(model(torch.ones(1, 6)).sum())
        assert again.get_scale() == (4.0 if restored else 2.0**13)
    others = torch.optim.SGD(nn.Linear(2, 3).parameters(), lr=0.1)
    other = accel.grad_scaler(others)
    other.scale(torch.ones(()))
    assert other.get_scale() == 2.0**16


def test_state_is_saved_and_restored(fp16: None) -> None:
    model, optimizer = model_and_optimizer()
    scaler = accel.grad_scaler(optimizer)
    scaler.scale(model(torch.full((1, 6), float("inf"))).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    other = accel.grad_scaler(model_and_optimizer()[1])
    other.load_state_dict({})  # a checkpoint that an inactive scaler wrote
    assert other.get_scale() == 2.0**16
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 2.0**15
    assert pickle.loads(pickle.dumps(scaler)).get_scale() == 2.0**15
    assert copy.deepcopy(scaler).get_scale() == 2.0**15
