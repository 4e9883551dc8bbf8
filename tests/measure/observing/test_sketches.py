"""Projections that stand for tensors."""

from __future__ import annotations

import math

import pytest
import torch

from autoaccel.measure.observing.digests import COUNT, sketch


def estimate(one: torch.Tensor, other: torch.Tensor) -> float:
    """The norm of the difference, from the sketches alone."""
    pairs = zip(sketch(one)[1], sketch(other)[1], strict=True)
    return math.sqrt(sum((a - b) ** 2 for a, b in pairs) / COUNT)


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), ()])
def test_of_short_tensors_the_norm_is_exact(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    one, other = (torch.randn(shape, generator=generator) for _ in range(2))
    assert estimate(one, other) == pytest.approx(float((one - other).norm()), rel=1e-6)


@pytest.mark.parametrize("count", [100, 2**14, 2**14 + 1, 3 * 2**20 + 5])
@pytest.mark.parametrize("kind", ["random", "constant", "single", "tail"])
def test_the_norm_of_a_difference_is_estimated(count: int, kind: str) -> None:
    base = torch.randn(count, generator=torch.Generator().manual_seed(1))
    difference = torch.zeros(count)
    match kind:
        case "random":
            difference = torch.randn(count, generator=torch.Generator().manual_seed(2))
        case "constant":
            difference += 0.5
        case "single":
            difference[count // 2] = 3
        case "tail":
            difference[-10:] = 1
    estimated, exact = estimate(base, base + difference), float((base + difference - base).norm())
    assert exact / 2.5 < estimated < exact * 2.5
    norm, _ = sketch(base)
    assert norm == pytest.approx(float(base.double().norm()))


def test_a_sketch_depends_on_values_alone() -> None:
    values = torch.arange(30.0).reshape(5, 6)
    state = torch.get_rng_state()
    assert sketch(values) == sketch(values.reshape(-1))
    assert torch.equal(torch.get_rng_state(), state)
    assert sketch(values)[1][:2] == sketch(torch.arange(30.0))[1][:2]


def test_what_is_not_a_number_stays_so() -> None:
    norm, projections = sketch(torch.tensor([1.0, math.nan]))
    assert math.isnan(norm)
    assert all(math.isnan(each) for each in projections)


def test_complex_numbers() -> None:
    norm, _ = sketch(torch.tensor([3 + 4j]))
    assert norm == 5.0
    assert estimate(torch.tensor([1j]), torch.tensor([1 + 0j])) == pytest.approx(math.sqrt(2))
