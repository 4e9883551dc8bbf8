"""The runs as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Run:
    """What one benchmark of a script against itself reported."""

    script: str
    median: float
    low: float
    high: float
    blocks: int
    milliseconds: float
    """Of a step."""

    @property
    def is_right(self) -> bool:
        return self.low <= 1.0 <= self.high

    @classmethod
    def of(cls, script: str, report: Mapping[str, Any]) -> Run:
        """From the report as JSON."""
        again = next(column for column in report["columns"] if column["name"] == "again")
        speedup, step = again["speedup"], again["step_seconds"]["median"]
        return cls(script, speedup["median"], speedup["low"], speedup["high"], len(again["blocks"]), step * 1000)


def table(runs: Sequence[Run], machine: Mapping[str, str], level: float) -> str:
    """`same_script.md`."""
    return "\n".join(_lines(runs, machine, level)) + "\n"


def _lines(runs: Sequence[Run], machine: Mapping[str, str], level: float) -> Iterator[str]:
    right = sum(run.is_right for run in runs)
    half = statistics.median((run.high - run.low) / 2 for run in runs)
    yield "# Scripts against themselves"
    yield ""
    yield "What `autoaccel bench` reports of a script that is measured against itself. Made by `python -m"
    yield "benchmarks.same_script`; how it is measured is in [its README](../same_script/README.md)."
    yield ""
    yield f"**{right} of {len(runs)} intervals of {level:.0%} contain 1.00.** Half of them are within ±{half:.1%}."
    yield ""
    yield f"{', '.join(f'{name} {value}' for name, value in machine.items())}."
    yield ""
    yield "| run | script | ms/step | blocks | speed-up | interval | contains 1.00 |"
    yield "|---:|---|---:|---:|---:|---|---|"
    for number, run in enumerate(runs, 1):
        yield (
            f"| {number} | {run.script} | {run.milliseconds:.2f} | {run.blocks} | {run.median:.3f} "
            f"| {run.low:.3f} to {run.high:.3f} | {'yes' if run.is_right else '**no**'} |"
        )
