"""What a benchmark found: plain data, from which the table, the JSON and the page are made."""

from __future__ import annotations

from dataclasses import dataclass

from autoaccel.measure.observing.run_record import Decision


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with its bootstrap confidence interval."""

    median: float
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class TimeShare:
    """A part of the time of a step: `loader`, `transfer`, `launch`, `compute`, `optimizer`, `sync` or `other`."""

    name: str
    share: float
    """0 to 1; the shares of a diagnosis add up to 1."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What binds the original script."""

    sentence: str
    shares: tuple[TimeShare, ...]
    rules: tuple[str, ...] = ()
    """Codes of the rules that address what binds, those with findings in this script first."""


@dataclass(frozen=True, slots=True)
class Column:
    """One contender. Times are of its own activity: while others had their turn, its clock stood still."""

    name: str
    """`original`, `again` (the original once more: the noise), `rewritten`, `without AA301`, `only AA301`."""
    changes: int
    """How many findings are applied."""
    steps: int
    """Steps that were timed, warm-up left out."""
    step_times: tuple[float, ...]
    """Seconds of each of them, in order."""
    samples_per_second: Interval | None
    """None where batches could not be seen."""
    step_seconds: Interval
    """Over blocks of steps."""
    speedup: Interval
    """How many times faster than the original: median of the ratios of blocks of the very same steps."""
    first_step_seconds: float
    """From the start of the process, imports included, to the end of the first step."""
    total_seconds: float
    """To the last timed step, start, compilation and warm-up included."""
    total_steps: int
    loader_share: float
    """Of the time of the timed steps: waiting for the next batch."""
    host_memory: int
    device_memory: int
    """Peaks in bytes; 0 on the device where there is none."""
    device_busy: float | None
    """0 to 1, None where there is no accelerator."""
    losses: tuple[tuple[int, float], ...] = ()
    """Step and loss."""
    decisions: tuple[Decision, ...] = ()
    blocks: tuple[float, ...] = ()
    """Seconds per step of each timed block, in order."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """After how many steps the rewritten script has made up for what it spends at the start."""

    steps: int | None
    """0: it is ahead from the first step on; None: it never makes up for it."""
    measured: bool
    """Whether it was seen, or follows from the measured rates."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one rule is worth in this script."""

    code: str
    name: str
    changes: int
    alone: Interval | None
    """Speed-up over the original with this rule only; None where it cannot stand alone."""
    without: Interval | None
    """Speed-up over the original with all rules but this one."""


@dataclass(frozen=True, slots=True)
class BenchReport:
    """One benchmark."""

    script: str
    command: str
    """As the user would repeat it."""
    machine: dict[str, str]
    """Hardware, torch, Python: what the figures hold for."""
    diagnosis: Diagnosis | None
    columns: tuple[Column, ...]
    """The original first."""
    break_even: BreakEven
    contributions: tuple[Contribution, ...] = ()
    notes: tuple[str, ...] = ()
    """What the reader must know to judge the figures: a short run, noise above the gain, what was not measured."""
    level: float = 0.99
    """Of the intervals."""

    def column(self, name: str) -> Column | None:
        return next((each for each in self.columns if each.name == name), None)
