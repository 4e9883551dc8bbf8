"""The picture below the headline: where the speed-up lies, and where the original measured against itself lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoaccel.reports.benchmark.drawing import Drawing, Frame, below, dot, line, picture, rectangle, text
from autoaccel.reports.benchmark.markup import Markup, joined
from autoaccel.reports.benchmark.quantities import ratio, ratios
from autoaccel.reports.benchmark.scales import Axis
from autoaccel.reports.benchmark.verdict import AGAIN, REWRITTEN, known

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Interval, Report

_ROW = 34.0


def intervals(report: Report) -> Markup:
    """Empty where no speed-up is known."""
    columns = [each for name in (REWRITTEN, AGAIN) if (each := report.column(name)) and known(each.speedup)]
    rows = [("rewritten" if each.name == REWRITTEN else "original again", each.name, each.speedup) for each in columns]
    if not any(name == REWRITTEN for _, name, _ in rows):
        return Markup()
    words = "; ".join(f"{label} {ratio(each.median)}, {ratios(each)}" for label, _, each in rows)
    return picture(
        "intervals",
        "Speed-up with its interval, and the noise",
        f"Times as fast as the original: {words}.",
        lambda frame: _draw(frame, rows),
    )


def _draw(frame: Frame, rows: list[tuple[str, str, Interval]]) -> Drawing:
    left, right = (6.0, frame.width - 8.0) if frame.narrow else (128.0, frame.width - 160.0)
    low, high = min(1.0, *(each.low for *_, each in rows)), max(1.0, *(each.high for *_, each in rows))
    pad = (high - low) * 0.06 or 0.05
    axis = Axis(max(low - pad, 0.0), high + pad, left, right)
    height = _ROW + (10 if frame.narrow else 0)
    bottom = height * len(rows) + 4
    parts = [below(axis, 0, bottom, frame, "times as fast as the original"), line(axis(1), 0, axis(1), bottom, "one")]
    if all(abs(axis(value) - axis(1)) > frame.room(f"{label}1") / 2 + 5 for value, label in axis.labelled(frame.ticks)):
        parts.append(text(axis(1), bottom + 18, "1", anchor="middle"))
    for index, (label, name, interval) in enumerate(rows):
        top = index * height
        y = top + (31 if frame.narrow else _ROW / 2 + 2)
        if frame.narrow:  # the grid ends below what is written
            parts.append(rectangle(0, top, frame.width, 20, "paper"))
        parts += [
            text(0, top + 14 if frame.narrow else y + 4, label, kind="halo"),
            text(
                frame.width,
                top + 14 if frame.narrow else y + 4,
                f"{ratio(interval.median)} ({ratios(interval)})",
                anchor="end",
                kind="halo",
            ),
            line(axis(interval.low), y, axis(interval.high), y, f"span {name}"),
            dot(axis(interval.median), y, 4.5, f"point {name}"),
        ]
    return Drawing(bottom + 42, joined(*parts))
