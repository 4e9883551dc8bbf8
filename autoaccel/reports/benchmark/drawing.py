"""What all pictures share: two widths of each, axes, labels that stay inside.

A picture is drawn twice, for wide and for narrow screens, and the style sheet shows one of them: text that shrinks
with the picture could not be read on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoaccel.reports.benchmark.markup import Markup, element, joined, pixels
from autoaccel.reports.benchmark.scales import Axis

_LETTER = 0.62  # width of a letter by its height, in a wide typeface


@dataclass(frozen=True, slots=True)
class Frame:
    """The room for a picture. Sizes are in pixels as they are on the screen, roughly."""

    name: str
    width: float
    letters: float

    @property
    def narrow(self) -> bool:
        return self is NARROW

    @property
    def ticks(self) -> int:
        return 5 if self.narrow else 9

    def room(self, text: str) -> float:
        """The width of a text."""
        return len(text) * self.letters * _LETTER


WIDE = Frame("wide", 800, 13)
NARROW = Frame("narrow", 328, 12)


@dataclass(frozen=True, slots=True)
class Drawing:
    height: float
    content: Markup


def picture(name: str, title: str, description: str, draw: Callable[[Frame], Drawing]) -> Markup:
    return joined(*(_svg(name, title, description, frame, draw(frame)) for frame in (WIDE, NARROW)))


def _svg(name: str, title: str, description: str, frame: Frame, drawing: Drawing) -> Markup:
    own = f"{name}-{frame.name}"
    return element(
        "svg",
        element("title", title, id=f"{own}-title"),
        element("desc", description, id=f"{own}-desc"),
        drawing.content,
        class_=f"chart {frame.name}",
        viewBox=f"0 0 {pixels(frame.width)} {pixels(drawing.height)}",
        role="img",
        aria_labelledby=f"{own}-title {own}-desc",
    )


def text(x: float, y: float, content: str, *, anchor: str | None = None, kind: str | None = None) -> Markup:
    """`anchor`: middle or end; the start else."""
    return element("text", content, x=x, y=y, text_anchor=anchor, class_=kind)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def rectangle(x: float, y: float, width: float, height: float, kind: str, hint: str = "") -> Markup:
    """`hint` is shown while the pointer rests there."""
    shown = (element("title", hint),) if hint else ()
    return element("rect", *shown, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=kind)


def dot(x: float, y: float, radius: float, kind: str, hint: str = "") -> Markup:
    shown = (element("title", hint),) if hint else ()
    return element("circle", *shown, cx=x, cy=y, r=radius, class_=kind)


def polyline(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    """A line through points, in pixels; a lone one becomes a dot."""
    if len(points) == 1:
        return dot(*points[0], 2.5, f"{kind} lone")
    route = " ".join(f"{pixels(x)},{pixels(y)}" for x, y in points)
    return element("path", d=f"M{route}", class_=kind)


def area(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    """What points enclose."""
    route = " ".join(f"{pixels(x)},{pixels(y)}" for x, y in points)
    return element("path", d=f"M{route}Z", class_=kind)


def below(axis: Axis, top: float, bottom: float, frame: Frame, title: str, *, most: int | None = None) -> Markup:
    """The axis along the bottom: faint lines upwards, numbers, and what they count at the end of the line below."""
    parts = [line(axis.start, bottom, axis.end, bottom, "base")]
    for value, label in axis.labelled(most or frame.ticks):
        x = axis(value)
        parts += [line(x, top, x, bottom, "grid"), text(_inside(x, label, frame), bottom + 18, label, anchor="middle")]
    parts.append(text(axis.end, bottom + 36, title, anchor="end", kind="quiet"))
    return joined(*parts)


def beside(axis: Axis, left: float, right: float, title: str, *, most: int = 5) -> Markup:
    """The axis along the left: numbers outside, and what they count above them."""
    parts = []
    for value, label in axis.labelled(most):
        y = axis(value)
        parts += [line(left, y, right, y, "grid"), text(left - 8, y + 4, label, anchor="end")]
    parts.append(text(0, axis.end - 14, title, kind="quiet"))
    return joined(*parts)


def _inside(x: float, label: str, frame: Frame) -> float:
    half = frame.room(label) / 2
    return min(max(x, half), frame.width - half)


def apart(places: Sequence[float], distance: float, low: float, high: float) -> tuple[float, ...]:
    """The same places, moved so that neighbours keep a distance and none leaves the room between `low` and `high`."""
    order = sorted(range(len(places)), key=lambda index: (places[index], index))
    moved = list(places)
    for before, after in zip([None, *order], order, strict=False):
        least = low if before is None else moved[before] + distance
        moved[after] = max(moved[after], least)
    ceiling = high
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - distance
    return tuple(moved)
