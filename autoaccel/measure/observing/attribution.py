"""Where the time of a training step goes: pure functions from what was measured to shares that add up to one.

Two instruments take turns, each correcting the other. Regions (`regions.py`) cost next to nothing and say how long the
script was in its loader, its optimizer, its model; torch's profiler says what happened inside of these, but slows down
what it looks at. So the regions are timed without the profiler, and divided in proportion to what the profiler saw.

On an accelerator the device's own timeline decides: while it computes, the script is bound by computing whatever the
host does; while it idles, by what the host does then.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

LOADER, TRANSFER, LAUNCH, COMPUTE = "loader", "transfer", "launch", "compute"
OPTIMIZER, SYNC, EVALUATION, OTHER = "optimizer", "sync", "evaluation", "other"
CLASSES = (LOADER, TRANSFER, LAUNCH, COMPUTE, OPTIMIZER, SYNC, EVALUATION, OTHER)

# Regions that are no class; the last is what is between all regions.
FORWARD, BACKWARD, BODY = "forward", "backward", "body"

# A region of a step that was disturbed counts for so many times what is usual at most.
_UNUSUAL = 3.0

# Names of the profiler's annotations.
MARK = "autoaccel::"
STEP = MARK + "step"

# What is between operators is launching up to so many times what tiny ones take; the rest is the script's own Python.
_IN_MODEL, _IN_BODY = 4.0, 1.5
# Operators that compute nothing.
_VIEWS = frozenset(f"aten::{name}" for name in "as_strided t transpose expand view detach".split())
# As CUDA and XPU name copies.
_TO_DEVICE, _TO_HOST = ("HtoD", "M2D"), ("DtoH", "D2M")
_WAITS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize")

Shares: TypeAlias = "dict[str, float]"


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


@dataclass(frozen=True, slots=True)
class Costs:
    """What happened in one region during a step, in microseconds."""

    length: float = 0.0
    operators: float = 0
    inside: float = 0.0
    """Time in operators."""

    def __add__(self, other: Costs) -> Costs:
        return Costs(self.length + other.length, self.operators + other.operators, self.inside + other.inside)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What tiny operators cost in this process, in microseconds each; the time around them included."""

    plain: float
    traced: float
    """The same under the profiler."""
    forward: float
    backward: float
    """The part of it that the profiler sees inside the operator: less in a backward, where more of them are views."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step without the profiler: seconds by region, `body` included."""

    regions: Mapping[str, float]
    disturbed: bool = False
    """Whether another program took the CPU meanwhile."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A step without the profiler, on average: seconds by region, `body` included."""

    regions: Mapping[str, float]
    iterated: float = 0.0
    """Part of the time, 0 to 1, in generators and datasets of the script's own, outside all regions."""

    @property
    def seconds(self) -> float:
        return sum(self.regions.values())


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
    spans = {kind: tuple(_within(each, times[0], times[-1])) for kind, each in found.items()}
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


def _within(spans: Iterable[Span], start: float, end: float) -> list[Span]:
    """By time of their beginning, the longer first, so that what is nested follows what it is nested in."""
    inside = (span for span in spans if span.start < end and span.end > start)
    return sorted(inside, key=lambda span: (span.start, -span.end))


# On the host alone.


