"""How long steps take: a histogram for each column over one axis, medians marked, what is far out said in words."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from autoaccel.reports.benchmark.drawing import Drawing, Frame, below, dot, line, picture, rectangle, text
from autoaccel.reports.benchmark.markup import Markup, joined, paragraph
from autoaccel.reports.benchmark.quantities import Unit, duration, steps, unit
from autoaccel.reports.benchmark.scales import Axis
from autoaccel.reports.benchmark.tables import hidden_table

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Column

_FAR = 8.0  # times from the fastest to the slowest step from which a linear axis would hide one of the columns
_NEAR = 1.15  # times the 99th percentile
_FEW = 16  # steps that are drawn one by one
_BARS, _TITLE, _GAP = 84.0, 30.0, 14.0
_QUANTILES = (("fastest", 0.0), ("5 %", 0.05), ("25 %", 0.25), ("median", 0.5), ("75 %", 0.75))
_UPPER = (("95 %", 0.95), ("99 %", 0.99), ("slowest", 1.0))


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    times: tuple[float, ...]
    """In order of size."""

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    def quantile(self, part: float) -> float:
        """The nearest time that was measured, not one between two."""
        return self.times[min(max(math.ceil(part * len(self.times)) - 1, 0), len(self.times) - 1)]


def distribution(columns: Sequence[Column]) -> Markup:
    """Empty where no steps were timed."""
    rows = [
        _Row(each.name, times)
        for each in columns
        if (times := tuple(sorted(time for time in each.step_times if math.isfinite(time) and time > 0)))
    ]
    if not rows:
        return Markup()
    low, high = min(row.times[0] for row in rows), _end(rows)
    scale = unit(max(row.median for row in rows))
    return joined(
        picture(
            "distribution",
            "Step times",
            "; ".join(_words(row) for row in rows) + ".",
            lambda frame: _draw(frame, rows, low, high, scale),
        ),
        paragraph(_caption(rows, low, high), *_outliers(rows, high), kind="caption"),
        hidden_table(
            "The figures of this picture",
            ("", *(row.name for row in rows)),
            [(name, *(duration(row.quantile(part)) for row in rows)) for name, part in (*_QUANTILES, *_UPPER)],
        ),
    )


def _end(rows: Sequence[_Row]) -> float:
    """Where the picture ends: at the slower column's 99th percentile, unless all that is beyond is near."""
    usual, slowest = max(row.quantile(0.99) for row in rows), max(row.times[-1] for row in rows)
    return slowest if slowest <= _NEAR * usual else usual


def _words(row: _Row) -> str:
    middle = f"half of them between {duration(row.quantile(0.25))} and {duration(row.quantile(0.75))}"
    return f"{row.name}: median {duration(row.median)}" + (f", {middle}" if len(row.times) > 3 else "")


def _caption(rows: Sequence[_Row], low: float, high: float) -> str:
    counts = sorted({len(row.times) for row in rows})
    many = steps(counts[0]) if len(counts) == 1 else " and ".join(steps(len(row.times)) for row in rows)
    bent = " The axis is logarithmic." if _bent(low, high) else ""
    if all(len(row.times) <= _FEW for row in rows):
        return f"A dot for each of {many}.{bent}"
    return f"How often a step took how long, over {many}; each row is drawn to its own height.{bent}"


def _outliers(rows: Sequence[_Row], high: float) -> list[str]:
    """What lies beyond the picture."""
    found = []
    for row in rows:
        if far := [time for time in row.times if time > high]:
            slowest = f"up to {duration(far[-1])}" if len(far) > 1 else f"it took {duration(far[0])}"
            found.append(
                f"Not drawn: {steps(len(far))} of {len(row.times):,} of the {row.name} script "
                f"beyond {duration(high)}, {slowest}."
            )
    return found


def _bent(low: float, high: float) -> bool:
    return high > _FAR * low


