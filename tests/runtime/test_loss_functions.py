"""The loss is torch's but for rounding, its gradients are torch's bit for bit, and so is whatever it refuses."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from autoaccel import runtime as accel
from autoaccel.runtime import loss_functions

SHAPE = (64, 512)


def batch(seed: int, extremes: bool = False, shape: tuple[int, ...] = SHAPE) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(shape, generator=generator) * (80.0 if extremes else 3.0)
    return torch.sigmoid(logits), torch.rand(shape, generator=generator)


def loss_and_gradient(function: Any, probabilities: Tensor, *arguments: Any, **keywords: Any) -> tuple[Tensor, Tensor]:
    leaf = probabilities.clone().requires_grad_()
    loss = function(leaf, *arguments, **keywords)
    loss.sum().backward()
    assert leaf.grad is not None
    return loss, leaf.grad


@settings(max_examples=50)
@given(seed=st.integers(0, 2**31), extremes=st.booleans(), reduction=st.sampled_from(["sum", "mean", "none"]))
def test_gradients_are_the_same_bit_for_bit(seed: int, extremes: bool, reduction: str) -> None:
    probabilities, target = batch(seed, extremes)
    expected, wanted = loss_and_gradient(functional.binary_cross_entropy, probabilities, target, reduction=reduction)
    loss, gradient = loss_and_gradient(accel.binary_cross_entropy, probabilities, target, reduction=reduction)
    assert torch.equal(gradient, wanted)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)


def test_it_is_not_torchs_function_that_computes_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "binary_cross_entropy", None)
    probabilities, target = batch(0)
    accel.binary_cross_entropy(probabilities, target)
    with pytest.raises(TypeError):
        accel.binary_cross_entropy(probabilities[:1], target[:1])


def test_second_derivatives() -> None:
    found = []
    for function in (functional.binary_cross_entropy, accel.binary_cross_entropy):
        probabilities, target = batch(1)
        probabilities.requires_grad_()
        (gradient,) = torch.autograd.grad(function(probabilities, target), probabilities, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), probabilities)
        found.append(second)
    assert torch.equal(*found)


@pytest.mark.parametrize("wrong", [1.5, -0.25, float("nan"), float("inf")])
def test_what_torch_refuses_is_refused(wrong: float) -> None:
    probabilities, target = batch(2)
    probabilities[3, 4] = wrong
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        accel.binary_cross_entropy(probabilities, target)


def test_another_shape_is_refused() -> None:
    probabilities, target = batch(3)
    with pytest.raises(ValueError, match="target size"):
        accel.binary_cross_entropy(probabilities, target[:, :1])


@pytest.mark.parametrize("wrong", [1.5, -0.25, float("nan"), float("inf")])
def test_targets_are_those_that_torch_takes(wrong: float) -> None:
    """Up to torch 2.12 they are any numbers."""
    found = []
    for function in (functional.binary_cross_entropy, accel.binary_cross_entropy):
        probabilities, target = batch(2)
        target[3, 4] = wrong
        try:
            found.append(str(function(probabilities, target)))
        except RuntimeError as error:
            found.append(str(error))
    assert found[0] == found[1]


def test_zeros_and_ones() -> None:
    probabilities = torch.cat([torch.zeros(10_000), torch.ones(10_000)])
    for target in (torch.ones(20_000), torch.zeros(20_000), torch.full((20_000,), 0.5)):
        expected = functional.binary_cross_entropy(probabilities, target)
        torch.testing.assert_close(accel.binary_cross_entropy(probabilities, target), expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda p, y: (p.double(), y.double()),
        lambda p, y: (p, y, torch.rand(SHAPE)),
        lambda p, y: (p, y.clone().requires_grad_()),
        lambda p, y: (p[:4, :4], y[:4, :4]),
    ],
    ids=["double", "weight", "gradient-of-the-target", "few"],
)
def test_what_is_not_taken_is_torchs_own(change: Any) -> None:
    arguments = change(*batch(4))
    assert torch.equal(accel.binary_cross_entropy(*arguments), functional.binary_cross_entropy(*arguments))


@pytest.mark.parametrize(("keywords", "reduction"), [({"size_average": False}, "sum"), ({"reduce": True}, "mean")])
def test_deprecated_arguments_warn_as_torch_does(keywords: dict[str, Any], reduction: str) -> None:
    probabilities, target = batch(5)
    seen = []
    for function in (functional.binary_cross_entropy, accel.binary_cross_entropy):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loss = function(probabilities, target, **keywords)
        seen.append([(each.category, str(each.message), each.filename) for each in caught])
        torch.testing.assert_close(loss, functional.binary_cross_entropy(probabilities, target, reduction=reduction))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1


def test_a_loss_is_printed_as_torchs() -> None:
    probabilities, target = batch(6)
    printed = [
        str(function(probabilities.requires_grad_(), target)).partition(",")[2]
        for function in (functional.binary_cross_entropy, accel.binary_cross_entropy)
    ]
    assert printed[0] == printed[1]


def test_the_object_is_torchs_to_those_who_keep_it() -> None:
    probabilities, target = batch(7)
    criterion = accel.BCELoss(reduction="sum")
    assert type(criterion) is torch.nn.BCELoss
    assert repr(criterion) == repr(torch.nn.BCELoss())
    by_function = accel.binary_cross_entropy(probabilities, target, reduction="sum")
    assert torch.equal(criterion(probabilities, target), by_function)
    for copied in (pickle.loads(pickle.dumps(criterion)), copy.deepcopy(criterion)):
        assert {**vars(copied)} == {**vars(torch.nn.BCELoss(reduction="sum"))}


def test_a_compiled_caller_sees_torchs_function() -> None:
    probabilities, target = batch(8)
    compiled = torch.compile(lambda p, y: accel.binary_cross_entropy(p, y), backend="eager", fullgraph=True)
    assert torch.equal(compiled(probabilities, target), functional.binary_cross_entropy(probabilities, target))


@pytest.mark.parametrize("name", ["binary_cross_entropy", "fused"])
def test_it_can_be_switched_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", name)
    monkeypatch.setattr(loss_functions.BinaryCrossEntropy, "apply", None)
    probabilities, target = batch(9)
    assert torch.equal(
        accel.binary_cross_entropy(probabilities, target), functional.binary_cross_entropy(probabilities, target)
    )


def test_autocast_gives_it_float32() -> None:
    probabilities, target = batch(10)
    with torch.autocast("cpu", torch.bfloat16):
        loss = accel.binary_cross_entropy(probabilities, target)
    assert loss.dtype is torch.float32
