"""Where the time of a step goes: every moment that torch's profiler saw counts for one class.

On an accelerator the device's own timeline decides: while it computes, the script is bound by computing whatever the
host does; while it idles, by what the host does then. Where all is done on the host, it is bound by what it does.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

LOADER, TRANSFER, LAUNCH, COMPUTE = "loader", "transfer", "launch", "compute"
OPTIMIZER, SYNC, EVALUATION, OTHER = "optimizer", "sync", "evaluation", "other"
CLASSES = (LOADER, TRANSFER, LAUNCH, COMPUTE, OPTIMIZER, SYNC, EVALUATION, OTHER)

# Regions that are no class.
FORWARD, BACKWARD = "forward", "backward"

# Names of the profiler's annotations.
MARK = "autoaccel::"
STEP = MARK + "step"

# Microseconds that also the smallest operator takes as the profiler sees it, which is not computing.
_SMALLEST = 8.0
# Nothing takes more times as long under the profiler; what seems to do so was delayed by other programs.
_MOST = 3.0
# As CUDA and XPU name copies.
_TO_DEVICE, _TO_HOST = ("HtoD", "M2D"), ("DtoH", "D2M")
_COPYING = ("aten::copy_", "aten::_to_copy", "aten::to")
_WAITS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize")

Shares: TypeAlias = "dict[str, float]"
Found: TypeAlias = "tuple[Shares, Shares]"
"""Microseconds by class, and in which proportion the profiler has lengthened them."""


# -- what the profiler saw, as it exports it


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took from `start` to `end`, in microseconds."""

    name: str
    start: float
    end: float
    thread: int = 0
    correlation: int = 0
    """What a call of the accelerator's runtime and the work that it put on the device have in common; 0 is nothing."""


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

    def own(self, *kinds: Sequence[Span]) -> list[Span]:
        """Of some spans those on the thread that trains, in the order of `within`."""
        spans = (span for kind in kinds for span in kind if span.thread == self.thread)
        return within(spans, self.start, self.end)


def read(trace: Mapping[str, Any]) -> Trace | None:
    """A trace as `torch.profiler` exports it; None where not a single step is in it."""
    found: dict[str, list[Span]] = {"regions": [], "operators": [], "calls": [], "work": []}
    for event in trace["traceEvents"]:
        kind = _kind(event) if event.get("ph") == "X" else None
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
    start, thread = float(event["ts"]), event["tid"]
    correlation = event.get("args", {}).get("correlation", 0)
    number = thread if isinstance(thread, int) else hash(thread)
    return Span(event["name"], start, start + float(event["dur"]), number, correlation)


def within(spans: Iterable[Span], start: float, end: float) -> list[Span]:
    """By time of their beginning, the longer first, so that what is nested follows what it is nested in."""
    inside = (span for span in spans if span.start < end and span.end > start)
    return sorted(inside, key=lambda span: (span.start, -span.end))


def nested(spans: Sequence[Span]) -> Iterator[tuple[Span, str, float]]:
    """Each span with the region that it is in (a region is in itself; outside of all it is empty) and the time that
    nothing nested in it takes."""
    stack: list[tuple[Span, str]] = []
    owns: list[float] = []
    for span in spans:
        while stack and stack[-1][0].end <= span.start:
            yield (*stack.pop(), owns.pop())
        region = stack[-1][1] if stack else ""
        if stack:
            owns[-1] -= min(span.end, stack[-1][0].end) - span.start
        if span.name.startswith(MARK) and region != EVALUATION:
            region = span.name[len(MARK) :]
        stack.append((span, region))
        owns.append(span.end - span.start)
    while stack:
        yield (*stack.pop(), owns.pop())


# -- from spans to shares


def shares(trace: Trace, evaluated: Sequence[tuple[float, float]] = ()) -> Found:
    """What takes how long in some steps. `evaluated`: passes that did not train, in the trace's microseconds."""
    passes = [Span(MARK + EVALUATION, start, end, trace.thread) for start, end in evaluated]
    return _on_device(trace, passes) if trace.work else _on_host(trace, passes)


def undistorted(traced: Shares, lengthened: Shares, slower: float) -> Shares:
    """Shares without the profiler, under which steps took so many times as long, adding up to one; those at nothing are
    left out."""
    excess = sum(traced.values()) * (1 - 1 / max(slower, 1.0)) / (sum(lengthened.values()) or 1.0)
    found = {name: max(traced[name] / _MOST, traced[name] - excess * lengthened[name]) for name in CLASSES}
    total = sum(found.values()) or 1.0
    return {name: value / total for name, value in found.items() if value / total > 0.0005}


def _on_host(trace: Trace, passes: Sequence[Span]) -> Found:
    """What the profiler costs is the same for every operator.

    Other programs of the machine delay single operators by far more than they take: what part of them is computing is
    told by the median over steps of the first operator of a name, the second, and so on.
    """
    found, operators = dict.fromkeys(CLASSES, 0.0), dict.fromkeys(CLASSES, 0.0)
    numbers: Counter[tuple[int, str]] = Counter()
    alike: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for span, region, own in nested(trace.own(passes, trace.regions, trace.operators)):
        is_operator = not span.name.startswith(MARK)
        name = region if region in (LOADER, OPTIMIZER, EVALUATION) else LAUNCH
        operators[name] += is_operator
        found[name] += own
        if name == LAUNCH:
            step = bisect_right(trace.marks, span.start), span.name
            numbers[step] += 1
            small = min(own, _SMALLEST) if is_operator else own
            alike.setdefault((span.name, numbers[step]), []).append((own - small, small))
    found[OTHER] = max(0.0, trace.end - trace.start - sum(found.values()))
    computing, launching = (
        sum(len(each) * statistics.median(times[part] for times in each) for each in alike.values()) for part in (0, 1)
    )
    for each in (found, operators):
        each[COMPUTE] = each[LAUNCH] * computing / ((computing + launching) or 1.0)
        each[LAUNCH] -= each[COMPUTE]
    return found, operators


