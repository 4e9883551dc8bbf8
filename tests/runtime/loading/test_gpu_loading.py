"""What only a CUDA device can show. `pytest -m gpu`."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from autoaccel import runtime as accel
from autoaccel.runtime.amp import precision
from autoaccel.runtime.loading import image_bytes, loader_statistics, managed_epoch, prefetcher, worker_count
from autoaccel.runtime.loading.loader_settings import WorkerCount
from autoaccel.runtime.trial.ab_trial import ABTrial

pytestmark = pytest.mark.gpu


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Each sample is its own number, so that any mix-up of memory shows."""

    def __init__(self, count: int = 96) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 128, 128), float(index)), index


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(Images(), batch_size=8, num_workers=2, pin_memory=True, **options)


def busy(cycles: int) -> None:
    """Hold up the current stream."""
    sleep: Any = torch.cuda._sleep
    sleep(cycles)


def poison() -> None:
    """Overwrite memory that the allocator hands out again, late on the current stream."""
    busy(2_000_000)
    scratch = torch.full((8, 3, 128, 128), float("nan"), device="cuda")
    del scratch


@pytest.mark.parametrize("depth", ["1", "3"])
def test_checksums_with_poisoned_memory(monkeypatch: pytest.MonkeyPatch, depth: str) -> None:
    monkeypatch.setenv("AUTOACCEL_PREFETCH_DEPTH", depth)
    for _ in range(5):
        wrong = torch.zeros((), device="cuda")
        seen = 0
        for x, y in accel.prefetch(loader(), "cuda"):
            assert x.is_cuda
            poison()
            # late on the device: by then the next batches have been staged into whatever memory was free
            wrong += (x.mean((1, 2, 3)) != y.to("cuda", non_blocking=True)).sum()
            seen += len(x)
            del x, y
            poison()
        assert seen == 96
        assert wrong.item() == 0


def test_leaving_early_leaves_memory_alone() -> None:
    for _ in range(20):
        for _x, _y in accel.prefetch(loader(), "cuda"):
            break
        busy(1_000_000)
        mine = [torch.full((8, 3, 128, 128), 7.0, device="cuda") for _ in range(3)]
        assert all(bool((tensor == 7).all()) for tensor in mine)


def test_moves_what_is_named_and_keeps_strides() -> None:
    batches: Iterator[Any] = iter(accel.prefetch(loader(), "cuda", move=(0,)))
    x, y = next(batches)
    assert x.is_cuda
    assert not y.is_cuda
    reference = next(iter(loader()))[0].to("cuda")
    assert x.stride() == reference.stride()


def test_checksums_of_batches_that_are_filled_when_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deterministic mode fills fresh memory on the consumer's stream, which the copy must not overtake."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        for x, y in accel.prefetch(loader(), "cuda"):
            busy(1_000_000)
            assert bool((x.mean((1, 2, 3)) == y.to("cuda")).all())
    finally:
        torch.use_deterministic_algorithms(False)


def test_every_freed_block_is_overwritten_and_nothing_shows() -> None:
    """All memory that the allocator would hand out again is poisoned after each step, in blocks like a batch."""
    kept, sums = [], []
    for number, (x, y) in enumerate(accel.prefetch(loader(shuffle=True), "cuda")):
        busy(1_000_000)
        sums.append((x.double().sum(), y))
        if number % 3 == 0:
            kept.append((x, y))  # some batches live on
        del x, y
        free = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        poisons = [
            torch.full((8, 3, 128, 128), float("nan"), device="cuda") for _ in range(min(64, free // 2**20 // 2))
        ]
        del poisons
    for total, y in sums:
        assert total.item() == y.double().sum().item() * 3 * 128 * 128
    for x, y in kept:
        assert torch.equal(x.mean((1, 2, 3)).cpu(), y.float().cpu())


def test_at_most_one_batch_more_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def peak() -> int:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        weight = torch.ones(3 * 128 * 128, 512, device="cuda", requires_grad=True)
        for x, _ in accel.prefetch(loader(), "cuda", move=(0,)):
            x = x.to("cuda", non_blocking=True)
            (x.flatten(1) @ weight).relu().sum().backward()
            del x
        return torch.cuda.max_memory_allocated() - before

    peak()  # what libraries keep for themselves
    with_it = peak()
    monkeypatch.setenv("AUTOACCEL_DISABLE", "prefetch")
    assert with_it <= peak() + 8 * 3 * 128 * 128 * 4 + 2**20


def test_one_side_stream_for_the_whole_process() -> None:
    from autoaccel.runtime.loading.copy_stream import copy_stream_of

    assert copy_stream_of(torch.device("cuda")) is copy_stream_of(torch.device("cuda", torch.cuda.current_device()))


def test_same_losses_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def losses() -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 128 * 128, 4)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        found = []
        for _ in range(2):
            for x, _ in accel.prefetch(loader(shuffle=True), "cuda", move=(0,)):
                loss = model(x.to("cuda", non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    ahead = losses()
    monkeypatch.setenv("AUTOACCEL_DISABLE", "prefetch")
    assert ahead == losses()


def test_autocast_by_hardware() -> None:
    expected = precision.by_capability(*torch.cuda.get_device_capability()).value
    assert precision.precision(torch.device("cuda")).value is expected
    with accel.autocast("cuda"):
        product = torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
    assert product.dtype is (torch.float16 if expected is torch.float16 else torch.float32)  # bfloat16 is tried later


@pytest.mark.parametrize("fused", [False, True])
def test_float16_with_the_scaler_follows_float32(monkeypatch: pytest.MonkeyPatch, fused: bool) -> None:
    def losses() -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
        scaler = accel.grad_scaler(optimizer)
        assert scaler.is_enabled() is (precision.precision(torch.device("cuda")).value is torch.float16)
        found = []
        for _ in range(50):
            x = torch.randn(256, 64, device="cuda")
            optimizer.zero_grad()
            with accel.autocast("cuda"):
                loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            found.append(loss.item())
        return found

    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "off")
    want = losses()
    monkeypatch.setenv("AUTOACCEL_AMP_DTYPE", "fp16")
    got = losses()
    assert got == pytest.approx(want, rel=0.05)
    assert got != want


def test_compiles_in_place() -> None:
    if torch.cuda.get_device_capability() < (7, 0):
        pytest.skip("needs compute capability 7.0")
    plain = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)).cuda()
    model = accel.compile(copy.deepcopy(plain))
    x = torch.randn(16, 32, device="cuda")
    assert torch.allclose(model(x), plain(x), atol=1e-5)
    assert model._compiled_call_impl is not None, "it fell back to eager"
    model(x).sum().backward(retain_graph=True)
    assert list(model.state_dict()) == list(plain.state_dict())


