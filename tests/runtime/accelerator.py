"""A stand-in for accelerators: what torch would say of a machine, and what it would refuse there, without the machine.

It stands behind the runtime's one door to `torch.cuda` and its like, `devices.module_of`. Work is not done but counted
in seconds: `queued` were handed over, `done` of them are done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import math
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from autoaccel.runtime import devices
from autoaccel.runtime.loading import loader_settings


@dataclass(frozen=True)
class Machine:
    """What a machine has: accelerators of one kind, and what else the runtime looks at."""

    kind: str = "cuda"
    hardware: str = "NVIDIA A100-SXM4-80GB"
    capability: tuple[int, int] = (8, 0)
    count: int = 1
    memory: int = 80 * 2**30
    triton: bool = True
    starts_by: str = "fork"
    shared: float = math.inf

    def but(self, **changes: Any) -> Machine:
        return dataclasses.replace(self, **changes)


MACHINES = {
    "GTX 1080": Machine(hardware="NVIDIA GeForce GTX 1080", capability=(6, 1), memory=8 * 2**30),
    "V100": Machine(hardware="Tesla V100-SXM2-16GB", capability=(7, 0), memory=16 * 2**30),
    "GTX 1660": Machine(hardware="NVIDIA GeForce GTX 1660 Ti", capability=(7, 5), memory=6 * 2**30),
    "T4": Machine(hardware="Tesla T4", capability=(7, 5), memory=15 * 2**30),
    "A100": Machine(),
    "RTX 3060": Machine(hardware="NVIDIA GeForce RTX 3060", capability=(8, 6), memory=12 * 2**30),
    "H100": Machine(hardware="NVIDIA H100 80GB HBM3", capability=(9, 0)),
    "B200": Machine(hardware="NVIDIA B200", capability=(10, 0), memory=180 * 2**30),
    "two A100": Machine(count=2),
    "A100 in Docker, 64 MB of /dev/shm": Machine(shared=64.0 * 2**20),
    "RTX 3060 on Windows, without Triton": Machine(
        hardware="NVIDIA GeForce RTX 3060", capability=(8, 6), memory=12 * 2**30, triton=False, starts_by="spawn"
    ),
    "Apple M2 (MPS)": Machine(kind="mps", hardware="mps", triton=False, starts_by="spawn"),
}


class DeviceEvent:
    """A point in the work of a stream."""

    def __init__(self, device: Accelerator, enable_timing: bool = False) -> None:
        self.device = device
        self.timed = enable_timing
        self.at: float | None = None

    def record(self, stream: DeviceStream) -> None:
        assert stream.device.index == self.device.current, "recorded on a stream of another device"
        self.device.refuse_while_captured("recording an event with a time", if_=self.timed)
        self.at = self.device.queued

    def query(self) -> bool:
        self.device.refuse_while_captured("asking for an event")
        return self.at is not None and self.at <= self.device.done

    def elapsed_time(self, end: DeviceEvent) -> float:
        """Milliseconds."""
        assert self.timed
        assert end.timed
        assert self.query()
        assert end.query()
        assert self.at is not None
        assert end.at is not None
        return (end.at - self.at) * 1000


@dataclass(eq=False)
class DeviceStream:
    device: torch.device
    owner: Accelerator
    waited: list[DeviceEvent] = field(default_factory=list)
    waited_for: list[DeviceStream] = field(default_factory=list)

    def is_capturing(self) -> bool:
        return self.owner.is_current_stream_capturing()

    def record_event(self) -> DeviceEvent:
        event = DeviceEvent(self.owner)
        event.record(self)
        return event

    def wait_event(self, event: DeviceEvent) -> None:
        self.waited.append(event)

    def wait_stream(self, stream: DeviceStream) -> None:
        self.waited_for.append(stream)


class Accelerator:
    """What `torch.cuda` and `torch.xpu` have in common, as far as it is used; it knows whether it was woken."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or Machine()
        self.queued = self.done = 0.0
        self.current = 0
        self.woken = False
        self.used = 0  # bytes
        self.peak = 0  # bytes
        self.inside: list[DeviceStream] = []
        self.replays = 0
        self.capturing_thread: int | None = None
        self._stream: DeviceStream | None = None

    # what there is, without waking it

    def device_count(self) -> int:
        return self.machine.count

    def is_available(self) -> bool:
        return self.machine.count > 0

    def is_initialized(self) -> bool:
        return self.woken

    # what wakes it

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        self.woken = True
        return self.machine.capability

    def get_device_name(self, device: Any = None) -> str:
        self.woken = True
        return self.machine.hardware

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        self.woken = True
        return self.machine.memory - self.used, self.machine.memory

    def max_memory_allocated(self, device: Any = None) -> int:
        return self.peak

    def current_device(self) -> int:
        self.woken = True
        return self.current

    def set_device(self, device: Any) -> None:
        self.woken = True
        self.current = int(device)

    def get_rng_state(self) -> torch.Tensor:
        self.refuse_while_captured("reading the generator")
        return torch.zeros(16, dtype=torch.uint8)

    def set_rng_state(self, state: torch.Tensor) -> None:
        self.refuse_while_captured("setting the generator")

    def Event(self, enable_timing: bool = False) -> DeviceEvent:  # noqa: N802 - as torch.cuda has it
        self.woken = True
        return DeviceEvent(self, enable_timing)

    def Stream(self, device: Any = None) -> DeviceStream:  # noqa: N802
        self.woken = True
        return DeviceStream(torch.device(self.machine.kind, self.current), self)

    def current_stream(self, device: Any = None) -> DeviceStream:
        self.woken = True
        if self._stream is None or self._stream.device.index != self.current:
            self._stream = self.Stream()
        return self._stream

    @contextlib.contextmanager
    def stream(self, stream: DeviceStream) -> Iterator[None]:
        self.inside.append(stream)
        before, self._stream = self._stream, stream
        try:
            yield
        finally:
            self._stream = before

    # the rules of a graph while it is captured, with capture_error_mode="thread_local"

    def is_current_stream_capturing(self) -> bool:
        return self.capturing_thread == threading.get_ident()

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        self.capturing_thread = threading.get_ident()
        try:
            yield
        finally:
            self.capturing_thread = None

    def CUDAGraph(self) -> DeviceGraph:  # noqa: N802
        return DeviceGraph(self)

    @contextlib.contextmanager
    def graph(self, graph: DeviceGraph, *, stream: DeviceStream, capture_error_mode: str) -> Iterator[None]:
        """As `torch.cuda.graph`; where the capture fails, the stream stays the current one."""
        assert capture_error_mode == "thread_local", "other threads pin memory meanwhile"
        assert stream in self.inside, "nothing was done on this stream before"
        self._stream = stream
        with self.capture(), graph.captured():
            yield

    def refuse_while_captured(self, what: str, if_: bool = True) -> None:
        if if_ and self.is_current_stream_capturing():
            raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing: {what}")


