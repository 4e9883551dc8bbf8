"""From the original to the rewritten script, rule by rule.

Speed-ups of rules do not add up: what each saves alone is drawn, and what they save (or lose) beyond that by being
together is a bar of its own. A rule that cannot stand alone is drawn by what is lost without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoaccel.reports.benchmark.drawing import Drawing, Frame, below, line, picture, rectangle, text
from autoaccel.reports.benchmark.markup import Markup, element, joined, paragraph
from autoaccel.reports.benchmark.quantities import MISSING, alike, ratio, ratios, unit
from autoaccel.reports.benchmark.scales import Axis
from autoaccel.reports.benchmark.tables import command, table
from autoaccel.reports.benchmark.verdict import ORIGINAL, REWRITTEN, known

if TYPE_CHECKING:
    from autoaccel.measure.benching.report import Contribution, Interval, Report

_BAR = 16.0


@dataclass(frozen=True, slots=True)
class _Bar:
    """Seconds of a step, from where to where."""

    label: str
    start: float
    end: float
    kind: str
    """`original`, `rewritten`, `saved`, `lost`, `unclear` (no change is possible as well) or `together`."""
    span: tuple[float, float] | None = None
    """Where the end may lie as well."""

    @property
    def whole(self) -> bool:
        return self.kind in (ORIGINAL, REWRITTEN)

    @property
    def change(self) -> float:
        return self.end - self.start


def waterfall(report: Report) -> Markup:
    original, rewritten = report.column(ORIGINAL), report.column(REWRITTEN)
    if not report.contributions:
        return _hint(report.command)
    figures = _table(report.contributions)
    if original is None or rewritten is None or not known(original.step_seconds) or not known(rewritten.speedup):
        return figures
    bars = _bars(original.step_seconds.median, rewritten.speedup.median, report.contributions)
    values = _values(bars)
    doubt = _doubt(bars, original.step_seconds.median, rewritten.speedup)
    words = "; ".join(f"{each.label} {value}" for each, value in zip(bars, values, strict=True))
    return joined(
        picture(
            "waterfall",
            "Time of a step, from the original to the rewritten script by rule",
            f"{words}.",
            lambda frame: _draw(frame, bars, values),
        ),
        paragraph(*_caption(bars, report.contributions, doubt), kind="caption"),
        figures,
    )


def _hint(used: str) -> Markup:
    missing = "What each rule is worth was not measured."
    if "--ablate" in used.partition(" -- ")[0].split(" "):
        return paragraph(missing)
    option = element("code", "--ablate", class_="word")
    return joined(element("p", f"{missing} ", option, " measures it:"), command(ablating(used)))


def ablating(used: str) -> str:
    """The command with `--ablate`, which goes before what is the script's own."""
    own, dashes, rest = used.partition(" -- ")
    return f"{own} --ablate{dashes}{rest}"


def _bars(before: float, speedup: float, contributions: Sequence[Contribution]) -> list[_Bar]:
    after = before / speedup
    savings = sorted(
        ((each, saving) for each in contributions if (saving := _saving(each, before, after)) is not None),
        key=lambda pair: (-pair[1][1], pair[0].code),
    )
    bars, place = [_Bar(ORIGINAL, 0.0, before, ORIGINAL)], before
    for rule, (least, typical, most) in savings:
        kind = "unclear" if least <= 0 <= most else "saved" if typical > 0 else "lost"
        span = (place - most, place - least)
        bars.append(_Bar(f"{rule.code} {rule.name}", place, place - typical, kind, span))
        place -= typical
    if len(savings) > 1:
        bars.append(_Bar("together", place, after, "together"))
    return [*bars, _Bar(REWRITTEN, 0.0, after, REWRITTEN)]


def _saving(rule: Contribution, before: float, after: float) -> tuple[float, float, float] | None:
    """Seconds of a step that a rule saves: at least, typically, at most."""
    if rule.alone is not None and known(rule.alone):
        low, median, high = (before - before / each for each in (rule.alone.low, rule.alone.median, rule.alone.high))
        return low, median, high
    if rule.without is not None and known(rule.without):
        low, median, high = (
            before / each - after for each in (rule.without.high, rule.without.median, rule.without.low)
        )
        return low, median, high
    return None