def host_costs(trace: Trace, period: int = 1) -> list[dict[str, Costs]]:
    """What happened on the thread that trains in each region (by its name without the mark, or `body`), for so many
    steps at a time."""
    found: list[dict[str, Costs]] = [{} for _ in range(math.ceil(trace.steps / period))]

    def add(time: float, region: str, costs: Costs) -> None:
        step = min(max(bisect_right(trace.marks, time) - 1, 0), trace.steps - 1)
        of_step = found[step // period]
        of_step[region] = of_step.get(region, Costs()) + costs

    for start, end in pairwise(trace.marks):
        add(start, BODY, Costs(end - start))
    regions = [span for span in trace.regions if span.thread == trace.thread]
    for span, region, own in _nested(regions):
        add(span.start, region, Costs(own))
        add(span.start, BODY, Costs(-own))
    operators = [span for span in trace.operators if span.thread == trace.thread]
    for span, region, own in _nested(_within([*regions, *operators], trace.start, trace.end)):
        # Autograd's events are bookkeeping, not operators.
        if "::" in span.name and not span.name.startswith((MARK, "autograd::")):
            add(span.start, region, Costs(0.0, 1, own))
    return found


def slowed(calibration: Calibration, usual: Trace, traces: Sequence[Trace]) -> Calibration:
    """The calibration for a script in which operators take longer than in the tiny model of the trace `usual`.

    A model that is larger than the caches, and what else the machine does, slow down every operator. Those that only
    look at memory in another way compute nothing anywhere, and show by how much.
    """
    before, now = _views([usual]), _views(traces)
    ratios = [statistics.median(now[name]) / statistics.median(before[name]) for name in before.keys() & now.keys()]
    factor = max(1.0, statistics.median(ratios)) if ratios else 1.0
    return Calibration(
        calibration.plain * factor,
        calibration.traced * factor,
        calibration.forward * factor,
        calibration.backward * factor,
    )


def _views(traces: Sequence[Trace]) -> dict[str, list[float]]:
    """Times of operators that compute nothing, by name."""
    found: dict[str, list[float]] = {}
    for trace in traces:
        spans = [span for span in trace.operators if span.thread == trace.thread]
        for span, _, own in _nested(spans):
            if span.name in _VIEWS and own > 0.0:
                found.setdefault(span.name, []).append(own)
    return found


def typical(steps: Sequence[Mapping[str, Costs]]) -> dict[str, Costs]:
    """The median over steps: what other programs of the machine delay is in single steps."""
    names = {region for each in steps for region in each}
    return {name: _median([each.get(name, Costs()) for each in steps]) for name in names}


def _median(costs: Sequence[Costs]) -> Costs:
    return Costs(
        statistics.median(each.length for each in costs),
        statistics.median(each.operators for each in costs),
        statistics.median(each.inside for each in costs),
    )


def _nested(spans: Sequence[Span]) -> Iterator[tuple[Span, str, float]]:
    """Each span with the region that it is in (a region is in itself) and the time that nothing nested in it takes."""
    stack: list[tuple[Span, str]] = []
    owns: list[float] = []
    for span in spans:
        while stack and stack[-1][0].end <= span.start:
            yield (*stack.pop(), owns.pop())
        region = stack[-1][1] if stack else BODY
        if stack:
            owns[-1] -= min(span.end, stack[-1][0].end) - span.start
        if span.name.startswith(MARK):
            region = span.name[len(MARK) :]
        stack.append((span, region))
        owns.append(span.length)
    while stack:
        yield (*stack.pop(), owns.pop())


def timing(steps: Sequence[Step], iterated: float = 0.0) -> Timing:
    """The mean of steps, of what other programs delayed only so much as may be the script's own.

    Rare things of the script's own, as evaluations and checkpoints are, count in full.
    """
    names = {name for step in steps for name in step.regions}
    regions = {}
    for name in names:
        times = [(step.regions.get(name, 0.0), step.disturbed) for step in steps]
        usual = _UNUSUAL * statistics.median(time for time, _ in times)
        kept = [min(time, usual) if disturbed and usual > 0.0 else time for time, disturbed in times]
        regions[name] = statistics.fmean(kept)
    return Timing(regions, iterated)


def host_shares(timing: Timing, costs: Mapping[str, Costs], calibration: Calibration) -> Shares:
    """Shares where everything runs on the host."""
    regions = timing.regions
    shares = {name: regions.get(name, 0.0) for name in (LOADER, OPTIMIZER, EVALUATION)}
    body = max(0.0, regions.get(BODY, 0.0))
    iterated = min(body, timing.iterated * timing.seconds)
    shares[LOADER] += iterated
    forward, backward, between = (costs.get(region, Costs()) for region in (FORWARD, BACKWARD, BODY))
    parts = [
        _divided(regions.get(FORWARD, 0.0), forward, calibration, calibration.forward, _IN_MODEL),
        _without_python(_divided(regions.get(BACKWARD, 0.0), backward, calibration, calibration.backward, _IN_MODEL)),
        _divided(body - iterated, between, calibration, calibration.forward, _IN_BODY),
    ]
    for name, values in zip((COMPUTE, LAUNCH, OTHER), zip(*parts, strict=True), strict=True):
        shares[name] = sum(values)
    return normalised(shares)


def _divided(
    seconds: float, costs: Costs, calibration: Calibration, inside: float, most: float
) -> tuple[float, float, float]:
    """Time of a region as kernels, launches and Python, in proportion to what the profiler saw in it.

    The profiler lengthens all that is not in kernels, by what it does to tiny operators.
    """
    distortion = calibration.traced / calibration.plain
    # Also the smallest operator takes its time, under the profiler more of it.
    kernels = max(0.0, costs.inside - costs.operators * inside)
    around = max(0.0, costs.length - kernels)
    launches = min(around, most * costs.operators * calibration.traced)
    # Python without operators is as fast as ever.
    python = around - launches
    total = kernels + launches / distortion + python
    if total <= 0.0:
        return 0.0, 0.0, seconds
    scale = seconds / total
    return kernels * scale, launches / distortion * scale, python * scale


def _without_python(parts: tuple[float, float, float]) -> tuple[float, float, float]:
    """In a backward, what is neither in operators nor around them is the memory that they give back."""
    kernels, launches, rest = parts
    return kernels + rest, launches, 0.0


# On an accelerator.


def device_shares(trace: Trace, evaluated: Sequence[tuple[float, float]] = ()) -> Shares:
    """Microseconds by class. `evaluated`: times of passes that did not train, in the trace's microseconds."""
    passes = [Span(EVALUATION, start, end) for start, end in evaluated]
    tracks = [passes, _work(trace, copies=False), _work(trace, copies=True), _host(trace)]
    return _sweep(trace, tracks, devices=range(1, 3))


def _work(trace: Trace, *, copies: bool) -> list[Span]:
    """What the device does, named by the class that it counts for."""
    launched = {call.correlation: call for call in trace.calls if call.correlation}
    place = _Regions(trace)
    found = []
    for span in trace.work:
        if _is_copy(span) != copies:
            continue
        if copies:
            name = TRANSFER if _to_device(span) else SYNC
        else:
            name = place.of(launched.get(span.correlation, span))
            name = name if name in (OPTIMIZER, LOADER) else COMPUTE
        found.append(Span(name, span.start, span.end))
    return found


def _is_copy(span: Span) -> bool:
    """Whether it moves data between host and device; copies on the device are work like any other."""
    return span.name.startswith("Memcpy") and any(way in span.name for way in (*_TO_DEVICE, *_TO_HOST))


def _to_device(span: Span) -> bool:
    return any(way in span.name for way in _TO_DEVICE)


class _Regions:
    """Which region the training thread was in at a time."""

    def __init__(self, trace: Trace) -> None:
        self.thread = trace.thread
        regions = [span for span in trace.regions if span.thread == trace.thread]
        self.changes = _layers(regions, trace.start, trace.end)
        self.times = [time for time, _ in self.changes]

    def of(self, call: Span) -> str:
        """The region of a call; other threads only go backward."""
        if call.thread != self.thread:
            return BACKWARD
        at = bisect_right(self.times, call.start) - 1
        name = self.changes[at][1] if at >= 0 else None
        return name[len(MARK) :] if name else BODY


def _layers(spans: Sequence[Span], start: float, end: float) -> list[tuple[float, str | None]]:
    """From when on which of nested spans is the innermost, None where there is none."""
    changes: list[tuple[float, str | None]] = [(start, None)]
    stack: list[Span] = []
    for span in [*spans, Span("", end, end)]:
        while stack and stack[-1].end <= span.start:
            closed = stack.pop()
            changes.append((closed.end, stack[-1].name if stack else None))
        stack.append(span)
        changes.append((span.start, span.name))
    return changes[:-1]


def _host(trace: Trace) -> list[Span]:
    """What the training thread does, named by the class that it counts for while the device idles."""
    names = {MARK + LOADER: LOADER, MARK + OPTIMIZER: OPTIMIZER, MARK + FORWARD: LAUNCH, MARK + BACKWARD: LAUNCH}
    own = [span for span in (*trace.regions, *trace.operators, *trace.calls) if span.thread == trace.thread]
    moving = _moving(trace)
    found: list[Span] = []
    stack: list[tuple[Span, str]] = []
    for span in _within(own, trace.start, trace.end):
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
    calls = [call for call in trace.calls if call.correlation in copies and call.thread == trace.thread]
    copying = [span for span in trace.operators if span.name in ("aten::copy_", "aten::_to_copy", "aten::to")]
    starts = sorted(call.start for call in calls)

    def holds(span: Span) -> bool:
        at = bisect_right(starts, span.start)
        return at < len(starts) and starts[at] < span.end

    return frozenset([*calls, *(span for span in copying if span.thread == trace.thread and holds(span))])


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
    return _drained(_moments([(trace.start, True, -1), *edges, (trace.end, False, -1)], names, busy))


def _moments(
    edges: Sequence[tuple[float, bool, int]], names: Sequence[str], busy: set[int]
) -> Iterator[tuple[str, float, bool]]:
    """In order of time: class, length, and whether the device was at work."""
    covering: set[int] = set()
    for (time, opens, rank), (after, _, _) in pairwise(edges):
        if opens:
            covering.add(rank)
        else:
            covering.discard(rank)
        if after > time:
            first = min((each for each in covering if each >= 0), default=None)
            name = OTHER if first is None else names[first]
            yield name, after - time, not covering.isdisjoint(busy)


def _drained(moments: Iterable[tuple[str, float, bool]]) -> Shares:
    """The sums. Once the host has waited, the device has nothing to do until the host has launched something again:
    that is the price of waiting."""
    shares = dict.fromkeys(CLASSES, 0.0)
    waited = False
    for name, length, busy in moments:
        waited = name == SYNC or (waited and not busy)
        shares[SYNC if waited and name in (LAUNCH, OTHER) else name] += length
    return shares


def undistorted(shares: Mapping[str, float], steps: int, timing: Timing) -> tuple[Shares, float]:
    """Shares of steps without the profiler, and how much longer a step took under it, as a part of its time.

    The device and the loader are as fast under the profiler as ever; what it costs is time of the host at operators.
    """
    traced = {name: value / 1e6 / steps for name, value in shares.items()}
    plain = timing.seconds
    excess = max(0.0, sum(traced.values()) - plain)
    soft = {name: traced[name] for name in (LAUNCH, OTHER, SYNC, OPTIMIZER) if traced.get(name, 0.0) > 0.0}
    total = sum(soft.values())
    kept = max(0.0, 1.0 - excess / total) if total > 0.0 else 1.0
    corrected = {name: value * kept if name in soft else value for name, value in traced.items()}
    iterated = min(timing.iterated * sum(corrected.values()), corrected.get(OTHER, 0.0) + corrected.get(LAUNCH, 0.0))
    for name in (OTHER, LAUNCH):
        moved = min(iterated, corrected.get(name, 0.0))
        corrected[name] = corrected.get(name, 0.0) - moved
        corrected[LOADER] = corrected.get(LOADER, 0.0) + moved
        iterated -= moved
    return normalised(corrected), excess / plain


def normalised(shares: Mapping[str, float]) -> Shares:
    """In the order of the classes, adding up to one; those at nothing left out."""
    total = sum(shares.values())
    return {name: shares[name] / total for name in CLASSES if total > 0.0 and shares.get(name, 0.0) / total > 0.0005}
