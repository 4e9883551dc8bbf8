"""What is pooled is torch's bit for bit, with its gradients, its layout in memory, and whatever it refuses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from autoaccel import runtime as accel
from autoaccel.runtime import pooling

SHAPE = (16, 8, 24, 24)


def bits(tensor: Tensor) -> Tensor:
    """Those of the numbers; what is no number has many in bfloat16, which torch does not choose alike."""
    found = tensor.detach().view(torch.int32 if tensor.dtype is torch.float32 else torch.int16)
    return torch.where(tensor.detach().isnan(), 0x7FC0, found)


def pooled(function: Any, pictures: Tensor, *arguments: Any, **keywords: Any) -> tuple[Tensor, Tensor]:
    leaf = pictures.detach().clone().requires_grad_()
    result = function(leaf, *arguments, **keywords)
    (result * torch.arange(result.numel()).view(result.shape).to(result.dtype)).sum().backward()
    assert leaf.grad is not None
    return result, leaf.grad


def same(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> bool:
    return all(torch.equal(bits(a), bits(b)) and a.stride() == b.stride() for a, b in zip(first, second, strict=True))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    channels=st.sampled_from([8, 10, 16, 33]),
    size=st.tuples(st.integers(7, 20), st.integers(7, 20)),
    how=st.sampled_from([(2,), (2, 2), (3, 2, 1), ((2, 3), (1, 2)), (3, 1, 1, 2), (2, 2, 1, 1, True), (5, 3, 2)]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    kind=st.sampled_from(["plain", "ties", "zeros", "nan"]),
)
def test_values_and_gradients_are_the_same(
    seed: int, channels: int, size: tuple[int, int], how: Any, dtype: torch.dtype, kind: str
) -> None:
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.randn(5, channels, *size, generator=generator)
    if kind == "ties":
        pictures = pictures.round()
    elif kind == "zeros":  # of both signs
        pictures = torch.where(pictures > 0.5, 0.0, -0.0)
    elif kind == "nan":
        pictures[pictures > 1.0] = float("nan")
        pictures[pictures < -2.0] = float("-inf")
    pictures = pictures.to(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "_FEWEST", 0)
        assert same(pooled(accel.max_pool2d, pictures, *how), pooled(functional.max_pool2d, pictures, *how))


def test_it_is_not_torchs_function_that_pools_many(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = torch.rand(SHAPE)
    monkeypatch.setattr(functional, "max_pool2d", None)
    accel.max_pool2d(pictures, 2)
    for few in (pictures[:1], pictures[:, :2].contiguous(), pictures.contiguous(memory_format=torch.channels_last)):
        with pytest.raises(TypeError):
            accel.max_pool2d(few, 2)


def test_second_derivatives() -> None:
    found = []
    for function in (functional.max_pool2d, accel.max_pool2d):
        pictures = torch.rand(SHAPE, generator=torch.Generator().manual_seed(1)).requires_grad_()
        (gradient,) = torch.autograd.grad(function(pictures, 2).pow(3).sum(), pictures, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), pictures)
        found.append(second)
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((0,), RuntimeError), ((2, 2, 2), RuntimeError), ((40,), RuntimeError), (("2",), TypeError), ((), TypeError)],
)
def test_what_torch_refuses_is_refused_with_its_words(arguments: Any, error: type[Exception]) -> None:
    said = []
    for function in (functional.max_pool2d, accel.max_pool2d):
        with pytest.raises(error) as caught:
            function(torch.rand(SHAPE), *arguments)
        said.append(type(caught.value))
    assert said[0] is said[1]


@pytest.mark.parametrize(
    "pictures",
    [
        torch.rand(SHAPE).double(),
        torch.rand(8, 96, 96),
        torch.rand(16, 24, 24, 8).permute(0, 3, 1, 2),
        torch.rand(32, 8, 24, 24)[::2],
        torch.rand(2, 8, 24, 24),
    ],
    ids=["double", "one picture", "by pixel", "every other", "few"],
)
def test_other_pictures_are_torchs(pictures: Tensor) -> None:
    ours, torchs = accel.max_pool2d(pictures, 2), functional.max_pool2d(pictures, 2)
    assert torch.equal(ours, torchs)
    assert ours.stride() == torchs.stride()


def test_places_are_returned_as_torch_does() -> None:
    pictures = torch.rand(SHAPE)
    for ours, torchs in zip(
        accel.max_pool2d(pictures, 2, return_indices=True),
        functional.max_pool2d(pictures, 2, return_indices=True),
        strict=True,
    ):
        assert torch.equal(ours, torchs)


@pytest.mark.parametrize("how", [(24,), (8, 8), (2, 5), (1, 2)])
def test_what_would_not_pay_is_torchs(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling.MaxPool2DWithIndices, "apply", None)
    pictures = torch.rand(SHAPE)
    assert torch.equal(accel.max_pool2d(pictures, *how), functional.max_pool2d(pictures, *how))


def test_one_pixel_lies_in_memory_as_torchs_does() -> None:
    pictures = torch.rand(4096, 8, 2, 2)
    assert accel.max_pool2d(pictures, 2).stride() == functional.max_pool2d(pictures, 2).stride()


def test_under_vmap() -> None:
    pictures = torch.rand(4, *SHAPE)
    ours, torchs = (torch.vmap(lambda x, of=of: of(x, 2))(pictures) for of in (accel.max_pool2d, functional.max_pool2d))
    assert torch.equal(ours, torchs)


def test_without_gradients_none_are_recorded() -> None:
    with torch.no_grad():
        assert accel.max_pool2d(torch.rand(SHAPE, requires_grad=True), 2).grad_fn is None
    assert not accel.max_pool2d(torch.rand(SHAPE), 2).requires_grad


def test_a_result_is_printed_as_torchs() -> None:
    pictures = torch.rand(SHAPE, requires_grad=True)
    assert str(accel.max_pool2d(pictures, 2)) == str(functional.max_pool2d(pictures, 2))


def test_a_change_in_place_is_noticed() -> None:
    pictures = torch.rand(SHAPE, requires_grad=True) * 1.0
    result = accel.max_pool2d(pictures, 2).sum()
    pictures.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_the_layer_is_torchs_to_those_who_keep_it() -> None:
    layer, torchs = accel.MaxPool2d(3, 2, padding=1), torch.nn.MaxPool2d(3, 2, padding=1)
    assert type(layer) is torch.nn.MaxPool2d
    assert repr(layer) == repr(torchs)
    pictures = torch.rand(SHAPE)
    assert torch.equal(layer(pictures), torchs(pictures))
    for copied in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert {**vars(copied)} == {**vars(torchs)}
        assert torch.equal(copied(pictures), torchs(pictures))


def test_the_layer_runs_by_the_function_but_where_hooks_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, pictures, seen = accel.MaxPool2d(2), torch.rand(SHAPE), []
    monkeypatch.setattr(functional, "max_pool2d", None)
    layer(pictures)
    handle = layer.register_forward_hook(lambda *given: seen.append(given))
    with pytest.raises(TypeError):
        layer(pictures)
    monkeypatch.undo()
    layer(pictures)
    assert len(seen) == 1
    handle.remove()


def test_a_compiled_caller_sees_torchs_function() -> None:
    model = torch.nn.Sequential(accel.MaxPool2d(2))
    pictures = torch.rand(SHAPE)
    for each in (lambda x: accel.max_pool2d(x, 2), model):
        compiled = torch.compile(each, backend="eager", fullgraph=True)
        assert torch.equal(compiled(pictures), functional.max_pool2d(pictures, 2))


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "max_pool2d")
    monkeypatch.setattr(pooling.MaxPool2DWithIndices, "apply", None)
    accel.max_pool2d(torch.rand(SHAPE), 2)
