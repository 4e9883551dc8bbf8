"""Charts as SVG from plain data: lines over two axes, and rows of points with intervals over one.

Coordinates are pixels as they are on a wide screen, roughly; on a narrow one a chart scrolls.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from markupsafe import Markup

from autoaccel.reports.benchmark.quantities import Unit

_WIDTH, _LETTER = 800.0, 8.0  # of a chart, and of a letter in a wide typeface
_TOP, _HEIGHT, _BELOW, _LEFT, _ROW = 30.0, 240.0, 42.0, 46.0, 32.0
_DENSE, _PIXELS = 1.5, 3  # points a pixel from which they are gathered, and from how many pixels
_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0, 50.0, 100.0)

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, interrupted where one is not finite."""

    name: str
    """Its class in the style sheet, too."""
    points: Sequence[Point]
    ahead: Sequence[Point] = ()
    """Where it goes on beyond what was measured, dashed."""


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A line of a chart of rows: what it is about on the left, its value on the right, and what is drawn between."""

    label: str
    value: str
    kind: str
    """Its class in the style sheet."""
    point: float
    interval: tuple[float, float]


# -- charts


def line_chart(
    name: str,
    title: str,
    description: str,
    lines: Sequence[Line],
    across: str,
    up: Unit,
    *,
    logarithmic: bool = False,
    mark: tuple[Point, str] | None = None,
) -> Markup:
    """Lines, of which at least one point is finite, over what `across` counts; values are seconds where `up` is a unit
    of time. `mark` is a place to be pointed out, and what is said of it."""
    canvas = _Canvas()
    places = [place for each in lines for place in (*each.points, *each.ahead) if math.isfinite(place[1])]
    low, high = min(y for _, y in places), max(y for _, y in places)
    margin = 0.0 if logarithmic else (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    x_axis = Axis(min(x for x, _ in places), max(x for x, _ in places), _LEFT, _WIDTH - 8)
    y_axis = Axis(low - margin, high + margin, _TOP + _HEIGHT, _TOP, up.size, logarithmic)
    for value, label in y_axis.labelled(5):
        canvas.line(_LEFT, y_axis(value), x_axis.end, y_axis(value), "grid")
        canvas.text(_LEFT - 8, y_axis(value) + 4, label, anchor="end")
    canvas.text(0, _TOP - 14, up.name, "quiet")
    canvas.axis_below(x_axis, _TOP, y_axis.start, across)
    right = _WIDTH
    for each in reversed(lines):
        canvas.text(right, _TOP - 14, each.name, f"name {each.name}", "end")
        right -= _room(each.name) + 16
    for each in lines:
        canvas.curve([(x_axis(x), y_axis(y)) for x, y in each.points], each.name)
        canvas.curve([(x_axis(x), y_axis(y)) for x, y in each.ahead], f"{each.name} dashed")
    if mark:
        x, y = x_axis(mark[0][0]), y_axis(mark[0][1])
        canvas.dot(x, y, 5, "mark")  # where lines rise, there is room for text above to the left
        canvas.text(max(x - 10, _LEFT + _room(mark[1])), max(y - 14, _TOP + 14), mark[1], "halo", "end")
    return canvas.drawn(name, title, description, y_axis.start + _BELOW)


def row_chart(
    name: str, title: str, description: str, rows: Sequence[ChartRow], unit: Unit, reference: float
) -> Markup:
    """Rows over one axis. `reference` is a value to compare with."""
    canvas = _Canvas()
    values = [reference, *(x for each in rows for x in (*each.interval, each.point))]
    margin = (max(values) - min(values)) * 0.06 or 0.05
    left = max(_room(each.label) for each in rows) + 12
    right = _WIDTH - 14 - max(_room(each.value) for each in rows)
    axis = Axis(max(min(values) - margin, 0.0), max(values) + margin, left, right, unit.size)
    bottom = _ROW * len(rows) + 4
    ticks = canvas.axis_below(axis, 0, bottom, unit.name)
    x, label = axis(reference), f"{reference:g}"
    canvas.line(x, 0, x, bottom, "reference")
    if all(abs(axis(tick) - x) > _room(label + said) / 2 + 5 for tick, said in ticks):
        canvas.text(x, bottom + 18, label, anchor="middle")
    for index, each in enumerate(rows):
        y = (index + 0.5) * _ROW
        canvas.line(axis(each.interval[0]), y, axis(each.interval[1]), y, f"interval {each.kind}")
        canvas.dot(axis(each.point), y, 4.5, f"point {each.kind}")
        canvas.text(0, y + 4, each.label, f"halo {each.kind}")
        canvas.text(_WIDTH, y + 4, each.value, f"halo {each.kind}", "end")
    return canvas.drawn(name, title, description, bottom + _BELOW)


def _room(text: str) -> float:
    """The width of a text."""
    return len(text) * _LETTER


@dataclass(frozen=True, slots=True)
class _Canvas:
    """What has been drawn."""

    parts: list[Markup] = field(default_factory=list)

    def drawn(self, name: str, title: str, description: str, height: float) -> Markup:
        return Markup(
            '<div class="scrolls"><svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
            'aria-labelledby="{name}-title {name}-desc"><title id="{name}-title">{title}</title>'
            '<desc id="{name}-desc">{description}</desc>{content}</svg></div>'
        ).format(
            width=_WIDTH,
            height=height,
            name=name,
            title=title,
            description=description,
            content=Markup().join(self.parts),
        )

    def tag(self, name: str, kind: str, content: str = "", **attributes: str | float) -> None:
        """A tenth of a pixel is as fine as anybody sees."""
        written = Markup()
        for key, value in attributes.items():
            spelled = value if isinstance(value, str) else f"{value:.1f}"
            written += Markup(' {}="{}"').format(key.replace("_", "-"), spelled)
        self.parts.append(Markup('<{0} class="{1}"{2}>{3}</{0}>').format(name, kind, written, content))

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.tag("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)

    def dot(self, x: float, y: float, radius: float, kind: str) -> None:
        self.tag("circle", kind, cx=x, cy=y, r=radius)

    def text(self, x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> None:
        """`anchor` is `start`, `middle` or `end`; what would leave the canvas is moved inside."""
        if anchor == "middle":
            half = _room(content) / 2
            x = min(max(x, half), _WIDTH - half)
        self.tag("text", kind, content, x=x, y=y, text_anchor=anchor)

    def axis_below(self, axis: Axis, top: float, bottom: float, unit: str) -> Sequence[tuple[float, str]]:
        """Faint lines upwards, numbers, and what they count at the end of the line below."""
        self.line(axis.start, bottom, axis.end, bottom, "base")
        ticks = axis.labelled(8)
        for value, label in ticks:
            self.line(axis(value), top, axis(value), bottom, "grid")
            self.text(axis(value), bottom + 18, label, anchor="middle")
        self.text(axis.end, bottom + 36, unit, "quiet", "end")
        return ticks

    def curve(self, points: Sequence[Point], kind: str) -> None:
        """A line through pixels; a lone one becomes a dot, and what would be a scribble a band with its median."""
        for finite, group in groupby(points, lambda point: math.isfinite(point[1])):
            run = list(group)
            if not finite:
                continue
            if len(run) == 1:
                self.dot(*run[0], 2.5, f"point {kind}")
                continue
            if len(run) > _DENSE * (run[-1][0] - run[0][0] + 1):
                run, lows, highs = map(list, zip(*gathered(run), strict=True))
                self.tag("path", f"band {kind}", d=f"M{_route([*lows, *reversed(highs)])}Z")
            self.tag("path", f"curve {kind}", d=f"M{_route(run)}")


def _route(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def gathered(points: Sequence[Point]) -> Iterator[tuple[Point, Point, Point]]:
    """Median, lowest and highest of every three pixels: no spike is lost."""
    for _, group in groupby(points, lambda point: math.floor(point[0] / _PIXELS)):
        places, heights = zip(*group, strict=True)
        x = statistics.fmean(places)
        yield (x, statistics.median(heights)), (x, min(heights)), (x, max(heights))


# -- axes


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `low` to `high` lie between the pixels `start` and `end`, which may run either way."""

    low: float
    high: float
    start: float
    end: float
    unit: float = 1.0
    """What is written 1."""
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value; one beyond the axis is at its end, one that is not finite has none."""
        if not math.isfinite(value):
            return math.nan
        low, high, value = (self._bent(each) for each in (self.low, self.high, value))
        part = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def _bent(self, value: float) -> float:
        return math.log(max(value, self.low)) if self.logarithmic else value

    def labelled(self, most: int) -> tuple[tuple[float, str], ...]:
        """At most so many round values, with what is written at each; powers of ten have digits of their own."""
        low, high = self.low / self.unit, self.high / self.unit
        decades = _decades(low, high, most) if self.logarithmic else ()
        values = decades or _multiples(low, high, most)
        labels = [tick_labels((value,))[0] for value in values] if decades else tick_labels(values)
        return tuple((value * self.unit, label) for value, label in zip(values, labels, strict=True))


def _multiples(low: float, high: float, most: int) -> tuple[float, ...]:
    if not high > low:
        return (low,)
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for stride in (power * each for each in _ROUND):
        first, last = math.ceil(low / stride - 1e-9), math.floor(high / stride + 1e-9)
        if last - first < most:
            return tuple(stride * each for each in range(first, last + 1))
    return ()


def _decades(low: float, high: float, most: int) -> Sequence[float]:
    """Powers of ten with as many in between as there is room for; none where they would be too few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for multiples in ((1, 2, 5), (1, 3), (1,)):
        values = (multiple * 10.0**power for power in powers for multiple in multiples)
        found = [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= most:
            break
    return found[:: math.ceil(len(found) / most)] if len(found) > 2 else ()


def tick_labels(values: Sequence[float]) -> tuple[str, ...]:
    """The fewest digits that say all values, the same for each; very small and very large ones as powers of ten."""
    largest = max(map(abs, values), default=0.0)
    style = "g" if largest and not 1e-4 <= largest < 1e7 else "f"
    labels: tuple[str, ...] = ()
    for digits in range(18):
        labels = tuple(f"{value or 0:,.{digits if value else 0}{style}}" for value in values)
        said = (float(label.replace(",", "")) for label in labels)
        if all(abs(each - value) <= largest * 1e-6 for each, value in zip(said, values, strict=True)):
            break
    return tuple(label.replace("e-0", "e-").replace("e+0", "e").replace("-", "−") for label in labels)
