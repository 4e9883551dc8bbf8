"""Calls that wait for their numbers are made as they would have been, before anybody sees what they change."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from autoaccel import runtime as accel
from autoaccel.runtime import deferred_calls, running_total


@pytest.fixture(params=[False, True], ids=["at-once", "kept"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    if request.param:
        monkeypatch.setattr(running_total, "ACCUMULATING", frozenset({"cpu"}))
    yield bool(request.param)
    accel.settled(None)


VALUES: list[Any] = [
    *(torch.tensor(0.1, dtype=dtype) for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)),
    *(torch.tensor([[-0.0]]), torch.tensor(torch.nan), torch.tensor(-torch.inf), torch.tensor(0.5, requires_grad=True)),
    *(torch.tensor(2**62 + 1), torch.tensor(7, dtype=torch.int8), torch.tensor(True), torch.tensor([False])),
    *(np.float32(0.1), np.int64(3)),
]


def test_numbers_are_those_of_item(kept: bool) -> None:
    noted: list[Any] = []
    for value in VALUES:
        accel.defer(noted.append, value)
    assert [repr(each) for each in accel.settled(noted)] == [repr(each.item()) for each in VALUES]


def test_the_list_is_the_same_object_and_later_values_do_not_reach_it(kept: bool) -> None:
    noted: list[float] = []
    loss = torch.tensor(1.0)
    accel.defer(noted.append, loss)
    loss.add_(1)
    assert accel.settled(noted) is noted
    assert noted == [1.0]


def test_calls_are_made_in_order_and_late(kept: bool) -> None:
    made: list[Any] = []

    def note(number: float, *others: object) -> None:
        made.append((number, *others))

    accel.defer(note, torch.tensor(1.5), 4)
    accel.defer(note, torch.tensor(2))
    assert made == ([] if kept else [(1.5, 4), (2,)])
    accel.defer(note, 3.0, 5)  # a number of the host comes after what waits
    assert made == [(1.5, 4), (2,), (3.0, 5)]


def test_what_waits_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_total, "ACCUMULATING", frozenset({"cpu"}))
    noted: list[float] = []
    for _ in range(deferred_calls.LIMIT):
        accel.defer(noted.append, torch.tensor(1.0))
    assert len(noted) == deferred_calls.LIMIT


def test_what_is_refused_is_refused_at_once(kept: bool) -> None:
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        accel.defer([].append, torch.ones(2))


def test_a_call_that_fails_does_not_take_the_others_with_it(kept: bool) -> None:
    noted: list[float] = []

    def fail(number: float) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        accel.defer(fail, torch.tensor(1.0))
        accel.defer(noted.append, torch.tensor(2.0))
        accel.settled(noted)
    assert accel.settled(noted) == ([2.0] if kept else [])


def test_threads_have_calls_of_their_own(kept: bool) -> None:
    noted: list[float] = []
    accel.defer(noted.append, torch.tensor(1.0))
    before = list(noted)
    other = threading.Thread(target=accel.settled, args=(None,))
    other.start()
    other.join()
    assert noted == before
    assert accel.settled(noted) == [1.0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_nothing_waits_in_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_total, "ACCUMULATING", frozenset({"cpu"}))
    noted: list[float] = []
    accel.defer(noted.append, torch.tensor(1.0))
    if (child := os.fork()) == 0:
        os._exit(len(noted))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_total, "ACCUMULATING", frozenset({"cpu"}))
    monkeypatch.setenv("AUTOACCEL_DISABLE", "total")
    noted: list[float] = []
    accel.defer(noted.append, torch.tensor(1.0))
    assert noted == [1.0]


@pytest.mark.gpu
def test_on_a_device() -> None:
    values = torch.rand(700).tolist()
    noted: list[float] = []
    for value in values:
        accel.defer(noted.append, torch.tensor(value, dtype=torch.float64, device="cuda"))
    assert len(noted) == deferred_calls.LIMIT
    assert accel.settled(noted) == values
