"""Larger and larger batches: how far it goes, and what is told of each."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import click
import pytest

from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunFailure, RunRecord
from autoaccel.measure.observing.turns import Turn
from autoaccel.measure.tuning import batch_sizes
from autoaccel.measure.tuning.batch_sizes import BatchTrial, Sweep, compared, sweep
from autoaccel.reports import tuning_tables
from tests.measure.benching.scripts import Played

OUT_OF_MEMORY = RunFailure("OutOfMemoryError", "CUDA out of memory")


class Sized(Played):
    """Its batches hold so many samples, each of which takes a millisecond besides ten for the step."""

    size = 32

    def run(self, steps: int, *, busy: bool = False) -> Turn:
        turn = super().run(steps, busy=busy)
        return dataclasses.replace(turn, samples=self.size * len(turn.times), host_memory=self.size << 20)


@dataclass
class Runs:
    """Of a script whose data hold so many samples, and whose device so many."""

    data: int = 10**9
    device: int = 10**9
    steps: int | None = None
    asked: list[int] = field(default_factory=list)

    def observe(self, request: Request) -> RunRecord:
        raise AssertionError("nothing is to be observed")

    @contextlib.contextmanager
    def contender(self, name: str, request: Request) -> Iterator[Played]:
        assert (name, request.texts) == ("original", {})
        self.asked.append(request.batch_scale)
        size = min(32 * request.batch_scale, self.data)
        played = Sized(name, lambda step: 0.01 + 0.001 * size, steps=self.steps)
        played.size = size
        if size > self.device:
            played.fails_after, played.failure = 1, OUT_OF_MEMORY
        yield played


@pytest.fixture(autouse=True)
def _much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sizes, "free_memory", lambda: 1 << 50)


def swept(runs: Runs) -> Sweep:
    return sweep(Request("train.py"), runs, 2.0, lambda text, share: None)


def test_to_the_end_of_memory() -> None:
    runs = Runs(device=200)
    found = swept(runs)
    assert runs.asked == [1, 2, 4, 8]
    assert [each.batch for each in found.trials] == [32, 64, 128]
    assert found.ending == "with batches 8 times as large it fails: OutOfMemoryError: CUDA out of memory"
    rates = [each.samples_per_second.median for each in found.trials if each.samples_per_second]
    assert rates == pytest.approx([each / (0.01 + 0.001 * each) for each in (32, 64, 128)])
    assert [each.step_seconds for each in found.trials] == pytest.approx([0.042, 0.074, 0.138])


def test_to_the_end_of_the_data() -> None:
    runs = Runs(data=100)
    found = swept(runs)
    assert [each.batch for each in found.trials] == [32, 64, 100]
    assert found.ending == "with batches 8 times as large a batch holds no more samples"


def test_to_the_end_of_the_hosts_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sizes, "free_memory", lambda: 300 << 20)
    runs = Runs()
    assert swept(runs).ending == "with batches 8 times as large memory may not suffice"
    assert runs.asked == [1, 2, 4]


def test_there_is_an_end() -> None:
    runs = Runs()
    found = swept(runs)
    assert runs.asked[-1] == batch_sizes.LARGEST
    assert found.ending == "larger ones were not tried"


def test_a_script_that_fails() -> None:
    found = swept(Runs(device=1))
    assert found.trials == ()
    assert found.failure == OUT_OF_MEMORY
    assert found.ending.startswith("with the script's own batches it fails")


def test_a_script_without_loaders() -> None:
    found = swept(Runs(data=0))
    assert found.trials == ()
    assert "no step is made with samples of a DataLoader" in found.ending


def test_a_short_script() -> None:
    found = swept(Runs(steps=3, device=64))
    assert [each.batch for each in found.trials] == [32, 64]
    assert all(each.losses for each in found.trials)


def trial(batch: int, *losses: tuple[int, float]) -> BatchTrial:
    return BatchTrial(1, batch, None, 0.1, 1 << 20, 0, losses)


def test_losses_are_compared_after_as_many_samples() -> None:
    small = trial(10, *((step, 10.0 - step) for step in range(1, 11)))
    large = trial(50, (1, 8.0), (2, 4.0), (3, 2.0))
    assert [(samples, loss) for _, samples, loss in compared([small, large])] == [(100, 1.0), (100, 4.0)]


def test_losses_that_are_known_now_and_then() -> None:
    assert trial(10, (1, 5.0), (50, 3.0), (200, 1.0)).loss_after(1000) == 3.0
    assert trial(10, (50, 3.0)).loss_after(100) is None
    assert trial(1000, (1, 5.0)).loss_after(10) == 5.0
    assert [samples for _, samples, _ in compared([trial(10)])] == [0]


def test_table() -> None:
    text = click.unstyle(tuning_tables.batches("train.py", swept(Runs(device=100))))
    first, _, head, now, larger, _, ending, word = text.splitlines()
    assert first == "train.py: batch sizes; nothing was changed."
    assert head.split()[:4] == ["batch", "samples/s", "interval", "step"]
    assert "loss after" in head
    assert now.split()[:3] == ["32", "(now)", "762"]
    assert larger.split()[:2] == ["64", "865"]
    assert ending == "Not further: with batches 4 times as large it fails: OutOfMemoryError: CUDA out of memory."
    assert "you decide" in word
