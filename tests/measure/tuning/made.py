"""Benchmarks that are made up: of runs that take what recorded runs took, and of figures that are given."""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoaccel.edits import Tier
from autoaccel.measure.benching import procedure
from autoaccel.measure.benching.procedure import Task
from autoaccel.measure.benching.report import BenchReport, BreakEven, Column, Contribution, Interval
from autoaccel.measure.changes import Change, Changes
from autoaccel.measure.observing.request import Request
from autoaccel.measure.observing.run_record import RunRecord
from autoaccel.rewriting.record import Range, Record
from tests.measure.benching.scripts import Played

NOISE: dict[str, list[float]] = json.loads(Path(__file__).with_name("noise.json").read_text(encoding="utf-8"))
"""Seconds a step of blocks of one and the same program, one after the other, on machines that others used."""


def change(code: str, line: int = 1) -> Change:
    where = Range(line, 1, line, 9)
    record = Record(code=code, name=f"rule-{code.lower()}", tier="exact", message="slow", where=where, round=1)
    return Change(Path("/project/train.py"), record, Tier.EXACT, ((line, line),))


def changes(*codes: str) -> Changes:
    """One of each rule; none needs another."""
    return Changes(tuple(change(code, number) for number, code in enumerate(codes, 1)))


@dataclass
class Simulated:
    """Benchmarks by the real procedure; each run takes what the recording says, from a random place on."""

    recording: str
    draw: random.Random
    gains: Mapping[str, float] = field(default_factory=dict)
    """How many times as fast rules make a step."""
    disturbance: float = 1.0
    """How much of the recorded noise there is, as a power."""
    lasting: float = 0.02
    """Processes of one program differ for good by so much, as a standard deviation."""
    present: Changes = field(default_factory=Changes)
    measured: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, found: Changes, ablate: bool) -> BenchReport:
        self.present = found
        self.measured.append(tuple(each.record.code for each in found))
        task = Task(Request("train.py"), "autoaccel tune train.py", "python", seconds=10, ablate=ablate)
        return procedure.bench(task, self, lambda _: found, (), lambda text, share: None)

    def observe(self, request: Request) -> RunRecord:
        return RunRecord("stopped", steps=2, backwards=2, files=("/project/train.py",))

    @contextlib.contextmanager
    def contender(self, name: str, request: Request) -> Iterator[Played]:
        series, place = NOISE[self.recording], self.draw.randrange(len(NOISE[self.recording]))
        speed = math.prod(self.gains.get(code, 1.0) for code in self._codes(name))
        lasting = math.exp(self.draw.gauss(0, self.lasting))
        yield Played(
            name, lambda step: 0.3 * lasting / speed * series[(place + step) % len(series)] ** self.disturbance
        )

    def _codes(self, name: str) -> Collection[str]:
        """Of the rules that a contender has."""
        everything = {each.record.code for each in self.present}
        match name.split():
            case ["original"] | ["again"]:
                return ()
            case ["only", code]:
                return {code}
            case ["without", code]:
                return everything - {code}
            case _:
                return everything


def report(together: Interval, contributions: Sequence[Contribution] = (), notes: Sequence[str] = ()) -> BenchReport:
    """Figures that are given."""
    return BenchReport(
        "train.py",
        "autoaccel tune train.py",
        {},
        None,
        tuple(column(name, each) for name, each in (("original", Interval(1, 1, 1)), ("rewritten", together))),
        BreakEven(0, True),
        tuple(contributions),
        tuple(notes),
    )


def column(name: str, speedup: Interval) -> Column:
    step = Interval(0.01, 0.009, 0.011)
    return Column(name, 1, 3, (0.01,) * 3, None, step, speedup, 2.0, 2.1, 10, 0.1, 1 << 28, 0, None)


def around(median: float, share: float = 0.02) -> Interval:
    return Interval(median, median / (1 + share), median * (1 + share))
