"""The prefetcher: nothing changes but the time of the copy."""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    TensorDataset,
    default_collate,
)

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.loading import loader_settings, prefetcher
from autoaccel.runtime.loading.prefetcher import Epoch, Prefetched
from autoaccel.runtime.loading.worker_count import WorkerDecision

LaneOf = Callable[[int], Any]

# ---------------------------------------------------------------- ordering, on the recorded device


def batches(count: int, size: int = 8) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [
        (torch.full((size,), float(i + 1), dtype=torch.float64), torch.full((2,), 0.5, dtype=torch.float64))
        for i in range(count)
    ]


def sums(values: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
    return [float(x.sum()) for x, _ in values]


@pytest.mark.parametrize("ahead", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_every_order_of_execution_computes_on_the_right_values(lane_of: LaneOf, seed: int, ahead: int) -> None:
    lane, results = lane_of(seed), list[float]()
    script = random.Random(seed)

    def stream() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for size in (8, 8, 3, 8, 8, 5, 1):  # sizes differ, so that memory is cut and reused unevenly
            yield torch.full((size,), float(size), dtype=torch.float64), torch.ones(1, dtype=torch.float64)

    for x, _ in Epoch(stream(), lane, "all", ahead):
        assert x.on_device
        for _ in range(script.randrange(3)):
            lane.compute(x, results)
        lane.advance(script.random())
        del x, _  # the next batch's memory may be this one's
    lane.synchronize()
    assert set(results) <= {64.0, 9.0, 25.0, 1.0}
    assert not any(torch.isnan(torch.tensor(results)))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("way", ["break", "raise", "close", "drop"])
def test_leaving_early_never_frees_memory_under_a_copy(lane_of: LaneOf, seed: int, way: str) -> None:
    lane, results = lane_of(seed), list[float]()
    epoch: Epoch | None = Epoch(iter(batches(6)), lane, "all", 2)

    def loop() -> None:
        assert epoch is not None
        for number, (x, _) in enumerate(epoch):
            lane.compute(x, results)
            if number == 1 and way == "break":
                break
            if number == 1 and way == "raise":
                raise KeyError
            if number == 1:
                return

    if way == "raise":
        with pytest.raises(KeyError):
            loop()
    else:
        loop()
    if way == "close":
        assert epoch is not None
        epoch.close()
        assert next(epoch, None) is None
    epoch = None
    gc.collect()
    # whatever comes next in the program takes over the memory of what was staged
    for value in (3.0, 5.0, 7.0):
        lane.compute(torch.full((8,), value, dtype=torch.float64), results)
    lane.synchronize()
    assert results == [8.0, 16.0, 24.0, 40.0, 56.0]


def test_the_protocol_of_one_step(lane_of: LaneOf) -> None:
    """Allocate, then record on the consumer (rule 1), copy behind that, record that; the consumer waits on return."""
    lane = lane_of(0)
    epoch = Epoch(iter(batches(1)), lane, (0,), 1)
    next(epoch)
    assert lane.log == ["allocate", "record consumer", "wait side", "copy", "record side", "wait consumer"]


def test_without_the_consumer_wait_the_fake_device_would_notice(
    lane_of: LaneOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test of the tests: each wait taken away shows as a wrong result in some order of execution."""

    def wrong(seed: int, without: str) -> bool:
        lane, results = lane_of(seed), list[float]()
        wait = lane.wait
        lane.wait = lambda stream, event: None if stream.name == without else wait(stream, event)
        for x, _ in Epoch(iter(batches(6)), lane, "all", 1):
            lane.compute(x, results)
            del x, _
        lane.synchronize()
        return results != sums(batches(6))

    assert not any(wrong(seed, "nothing") for seed in range(12))
    assert any(wrong(seed, "consumer") for seed in range(12))
    assert any(wrong(seed, "side") for seed in range(12))


def test_another_consumer_stream_gets_the_host_batch(lane_of: LaneOf) -> None:
    lane = lane_of(0)
    epoch = Epoch(iter(batches(3)), lane, "all", 1)
    next(epoch)
    lane.current = type(lane.current)("other")
    x, _ = next(epoch)  # staged for the first stream
    assert not hasattr(x, "on_device")
    x, _ = next(epoch)
    assert x.on_device


def test_without_memory_for_one_more_batch_the_loop_moves_them_itself(lane_of: LaneOf) -> None:
    lane = lane_of(0)

    def full(tensor: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError

    lane.allocate = full
    given = batches(3)
    assert all(got is want for got, want in zip(Epoch(iter(given), lane, "all", 1), given, strict=True))
    assert "copy" not in lane.log


def test_small_batches_are_left_to_the_loop(lane_of: LaneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = lane_of(0)
    monkeypatch.setattr(prefetcher, "SMALLEST_BATCH", 8 * 8 + 2 * 8 + 1)
    given = batches(3)
    assert all(got is want for got, want in zip(Epoch(iter(given), lane, "all", 1), given, strict=True))
    assert lane.log == []


def test_small_batches_and_those_on_a_device_are_not_looked_into(
    lane_of: LaneOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetcher, "SMALLEST_BATCH", 100)
    monkeypatch.setattr(prefetcher, "rebuild", None)
    there = torch.empty(100, device="meta")
    given = [[there, torch.zeros(2)], (there, there)]
    assert all(got is want for got, want in zip(Epoch(iter(given), lane_of(0), "all", 1), given, strict=True))


def test_batches_kept_across_steps_stay_right(lane_of: LaneOf) -> None:
    lane, results = lane_of(3), list[float]()
    kept = [x for x, _ in Epoch(iter(batches(5)), lane, "all", 2)]
    for x in kept:
        lane.compute(x, results)
    lane.synchronize()
    assert results == sums(batches(5))


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_no_more_memory_than_agreed(lane_of: LaneOf, ahead: int) -> None:
    """While a step runs there are its own batch and `ahead` more. As the loop asks for the next, it still holds one."""
    lane, during = lane_of(0), list[int]()
    for _x, _ in Epoch(iter(batches(9)), lane, (0,), ahead):
        during.append(lane.live)
    assert max(during) == 1 + ahead
    assert lane.most == 2 + ahead
    del _x
    assert lane.live == 0


def test_a_loop_that_lets_go_of_its_batch_reuses_the_memory(lane_of: LaneOf) -> None:
    lane = lane_of(0)
    for x, _ in Epoch(iter(batches(9)), lane, (0,), 1):
        lane.synchronize()
        del x, _
    assert lane.most == 2
    assert lane.blocks == 2


def test_tensors_that_are_one_stay_one(lane_of: LaneOf) -> None:
    lane = lane_of(0)
    shared, other = torch.ones(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    ((a, b), again, c), *_ = Epoch(iter([([shared, shared], {"x": shared}, other)]), lane, "all", 1)
    assert a is b is again["x"]
    assert a.on_device
    assert c is not a
    assert lane.log.count("copy") == 2


def test_registered_pytrees_are_moved_and_objects_with_a_method_are_not(lane_of: LaneOf) -> None:
    """What an object's own `to` does is its own affair: the loop calls it, at its own time."""

    class Boxes:
        def __init__(self, corners: torch.Tensor) -> None:
            self.corners = corners

        def to(self, *_: Any, **__: Any) -> Boxes:
            raise AssertionError("called by the prefetcher")

    class Graph:
        def __init__(self, nodes: torch.Tensor, name: str) -> None:
            self.nodes, self.name = nodes, name

    torch.utils._pytree.register_pytree_node(
        Graph, lambda g: ([g.nodes], g.name), lambda p, name: Graph(next(iter(p)), name)
    )
    given = (Graph(torch.ones(3, dtype=torch.float64), "g"), Boxes(torch.ones(2, dtype=torch.float64)), torch.ones(1))
    (graph, boxes, _), *_ = Epoch(iter([given]), lane_of(0), (0, 1), 1)
    assert graph.nodes.on_device
    assert graph.name == "g"
    assert boxes is given[1]


def test_memory_that_is_filled_when_it_is_allocated(lane_of: LaneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.use_deterministic_algorithms` fills fresh memory, on the consumer's stream: the copy has to come later."""
    for seed in range(12):
        lane, results = lane_of(seed), list[float]()
        allocate = lane.allocate

        def filled(
            tensor: torch.Tensor, allocate: Callable[[torch.Tensor], torch.Tensor] = allocate, lane: Any = lane
        ) -> torch.Tensor:
            fresh = allocate(tensor)
            memory = fresh.detach()
            lane.enqueue(lane.consumer(), lambda: memory.fill_(float("nan")))
            return fresh

        monkeypatch.setattr(lane, "allocate", filled)
        for x, _ in Epoch(iter(batches(6)), lane, (0,), 1):
            lane.compute(x, results)
            lane.advance(0.4)
            del x, _
        lane.synchronize()
        assert results == sums(batches(6))


# ---------------------------------------------------------------- iteration


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("ahead", [1, 4])
def test_yields_every_batch_once(lane_of: LaneOf, count: int, ahead: int) -> None:
    lane = lane_of(0)
    got = list(Epoch(iter(batches(count)), lane, "all", ahead))
    lane.synchronize()
    assert sums(got) == sums(batches(count))


def test_an_infinite_loader(lane_of: LaneOf) -> None:
    lane = lane_of(0)
    endless = ((torch.full((2,), float(i), dtype=torch.float64), torch.ones(1)) for i in itertools.count())
    got = list(itertools.islice(Epoch(endless, lane, (0,), 1), 4))
    lane.synchronize()
    assert [float(x[0]) for x, _ in got] == [0.0, 1.0, 2.0, 3.0]


def test_stays_exhausted(lane_of: LaneOf) -> None:
    epoch = Epoch(iter(batches(1)), lane_of(0), "all", 1)
    assert len(list(epoch)) == 1
    assert next(epoch, None) is None
    assert next(epoch, None) is None


class Failing:
    """Fails at its third batch, then goes on, as a loader does whose worker raised."""

    def __init__(self, bad: int = 3, last: int = 5) -> None:
        self.count = 0
        self.bad, self.last = bad, last

    def __iter__(self) -> Iterator[torch.Tensor]:
        return self

    def __next__(self) -> torch.Tensor:
        self.count += 1
        if self.count == self.bad:
            raise ValueError("third")
        if self.count > self.last:
            raise StopIteration
        return torch.full((2,), float(self.count), dtype=torch.float64)


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_an_exception_comes_at_its_own_batch(lane_of: LaneOf, ahead: int) -> None:
    lane = lane_of(0)
    epoch = Epoch(Failing(), lane, "all", ahead)
    got = [next(epoch), next(epoch)]
    with pytest.raises(ValueError, match="third"):
        next(epoch)
    got += list(epoch)
    lane.synchronize()
    assert [float(x[0]) for x in got] == [1.0, 2.0, 4.0, 5.0]


def test_what_is_not_movable_or_not_named_stays(lane_of: LaneOf) -> None:
    lane = lane_of(0)
    x, y = torch.ones(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    y.pinned = False  # type: ignore[attr-defined]
    (got_x, got_y, got_name), *_ = Epoch(iter([(x, y, "name")]), lane, "all", 1)
    assert got_x is not x
    assert got_y is y
    assert got_name == "name"
    (got_x, got_y), *_ = Epoch(iter([(x, x)]), lane, (1,), 1)
    assert got_x is x
    assert got_y is not x


# ---------------------------------------------------------------- accel.prefetch over real loaders


class Numbers(Dataset[torch.Tensor]):
    def __init__(self, count: int = 22) -> None:
        self.count = count
        self.bad = -1

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.bad:
            raise ValueError("bad sample")
        return torch.tensor([float(index)], dtype=torch.float64)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_NUM_WORKERS", "1")


def plain(**options: Any) -> DataLoader[torch.Tensor]:
    return DataLoader(Numbers(), batch_size=4, **options)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_the_whole_path_over_a_real_loader(cuda_lane: Any) -> None:
    torch.manual_seed(0)
    want = [batch.flatten().tolist() for batch in plain(shuffle=True)]
    torch.manual_seed(0)
    loader = plain(shuffle=True, num_workers=1, pin_memory=True)
    fetched = accel.prefetch(loader, "cuda")
    assert isinstance(fetched, Prefetched)
    assert len(fetched) == len(loader) == 6
    got = []
    for number, batch in enumerate(fetched):
        assert batch.on_device
        cuda_lane.synchronize()
        got.append(batch.flatten().tolist())
        assert number < 6
    assert got == want
    assert len(got[-1]) == 2  # the partial last batch


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_nested_loops_and_zip_over_one_loader(cuda_lane: Any) -> None:
    loader = plain(num_workers=1, pin_memory=True)

    def run(loop: Callable[[Any], Any]) -> list[tuple[int, int]]:
        pairs = []
        for a, b in loop(lambda: accel.prefetch(loader, "cuda")):
            cuda_lane.synchronize()
            pairs.append((int(a[0]), int(b[0])))
        return pairs

    assert run(lambda once: zip(once(), once(), strict=True)) == [(i, i) for i in range(0, 22, 4)]
    nested = run(lambda once: ((a, b) for a in itertools.islice(once(), 2) for b in itertools.islice(once(), 2)))
    assert nested == [(0, 0), (0, 4), (4, 0), (4, 4)]


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_enumerate_and_progress_bars(cuda_lane: Any) -> None:
    tqdm: Any = importlib.import_module("tqdm").tqdm
    loader = plain(num_workers=1, pin_memory=True)
    bar = tqdm(accel.prefetch(loader, "cuda"), disable=True)
    assert bar.total == 6
    seen = []
    for number, batch in enumerate(bar, 1):
        cuda_lane.synchronize()
        seen.append((number, int(batch[0])))
    assert seen == [(1, 0), (2, 4), (3, 8), (4, 12), (5, 16), (6, 20)]


class Endless(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor([float(i)], dtype=torch.float64) for i in itertools.count())


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_an_endless_loader_that_the_loop_returns_from(cuda_lane: Any) -> None:
    loader = DataLoader(Endless(), batch_size=2, num_workers=1, pin_memory=True)

    def loop() -> list[float]:
        found: list[float] = []
        for batch in accel.prefetch(loader, "cuda"):
            cuda_lane.synchronize()
            found += batch.flatten().tolist()
            if len(found) >= 6:
                return found
        raise AssertionError

    assert loop() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
@pytest.mark.parametrize(("leave", "own"), [(-1, False), (3, False), (-1, True), (3, True), (4, True), (5, True)])
def test_looking_ahead_on_workers_that_come_in_the_middle(
    cuda_lane: Any, monkeypatch: pytest.MonkeyPatch, leave: int, own: bool
) -> None:
    """The training process fetches the first batches, and none of them before the loop asks for it.

    A sampler that rng_use from the loader's own generator rng_use again when it is asked for more than there is.
    """
    monkeypatch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(
        "autoaccel.runtime.loading.worker_count.decide_workers",
        lambda measured, machine: WorkerDecision(1, "chosen by the test", yet=True),
    )

    def run(loader: Any, synchronize: Callable[[], None]) -> list[Any]:
        torch.manual_seed(0)
        found = []
        for _ in range(3):
            for number, batch in enumerate(accel.prefetch(loader, "cuda")):
                synchronize()
                found.append((batch.flatten().tolist(), hash(tuple(torch.get_rng_state().tolist()))))
                torch.rand(1)
                if number == leave:
                    break
        return found

    def shuffled(**options: Any) -> DataLoader[torch.Tensor]:
        return plain(shuffle=True, generator=torch.Generator().manual_seed(1) if own else None, **options)

    chosen = shuffled(num_workers=loader_settings.WorkerCount(1), persistent_workers=True, pin_memory=True)
    assert type(accel.prefetch(chosen, "cuda")._device) is torch.device
    assert run(chosen, cuda_lane.synchronize) == run(shuffled(), lambda: None)
    assert cuda_lane.log.count("copy") >= 8


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
@pytest.mark.parametrize("leave", [0, 2, 3, 5], ids=lambda count: f"after {count + 1}")
@pytest.mark.parametrize("replacement", [False, True])
def test_a_generator_of_the_script_is_left_as_without_looking_ahead(
    cuda_lane: Any, monkeypatch: pytest.MonkeyPatch, leave: int, replacement: bool
) -> None:
    """Workers of the script's own: the sampler rng_use in the middle of a pass, and once more when it is exhausted."""
    monkeypatch.setattr(prefetcher, "arrived", lambda batches: True)

    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        generator = torch.Generator().manual_seed(1)
        dataset = Numbers(70 if replacement else 22)
        sampler = RandomSampler(dataset, replacement=replacement, generator=generator)
        loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=1, pin_memory=True)
        found = []
        for _ in range(3):
            for number, batch in enumerate(wrap(loader)):
                cuda_lane.synchronize()
                found.append(batch.flatten().tolist())
                if number == leave:
                    break
            found.append(generator.get_state().tolist())
        return found

    assert run(lambda loader: accel.prefetch(loader, "cuda")) == run(lambda loader: loader)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_a_worker_exception_over_a_real_loader(cuda_lane: Any) -> None:
    dataset = Numbers()
    dataset.bad = 9
    loader = DataLoader(dataset, batch_size=4, num_workers=1, pin_memory=True)
    fetched = iter(accel.prefetch(loader, "cuda"))
    assert len([next(fetched), next(fetched)]) == 2
    with pytest.raises(ValueError, match="bad sample"):
        next(fetched)


class Drawing(Sampler[int]):
    """RngUseDetector between batches, from the generator that the loop uses as well."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(8):
            yield int(torch.randint(8, ()))

    def __len__(self) -> int:
        return 8


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


def _loaders() -> dict[str, tuple[Callable[[], Any], str]]:
    data = TensorDataset(torch.zeros(8, 1))

    def loader(**options: Any) -> Callable[[], Any]:
        return lambda: DataLoader(data, **{"num_workers": 1, "pin_memory": True, **options})

    return {
        "list": (lambda: [1, 2], "list"),
        "iterator": (lambda: iter(DataLoader(data)), "_SingleProcessDataLoaderIter"),
        "generator": (lambda: (i for i in range(3)), "generator"),
        "no workers": (loader(num_workers=0), "no workers"),
        "not pinned": (loader(pin_memory=False), "does not pin"),
        "own sampler": (loader(sampler=Drawing()), "Drawing may draw"),
        "own batch sampler": (
            loader(batch_sampler=type("Own", (BatchSampler,), {})(RandomSampler(data), 2, False)),
            "may draw",
        ),
        "own iteration": (
            lambda: type("Own", (DataLoader,), {"__iter__": lambda self: iter(())})(
                data, num_workers=1, pin_memory=True
            ),
            "Own is not iterated",
        ),
    }


@pytest.mark.parametrize("case", _loaders())
def test_hands_back_what_it_cannot_look_ahead_on(cuda_lane: Any, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOACCEL_DISABLE", "resident")
    make, reason = _loaders()[case]
    loader = make()
    assert accel.prefetch(loader, "cuda") is loader
    assert reason in prefetcher.unsafe(loader)


@pytest.mark.parametrize(
    "options",
    [{}, {"shuffle": True}, {"batch_size": None}, {"sampler": torch.utils.data.SubsetRandomSampler([1, 2])}],
    ids=["in order", "shuffled", "unbatched", "subset"],
)
def test_looks_ahead_where_nothing_is_drawn(cuda_lane: Any, options: dict[str, Any]) -> None:
    assert prefetcher.unsafe(DataLoader(Numbers(), num_workers=1, pin_memory=True, **options)) == ""
    assert prefetcher.unsafe(DataLoader(Stream(), num_workers=1, pin_memory=True)) == ""


@pytest.mark.parametrize("device", [None, "cpu", "mps", "meta", torch.device("cpu"), torch.zeros(1)])
def test_on_cpu_and_mps_it_is_the_loader(device: Any) -> None:
    loader = plain(num_workers=1)
    assert accel.prefetch(loader, device) is loader


def test_the_switches(cuda_lane: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = plain(num_workers=1, pin_memory=True)
    assert isinstance(accel.prefetch(loader, "cuda"), Prefetched)
    monkeypatch.setenv("AUTOACCEL_PREFETCH_DEPTH", "0")
    assert accel.prefetch(loader, "cuda") is loader
    monkeypatch.setenv("AUTOACCEL_PREFETCH_DEPTH", "3")
    assert accel.prefetch(loader, "cuda")._ahead == 3
    for value in ("prefetch", "all", "amp,prefetch"):
        monkeypatch.setenv("AUTOACCEL_DISABLE", value)
        assert accel.prefetch(loader, "cuda") is loader


def test_attributes_are_the_loaders(cuda_lane: Any) -> None:
    loader = plain(num_workers=1, pin_memory=True)
    fetched = accel.prefetch(loader, "cuda")
    assert fetched.dataset is loader.dataset
    assert fetched.sampler is loader.sampler
    fetched.timeout = 7.0
    assert loader.timeout == 7.0
    fetched.note = "kept"
    assert loader.note == "kept"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="nothing"):
        fetched.nothing  # noqa: B018
    assert repr(fetched).startswith("prefetch(")


def test_set_epoch_reaches_the_sampler(cuda_lane: Any) -> None:
    sampler: Any = torch.utils.data.distributed.DistributedSampler(Numbers(), num_replicas=1, rank=0, shuffle=True)
    loader = DataLoader(Numbers(), sampler=sampler, num_workers=1, pin_memory=True)
    accel.prefetch(loader, "cuda").sampler.set_epoch(5)
    assert sampler.epoch == 5


def test_the_iterator_is_made_when_the_loop_starts(cuda_lane: Any) -> None:
    """Iterating rng_use from the random generator: not before the script's own loop would."""
    loader = plain(shuffle=True, num_workers=1, pin_memory=False)
    before = torch.get_rng_state()
    fetched = Prefetched(loader, torch.device("cuda"), "all", 1)
    assert torch.equal(torch.get_rng_state(), before)
    iter(fetched)
    assert not torch.equal(torch.get_rng_state(), before)


def test_nothing_is_kept_alive(cuda_lane: Any) -> None:
    loader = plain(num_workers=1, pin_memory=True)
    gone = weakref.ref(loader)
    accel.prefetch(loader, "cuda")
    del loader
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("end", ["break at the last batch", "exhaustion", "failure"])
def test_the_epoch_goes_at_once_not_when_garbage_is_collected(lane_of: LaneOf, end: str) -> None:
    """It holds device memory and worker processes; a cycle through a stored exception would keep both."""
    source = Failing(bad=3 if end == "failure" else 0, last=2)
    epoch: Epoch | None = Epoch(source, lane_of(0), "all", 1)
    gone = weakref.ref(epoch)
    gc.disable()
    try:
        assert epoch is not None
        next(epoch)
        next(epoch)
        if end == "exhaustion":
            assert next(epoch, None) is None
        if end == "failure":
            with contextlib.suppress(ValueError):
                next(epoch)
        epoch = None
        assert gone() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- readiness


def test_does_not_wait_for_a_worker_when_a_batch_is_at_hand() -> None:
    class Tasks:
        """The bookkeeping of torch's multiprocess iterator."""

        _rcvd_idx, _send_idx = 3, 5

        def __init__(self, queued: list[int], tasks: dict[int, tuple[Any, ...]]) -> None:
            import queue

            self._data_queue: queue.Queue[tuple[int, Any]] = queue.Queue()
            for index in queued:
                self._data_queue.put((index, None))
            self._task_info = tasks

        def __iter__(self) -> Iterator[Any]:
            return self

        def __next__(self) -> Any:
            return None

    assert not prefetcher.arrived(Tasks([], {3: (0,)}))
    assert not prefetcher.arrived(Tasks([4], {3: (0,), 4: (0,)}))
    assert prefetcher.arrived(Tasks([3], {3: (0,)}))
    assert prefetcher.arrived(Tasks([], {3: (0, "batch")}))
    ended = Tasks([], {})
    ended._rcvd_idx = 5
    assert prefetcher.arrived(ended)
    assert prefetcher.arrived(iter([1]))


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_torch_still_names_its_bookkeeping_so() -> None:
    iterator: Any = iter(plain(num_workers=1))
    assert {"_task_info", "_rcvd_idx", "_send_idx", "_data_queue"} <= set(vars(iterator))


def test_returns_before_a_late_batch(lane_of: LaneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    given = batches(3)
    taken: list[int] = []

    def source() -> Iterator[Any]:
        for number, batch in enumerate(given):
            taken.append(number)
            yield batch

    def late(batches: Iterator[Any]) -> bool:
        return False

    monkeypatch.setattr(prefetcher, "arrived", late)
    epoch = Epoch(source(), lane_of(0), "all", 1)
    next(epoch)
    assert taken == [0]
    next(epoch)
    assert taken == [0, 1]


# ---------------------------------------------------------------- workers that are kept between epochs


def epochs(loader: Any, count: int = 4) -> tuple[list[list[float]], float]:
    """The order of every epoch, with a loop that rng_use as well, and the state of the generator afterwards."""
    torch.manual_seed(0)
    orders = []
    for _ in range(count):
        order = []
        for batch in accel.prefetch(loader):
            order += batch.flatten().tolist()
            torch.rand(1)
        orders.append(order)
    return orders, float(torch.get_rng_state().double().sum())


@pytest.mark.parametrize("own_generator", [False, True])
def test_kept_workers_shuffle_as_without_workers(workers: None, own_generator: bool) -> None:
    def options() -> dict[str, Any]:
        return {"generator": torch.Generator().manual_seed(1)} if own_generator else {}

    count = accel.num_workers()
    assert count == 1
    kept = plain(shuffle=True, num_workers=count, persistent_workers=count > 0, **options())
    assert epochs(kept) == epochs(plain(shuffle=True, **options()))


def test_kept_workers_of_the_script_itself_stay_as_they_are() -> None:
    loader = plain(shuffle=True, num_workers=1, persistent_workers=True)
    assert accel.prefetch(loader, "cpu") is loader


def test_kept_workers_after_a_break(workers: None) -> None:
    def run(loader: Any) -> list[float]:
        torch.manual_seed(0)
        seen: list[float] = []
        for _ in range(3):
            for number, batch in enumerate(accel.prefetch(loader)):
                seen += batch.flatten().tolist()
                if number == 2:
                    break
        return seen

    count = accel.num_workers()
    assert run(plain(shuffle=True, num_workers=count, persistent_workers=True)) == run(plain(shuffle=True))


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
@pytest.mark.parametrize("again", [2, 6, 9], ids=["before the end", "at the end", "where it has run out"])
@pytest.mark.parametrize("kept", [False, True])
def test_iterators_for_next(
    cuda_lane: Any, monkeypatch: pytest.MonkeyPatch, workers: None, again: int, kept: bool
) -> None:
    """A new iterator is made while there still is the old one, which may have been asked for a batch too many."""
    monkeypatch.setattr(prefetcher, "arrived", lambda batches: True)

    def run(loader: Any, wrap: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        seen: list[Any] = []
        batches = iter(wrap(loader))
        for number in range(20):
            if number % again == again - 1:
                batches = iter(wrap(loader))
            try:
                batch = next(batches)
            except StopIteration:
                batches = iter(wrap(loader))
                batch = next(batches)
            cuda_lane.synchronize()
            seen.append((batch.flatten().tolist(), torch.rand(1).item()))
        return seen

    count = accel.num_workers() if kept else 1
    ahead = plain(shuffle=True, num_workers=count, persistent_workers=kept, pin_memory=True)
    assert isinstance(accel.prefetch(ahead, "cuda"), Prefetched)
    plainly = plain(shuffle=True, num_workers=0 if kept else 1)
    assert run(ahead, lambda loader: accel.prefetch(loader, "cuda")) == run(plainly, lambda loader: loader)


def test_kept_workers_serve_nested_loops_and_zip(workers: None) -> None:
    def run(loader: Any) -> list[tuple[float, float]]:
        pairs = [
            (float(a[0]), float(b[0])) for a, b in zip(accel.prefetch(loader), accel.prefetch(loader), strict=True)
        ]
        for a in accel.prefetch(loader):
            pairs += [(float(a[0]), float(b[0])) for b in accel.prefetch(loader)]
        return pairs

    data = Numbers(6)
    count = accel.num_workers()
    kept = DataLoader(data, batch_size=2, num_workers=count, persistent_workers=True)
    assert run(kept) == run(DataLoader(data, batch_size=2))


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_kept_workers_and_looking_ahead_together(workers: None, cuda_lane: Any) -> None:
    def run(loader: Any) -> list[list[float]]:
        torch.manual_seed(0)
        orders = []
        for _ in range(3):
            order: list[float] = []
            for batch in accel.prefetch(loader, "cuda"):
                cuda_lane.synchronize()
                order += batch.flatten().tolist()
            orders.append(order)
        return orders

    count = accel.num_workers()
    kept = plain(shuffle=True, num_workers=count, persistent_workers=True, pin_memory=True)
    assert isinstance(accel.prefetch(kept, "cuda"), Prefetched)
    assert run(kept) == run(plain(shuffle=True))


def test_the_worker_count_is_a_number(workers: None) -> None:
    count = accel.num_workers()
    assert isinstance(count, int)
    assert isinstance(count, loader_settings.WorkerCount)
    assert repr(count) == "1"
    assert default_collate([count, count]).tolist() == [1, 1]