def _draw(frame: Frame, rows: Sequence[_Row], low: float, high: float, scale: Unit) -> Drawing:
    margin = (high - low) * 0.02 or low * 0.1
    bent = _bent(low, high)
    first = low / (high / low) ** 0.02 if bent else low - margin
    last = high * (high / low) ** 0.02 if bent else high + margin
    axis = Axis(first / scale.size, last / scale.size, 2, frame.width - 2, logarithmic=bent)
    edges = _edges(rows, axis, scale, 40 if frame.narrow else 80)
    height = _TITLE + _BARS + _GAP
    bottom = height * len(rows) - _GAP
    few = all(len(row.times) <= _FEW for row in rows)
    parts = [below(axis, _TITLE - 8, bottom, frame, f"{scale.name} per step")]
    for index, row in enumerate(rows):
        drawn = (
            _dots(row, axis, scale, index * height)
            if few
            else _histogram(row, axis, scale, edges, index * height, high)
        )
        parts += [drawn, _frame(row, axis, scale, index * height)]
    return Drawing(bottom + 42, joined(*parts))


def _edges(rows: Sequence[_Row], axis: Axis, scale: Unit, most: int) -> list[float]:
    """Where the bins begin and end, in the axis's unit: evenly spaced on the picture, and as wide as Freedman and
    Diaconis advise for the narrower of the rows."""
    widths = [2 * (row.quantile(0.75) - row.quantile(0.25)) / len(row.times) ** (1 / 3) / scale.size for row in rows]
    if axis.logarithmic:
        ratios = [1 + width * scale.size / row.median for width, row in zip(widths, rows, strict=True) if width > 0]
        count = _count(math.log(axis.high / axis.low), [math.log(each) for each in ratios], most)
        return [axis.low * (axis.high / axis.low) ** (each / count) for each in range(count + 1)]
    count = _count(axis.high - axis.low, [width for width in widths if width > 0], most)
    return [axis.low + (axis.high - axis.low) * each / count for each in range(count + 1)]


def _count(length: float, widths: Sequence[float], most: int) -> int:
    return min(max(round(length / min(widths)), 16), most) if widths else 16


def _histogram(row: _Row, axis: Axis, scale: Unit, edges: Sequence[float], top: float, high: float) -> Markup:
    drawn = [time / scale.size for time in row.times if time <= high]
    bins = [
        (start, end, sum(start <= time < end or time == end == edges[-1] for time in drawn))
        for start, end in pairwise(edges)
    ]
    bottom, fullest = top + _TITLE + _BARS, max(max(count for *_, count in bins), 1)
    parts = []
    for start, end, count in bins:
        if count:
            left, height = axis(start), max(_BARS * count / fullest, 1.5)
            hint = f"{duration(start * scale.size)} to {duration(end * scale.size)}: {steps(count)}"
            parts.append(rectangle(left + 0.5, bottom - height, axis(end) - left - 1, height, f"bar {row.name}", hint))
    return joined(*parts)


def _dots(row: _Row, axis: Axis, scale: Unit, top: float) -> Markup:
    """Each step by itself, one above the other that nearly coincide."""
    bottom, above = top + _TITLE + _BARS, Counter[int]()
    parts = []
    for time in row.times:
        x = axis(time / scale.size)
        place = round(x / 9)
        parts.append(dot(x, bottom - 8 - 10 * (above[place] % 7), 4.5, f"dot {row.name}", duration(time)))
        above[place] += 1
    return joined(*parts)


def _frame(row: _Row, axis: Axis, scale: Unit, top: float) -> Markup:
    """Name, base line, and median of a row."""
    bottom, x = top + _TITLE + _BARS, axis(row.median / scale.size)
    return joined(
        text(0, top + 14, f"{row.name}: median {duration(row.median)}", kind="row"),
        line(axis.start, bottom, axis.end, bottom, "base"),
        line(x, top + _TITLE - 8, x, bottom, "median"),
    )
