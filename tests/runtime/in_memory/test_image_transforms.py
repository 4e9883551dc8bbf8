"""RngUseDetector for many samples at once, and values from a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from autoaccel.runtime.in_memory import pillow_resize
from autoaccel.runtime.in_memory.batched_random import draw
from autoaccel.runtime.in_memory.image_transforms import Normalized, Pipeline, Scaled
from autoaccel.runtime.in_memory.pillow_resize import like_pillow


@pytest.mark.parametrize("kinds", [[None], [9, 9, None], [1], [2**20, None, 3, None, 5], [None, None]])
@pytest.mark.parametrize("samples", [1, 2, 7, 64])
def test_draws_are_those_of_one_sample_after_the_other(kinds: list[int | None], samples: int) -> None:
    torch.manual_seed(samples)
    torch.rand(3)
    start = torch.get_rng_state()
    want = [[torch.rand(1) if each is None else torch.randint(0, each, (1,)) for each in kinds] for _ in range(samples)]
    after = torch.get_rng_state()
    torch.set_rng_state(start)
    got = draw(kinds, samples)
    assert torch.equal(torch.get_rng_state(), after)
    for at, column in enumerate(got):
        wanted = torch.cat([row[at] for row in want])
        assert column.dtype == wanted.dtype
        assert torch.equal(column, wanted)


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW"])
def test_a_table_gives_the_same_bits(layout: str) -> None:
    shape = {"HW": (4, 5, 6), "HWC": (4, 5, 6, 3), "CHW": (4, 3, 5, 6)}[layout]
    images = torch.randint(0, 256, shape, dtype=torch.uint8)
    channels = 1 if layout == "HW" else 3
    values = (Scaled(None), Normalized((0.1, 0.2, 0.3)[:channels], (0.5, 0.7, 0.9)[:channels]))
    pipeline = Pipeline(layout, (), values)
    bytes_alone = replace(pipeline, values=())
    want, got = pipeline(images), pipeline._from_table(bytes_alone(images))
    assert torch.equal(want, got)
    assert want.stride() == got.stride()
    assert len(pipeline.tables) == 1


@pytest.mark.parametrize("before", [(28, 28), (7, 12), (1, 3), (32, 20)])
@pytest.mark.parametrize("after", [(32, 32), (64, 64), (9, 5), (1, 1), (28, 31)])
def test_resizing_is_pillows(before: tuple[int, int], after: tuple[int, int]) -> None:
    images = np.random.RandomState(0).randint(0, 256, (50, *before, 3)).astype(np.uint8)
    images[:10] = np.where(images[:10] > 127, 255, 0)
    resized = like_pillow(before, after)
    assert resized is not None
    got = resized(torch.from_numpy(images))
    assert got.is_contiguous()
    for image, mine in zip(images, got, strict=True):
        want = Image.fromarray(image).resize(after[::-1], Image.Resampling.BILINEAR)
        assert np.array_equal(np.asarray(want), mine.numpy())


def test_another_pillow_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pillow_resize, "BITS", 15)
    caches = (pillow_resize._weights, pillow_resize.like_pillow)
    for cache in caches:
        cache.cache_clear()
    try:
        assert like_pillow((10, 11), (15, 13)) is None
    finally:
        for cache in caches:
            cache.cache_clear()