def test_pinning_and_workers() -> None:
    assert accel.pin_memory() is True
    x, _ = next(iter(loader()))
    assert x.is_pinned()
    assert prefetcher.unsafe(loader()) == ""


class Decoded(Images):
    """Takes its time, as decoding does, and draws no random numbers."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.001)
        return super().__getitem__(index)


@pytest.mark.parametrize("count", [0, 2], ids=["thread", "workers"])
@pytest.mark.parametrize("pinned", [True, False])
def test_whoever_fetches_the_loop_sees_the_same(monkeypatch: pytest.MonkeyPatch, count: int, pinned: bool) -> None:
    """Workers begin in the middle of the first pass; without them a thread fetches whenever it may."""
    monkeypatch.setattr(
        worker_count,
        "decide_workers",
        lambda measured, machine: worker_count.WorkerDecision(count, "chosen by the test", yet=True),
    )
    monkeypatch.setattr(ABTrial, "next_iteration", lambda self: True)

    def story(chosen: Any) -> list[Any]:
        torch.manual_seed(0)
        found = []
        for _ in range(3):
            for x, y in accel.prefetch(chosen, "cuda"):
                found.append((x.to("cuda").double().sum().item(), y.tolist(), torch.rand(1).item()))
        return found

    plain = DataLoader(Decoded(), batch_size=8, shuffle=True)
    options: dict[str, Any] = {"persistent_workers": count > 0, "pin_memory": pinned}
    chosen = DataLoader(Decoded(), batch_size=8, shuffle=True, num_workers=WorkerCount(count), **options)
    assert managed_epoch.managed(chosen)
    assert story(chosen) == story(plain)
    if not count:
        again = DataLoader(Decoded(), batch_size=8, num_workers=WorkerCount(0), **options)
        batches: Any = prefetcher.begin_epoch(again)
        for _ in range(4):
            assert next(batches)[0].is_pinned() is pinned
        assert batches._fetcher.pending


def test_steps_are_timed_on_the_device() -> None:
    """The host hands over the work of a step in no time."""
    torch.ones(1, device="cuda")  # it is in use
    steps = loader_statistics.StepIntervals()
    for _ in range(4):
        steps.begin()
        busy(20_000_000)  # some 10 ms
        known = list(steps.end())
        torch.cuda.synchronize()
    known += list(steps.end())
    assert known
    assert min(device for _, device in known) > 0.002
    assert min(host for host, _ in known) < 0.002


@pytest.mark.parametrize("workers", [0, 2])
def test_images_as_bytes_are_the_same_floats(torchvision: ModuleType, workers: int) -> None:
    """Divisions on the device may be rounded otherwise; what is looked up is not."""
    t = torchvision.transforms
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    pipeline = t.Compose([t.Resize(256), t.CenterCrop(224), t.ToTensor(), t.Normalize(mean, std)])
    dataset = torchvision.datasets.FakeData(96, (3, 250, 250), transform=pipeline)
    plain = DataLoader(dataset, batch_size=32, num_workers=workers, pin_memory=True)
    seen = 0
    for (want, labels), (images, same_labels) in zip(plain, accel.prefetch(plain, "cuda", normalize=True), strict=True):
        assert images.is_cuda
        assert images.is_contiguous()
        assert torch.equal(images.cpu(), want)
        assert torch.equal(same_labels.cpu(), labels)
        seen += len(images)
        poison()
    assert seen == 96
    (known,) = image_bytes._known[plain].values()
    assert known.device == torch.device("cuda")
