"""Hashes of values of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from autoaccel.measure.observing.digests import Samples, digest_of


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.me = self


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Stubborn:
    def __getattr__(self, name: str) -> Any:
        raise OSError(name)


KINDS: list[Any] = [
    int,
    float,
    str,
    Plain,
    Slotted,
    np.float32,
    lambda value: [value],
    lambda value: (value,),
    lambda value: {"a": value},
    lambda value: {value},
    lambda value: np.array([value]),
    lambda value: np.array([value, "x"], dtype=object),
    lambda value: torch.tensor(value),
    lambda value: torch.tensor(value, dtype=torch.bfloat16),
    lambda value: torch.tensor([value, float("nan")]),
    lambda value: torch.tensor(value) * 1j,
    lambda value: torch.tensor([[0.0, value]]).to_sparse(),
    lambda value: torch.tensor([[0.0, value]]).to_sparse_csr(),
    lambda value: torch.tensor([[0.0, value]]).t(),
]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_values_have_equal_hashes_and_others_have_not(kind: Any) -> None:
    assert digest_of(kind(1)) == digest_of(kind(1))
    assert digest_of(kind(1)) != digest_of(kind(2))


def test_kinds_are_told_apart() -> None:
    assert len({digest_of(kind(1)) for kind in KINDS}) == len(KINDS)


def test_structure_counts() -> None:
    assert digest_of([1, [2]]) != digest_of([[1], 2])
    assert digest_of([1, 2]) != digest_of([12])
    assert digest_of({"a": 1, "b": 2}) != digest_of({"b": 2, "a": 1})
    assert digest_of(torch.zeros(2, 3)) != digest_of(torch.zeros(3, 2))
    assert digest_of(torch.zeros(1)) != digest_of(-torch.zeros(1))
    assert digest_of(torch.arange(6).reshape(2, 3).t()) == digest_of(torch.tensor([[0, 3], [1, 4], [2, 5]]))


def test_what_cannot_be_read_does_no_harm() -> None:
    assert digest_of([Stubborn()]) == digest_of([Stubborn()])
    tangled: list[Any] = [Plain(0) for _ in range(50)]
    for each in tangled:
        each.value = tangled
    assert digest_of(tangled)
    assert digest_of("\ud800")


def samples(*batches: Any) -> str:
    found = Samples()
    for each in batches:
        found.add(each)
    return found.digest()


X, Y = torch.arange(12.0).view(6, 2), torch.arange(6)


@pytest.mark.parametrize(
    "whole",
    [X, [X, Y], (X, Y), {"x": X, "y": {"z": Y}}, [X, ["a", "b", "c", "d", "e", "f"]], [X, [1, 2, 3, 4, 5, 6]]],
)
def test_samples_do_not_depend_on_their_batches(whole: Any) -> None:
    def part(value: Any, start: int, end: int) -> Any:
        if isinstance(value, dict):
            return {key: part(each, start, end) for key, each in value.items()}
        if isinstance(value, (list, tuple)) and not isinstance(value[0], (str, int)):
            return type(value)(part(each, start, end) for each in value)
        return value[start:end]

    known = samples(whole)
    assert known
    assert known == samples(part(whole, 0, 4), part(whole, 4, 6)) == samples(part(whole, 0, 1), part(whole, 1, 6))
    assert known != samples(part(whole, 0, 5))
    assert known != samples(part(whole, 4, 6), part(whole, 0, 4))


def test_what_is_no_batch_of_samples() -> None:
    assert samples() == samples(object()) == samples([X, object()]) == samples(torch.tensor(1.0)) == ""
    assert samples(torch.zeros(2, 3), torch.zeros(2, 4)) == ""  # padded to the longest
