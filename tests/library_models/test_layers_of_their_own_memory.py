"""Layers whose results are said to be memory of their own: torch is asked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from autoaccel.library_models.in_place_operations import gives_new_memory


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "layer",
    [
        *(nn.Conv2d(3, 3, 1), nn.ConvTranspose2d(3, 3, 1), nn.BatchNorm2d(3), nn.GroupNorm(1, 3), nn.InstanceNorm2d(3)),
        *(nn.LayerNorm(4), nn.RMSNorm(4), nn.Linear(4, 4), nn.Sigmoid(), nn.Tanh(), nn.GELU(), nn.Softmax(1)),
        *(nn.AvgPool2d(1), nn.MaxPool2d(1), nn.AdaptiveAvgPool2d(4), nn.AdaptiveMaxPool2d(4), nn.LogSoftmax(1)),
        *(nn.Upsample(scale_factor=1), nn.Upsample(scale_factor=1, mode="bilinear"), nn.Upsample(size=4)),
    ],
    ids=repr,
)
def test_new_memory(layer: nn.Module, training: bool) -> None:
    assert gives_new_memory(f"torch.nn.{type(layer).__name__}")
    x = torch.randn(2, 3, 4, 4)
    assert layer.train(training)(x).untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", "Identity Dropout ReLU Flatten Unflatten Sequential ModuleList Hardtanh".split())
def test_what_may_hand_on_its_input(name: str) -> None:
    assert not gives_new_memory(f"torch.nn.{name}")
