"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click


def aligned(rows: Sequence[Sequence[str]], sides: str, gap: str = "   ") -> list[str]:
    """A line for each row, its cells in columns. `sides` says of each column whether it is flush left (`<`) or right
    (`>`). Colours take no room."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            f"{cell:{side}{width + len(cell) - _width(cell)}}"
            for cell, side, width in zip(row, sides, widths, strict=True)
        ]
        lines.append(gap.join(cells).rstrip())
    return lines


def _width(cell: str) -> int:
    return len(click.unstyle(cell))