def _on_device(trace: Trace, passes: Sequence[Span]) -> Found:
    """The device and the loader are as fast under the profiler as ever; what it costs is time of the host."""
    tracks = [
        [Span(EVALUATION, span.start, span.end) for span in passes],
        _work(trace, copies=False),
        _work(trace, copies=True),
        _host(trace),
    ]
    found = _sweep(trace, tracks, devices=range(1, 3))
    return found, {name: found[name] if name in (LAUNCH, OTHER, SYNC, OPTIMIZER) else 0.0 for name in CLASSES}


def _work(trace: Trace, *, copies: bool) -> list[Span]:
    """What the device does, named by the class that it counts for."""
    launched = {call.correlation: call for call in trace.calls if call.correlation}
    # Of calls of other threads, which only go backward, there is no region.
    regions = {span: region for span, region, _ in nested(trace.own(trace.regions, trace.calls))}
    found = []
    for span in trace.work:
        if _is_copy(span) != copies:
            continue
        if copies:
            name = TRANSFER if _to_device(span) else SYNC
        else:
            region = regions.get(launched.get(span.correlation, span))
            name = region if region in (OPTIMIZER, LOADER) else COMPUTE
        found.append(Span(name, span.start, span.end))
    return found


def _is_copy(span: Span) -> bool:
    """Whether it moves data between host and device; copies on the device are work like any other."""
    return span.name.startswith("Memcpy") and any(way in span.name for way in (*_TO_DEVICE, *_TO_HOST))


def _to_device(span: Span) -> bool:
    return any(way in span.name for way in _TO_DEVICE)


def _host(trace: Trace) -> list[Span]:
    """What the training thread does, named by the class that it counts for while the device idles."""
    names = {MARK + LOADER: LOADER, MARK + OPTIMIZER: OPTIMIZER, MARK + FORWARD: LAUNCH, MARK + BACKWARD: LAUNCH}
    moving = _moving(trace)
    found: list[Span] = []
    stack: list[tuple[Span, str]] = []
    for span in trace.own(trace.regions, trace.operators, trace.calls):
        while stack and stack[-1][0].end <= span.start:
            stack.pop()
        outer = stack[-1][1] if stack else None
        name = names.get(span.name) or _host_class(span, moving, outer)
        if outer in (LOADER, TRANSFER):
            name = outer
        stack.append((span, name))
        found.append(Span(name, span.start, span.end))
    # Innermost first: a later span lies within earlier ones.
    return found[::-1]


def _host_class(span: Span, moving: frozenset[Span], outer: str | None) -> str:
    if span in moving or span.name in ("aten::pin_memory", "aten::_pin_memory", "cudaHostAlloc"):
        return TRANSFER
    if any(wait in span.name for wait in _WAITS):
        return SYNC
    return outer or LAUNCH


def _moving(trace: Trace) -> frozenset[Span]:
    """Operators and calls that bring data to the device: a copy from ordinary memory holds up the host."""
    copies = {span.correlation for span in trace.work if _is_copy(span) and _to_device(span) and span.correlation}
    calls = [call for call in trace.own(trace.calls) if call.correlation in copies]
    copying = [span for span in trace.own(trace.operators) if span.name in _COPYING]
    starts = [call.start for call in calls]

    def holds(span: Span) -> bool:
        at = bisect_right(starts, span.start)
        return at < len(starts) and starts[at] < span.end

    return frozenset([*calls, *filter(holds, copying)])


def _sweep(trace: Trace, tracks: Sequence[Sequence[Span]], devices: range) -> Shares:
    """Every moment counts for the first span that covers it, `tracks` in order; for `other` if none does.
    `devices`: which tracks are work on the device."""
    edges: list[tuple[float, bool, int]] = []
    names: list[str] = []
    busy: set[int] = set()
    for number, track in enumerate(tracks):
        for span in track:
            start, end = max(span.start, trace.start), min(span.end, trace.end)
            if start < end:
                edges += [(start, True, len(names)), (end, False, len(names))]
                if number in devices:
                    busy.add(len(names))
                names.append(span.name)
    edges.sort(key=lambda edge: edge[0])
    found = dict.fromkeys(CLASSES, 0.0)
    covering: set[int] = set()
    waited = False
    for (time, opens, rank), (after, _, _) in pairwise([(trace.start, False, -1), *edges, (trace.end, False, -1)]):
        if opens:
            covering.add(rank)
        else:
            covering.discard(rank)
        if after > time:
            name = names[min(covering)] if covering else OTHER
            # Once the host has waited, the device has nothing to do until the host has launched something again: that
            # is the price of waiting.
            waited = name == SYNC or (waited and covering.isdisjoint(busy))
            found[SYNC if waited and name in (LAUNCH, OTHER) else name] += after - time
    return found
