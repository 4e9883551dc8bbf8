"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], sides: str, gap: str = "   ") -> list[str]:
    """A line for each row, its cells in columns. `sides` says of each column whether it is flush left (`<`) or right
    (`>`)."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]
        lines.append(gap.join(cells).rstrip())
    return lines
