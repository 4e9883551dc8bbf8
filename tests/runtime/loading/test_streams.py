"""Streams divided among workers: the batches of one process, in their order, whoever makes them."""

from __future__ import annotations

import math
import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import ChainDataset, DataLoader, Dataset, IterableDataset

from autoaccel import runtime as accel
from autoaccel.runtime import devices
from autoaccel.runtime.loading import loader_settings, loader_statistics, managed_epoch, stream_shards, worker_count
from autoaccel.runtime.loading.loader_settings import WorkerCount
from autoaccel.runtime.loading.stream_epoch import StreamEpoch
from autoaccel.runtime.loading.worker_count import LoaderMeasurements, Machine, WorkerDecision

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Squares(IterableDataset[torch.Tensor]):
    """Each sample is the square of its number; it also says which process made it."""

    def __init__(self, count: int, bad: int = -1) -> None:
        self.count, self.bad = count, bad

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in accel.shard(range(self.count)):
            if number == self.bad:
                raise ZeroDivisionError("no square")
            yield torch.tensor([float(number) ** 2, float(os.getpid())], dtype=torch.float64)


class Plain(Squares):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(self.count):
            if number == self.bad:
                raise ZeroDivisionError("no square")
            yield torch.tensor([float(number) ** 2, float(os.getpid())], dtype=torch.float64)


class Lines(IterableDataset[int]):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[int]:
        with self.path.open() as file:
            for line in accel.shard(file):
                yield int(line)


def values(loader: Any) -> list[Any]:
    return [batch[..., 0].tolist() for batch in loader]


def makers(loader: Any) -> set[int]:
    return {int(pid) for batch in loader for pid in batch[..., 1].flatten().tolist()}


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "settings",
    [{"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": None}, {}],
    ids=["partial", "dropped", "unbatched", "one"],
)
def test_batches_are_those_of_one_process(workers: int, settings: dict[str, Any]) -> None:
    for count in (0, 1, 4, 7, 16, 21):
        want = values(DataLoader(Plain(count), **settings))
        loader = DataLoader(Squares(count), num_workers=WorkerCount(workers), **settings)
        assert values(loader) == want
        if workers and count == 21:
            assert len(makers(loader)) == workers
            assert os.getpid() not in makers(loader)


@pytest.mark.parametrize("factor", [1, 5])
def test_kept_workers_and_their_haste(factor: int) -> None:
    settings: dict[str, Any] = {"batch_size": 3, "persistent_workers": True, "prefetch_factor": factor}
    loader = DataLoader(Squares(20), num_workers=WorkerCount(2), **settings)
    for _ in range(3):
        assert values(loader) == values(DataLoader(Plain(20), batch_size=3))


def test_a_loop_that_is_left() -> None:
    loader = DataLoader(Squares(20), 3, num_workers=WorkerCount(2))
    for number, batch in enumerate(loader):
        if number == 2:
            assert batch[:, 0].tolist() == [36, 49, 64]
            break
    assert values(loader) == values(DataLoader(Plain(20), 3))


def test_a_file_is_read_by_each(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{number}\n" for number in range(17)))
    batches = [batch.tolist() for batch in DataLoader(Lines(path), 4, num_workers=WorkerCount(3))]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16]]


def test_without_workers_it_is_the_source_itself() -> None:
    source = [1, 2, 3]
    assert accel.shard(source) is source


def test_workers_that_the_script_chose_repeat_the_stream_as_ever() -> None:
    assert values(DataLoader(Squares(4), 2, num_workers=2)) == values(DataLoader(Plain(4), 2, num_workers=2))


class Outer(IterableDataset[torch.Tensor]):
    """Divides what another stream gives, which must give all of it."""

    def __init__(self, inner: Squares) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[torch.Tensor]:
        for sample in accel.shard(self.inner):
            yield sample + 1


class Sums(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.stack([sample[0] for sample in Squares(index + 1)]).sum()


def test_a_stream_in_another_dataset_is_whole() -> None:
    assert values(DataLoader(Outer(Squares(9)), 2, num_workers=WorkerCount(2))) == [
        [value + 1 for value in batch] for batch in values(DataLoader(Plain(9), 2))
    ]
    sums = DataLoader(Sums(), 2, num_workers=WorkerCount(2))
    assert [each for batch in sums for each in batch.tolist()] == [0, 1, 5, 14, 30]
    chained = ChainDataset([Squares(3)])
    assert len(values(DataLoader(chained, 1, num_workers=WorkerCount(2)))) == 6, "as ever: nobody divides this"


def test_a_torch_that_does_not_say_how_large_batches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="AUTOACCEL_DISABLE=workers"):
        stream_shards._batch_size(None)
    monkeypatch.setenv("AUTOACCEL_DISABLE", "workers")
    assert accel.num_workers() == 0


