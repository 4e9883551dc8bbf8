"""Values from a table."""

from __future__ import annotations

import pytest
import torch

from autoaccel.runtime.in_memory.image_transforms import Normalized, Pipeline, Scaled


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW"])
def test_a_table_gives_the_same_bits(layout: str) -> None:
    shape = {"HW": (4, 5, 6), "HWC": (4, 5, 6, 3), "CHW": (4, 3, 5, 6)}[layout]
    images = torch.randint(0, 256, shape, dtype=torch.uint8)
    channels = 1 if layout == "HW" else 3
    values = (Scaled(), Normalized((0.1, 0.2, 0.3)[:channels], (0.5, 0.7, 0.9)[:channels]))
    pipeline = Pipeline(layout, (), values)
    want, got = pipeline(images), pipeline._from_table(pipeline._shaped(images).contiguous())
    assert torch.equal(want, got)
    assert want.stride() == got.stride()
    assert len(pipeline.tables) == 1
