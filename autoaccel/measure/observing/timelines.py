"""Where the time of a step goes on an accelerator: every moment counts for one class.

The device's own timeline decides: while it computes, the script is bound by computing whatever the host does; while it
idles, by what the host does then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from autoaccel.measure.observing.attribution import (
    BACKWARD,
    CLASSES,
    COMPUTE,
    EVALUATION,
    FORWARD,
    LAUNCH,
    LOADER,
    OPTIMIZER,
    OTHER,
    SYNC,
    TRANSFER,
    Shares,
    Timing,
    nested,
    normalised,
)  # fmt: skip
from autoaccel.measure.observing.traces import MARK, Span, Trace, within

# As CUDA and XPU name copies.
_TO_DEVICE, _TO_HOST = ("HtoD", "M2D"), ("DtoH", "D2M")
_WAITS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize")


def device_shares(trace: Trace, evaluated: Sequence[tuple[float, float]] = ()) -> Shares:
    """Microseconds by class. `evaluated`: times of passes that did not train, in the trace's microseconds."""
    passes = [Span(EVALUATION, start, end) for start, end in evaluated]
    tracks = [passes, _work(trace, copies=False), _work(trace, copies=True), _host(trace)]
    return _sweep(trace, tracks, devices=range(1, 3))


def _work(trace: Trace, *, copies: bool) -> list[Span]:
    """What the device does, named by the class that it counts for."""
    launched = {call.correlation: call for call in trace.calls if call.correlation}
    own = [span for span in (*trace.regions, *trace.calls) if span.thread == trace.thread]
    # Of calls of other threads, which only go backward, there is no region.
    regions = {span: region for span, region, _ in nested(within(own, trace.start, trace.end))}
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
    own = [span for span in (*trace.regions, *trace.operators, *trace.calls) if span.thread == trace.thread]
    moving = _moving(trace)
    found: list[Span] = []
    stack: list[tuple[Span, str]] = []
    for span in within(own, trace.start, trace.end):
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
