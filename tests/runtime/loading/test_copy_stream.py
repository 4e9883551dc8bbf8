"""The lane of a device, over a made-up device module: any kind of accelerator has one like it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from autoaccel.runtime import devices
from autoaccel.runtime.loading import copy_stream, prefetcher
from autoaccel.runtime.loading.copy_stream import CopyStream, plain


class Event:
    def __init__(self) -> None:
        self.reached = False

    def query(self) -> bool:
        return self.reached


class SideStream:
    def __init__(self, device: Any = None) -> None:
        self.device = device
        self.waited: list[Event] = []

    def record_event(self) -> Event:
        return Event()

    def wait_event(self, event: Event) -> None:
        self.waited.append(event)


class Module:
    """What `torch.cuda` and `torch.xpu` have in common, as far as it is used."""

    Stream = SideStream

    def __init__(self) -> None:
        self.current = SideStream()
        self.inside: list[SideStream] = []

    def current_stream(self, device: Any) -> SideStream:
        return self.current

    def current_device(self) -> int:
        return 3

    @contextlib.contextmanager
    def stream(self, stream: SideStream) -> Iterator[None]:
        self.inside.append(stream)
        yield


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Module:
    made = Module()
    monkeypatch.setattr(torch, "get_device_module", lambda device: made)
    monkeypatch.setattr(copy_stream, "_copy_streams", {})
    return made


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_one_lane_for_each_device_of_any_kind(module: Module, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy_stream.copy_stream_of(torch.device(kind)) is copy_stream.copy_stream_of(torch.device(kind, 3)), (
        "the current one"
    )
    assert copy_stream.copy_stream_of(torch.device(kind, 1)) is not copy_stream.copy_stream_of(torch.device(kind, 3))
    monkeypatch.setattr(devices, "available", lambda device: True)
    assert prefetcher.overlaps(torch.device(kind))
    assert not prefetcher.overlaps(torch.device("mps"))


def test_copies_are_enqueued_on_the_side_stream(module: Module) -> None:
    lane = CopyStream(torch.device("xpu", 0))
    destination, source = torch.zeros(3), torch.ones(3)
    lane.copy([(destination, source)])
    assert torch.equal(destination, source)
    assert module.inside == [lane.side()]
    assert lane.consumer() is module.current
    event = lane.record(lane.consumer())
    lane.wait(lane.side(), event)
    assert lane.side().waited == [event]


def test_sources_are_kept_until_they_are_copied(module: Module) -> None:
    lane = CopyStream(torch.device("xpu", 0))
    events: list[Any] = [Event() for _ in range(3)]
    for event in events[:2]:
        lane.keep([torch.ones(1)], event)
    assert len(lane._kept) == 2
    events[0].reached = True
    lane.keep([torch.ones(1)], events[2])
    assert [event for event, _ in lane._kept] == events[1:]


class Tagged(torch.Tensor):
    """A subclass knows itself how it is moved."""


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, requires_grad=True),
        torch.ones(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2).as_subclass(Tagged),
        torch.ones(2, device="meta"),
        torch.nn.Parameter(torch.ones(2), requires_grad=False),
    ],
    ids=["gradients", "sparse", "conjugate", "subclass", "elsewhere", "parameter"],
)
def test_what_is_more_than_numbers_on_the_host_is_left_to_the_loop(tensor: torch.Tensor) -> None:
    assert not plain(tensor)
    assert plain(torch.ones(2))
