"""When a replayed step passes for the plain one: tables of what differs, and by how much."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from autoaccel.runtime.step_graph.step_equality import is_as_close, is_same

WEIGHT = torch.linspace(-1.0, 1.0, 1000)


def off(tensor: torch.Tensor, share: float) -> torch.Tensor:
    """The tensor with its first number off by a share of its largest one."""
    changed = tensor.clone()
    changed[0] += share * tensor.abs().max()
    return changed


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param([WEIGHT.clone()], True, id="another tensor with the same bits"),
        pytest.param([off(WEIGHT, 1e-7)], False, id="one bit"),
        pytest.param([WEIGHT.double()], False, id="another type"),
        pytest.param([WEIGHT[None]], False, id="another shape"),
        pytest.param([WEIGHT, WEIGHT], False, id="one more"),
        pytest.param([1.0], False, id="a number"),
    ],
)
def test_the_same_in_every_bit(other: list[Any], same: bool) -> None:
    assert is_same([WEIGHT], other) is same


def test_zeros_of_either_sign_and_what_is_no_number() -> None:
    assert not is_same([torch.tensor([0.0])], [torch.tensor([-0.0])])
    assert is_same([torch.tensor([float("nan")])], [torch.tensor([float("nan")])])
    assert is_same([{"loss": WEIGHT, "epoch": 3}], [{"loss": WEIGHT.clone(), "epoch": 3}])
    assert not is_same([{"epoch": 3}], [{"epoch": 4}])


@pytest.mark.parametrize(
    ("replayed", "again", "close"),
    [
        pytest.param(0.0, 1e-6, True, id="the replay is the plain step"),
        pytest.param(2e-6, 1e-6, True, id="as far off as another plain step"),
        pytest.param(1e-4, 1e-6, False, id="off by a hundred times the noise"),
        pytest.param(1e-7, 0.0, False, id="off where plain steps agree"),
        pytest.param(5e-3, 9e-4, False, id="off by more than rounding, whatever the noise"),
        pytest.param(0.0, 0.5, False, id="nothing but noise: nothing was compared"),
    ],
)
def test_as_close_as_two_plain_steps(replayed: float, again: float, close: bool) -> None:
    assert is_as_close([off(WEIGHT, replayed)], [WEIGHT], [off(WEIGHT, again)]) is close


def test_the_noise_of_a_step_is_that_of_its_noisiest_tensor() -> None:
    """Two plain steps may agree by chance in a tensor in which a third one would not."""
    plain, again = [WEIGHT, WEIGHT], [off(WEIGHT, 1e-6), WEIGHT]
    assert is_as_close([WEIGHT, off(WEIGHT, 2e-6)], plain, again)
    assert not is_as_close([WEIGHT, off(WEIGHT, 1e-4)], plain, again)


def test_a_few_numbers_may_be_nothing_but_noise() -> None:
    """The gradient of a bias before a batch normalisation: zero but for rounding."""
    noise = torch.tensor([1e-9, -2e-9])
    plain, again = [WEIGHT, noise], [off(WEIGHT, 1e-6), -noise]
    assert is_as_close([WEIGHT, noise * 3], plain, again)
    assert not is_as_close([off(WEIGHT, 1e-4), noise], plain, again)
    many = WEIGHT * 1e-9
    assert not is_as_close([WEIGHT, many], [WEIGHT, many], [off(WEIGHT, 1e-6), -many])


@pytest.mark.parametrize(
    "replayed",
    [
        pytest.param([WEIGHT.double(), 1], id="another type"),
        pytest.param([torch.full((1000,), float("nan")), 1], id="not a number"),
        pytest.param([WEIGHT, 2], id="another number of Python's"),
        pytest.param([WEIGHT], id="one fewer"),
    ],
)
def test_noise_excuses_no_other_difference(replayed: list[Any]) -> None:
    assert not is_as_close(replayed, [WEIGHT, 1], [off(WEIGHT, 1e-6), 1])


def test_the_state_of_a_generator_has_no_rounding() -> None:
    """Bytes: a replay that draws other random numbers is another step."""
    state = torch.arange(16, dtype=torch.uint8)
    assert not is_as_close([WEIGHT, state + 1], [WEIGHT, state], [off(WEIGHT, 1e-6), state])
    assert is_as_close([WEIGHT, state], [WEIGHT, state], [off(WEIGHT, 1e-6), state])
