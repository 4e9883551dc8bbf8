"""Where the time of a training step goes: pure functions from what was measured to shares that add up to one.

Two instruments take turns, each correcting the other. Regions (`regions.py`) cost next to nothing and say how long the
script was in its loader, its optimizer, its model; torch's profiler says what happened inside of these, but slows down
what it looks at. So the regions are timed without the profiler, and divided in proportion to what the profiler saw.

Here is what happens where all is done on the host; of an accelerator, `timelines` speaks.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from autoaccel.measure.observing.traces import MARK, Span, Trace, within

LOADER, TRANSFER, LAUNCH, COMPUTE = "loader", "transfer", "launch", "compute"
OPTIMIZER, SYNC, EVALUATION, OTHER = "optimizer", "sync", "evaluation", "other"
CLASSES = (LOADER, TRANSFER, LAUNCH, COMPUTE, OPTIMIZER, SYNC, EVALUATION, OTHER)

# Regions that are no class; the last is what is between all regions.
FORWARD, BACKWARD, BODY = "forward", "backward", "body"

# A region of a step that was disturbed counts for so many times what is usual at most.
_UNUSUAL = 3.0

# What is between operators is launching up to so many times what tiny ones take; the rest is the script's own Python.
_IN_MODEL, _IN_BODY = 4.0, 1.5
# Operators that compute nothing.
_VIEWS = frozenset(f"aten::{name}" for name in "as_strided t transpose expand view detach".split())

Shares: TypeAlias = "dict[str, float]"


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
    for span, region, own in nested(regions):
        add(span.start, region, Costs(own))
        add(span.start, BODY, Costs(-own))
    operators = [span for span in trace.operators if span.thread == trace.thread]
    for span, region, own in nested(within([*regions, *operators], trace.start, trace.end)):
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
        for span, _, own in nested(spans):
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


def nested(spans: Sequence[Span]) -> Iterator[tuple[Span, str, float]]:
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


def normalised(shares: Mapping[str, float]) -> Shares:
    """In the order of the classes, adding up to one; those at nothing left out."""
    total = sum(shares.values())
    return {name: shares[name] / total for name in CLASSES if total > 0.0 and shares.get(name, 0.0) / total > 0.0005}
