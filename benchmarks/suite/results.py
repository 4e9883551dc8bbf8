"""What a run of the suite found: plain data, to JSON and back; runs of parts of the suite can be joined."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoaccel.measure.benching.report import Interval

MEASURED, FAILED, SKIPPED = "measured", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Until:
    """How long it took from the start of the process to a step: start, imports, trials and compilation included."""

    seconds: float
    measured: bool
    """Whether the run came that far, or its last steps are extrapolated from the steady figure."""


@dataclass(frozen=True, slots=True)
class Column:
    """One way of running a script."""

    name: str
    status: str
    reason: str = ""
    """Why nothing was measured, in one line."""
    ratio: Interval | None = None
    """How many times faster than the original."""
    pairs: tuple[tuple[float, ...], ...] = ()
    """What it is made of: ratios by block, for each pair of processes."""
    step_seconds: float = 0.0
    """Steady."""
    samples_per_second: float | None = None
    first_step_seconds: float = 0.0
    to_100: Until | None = None
    to_1000: Until | None = None
    host_memory: int = 0
    device_memory: int = 0
    """Peaks in bytes."""
    changes: int = 0
    """Findings that are applied."""
    decisions: tuple[tuple[str, str, str], ...] = ()
    """Of the runtime: topic, value, reason."""
    settled: bool = True
    """Whether the runtime had decided before anything counted."""
    losses: tuple[float, ...] = ()
    """By step, of the first process."""

    @property
    def is_measured(self) -> bool:
        return self.status == MEASURED


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a column trains like the original."""

    column: str
    passed: bool
    said: str
    """What was compared, in one line."""


@dataclass(frozen=True, slots=True)
class Result:
    """One script."""

    id: str
    title: str
    control: bool
    columns: tuple[Column, ...]
    gates: tuple[Gate, ...] = ()
    goals: tuple[float, float] | None = None
    """On an H200: default settings, moonshot."""
    processes: int = 0
    """Of the columns that something is promised of."""
    seconds: float = 0.0
    """That measuring it took."""
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> Column | None:
        """Where it was measured."""
        return next((each for each in self.columns if each.name == name and each.is_measured), None)

    def speedup(self, name: str) -> float | None:
        column = self.column(name)
        return None if column is None or column.ratio is None else column.ratio.median

    def share(self, name: str, of: str) -> float | None:
        """How much of another column's speed one has."""
        one, other = self.speedup(name), self.speedup(of)
        return None if one is None or other is None else one / other


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the suite."""

    device: str
    size: str
    machine: dict[str, str]
    results: tuple[Result, ...]
    planned_seconds: float = 0.0
    used_seconds: float = 0.0
    start_seconds: float = 0.0
    """That Python and the import of torch take: part of the time to a step, measured once."""
    level: float = 0.99
    """Of the intervals."""
    notes: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def scripts(self) -> tuple[Result, ...]:
        return tuple(each for each in self.results if not each.control)

    @property
    def controls(self) -> tuple[Result, ...]:
        return tuple(each for each in self.results if each.control)

    def to_json(self) -> str:
        return json.dumps(_short(dataclasses.asdict(self)), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Run:
        content = json.loads(text)
        return cls(**{**content, "results": tuple(map(_result, content["results"])), "notes": tuple(content["notes"])})


def joined(runs: Sequence[Run], order: Sequence[str]) -> Run:
    """Runs of parts of the suite as one, scripts in the given order; of what was measured twice the last one counts.

    Raises `ValueError` where they do not belong together.
    """
    if len({(run.device, run.size) for run in runs}) != 1:
        raise ValueError("these runs are of different devices or sizes")
    found = {result.id: result for run in runs for result in run.results}
    last = runs[-1]
    rank = {name: place for place, name in enumerate(order)}
    return dataclasses.replace(
        last,
        results=tuple(sorted(found.values(), key=lambda each: rank.get(each.id, len(rank)))),
        planned_seconds=sum(run.planned_seconds for run in runs),
        used_seconds=sum(run.used_seconds for run in runs),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
    )


def _short(value: Any) -> Any:
    """Six digits say enough."""
    match value:
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {name: _short(each) for name, each in value.items()}
        case list() | tuple():
            return [_short(each) for each in value]
        case _:
            return value


def _result(content: Mapping[str, Any]) -> Result:
    return Result(
        **{
            **content,
            "columns": tuple(map(_column, content["columns"])),
            "gates": tuple(Gate(**each) for each in content["gates"]),
            "goals": tuple(content["goals"]) if content["goals"] else None,
            "notes": tuple(content["notes"]),
        }
    )


def _column(content: Mapping[str, Any]) -> Column:
    def until(name: str) -> Until | None:
        return Until(**content[name]) if content[name] else None

    return Column(
        **{
            **content,
            "ratio": Interval(**content["ratio"]) if content["ratio"] else None,
            "pairs": tuple(map(tuple, content["pairs"])),
            "to_100": until("to_100"),
            "to_1000": until("to_1000"),
            "decisions": tuple(map(tuple, content["decisions"])),
            "losses": tuple(content["losses"]),
        }
    )