def test_a_count_is_pickled_whole() -> None:
    count = pickle.loads(pickle.dumps(WorkerCount(3, taken=5)))
    assert (count, type(count), count.taken) == (3, WorkerCount, 5)


# ---------------------------------------------------------------- who makes them, decided meanwhile


class Choice:
    """Workers take over before the batch with this number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.workers, self.better = 5, 2, True
        self.asked: list[LoaderMeasurements] = []
        self.loader: Any = None
        monkeypatch.setattr(worker_count, "decide_workers", self._decide)
        monkeypatch.setattr(worker_count, "helps", lambda fetch, wait: self.better)

    def _decide(self, measured: LoaderMeasurements, machine: Machine) -> WorkerDecision:
        self.asked.append(measured)
        statistics = managed_epoch._statistics_of[self.loader]
        statistics.next = statistics.count + 1
        return WorkerDecision(self.workers * (statistics.count >= self.at), "chosen by the test", yet=True)

    def prefetched(self, dataset: Any, batch_size: int | None, **settings: Any) -> Any:
        self.loader = DataLoader(dataset, batch_size, num_workers=WorkerCount(4), **settings)
        return accel.prefetch(self.loader)


@pytest.fixture
def choice(monkeypatch: pytest.MonkeyPatch) -> Choice:
    """A machine with an accelerator, on which the test decides."""
    monkeypatch.setattr(devices, "accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(loader_settings, "machine", lambda: Machine(16.0, math.inf, math.inf))
    return Choice(monkeypatch)


@pytest.mark.parametrize("at", [3, 4, 7, 100])
@pytest.mark.parametrize("settings", [{"batch_size": 3}, {"batch_size": None}, {"batch_size": 3, "drop_last": True}])
def test_hands_over(choice: Choice, at: int, settings: dict[str, Any]) -> None:
    choice.at = at
    for count in (0, 11, 20):
        loader = choice.prefetched(Squares(count), **settings)
        want = values(DataLoader(Plain(count), **settings))
        assert isinstance(iter(loader), StreamEpoch)
        for _ in range(2):
            torch.manual_seed(0)
            assert values(loader) == want
            state = torch.get_rng_state()
            torch.manual_seed(0)
            list(DataLoader(Plain(count), **settings))
            assert torch.equal(state, torch.get_rng_state()), "the loader draws what it ever draws"
    assert (os.getpid() not in makers(loader)) is (at < 100), "the next pass begins with workers"


def test_the_first_batches_are_made_here(choice: Choice) -> None:
    pids = [int(batch[0, 1]) for batch in choice.prefetched(Squares(24), 2)]
    assert pids[:5] == [os.getpid()] * 5
    assert len({*pids[5:]} - {os.getpid()}) == 2
    assert choice.asked[-1].left == 5, "as many are expected as there were so far"
    list(accel.prefetch(choice.loader))
    choice.at = 10_000
    list(accel.prefetch(choice.loader))
    assert choice.asked[-1].left is not None and choice.asked[-1].left <= 12


def test_a_worker_that_dies(choice: Choice) -> None:
    found = []
    for batch in choice.prefetched(Squares(40), 2):
        found.append(batch[:, 0].tolist())
        if len(found) == 8:
            os.kill(int(batch[0, 1]), signal.SIGKILL)
    assert found == values(DataLoader(Plain(40), 2))
    assert "workers failed" in managed_epoch._statistics_of[choice.loader].refused
    assert makers(accel.prefetch(choice.loader)) == {os.getpid()}


def test_a_bad_item_raises_its_own_exception(choice: Choice) -> None:
    found = []
    with pytest.raises(ZeroDivisionError, match=r"^no square$"):
        for batch in choice.prefetched(Squares(40, bad=25), 2):
            found.append(batch[:, 0].tolist())
    assert found == values(DataLoader(Plain(24), 2))


def test_workers_that_do_not_help(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_statistics, "JUDGED", 2)
    choice.better = False
    loader = choice.prefetched(Squares(40), 2)
    assert values(loader) == values(DataLoader(Plain(40), 2))
    assert "with workers the loop waited" in managed_epoch._statistics_of[choice.loader].refused
    assert makers(loader) == {os.getpid()}


def test_workers_that_do_not_start(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> Any:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(torch.multiprocessing.Process, "start", start)
    assert values(choice.prefetched(Squares(40), 2)) == values(DataLoader(Plain(40), 2))


class Divided(Plain):
    """Divides itself among workers: what the training process has made is not known to it."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for number in range(first, self.count, step):
            yield torch.tensor([float(number), float(os.getpid())])


@pytest.mark.parametrize("stream", [Divided, Plain])
def test_other_streams_are_not_handed_over(choice: Choice, stream: type[Plain]) -> None:
    loader = choice.prefetched(stream(6), 2)
    assert not isinstance(iter(loader), StreamEpoch)
