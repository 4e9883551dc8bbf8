"""The lane of a device, over a made-up device module: any kind of accelerator has one like it."""

from __future__ import annotations

import pytest
import torch

from autoaccel.runtime import devices
from autoaccel.runtime.loading import copy_stream, prefetcher
from autoaccel.runtime.loading.copy_stream import CopyStream, plain
from tests.runtime.accelerator import Accelerator


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    made = Accelerator()
    made.current = 3
    monkeypatch.setattr(devices, "module_of", lambda kind: made)
    monkeypatch.setattr(copy_stream, "_copy_streams", {})
    return made


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_one_lane_for_each_device_of_any_kind(module: Accelerator, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy_stream.copy_stream_of(torch.device(kind)) is copy_stream.copy_stream_of(torch.device(kind, 3)), (
        "the current one"
    )
    assert copy_stream.copy_stream_of(torch.device(kind, 1)) is not copy_stream.copy_stream_of(torch.device(kind, 3))
    monkeypatch.setattr(devices, "available", lambda device: True)
    assert prefetcher.overlaps(torch.device(kind))
    assert not prefetcher.overlaps(torch.device("mps"))


def test_copies_are_enqueued_on_the_side_stream(module: Accelerator) -> None:
    lane = CopyStream(torch.device("xpu", 0))
    destination, source = torch.zeros(3), torch.ones(3)
    lane.copy([(destination, source)])
    assert torch.equal(destination, source)
    assert module.inside == [lane.side()]
    assert lane.consumer() is module.current_stream()
    event = lane.record(lane.consumer())
    lane.wait(lane.side(), event)
    assert lane.side().waited == [event]


def test_sources_are_kept_until_they_are_copied(module: Accelerator) -> None:
    lane = CopyStream(torch.device("xpu", 0))
    module.queued = 1.0
    events = [module.Stream().record_event() for _ in range(3)]
    for event in events[:2]:
        lane.keep([torch.ones(1)], event)
    assert len(lane._kept) == 2
    events[0].at = 0.0
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
