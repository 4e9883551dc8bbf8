"""What autocast does with operations, asked of torch again."""

from __future__ import annotations

import os

import pytest
import torch

from autoaccel.library_models import autocast_operations as known
from tests.measure.forking import REPOSITORY, Forking


@pytest.mark.slow
def test_torch_has_not_moved_on(forking: Forking) -> None:
    """After another version of torch: `python -m tools.autocast_operations`, and read what has changed."""
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'codemods'}"}
    done = forking.python(["-m", "tools.autocast_operations", "--check"], REPOSITORY, environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "inverse", "pinverse", "svd", "logdet", "histc"])
def test_what_cuda_refuses_is_known_in_both_spellings(name: str) -> None:
    assert f"torch.{name}" in known.REFUSING["cuda"]
    assert name in known.REFUSING_METHODS["cuda"]


def test_what_one_device_casts_the_other_one_may_not() -> None:
    assert "quantile" in known.FLOAT32["cpu"] - known.FLOAT32["cuda"]
    assert "pdist" in known.FLOAT32["cuda"] - known.FLOAT32["cpu"]
    assert {"softmax", "sum", "exp"} <= known.FLOAT32["cuda"] - known.FLOAT32["cpu"]
    assert {"linear", "conv2d", "matmul"} <= known.LOWER["cpu"] & known.LOWER["cuda"]


@pytest.mark.parametrize("name", sorted(known.LOWER["cpu"] & known.LOWER["cuda"] & set(dir(torch))))
def test_nothing_that_is_cast_is_refused(name: str) -> None:
    assert not any(f"torch.{name}" in names for names in known.REFUSING.values())


def test_refused_is_what_torch_has() -> None:
    for names in known.REFUSING_METHODS.values():
        assert all(hasattr(torch.Tensor, name) for name in names)
