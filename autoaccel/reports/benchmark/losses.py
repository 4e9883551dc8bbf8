"""The losses of both columns on top of each other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from autoaccel.reports.benchmark.drawing import (
    NARROW,
    Drawing,
    Frame,
    apart,
    area,
    below,
    beside,
    picture,
    polyline,
    text,
)
from autoaccel.reports.benchmark.markup import Markup, joined, paragraph
from autoaccel.reports.benchmark.quantities import digits, number, percent
from autoaccel.reports.benchmark.scales import Axis
from autoaccel.reports.benchmark.tables import hidden_table
from autoaccel.reports.benchmark.verdict import ORIGINAL, REWRITTEN

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Column, Report

_HEIGHT = 220.0
_DENSE, _PIXELS = 1.5, 3  # losses a pixel from which they are gathered, and from how many pixels
_TURNS = 6  # losses that a script may compute in turn, such as those of a generator and a discriminator
_ALIKE = 0.35  # the share of neighbours' distance that counts as far more alike
_WIDE_RANGE = 50.0  # from which the axis is logarithmic

Points = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class _Curve:
    """One of the losses of a column."""

    column: str
    loss: int
    points: tuple[tuple[int, float], ...]


def losses(report: Report) -> Markup:
    columns = [each for name in (ORIGINAL, REWRITTEN) if (each := report.column(name)) and each.losses]
    if not columns:
        return paragraph("No losses were seen.")
    count = turns([value for _, value in columns[0].losses])
    curves = [_Curve(each.name, loss, tuple(each.losses[loss::count])) for each in columns for loss in range(count)]
    finite = [value for curve in curves for _, value in curve.points if math.isfinite(value)]
    words = " ".join((_agreement(columns), *(sentence for each in columns for sentence in _lost(each))))
    if not finite:
        return paragraph(words)
    return joined(
        paragraph(words),
        picture("losses", "Loss over steps", words, lambda frame: _draw(frame, curves, min(finite), max(finite))),
        paragraph(*_caption(columns, count, finite), kind="caption"),
        hidden_table("The figures of this picture", ("step", *(each.name for each in columns)), _rows(columns)),
    )


def turns(values: Sequence[float]) -> int:
    """How many losses take turns: the distance at which losses resemble each other far more than neighbours do."""
    seen = [value for value in values if math.isfinite(value)]
    if len(seen) < 4 * _TURNS:
        return 1
    rough = [
        statistics.median(abs(after - before) for before, after in zip(seen, seen[distance:], strict=False))
        for distance in range(1, _TURNS + 1)
    ]
    if min(rough) >= rough[0] * _ALIKE:
        return 1
    return next(distance for distance, each in enumerate(rough, start=1) if each <= 1.5 * min(rough))


def _agreement(columns: Sequence[Column]) -> str:
    """How far the rewritten script's losses are from the original's."""
    if len(columns) < 2:
        return f"Only the losses of the {columns[0].name} script were seen."
    pairs = [(step, one, other) for (step, one), (_, other) in zip(columns[0].losses, columns[1].losses, strict=False)]
    count = f"all {number(len(pairs))}" if len({len(each.losses) for each in columns}) == 1 else "the first"
    first = next((index for index, (_, one, other) in enumerate(pairs) if not _same(one, other)), None)
    if first is None:
        what = f"{count} losses" if count != "the first" else f"the first {number(len(pairs))} losses"
        return f"Original and rewritten script agree in {what} to the last bit."
    start = (
        "The losses differ from the first on"
        if not first
        else "The first loss is equal to the last bit; those after it differ"
        if first == 1
        else f"The first {number(first)} losses are equal to the last bit; those after them differ"
    )
    apart = [
        (abs(other - one) / max(abs(one), abs(other)), step)
        for step, one, other in pairs
        if math.isfinite(one) and math.isfinite(other) and one != other
    ]
    if not apart:
        return f"{start}."
    typical, (largest, where) = statistics.median(part for part, _ in apart), max(apart)
    return f"{start}, by {_slight(typical)} in the median and {_slight(largest)} at most (step {number(where)})."


def _slight(part: float) -> str:
    """A percentage of which also small ones say something."""
    return "<0.0001 %" if part < 1e-6 else f"{digits(part * 100, 2)} %" if part < 0.01 else percent(part)


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _lost(column: Column) -> list[str]:
    odd = [step for step, value in column.losses if not math.isfinite(value)]
    if not odd:
        return []
    name, first = f"the {column.name} script", f"at step {number(odd[0])}"
    if len(odd) == 1:
        return [f"A loss of {name} is infinite or not a number, {first}."]
    return [f"{number(len(odd))} losses of {name} are infinite or not a number, the first {first}."]


def _caption(columns: Sequence[Column], count: int, finite: Sequence[float]) -> list[str]:
    parts = []
    if len(columns) > 1:
        parts.append("The rewritten script's line lies on top of the original's, which is the broad one.")
    if count > 1:
        parts.append(f"The script computes {count} losses in turn; each is a line of its own.")
    if max(len(each.losses) for each in columns) // count > NARROW.width:
        parts.append(
            "Lines are medians of a few pixels' losses where there are many; bands go from smallest to largest."
        )
    if _bent(min(finite), max(finite)):
        parts.append("The axis is logarithmic.")
    return parts


def _bent(low: float, high: float) -> bool:
    return low > 0 and high > _WIDE_RANGE * low


def _draw(frame: Frame, curves: Sequence[_Curve], low: float, high: float) -> Drawing:
    names = max(frame.room(_name(each, curves)) for each in curves)
    left, right, top, bottom = 46.0, frame.width - names - 8, 30.0, 30 + _HEIGHT
    steps = [step for each in curves for step, _ in each.points]
    across = Axis(min(steps), max(steps), left, right)
    margin = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    bent = _bent(low, high)
    up = Axis(low if bent else low - margin, high if bent else high + margin, bottom, top, logarithmic=bent)
    parts = [beside(up, left, right, "loss"), below(across, top, bottom, frame, "step", most=4 if frame.narrow else 8)]
    ends, labels = [], []
    for each in curves:
        for run in _runs(each.points):
            parts += _line([(across(step), up(value)) for step, value in run], each.column)
        if known := [value for _, value in each.points if math.isfinite(value)]:
            tail = known[-max(len(known) // 20, 1) :]
            ends.append(up(statistics.median(tail)) + 4)
            labels.append((_name(each, curves), each.column))
    for (label, column), y in zip(labels, apart(ends, 17, top, bottom), strict=True):
        parts.append(text(right + 8, y, label, kind=f"name {column}"))
    return Drawing(bottom + 42, joined(*parts))


def _name(curve: _Curve, curves: Sequence[_Curve]) -> str:
    return f"{curve.column} {curve.loss + 1}" if any(each.loss for each in curves) else curve.column


def _runs(points: Points) -> list[list[tuple[int, float]]]:
    """The stretches between losses that are no numbers."""
    return [list(run) for finite, run in groupby(points, lambda point: math.isfinite(point[1])) if finite]


def _line(points: Sequence[tuple[float, float]], column: str) -> list[Markup]:
    """A line, or where that would be a scribble its median and a band from the smallest to the largest."""
    if len(points) <= _DENSE * (points[-1][0] - points[0][0] + 1):
        return [polyline(points, f"curve {column} loss")]
    middle, low, high = zip(*_gathered(points), strict=True)
    return [area([*low, *reversed(high)], f"band {column}"), polyline(middle, f"curve {column} loss")]


def _gathered(points: Sequence[tuple[float, float]]) -> Iterator[tuple[tuple[float, float], ...]]:
    """Median, lowest and highest of every three pixels: no spike is lost."""
    for _, group in groupby(points, lambda point: math.floor(point[0] / _PIXELS)):
        places, heights = zip(*group, strict=True)
        x = statistics.fmean(places)
        yield (x, statistics.median(heights)), (x, min(heights)), (x, max(heights))


def _rows(columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """A dozen losses, evenly chosen, the first and the last among them."""
    shortest = min(len(each.losses) for each in columns)
    count = min(shortest, 12)
    chosen = sorted({round(each * (shortest - 1) / max(count - 1, 1)) for each in range(count)})
    return [
        (number(columns[0].losses[index][0]), *(digits(each.losses[index][1], 5) for each in columns))
        for index in chosen
    ]
