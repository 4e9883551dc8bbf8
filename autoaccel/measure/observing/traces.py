"""What torch's profiler saw of some steps, as it exports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Names of the profiler's annotations.
MARK = "autoaccel::"
STEP = MARK + "step"


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took from `start` to `end`, in microseconds."""

    name: str
    start: float
    end: float
    thread: int = 0
    correlation: int = 0
    """What a call of the accelerator's runtime and the work that it put on the device have in common; 0 is nothing."""

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Trace:
    """What the profiler saw from the first to the last mark of a step."""

    marks: tuple[float, ...]
    """Where steps end; the first one is where the first step begins."""
    thread: int
    """The one that trains."""
    regions: tuple[Span, ...]
    operators: tuple[Span, ...]
    calls: tuple[Span, ...]
    """Of the accelerator's runtime, on the host."""
    work: tuple[Span, ...]
    """On the device: kernels, and copies, whose names begin with `Memcpy`."""

    @property
    def start(self) -> float:
        return self.marks[0]

    @property
    def end(self) -> float:
        return self.marks[-1]

    @property
    def steps(self) -> int:
        return len(self.marks) - 1


def read(trace: Mapping[str, Any]) -> Trace | None:
    """A trace as `torch.profiler` exports it; None where not a single step is in it."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    found: dict[str, list[Span]] = {"regions": [], "operators": [], "calls": [], "work": []}
    for event in events:
        kind = _kind(event)
        if kind is not None:
            found[kind].append(_span(event))
    marks = sorted((span for span in found["regions"] if span.name == STEP), key=lambda span: span.start)
    if len(marks) < 2:
        return None
    times = tuple(mark.end for mark in marks)
    spans = {kind: tuple(within(each, times[0], times[-1])) for kind, each in found.items()}
    spans["regions"] = tuple(span for span in spans["regions"] if span.name != STEP)
    return Trace(times, marks[0].thread, **spans)


def _kind(event: Mapping[str, Any]) -> str | None:
    category = str(event.get("cat", ""))
    if category == "user_annotation":
        return "regions" if event["name"].startswith(MARK) else None
    if category == "cpu_op":
        return "operators"
    if category.endswith(("_runtime", "_driver")):
        return "calls"
    return "work" if category in ("kernel", "gpu_memcpy", "gpu_memset") else None


def _span(event: Mapping[str, Any]) -> Span:
    start = float(event["ts"])
    correlation = event.get("args", {}).get("correlation", 0)
    return Span(event["name"], start, start + float(event["dur"]), _number(event["tid"]), correlation)


def _number(thread: Any) -> int:
    return thread if isinstance(thread, int) else hash(thread)


def within(spans: Iterable[Span], start: float, end: float) -> list[Span]:
    """By time of their beginning, the longer first, so that what is nested follows what it is nested in."""
    inside = (span for span in spans if span.start < end and span.end > start)
    return sorted(inside, key=lambda span: (span.start, -span.end))
