"""The script with larger and larger batches: what throughput they bring, and what the loss is after as many samples.

Another batch size is another training, so nothing is decided and nothing is written.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autoaccel.measure.benching import medians
from autoaccel.measure.benching.machine import free_memory
from autoaccel.measure.benching.procedure import Runs
from autoaccel.measure.benching.report import Interval
from autoaccel.measure.benching.rounds import Rounds, take_turns
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunFailure

LARGEST = 1024
"""Times as large, at most."""
_ROOM = 0.7  # of the memory that is free
_LATE = 0.2  # of the samples, over whose steps the loss is averaged

Tell = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class BatchTrial:
    """One run."""

    scale: int
    """How many times as large batches are as the script's own."""
    batch: int
    """Samples of a typical step."""
    samples_per_second: Interval | None
    """None where there were too few blocks of steps."""
    step_seconds: float
    host_memory: int
    device_memory: int
    """Peaks in bytes."""
    losses: tuple[tuple[int, float], ...]
    """Step and loss."""

    @property
    def samples(self) -> int:
        """After which the last loss is known."""
        return self.batch * self.losses[-1][0] if self.losses else 0

    def loss_after(self, samples: int) -> float | None:
        """The mean of what is known of the last fifth of the steps up to there, else the last that is known."""
        last = max(samples // self.batch, 1)
        found = [(step, loss) for step, loss in self.losses if step <= last]
        late = [loss for step, loss in found if step >= (1 - _LATE) * last] or [loss for _, loss in found[-1:]]
        return statistics.fmean(late) if late else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """All runs, and why there are no more."""

    trials: tuple[BatchTrial, ...]
    ending: str
    failure: RunFailure | None = None


def sweep(request: Request, runs: Runs, seconds: float, tell: Tell) -> Sweep:
    """Double the batches until they do not fit into memory, hold no more samples, or the script fails."""
    trials: list[BatchTrial] = []
    scale = 1
    while scale <= LARGEST:
        tell(f"batches {scale} times as large", None)
        rounds = _run(dataclasses.replace(request, batch_scale=scale), runs, seconds)
        failure = rounds.series[0].failure
        if failure is not None:
            return Sweep(tuple(trials), f"{_times(scale)} it fails: {failure.kind}: {failure.message}", failure)
        trial = _trial(scale, rounds)
        if trial is None:
            return Sweep(tuple(trials), f"{_times(scale)} no step is made with samples of a DataLoader")
        if trials and trial.batch <= trials[-1].batch:
            return Sweep(tuple(trials), f"{_times(scale)} a batch holds no more samples")
        trials.append(trial)
        scale *= 2
        if (free := free_memory()) and 2 * trial.host_memory > _ROOM * free:
            return Sweep(tuple(trials), f"{_times(scale)} memory may not suffice")
    return Sweep(tuple(trials), "larger ones were not tried")


def compared(trials: Sequence[BatchTrial]) -> Iterator[tuple[BatchTrial, int, float | None]]:
    """Each with the loss after as many samples as all have seen."""
    samples = min((each.samples for each in trials), default=0)
    for each in trials:
        yield each, samples, each.loss_after(samples)


def _run(request: Request, runs: Runs, seconds: float) -> Rounds:
    with runs.contender("original", request) as run:
        rounds = take_turns([run], seconds=seconds)
        run.end()
    return rounds


def _trial(scale: int, rounds: Rounds) -> BatchTrial | None:
    series = rounds.series[0]
    turns = [each for each in series.turns[rounds.warm_up :] or series.turns if each.times and each.samples]
    if not turns:
        return None
    rates = [each.samples / sum(each.times) for each in turns]
    steps = sum(len(each.times) for each in turns)
    return BatchTrial(
        scale,
        round(sum(each.samples for each in turns) / steps),
        medians.interval(rates) if len(rates) >= medians.FEWEST else None,
        sum(sum(each.times) for each in turns) / steps,
        series.turns[-1].host_memory,
        series.turns[-1].device_memory,
        tuple(series.losses),
    )


def _times(scale: int) -> str:
    return "with the script's own batches" if scale == 1 else f"with batches {scale} times as large"
