"""A clean environment for every test, and an accelerator made of recorded operations."""

from __future__ import annotations

import os
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from autoaccel.runtime import devices, environment
from autoaccel.runtime.amp import autocast, autocast_controller, program_state
from autoaccel.runtime.loading import glibc_malloc, prefetcher
from autoaccel.runtime.loading.copy_stream import CopyStream, Event


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No AUTOACCEL_* variable from outside, and no memory of what was warned about or logged before."""
    for name in list(os.environ):
        if name.startswith("AUTOACCEL_") or name in (
            "LOCAL_WORLD_SIZE",
            "SLURM_CPUS_PER_TASK",
            "SLURM_NTASKS_PER_NODE",
            "SLURM_PROCID",
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AUTOACCEL_REMEMBER", "off")
    monkeypatch.setattr(autocast_controller, "_controllers", {})
    monkeypatch.setattr(autocast_controller, "_overflowed", set())
    monkeypatch.setattr("autoaccel.runtime.amp.grad_scaler._latest", {})
    monkeypatch.setattr(program_state, "is_anything_compiled", lambda: False)  # other tests did, in this process
    for cache in (
        autocast._candidate,
        environment._switched_off,
        environment.warn_once,
        environment._log,
        glibc_malloc.keep_freed_memory,
    ):
        cache.cache_clear()


@pytest.fixture
def fresh_graphs() -> Iterator[None]:
    """What a test compiled goes with it: at the end of the process its globals may be gone, which torch reports."""
    yield
    torch.compiler.reset()


class Op:
    """A piece of device work: runs after all it depends on."""

    def __init__(self, work: Callable[[], None], after: list[Op]) -> None:
        self.work = work
        self.after = after
        self.done = False


class Stream:
    def __init__(self, name: str) -> None:
        self.name = name
        self.last: list[Op] = []  # what the next operation has to wait for

    def __repr__(self) -> str:
        return self.name


class RecordedEvent:
    def __init__(self, ops: list[Op]) -> None:
        self.ops = ops

    def query(self) -> bool:
        return all(op.done for op in self.ops)


class FakeCopyStream(CopyStream):
    """A device that runs its work late and in any order that streams and events permit.

    Memory is handed out again as soon as the host drops a tensor, whatever work is pending, as a caching allocator
    does. So a missing wait shows as a wrong checksum in some order of execution, and a source dropped too early as a
    failing copy.
    """

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.current = Stream("consumer")
        self.copies = Stream("side")
        self.pending: list[Op] = []
        self.log: list[str] = []
        self.free: list[torch.Tensor] = []
        self.blocks = 0
        self.live = 0  # copies of batches on the device
        self.most = 0
        self.kept: list[tuple[Event, list[torch.Tensor]]] = []

    # what the prefetcher uses

    def consumer(self) -> Stream:
        return self.current

    def side(self) -> Stream:
        return self.copies

    def record(self, stream: Stream) -> RecordedEvent:
        self.log.append(f"record {stream}")
        return RecordedEvent(list(stream.last))

    def wait(self, stream: Stream, event: Event) -> None:
        assert isinstance(event, RecordedEvent)
        self.log.append(f"wait {stream}")
        stream.last = [*stream.last, *event.ops]

    def movable(self, tensor: torch.Tensor) -> bool:
        return getattr(tensor, "pinned", True)

    def allocate(self, tensor: torch.Tensor) -> torch.Tensor:
        self.log.append("allocate")
        block = self._block(tensor.numel())
        view = block[: tensor.numel()].view(tensor.shape).to(tensor.dtype)
        if view.data_ptr() != block.data_ptr():
            raise TypeError("the fake device holds float64 only")
        view.on_device = True  # type: ignore[attr-defined]
        self.live += 1
        self.most = max(self.most, self.live)
        weakref.finalize(view, self._released, block)
        return view

    def _released(self, block: torch.Tensor) -> None:
        self.live -= 1
        self.free.append(block)

    def copy(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for destination, source in pairs:
            self.log.append("copy")
            memory, origin = destination.detach(), weakref.ref(source)

            def work(memory: torch.Tensor = memory, origin: weakref.ref[torch.Tensor] = origin) -> None:
                pinned = origin()
                assert pinned is not None, "a pinned source was dropped before it was copied"
                memory.copy_(pinned)

            self.enqueue(self.copies, work)

    def keep(self, sources: list[torch.Tensor], copied: Event) -> None:
        self.kept = [(event, tensors) for event, tensors in self.kept if not event.query()]
        self.kept.append((copied, sources))

    # what a training loop does

    def _block(self, size: int) -> torch.Tensor:
        while self.free:
            block = self.free.pop()
            if block.numel() >= size:
                return block
        self.blocks += 1
        return torch.full((max(size, 64),), float("nan"), dtype=torch.float64)

    def compute(self, tensor: torch.Tensor, results: list[float]) -> None:
        """Use a batch, through a temporary of the same pool: as a forward pass does."""
        batch, scratch = tensor.detach(), self._block(tensor.numel())
        index = len(results)
        results.append(float("nan"))

        def write() -> None:
            scratch.fill_(-1.0)
            scratch[: batch.numel()].copy_(batch.flatten())

        def read() -> None:
            results[index] = float(scratch[: batch.numel()].sum())

        self.enqueue(self.current, write)
        self.enqueue(self.current, read)
        self.free.append(scratch)

    def enqueue(self, stream: Stream, work: Callable[[], None]) -> None:
        op = Op(work, list(stream.last))
        stream.last = [op]
        self.pending.append(op)

    def advance(self, share: float) -> None:
        """Run a part of the pending work, in a random order that respects streams and events."""
        for _ in range(int(len(self.pending) * share)):
            ready = [op for op in self.pending if all(earlier.done for earlier in op.after)]
            op = self.random.choice(ready)
            op.work()
            op.done = True
            self.pending.remove(op)

    def synchronize(self) -> None:
        self.advance(1.0)


@pytest.fixture
def lane_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], FakeCopyStream]:
    """Makes fake lanes by seed; no batch is too small for them."""
    monkeypatch.setattr(prefetcher, "SMALLEST_BATCH", 0)
    return FakeCopyStream


@pytest.fixture
def cuda_lane(lane_of: Callable[[int], FakeCopyStream], monkeypatch: pytest.MonkeyPatch) -> FakeCopyStream:
    """Pretends that "cuda" is available and is the fake device, also to `accel.prefetch`."""
    fake = lane_of(0)

    def copy_stream_of(device: torch.device) -> Any:
        return fake

    def available(device: torch.device) -> bool:
        return True

    monkeypatch.setattr(prefetcher, "copy_stream_of", copy_stream_of)
    monkeypatch.setattr(devices, "available", available)
    return fake
