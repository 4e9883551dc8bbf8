"""Quantities as people read them: three digits, and a unit that keeps the number between 1 and 1000."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from autoaccel.measure.benching.report import Interval

MISSING = "–"
MINUS = "−"
TIMES = "×"

_MINUTE, _HOUR = 60.0, 3600.0
_BOUND = re.compile(r"(?<=\d) (?=(?:%|ns|µs|ms|s|min|h|[KMGTP]?i?B|steps?)\b|%)|(?<=step) (?=\d)")
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Unit:
    """Of time, where `size` is what one of it is in seconds, or of what is counted."""

    name: str
    size: float = 1.0


_UNITS = (Unit("ns", 1e-9), Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s", 1.0))


def unit(seconds: float) -> Unit:
    """The unit in which a duration is best read; minutes and hours are for axes, not for comparing."""
    size = abs(seconds)
    return next((each for each in reversed(_UNITS) if size >= each.size * 0.9995), _UNITS[0]) if size else _UNITS[2]


def axis_unit(seconds: float) -> Unit:
    """As `unit`, for an axis that ends there."""
    if seconds >= 3 * _HOUR:
        return Unit("h", _HOUR)
    return Unit("min", _MINUTE) if seconds >= 5 * _MINUTE else unit(seconds)


def duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return MISSING
    if not seconds:
        return "0 ms"
    if abs(seconds) >= 2 * _MINUTE:
        return _clock(seconds)
    chosen = unit(seconds)
    return f"{digits(seconds / chosen.size)} {chosen.name}"


def _clock(seconds: float) -> str:
    sign, whole = (MINUS if seconds < 0 else ""), round(abs(seconds))
    large, small = "min", "s"
    if whole >= 120 * 60:
        large, small, whole = "h", "min", round(whole / 60)
    many, rest = divmod(whole, 60)
    parts = [f"{number(many)} {large}"] * (many > 0) + [f"{rest} {small}"] * (rest > 0 or not many)
    return sign + " ".join(parts)


def bound(text: str) -> str:
    """The text with numbers tied to their units, so that no line ends between them."""
    return _BOUND.sub("\N{NO-BREAK SPACE}", text)


def digits(value: float, significant: int = 3) -> str:
    """A number with so many significant digits; digits before the point are all kept, in groups of three."""
    if not math.isfinite(value):
        return MISSING
    if not value:
        return "0"
    decimals = max(significant - 1 - math.floor(math.log10(abs(value))), 0)
    rounded = round(value, decimals)
    if rounded and math.floor(math.log10(abs(rounded))) > math.floor(math.log10(abs(value))):
        decimals = max(decimals - 1, 0)  # 9.996 is 10.0, not 10.00
    return f"{rounded:,.{decimals}f}".replace("-", MINUS)


def number(count: int) -> str:
    return f"{count:,}"


def ratio(value: float) -> str:
    """A speed-up: its hundredths matter below ten."""
    if not math.isfinite(value):
        return MISSING
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def known_ratio(interval: Interval) -> str:
    """A speed-up with no more digits than its interval lets one know."""
    half = (interval.high - interval.low) / 2
    decimals = max(1 - math.floor(math.log10(half)), 0) if half > 0 else 2
    usual = ratio(interval.median)
    return usual if decimals >= len(usual.partition(".")[2]) else f"{interval.median:,.{decimals}f}"


def percent(share: float | None) -> str:
    if share is None or not math.isfinite(share):
        return MISSING
    if 0 < share < 0.001:
        return "<0.1 %"
    return f"{share * 100:.1f} %" if 0 < abs(share) < 0.0995 else f"{share * 100:.0f} %"


def memory(size: int) -> str:
    """A peak; 0 where there is no such memory."""
    if not size:
        return MISSING
    value, names = float(size), iter(_BYTES)
    name = next(names)
    while value >= 1023.5 and (following := next(names, None)):
        value, name = value / 1024, following
    return f"{digits(value)} {name}"


def throughput(rate: float) -> str:
    return digits(rate) if rate < 1000 else f"{rate:,.0f}"


def steps(count: int) -> str:
    return f"{number(count)} step" if count == 1 else f"{number(count)} steps"


def ratios(interval: Interval) -> str:
    """Where a speed-up lies."""
    return f"{ratio(interval.low)} to {ratio(interval.high)}"


def durations(interval: Interval) -> str:
    """Where a duration lies, the unit said once."""
    if not all(math.isfinite(each) for each in (interval.low, interval.high)):
        return MISSING
    chosen = unit(interval.high)
    return f"{digits(interval.low / chosen.size)} to {digits(interval.high / chosen.size)} {chosen.name}"