def _caption(bars: Sequence[_Bar], contributions: Sequence[Contribution], rest: float) -> list[str]:
    """`rest` is how far off the bar of what rules do together may be."""
    sentences = ["A bar is what a rule saves when it is the only one; the thin line is its interval."]
    if any(each.kind == "unclear" for each in bars):
        sentences.append("Pale: the interval leaves open whether it saves anything.")
    if lacking := [each.code for each in contributions if each.alone is None and each.without is not None]:
        verb = "needs others and is" if len(lacking) == 1 else "need others and are"
        sentences.append(f"{_listed(lacking)} {verb} drawn by what is lost without it.")
    if together := next((each for each in bars if each.kind == "together"), None):
        sentences.append(_together(together.change, rest))
    return sentences


def _together(change: float, rest: float) -> str:
    if abs(change) <= rest:
        return "What the rules do together beyond that is within the noise."
    if change < 0:
        return "Together the rules save that much more than each alone."
    return "Together the rules overlap: that much of what each saves alone is saved only once."


def _doubt(bars: Sequence[_Bar], before: float, speedup: Interval) -> float:
    """How far off the sum of bars may be: intervals of independent measurements add up like the sides of a box."""
    halves = [(high - low) / 2 for low, high in (each.span for each in bars if each.span)]
    return math.hypot(before / speedup.low - before / speedup.high, *(2 * each for each in halves)) / 2


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _values(bars: Sequence[_Bar]) -> list[str]:
    """What is written at the bars: durations, of rules with their sign."""
    written = alike(*(each.change for each in bars))
    return [
        f"+{value}" if each.change > 0 and not each.whole else value for each, value in zip(bars, written, strict=True)
    ]


def _draw(frame: Frame, bars: Sequence[_Bar], values: Sequence[str]) -> Drawing:
    right = frame.width - max(frame.room(each) for each in values) - 10
    left = 2.0 if frame.narrow else 230.0
    height, offset = (44.0, 20.0) if frame.narrow else (32.0, 8.0)
    edges = [edge for each in bars for edge in (each.start, each.end, *(each.span or ()))]
    scale = unit(max(edges))
    axis = Axis(min(0.0, *edges) / scale.size, max(edges) / scale.size, left, right)
    bottom = height * len(bars) + 4
    parts = [below(axis, 0, bottom, frame, f"{scale.name} per step", most=4 if frame.narrow else 7)]
    for index, (each, value) in enumerate(zip(bars, values, strict=True)):
        top = index * height + offset
        x1, x2 = sorted((axis(each.start / scale.size), axis(each.end / scale.size)))
        hint = f"{each.label}: {value}"
        parts.append(rectangle(x1, top, max(x2 - x1, 1.5), _BAR, f"step {each.kind}", hint))
        if each.span:
            y = top + _BAR / 2
            parts.append(line(axis(each.span[0] / scale.size), y, axis(each.span[1] / scale.size), y, "whisker"))
        if index + 1 < len(bars):
            x = axis(each.end / scale.size)
            parts.append(line(x, top + _BAR, x, top + height, "link"))
        kind = "halo strong" if each.whole else "halo"
        parts += [
            text(0, top - 6 if frame.narrow else top + 13, each.label, kind=kind),
            text(frame.width, top + 13, value, anchor="end", kind=kind),
        ]
    return Drawing(bottom + 42, joined(*parts))


def _table(contributions: Sequence[Contribution]) -> Markup:
    rows = [
        (f"{each.code} {each.name}", str(each.changes), _worth(each.alone), _worth(each.without))
        for each in contributions
    ]
    return table(
        ("Rule", "changes", "alone", "without it"),
        rows,
        caption="Speed-up over the original: with the rule alone, and with all rules but this one.",
        kind="stacks",
    )


def _worth(interval: Interval | None) -> str:
    if interval is None or not known(interval):
        return MISSING
    return joined(ratio(interval.median), element("small", ratios(interval)))
