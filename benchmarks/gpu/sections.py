"""What is asked, section by section."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from autoaccel import runtime as accel
from autoaccel.runtime.amp.autocast import LiftToFloat32
from autoaccel.runtime.execution_mode import in_backward
from autoaccel.runtime.loading.loader_settings import WorkerCount
from autoaccel.runtime.trial.clocks import clock_of
from benchmarks.gpu.measuring import Row, failed, microseconds, price, wait
from benchmarks.gpu.step import BATCH, ROWS, Training

_WARM_UP = 3  # eager steps before one is captured


def hazards(device: torch.device) -> Iterator[Row]:
    """What only a GPU can show, with what is expected of it."""
    seen: list[torch.dtype] = []

    class Look(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.layer(x)
            seen.append(result.dtype)
            return result

    where: list[tuple[bool, bool]] = []
    main = threading.get_ident()

    class Spy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
            where.append((threading.get_ident() == main, in_backward()))
            return gradient

    model, x = Look().to(device), torch.randn(4, 8, device=device)
    regions: dict[str, Callable[[], Any]] = {
        "bfloat16": lambda: torch.autocast(device.type, torch.bfloat16),
        "lifted": lambda: LiftToFloat32(device.type),
    }
    for name, region in regions.items():
        if device.type == "cuda":
            with region():
                nn.parallel.parallel_apply([model, model], [(x,), (x,)], devices=[0, 0])
            yield Row(f"DataParallel's replicas in a {name} region (expected: float16)", str(seen))
            seen.clear()
        try:
            with region():
                functional.binary_cross_entropy(torch.sigmoid(x), torch.rand(4, 8, device=device))
            answer = "fine"
        except RuntimeError as failure:
            answer = failed(failure)
        yield Row(f"binary_cross_entropy in a {name} region (CUDA: refused)", answer)
    Spy.apply(x.clone().requires_grad_()).sum().backward()  # type: ignore[no-untyped-call]
    yield Row("backward in the caller's thread, and seen there as one (CUDA: False, True)", str(where[0]))
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info()
        yield Row("memory that is free, and in all", f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB")


def prices(device: torch.device) -> Iterator[Row]:
    """What the runtime does in every step."""
    scalar, rows = torch.zeros(1, device=device), torch.arange(BATCH)
    images = torch.zeros(BATCH, 28, 28, dtype=torch.uint8)
    yield price("one kernel, the queue kept busy", lambda: scalar.add_(1), device, times=2000)
    yield price("a number read from an idle device", scalar.item, device, times=500)
    yield price("a moment of the trials' clock", clock_of(device).mark, device, times=1000)
    if device.type == "cuda":
        for name, data in (("row numbers", rows), ("images of MNIST", images)):
            copy = _pinned_copy(data, device)
            yield price(f"100 {name} pinned and copied", copy, device, times=500)
        yield price("100 images of MNIST copied as they are", lambda: images.to(device), device, times=500)

    def region(make: Callable[[], Any]) -> Callable[[], None]:
        def enter() -> None:
            with make():
                pass

        return enter

    low = region(lambda: torch.autocast(device.type, torch.bfloat16))
    yield price("an empty region of torch's, in bfloat16", low, device, times=1000)
    yield price("an empty region that lifts to float32", region(lambda: LiftToFloat32(device.type)), device, times=1000)
    yield price("an empty region of accel.autocast, being tried", region(lambda: accel.autocast(device)), device)
    total = [accel.total()]

    def add() -> None:
        total[0] += scalar

    yield price("an addition to accel.total()", add, device, times=500)


def _pinned_copy(data: torch.Tensor, device: torch.device) -> Callable[[], torch.Tensor]:
    return lambda: data.pin_memory().to(device, non_blocking=True)


def steps(device: torch.device) -> Iterator[Row]:
    """What each mechanism is worth in a step that waits for launches."""

    def row(name: str, training: Training, **how: Any) -> Row:
        return price(name, lambda: training.step(**how).item(), device)

    yield row("SGD, as it is", Training(device))
    yield price("SGD, its loss not read", Training(device).step, device)
    yield row("SGD, fused", Training(device, fused=True))
    yield row("Adam, as it is", Training(device, "Adam"))
    yield row("Adam, fused", Training(device, "Adam", fused=True))
    yield row("SGD, bfloat16", Training(device), precision=torch.bfloat16)
    channels_last = Training(device)
    channels_last.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    yield row("SGD, channels last", channels_last)
    if device.type != "cuda":
        return
    torch.set_float32_matmul_precision("high")
    yield row("SGD, products in TF32", Training(device))
    torch.set_float32_matmul_precision("highest")
    for mode in (None, "reduce-overhead"):
        torch.compiler.reset()
        training = Training(device)
        call = torch.compile(training.model, mode=mode)
        start = time.perf_counter()
        training.step(call).item()
        name = f"SGD, torch.compile{f' for {mode}' if mode else ''}"
        yield Row(f"{name}: the first step", f"{time.perf_counter() - start:.1f} s")
        yield row(name, training, call=call)
    kinds: tuple[tuple[str, torch.dtype | None, dict[str, Any]], ...] = (
        ("the kernels of the eager step", None, {}), ("fused SGD", None, {"fused": True}),
        ("bfloat16, fused SGD", torch.bfloat16, {"fused": True}),
    )  # fmt: skip
    for name, precision, settings in kinds:
        training = Training(device, **settings)
        start = time.perf_counter()
        graph, loss = _captured(training, precision=precision)
        yield Row(f"the whole step captured, {name}: capturing", f"{(time.perf_counter() - start) * 1e3:.0f} ms")
        yield price(f"the whole step replayed, {name}, its loss not read", _replays(training, graph), device)
        yield price(f"the whole step replayed, {name}", _replays(training, graph, loss), device)


def _captured(training: Training, **how: Any) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    graph = torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            training.step(**how)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        loss = training.step(**how)
    wait(training.device)
    return graph, loss


def _replays(training: Training, graph: torch.cuda.CUDAGraph, loss: torch.Tensor | None = None) -> Callable[[], None]:
    """Steps over rows in random order; `loss` is read after each."""
    order = torch.randperm(ROWS, device=training.device)
    at = 0

    def replay() -> None:
        nonlocal at
        at = (at + BATCH) % (ROWS - BATCH)
        training.index.copy_(order[at : at + BATCH])
        graph.replay()
        if loss is not None:
            loss.item()

    return replay


def loaders(device: torch.device) -> Iterator[Row]:
    """What a batch of 100 images costs the host."""
    rows = ROWS if device.type == "cuda" else 20 * BATCH
    labels = torch.zeros(rows, dtype=torch.int64)

    class Bytes(Dataset[Any]):
        """As torchvision's MNIST: its memory is not torch's own."""

        def __init__(self) -> None:
            self.data = torch.frombuffer(bytearray(rows * 784), dtype=torch.uint8).view(rows, 784)

        def __len__(self) -> int:
            return rows

        def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
            return self.data[index], labels[index]

    kinds: tuple[tuple[str, Dataset[Any]], ...] = (
        ("a TensorDataset", TensorDataset(torch.zeros(rows, 784, dtype=torch.uint8), labels)), ("a dataset", Bytes()),
    )  # fmt: skip
    for name, dataset in kinds:
        for prefetched in (True, False):
            loader = DataLoader(
                dataset, batch_size=BATCH, shuffle=True, num_workers=WorkerCount(0), pin_memory=device.type == "cuda"
            )
            batches = iter(accel.prefetch(loader, device) if prefetched else loader)

            def take(batches: Iterator[Any] = batches) -> None:
                images, labels = next(batches)
                images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

            cost = microseconds(take, device, times=50)
            yield Row(f"{name}, {'through accel.prefetch' if prefetched else 'plain'}", f"{cost:.1f} µs")


def capture(device: torch.device) -> Iterator[Row]:
    """Whether a replayed step is the eager one, with dropout in it: losses, parameters and random numbers.

    Some of cuDNN's kernels add in no fixed order, unless they are told to be deterministic.
    """
    before = torch.backends.cudnn.deterministic
    for deterministic in (False, True):
        torch.backends.cudnn.deterministic = deterministic
        which = ", deterministic cuDNN" if deterministic else ""
        eager = _story(device, captured=False)
        yield Row(f"the eager step again{which}", _compared(eager, _story(device, captured=False)))
        if device.type == "cuda":
            yield Row(f"the captured step{which}", _compared(eager, _story(device, captured=True)))
    torch.backends.cudnn.deterministic = before


_Story = tuple[list[float], list[torch.Tensor], torch.Tensor]


def _story(device: torch.device, *, captured: bool) -> _Story:
    training, order = Training(device), torch.Generator().manual_seed(1)
    torch.manual_seed(7)
    graph: torch.cuda.CUDAGraph | None = None
    loss = torch.zeros(())
    losses = []
    stream = torch.cuda.Stream() if device.type == "cuda" else None  # type: ignore[no-untyped-call]
    for number in range(60 if device.type == "cuda" else 12):  # on a CPU there is nothing to find out
        training.index.copy_(torch.randperm(len(training.labels), generator=order)[:BATCH])
        if not captured or stream is None:
            loss = training.step(dropout=0.1)
        elif number < _WARM_UP:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                loss = training.step(dropout=0.1)
            torch.cuda.current_stream().wait_stream(stream)
        else:
            if graph is None:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    loss = training.step(dropout=0.1)
            graph.replay()
        losses.append(loss.item())
    state = torch.cuda.get_rng_state() if device.type == "cuda" else torch.get_rng_state()
    return losses, [each.detach().clone() for each in training.model.parameters()], state


def _compared(one: _Story, other: _Story) -> str:
    parameters = all(map(torch.equal, one[1], other[1]))
    same = {"losses": one[0] == other[0], "parameters": parameters, "random state": torch.equal(one[2], other[2])}
    return ", ".join(f"{name} {'equal' if equal else 'DIFFERENT'}" for name, equal in same.items())


SECTIONS: dict[str, Callable[[torch.device], Iterator[Row]]] = {
    "hazards": hazards, "prices": prices, "steps": steps, "loaders": loaders, "capture": capture,
}  # fmt: skip