_HOST_READS = frozenset({"_local_scalar_dense", "equal", "masked_select", "nonzero"})


class DeviceGraph:
    """Operations that were recorded instead of done. Replayed, they read and write where the recorded ones would have.

    While they are recorded nothing is computed: what is made meanwhile holds no values, what was there is unchanged.
    """

    def __init__(self, device: Accelerator) -> None:
        self._device = device
        self._operations: list[tuple[Any, Any, Any, Any]] = []
        self._complete = False

    @contextlib.contextmanager
    def captured(self) -> Iterator[None]:
        recording = _Recording(self._operations)
        generator = torch.get_rng_state()
        try:
            with recording, _NoHostReads():
                yield
            self._complete = True
        finally:
            torch.set_rng_state(generator)
            recording.undo()

    def replay(self) -> None:
        assert self._complete, "the capture has failed"
        assert not self._device.is_current_stream_capturing()
        self._device.replays += 1
        known = tuple({id(each): each for _, *held in self._operations for each in _tensors(held)}.values())
        with _unsafe_preserve_version_counter(known):  # kernels count no versions
            for operation, args, kwargs, results in self._operations:
                again = operation(*args, **kwargs)
                for result, value in zip(_tensors(results), _tensors(again), strict=True):
                    if result.data_ptr() != value.data_ptr():
                        result.copy_(value)


class _Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, operations: list[tuple[Any, Any, Any, Any]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operations = operations
        self._made: dict[int, torch.Tensor] = {}
        self._outside: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        by_mask = name.startswith("index") and any(each.dtype is torch.bool for each in _tensors(args[1:2]))
        if name in _HOST_READS or by_mask:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        for tensor in _tensors((args, kwargs)):
            memory = tensor.untyped_storage().data_ptr()
            if memory not in self._made and memory not in self._outside:
                self._outside[memory] = tensor.detach(), tensor.detach().clone()
        results = func(*args, **kwargs)
        for tensor in _tensors(results):
            if (memory := tensor.untyped_storage().data_ptr()) not in self._outside:
                self._made[memory] = tensor.detach()
        # addresses: whoever gives a tensor other memory later changes nothing in the graph
        addresses = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs, results))
        self._operations.append((func, *addresses))
        return results

    def undo(self) -> None:
        for tensor, value in self._outside.values():
            tensor.copy_(value)
        for tensor in self._made.values():
            tensor.fill_(math.nan if tensor.is_floating_point() else 1)


class _NoHostReads(TorchFunctionMode):
    """What is no operation of torch's: on this stand-in the memory of the device is the host's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("cpu", "numpy", "tolist", "__array__"):
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        return func(*args, **(kwargs or {}))


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]


def install(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """Let the runtime see this machine from now on."""
    fake = Accelerator(machine)

    def current_accelerator(check_available: bool = False) -> torch.device | None:
        return torch.device(machine.kind) if machine.count else None

    monkeypatch.setattr(devices, "module_of", lambda kind: fake if kind == machine.kind else getattr(torch, kind, None))
    monkeypatch.setattr(torch.accelerator, "current_accelerator", current_accelerator)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device=None: fake.current_stream())
    monkeypatch.setattr(loader_settings, "_shared_memory", lambda: (machine.shared, machine.shared))
    monkeypatch.setattr(loader_settings, "start_method", lambda: machine.starts_by)
    monkeypatch.setattr(loader_settings, "usable_cpus", lambda: 8.0)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: (sys if machine.triton else None) if name == "triton" else find_spec(name, package),
    )
    return fake
