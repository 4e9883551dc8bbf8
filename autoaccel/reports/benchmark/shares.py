"""What a step of the original spends its time on: one bar, and a table that names its parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autoaccel.reports.benchmark.drawing import Drawing, Frame, picture, rectangle, text
from autoaccel.reports.benchmark.markup import Markup, element, joined
from autoaccel.reports.benchmark.quantities import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autoaccel.measure.benching.report import Share

_MEANING = {
    "loader": "waiting for the next batch",
    "transfer": "copying data to the device",
    "launch": "calling operators, beside what they compute",
    "compute": "computing forwards and backwards",
    "optimizer": "updating the parameters",
    "sync": "waiting for results of the device",
    "evaluation": "passes that do not train",
    "other": "Python between operators",
}
_HEIGHT = 40.0


def shares(parts: Sequence[Share]) -> Markup:
    """Empty where nothing was measured."""
    seen = [each for each in parts if math.isfinite(each.share) and each.share > 0]
    if not seen:
        return Markup()
    words = ", ".join(f"{each.name} {percent(each.share)}" for each in seen)
    drawn = picture(
        "shares", "Shares of the time of a step of the original", f"{words}.", lambda frame: _draw(frame, seen)
    )
    return joined(drawn, _table(seen))


def _draw(frame: Frame, seen: Sequence[Share]) -> Drawing:
    total = max(sum(each.share for each in seen), 1.0)
    parts, start = [], 0.0
    for each in seen:
        width = frame.width * each.share / total
        hint = f"{each.name}: {percent(each.share)}"
        parts.append(rectangle(start, 0, max(width - 2, 1), _HEIGHT, f"share {_kind(each)}", hint))
        label = next(
            (
                label
                for label in (f"{each.name} {percent(each.share)}", each.name, percent(each.share))
                if frame.room(label) < width - 12
            ),
            "",
        )
        if label:
            parts.append(text(start + 8, _HEIGHT / 2 + 4, label, kind=f"inside {_kind(each)}"))
        start += width
    return Drawing(_HEIGHT, joined(*parts))


def _table(seen: Sequence[Share]) -> Markup:
    rows = (
        element(
            "tr",
            element("th", element("span", class_=f"swatch {_kind(each)}"), each.name, scope="row"),
            element("td", percent(each.share), class_="number"),
            element("td", _MEANING.get(each.name, ""), class_="quiet"),
        )
        for each in seen
    )
    head = element("tr", *(element("th", name, scope="col", class_=kind) for name, kind in _HEAD))
    return element("table", element("thead", head), element("tbody", *rows), class_="shares")


_HEAD = (("Part of a step", None), ("Share", "number"), ("What it is", None))


def _kind(share: Share) -> str:
    return share.name if share.name in _MEANING else "other"
