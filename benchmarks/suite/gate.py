"""Whether a rewritten script has the losses of the original: bit for bit where that is promised, else within what the
seed alone makes of them.

Losses of single steps jump; means over a window do not. What the windows of a column differ by from the original's
under the same seed (root of the mean square) is compared to what the original's own windows differ by under two seeds:
it may be half as much again, since few seeds say so. One percent of the loss is always allowed, and where there is but
one seed, two.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.suite.results import Gate

_SAFE = 1.5  # times the spread of seeds, which is known from two or three of them
_ALWAYS = 0.01
_WITHOUT_SPREAD = 0.02
_WINDOWS = 4
_FEWEST = 8  # losses

Losses = Mapping[int, Sequence[float]]
"""By seed."""


def exact(column: str, original: Losses, again: Losses, found: Losses) -> Gate:
    """All losses of the steps that were made in common are the same numbers."""
    for seed in sorted(original.keys() & found.keys()):
        before, after = original[seed], found[seed]
        count = min(len(before), len(after))
        differs = next((step for step in range(count) if not _same(before[step], after[step])), None)
        if differs is None:
            continue
        once_more = again.get(seed, ())
        if any(not _same(one, other) for one, other in zip(before[: differs + 1], once_more, strict=False)):
            return Gate(column, True, f"loss {differs + 1} differs, as it does between two runs of the original")
        return Gate(column, False, f"loss {differs + 1} is {after[differs]!r}, not {before[differs]!r}")
    counts = [min(len(original[seed]), len(found[seed])) for seed in original.keys() & found.keys()]
    if not sum(counts):
        return Gate(column, False, "no losses to compare")
    return Gate(column, True, f"{sum(counts)} losses are the same, bit for bit")


def close(column: str, original: Losses, found: Losses) -> Gate:
    """Mean losses of windows differ from the original's by hardly more than those of other seeds do."""
    seeds = sorted(original.keys() & found.keys())
    count = min((len(losses) for losses in (*original.values(), *found.values())), default=0) if seeds else 0
    if count < _FEWEST:
        return Gate(column, False, f"{count} losses are too few to compare")
    before = {seed: windows(losses[:count]) for seed, losses in original.items()}
    after = {seed: windows(found[seed][:count]) for seed in seeds}
    if not all(math.isfinite(value) for each in after.values() for value in each):
        return Gate(column, False, "a loss is no number")
    level = statistics.fmean(abs(value) for each in before.values() for value in each)
    differs = _apart([(before[seed], after[seed]) for seed in seeds])
    said = f"{count} losses, seed by seed {differs / level * 100:.2g} % apart" if level else f"{count} losses"
    if len(before) == 1:
        return Gate(column, differs <= _WITHOUT_SPREAD * level, f"{said}; allowed {_WITHOUT_SPREAD:.0%}, of one seed")
    own = _apart([(before[one], before[other]) for one, other in itertools.combinations(before, 2)])
    said += f"; {len(before)} seeds {own / level * 100:.2g} % apart" if level else ""
    return Gate(column, differs <= max(_SAFE * own, _ALWAYS * level), said)


def windows(losses: Sequence[float]) -> list[float]:
    """Means of so many parts of equal length."""
    size = max(1, len(losses) // _WINDOWS)
    parts = (losses[at : at + size] for at in range(0, size * _WINDOWS, size))
    return [statistics.fmean(part) for part in parts if part]


def _apart(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """The root of the mean square of what windows differ by."""
    off = [(one - other) ** 2 for before, after in pairs for one, other in zip(before, after, strict=True)]
    return math.sqrt(statistics.fmean(off)) if off else 0.0


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
